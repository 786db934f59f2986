/// A job of DeepSpeed, or of zenflow-sim: its file, its model and what its traces say.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/median.h"
#include "sim/calibrate/trace/trace_fit.h"
#include "sim/calibrate/trace/trace_work.h"
#include "sim/config/reader.h"
#include "sim/deepspeed/ds_document.h"
#include "sim/trace/launches.h"
#include "sim/tune/trace/trace_reading.h"

namespace zenflow::sim {
namespace {

constexpr const char* kMicro = "train_micro_batch_size_per_gpu";

/// Finds the numbers of the batch equation.
class Batch {
 public:
  Batch(TraceReading& reading, const Node& base)
      : reading_(reading),
        micro_(stated_number(base, kMicro)),
        total_(stated_number(base, "train_batch_size")),
        steps_(stated_number(base, "gradient_accumulation_steps")) {}

  std::int64_t ranks() {
    const auto& given = reading_.options.gpus;
    const auto& told = reading_.traced.ranks;
    if (given) return compared(*given, told, "there are {} GPUs ({}), where --gpus says {}");
    if (told) return fact("GPUs", told->value, told->from);
    // Steps that are not stated follow from the number of ranks, not the other way round.
    if (total_ && micro_ && steps_ && *total_ % (*micro_ * *steps_) == 0) {
      return fact("GPUs", *total_ / (*micro_ * *steps_), "the batch of --base");
    }
    reading_.result.untold.emplace_back("how many GPUs the job has: one is assumed (--gpus)");
    return 1;
  }

  std::int64_t micro_batch(std::int64_t ranks) {
    if (reading_.sets("training.micro_batch_size_per_gpu")) return micro_.value_or(1);
    const auto& told = reading_.traced.micro_batch;
    if (micro_) {
      return compared(*micro_, told, "a micro-batch has {} sequences ({}), where --base states {}");
    }
    const std::int64_t steps = steps_.value_or(1);  // DeepSpeed's choice where both are open
    if (total_ && *total_ % (steps * ranks) == 0) {
      return fact("sequences of a micro-batch", *total_ / (steps * ranks), "the batch of --base");
    }
    if (told) return fact("sequences of a micro-batch", told->value, told->from);
    insufficient(
        fmt::format("--base states no {}, and the traces have no shapes of attention that tell it "
                    "(record_shapes=True of the PyTorch profiler): --set "
                    "training.micro_batch_size_per_gpu=N",
                    kMicro));
  }

  std::int64_t length() {
    const auto& given = reading_.options.sequence_length;
    const auto& told = reading_.traced.sequence_length;
    if (reading_.traced.lengths_differ) {
      reading_.result.untold.emplace_back(
          "one batch for all steps: its attention works on several sizes, of which the most "
          "frequent is taken");
    }
    if (given) {
      return stated(*given, told, "sequences have {} tokens ({}), where --sequence-length says {}");
    }
    if (told) return fact("tokens of a sequence", told->value, told->from);
    insufficient(
        "--sequence-length: the traces have no shapes of attention that tell it "
        "(record_shapes=True of the PyTorch profiler)");
  }

  /// Says how large the batch is that the log prints, or that the base makes another of it.
  void compare_global(std::int64_t ranks, std::int64_t micro) {
    const auto& told = reading_.traced.global_batch;
    if (!told) return;
    const std::int64_t of_base = total_.value_or(micro * ranks * steps_.value_or(1));
    if (compared(of_base, told, "a batch has {} sequences ({}), where --base makes {}") ==
        told->value) {
      fact("sequences of a batch", told->value, told->from);
    }
  }

 private:
  static std::string difference(std::int64_t value, const StatedNumber& told, const char* differs) {
    return fmt::format(fmt::runtime(differs), told.value, told.from, value);
  }
  /// `value`; notes by `differs` where the traces say another one.
  std::int64_t stated(std::int64_t value, const std::optional<StatedNumber>& told,
                      const char* differs) {
    if (told && told->value != value) {
      reading_.result.untold.push_back("why " + difference(value, *told, differs));
    }
    return value;
  }
  /// Likewise where another one means that the traces are of another job.
  std::int64_t compared(std::int64_t value, const std::optional<StatedNumber>& told,
                        const char* differs) {
    if (told && told->value != value) {
      reading_.contradictions.push_back(difference(value, *told, differs));
    }
    return stated(value, told, differs);
  }
  std::int64_t fact(const char* what, std::int64_t value, const std::string& from) {
    reading_.result.facts.push_back(fmt::format("{} {}: {}", value, what, from));
    return value;
  }

  TraceReading& reading_;
  std::optional<std::int64_t> micro_;
  std::optional<std::int64_t> total_;
  std::optional<std::int64_t> steps_;
};

bool enabled(const Node& base, const char* block) {
  const Node* map = base.find(block);
  const Node* value = map != nullptr && map->is_map() ? map->find("enabled") : nullptr;
  if (value == nullptr) return false;
  if (value->is_scalar() && value->scalar == "auto") {
    throw Error(ErrorKind::kInput,
                fmt::format("--base: {}.enabled is \"auto\": say which it was, --set "
                            "training.dtype=bf16, fp16 or fp32",
                            block));
  }
  return ValueReader(*value, std::string(block) + ".enabled").boolean();
}

DType dtype_of(const TraceReading& reading, const Node& base) {
  if (reading.sets("training.dtype")) return DType::kFp32;  // is overridden
  // DeepSpeed's other name for the block, if the first is not there.
  const Node* block = base.find("bf16");
  const bool has_bf16 = block != nullptr && block->kind != Node::Kind::kNull;
  if (enabled(base, has_bf16 ? "bf16" : "bfloat16")) return DType::kBf16;
  return enabled(base, "fp16") ? DType::kFp16 : DType::kFp32;
}

void place_ranks(const TraceReading& reading, std::int64_t ranks, TracedScenario& scenario) {
  const HardwareProfile node = read_hardware_profile(reading.hardware);
  scenario.gpus = ranks;
  if (ranks <= node.gpu.count) return;
  if (ranks % node.gpu.count != 0 || !node.network) {
    insufficient(fmt::format(
        "the job has {} GPUs, profile {} {} a node{}: name another with --profile", ranks,
        reading.result.base_profile, node.gpu.count, node.network ? "" : " and no network"));
  }
  scenario.gpus = node.gpu.count;
  scenario.nodes = ranks / node.gpu.count;
}

/// Steps of a trace after which work repeats: of a window that long every part is there, wherever
/// it begins. A simulated run's are micro steps, others are taken for whole ones.
std::int64_t window_of(const Job& job, const ImportedTrace& trace) {
  const auto& zenflow = job.deepspeed.zenflow;
  if (zenflow) return zenflow->update_interval.value_or(1);
  return is_simulated(trace.timeline) ? job.deepspeed.gradient_accumulation_steps : 1;
}

/// Seconds that a step takes: of so many, the median of windows of `window` steps, or the mean if
/// that is 0.
struct StepTime {
  double seconds = 0;
  std::size_t steps = 0;
  std::int64_t window = 0;
};

/// From one's start to the next's, which the last does not have; a log times each. Without those
/// with an evaluation or saving, where steps need not follow each other in a window. A log without
/// iterations has none.
std::vector<double> step_seconds(const ImportedTrace& trace, const TraceAnalysis& analysis,
                                 std::int64_t window) {
  std::vector<double> seconds;
  if (trace.timers) {
    const TimerLog& log = *trace.timers;
    for (std::size_t i = 0; i < log.iterations.values.size(); ++i) {
      const Besides& also = log.iterations.besides[i];
      const bool is_usual = !also.evaluates && !also.saves && !also.skips;
      if (is_usual) seconds.push_back(1e-3 * log.iterations.values[i]);
    }
    return seconds;
  }
  const std::vector<StepAnalysis>& steps = analysis.steps;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    if (window == 1 && !steps[i - 1].apart.empty()) continue;
    seconds.push_back(to_seconds(steps[i].start - steps[i - 1].start).value());
  }
  return seconds;
}

/// The median of as many whole windows as there are, the last ones: a first step may take twice as
/// long, and others may have waited for something else. Of a trace too short for one, the mean.
std::optional<StepTime> step_time(const ImportedTrace& trace, const TraceBaseline& baseline,
                                  std::int64_t window) {
  const std::vector<double> steps = step_seconds(trace, baseline.analysis, window);
  std::vector<double> windows;
  for (auto end = std::ssize(steps); end >= window; end -= window) {
    windows.push_back(std::accumulate(steps.begin() + end - window, steps.begin() + end, 0.0) /
                      static_cast<double>(window));
  }
  if (!windows.empty()) {
    return StepTime{median(windows), windows.size() * static_cast<std::size_t>(window), window};
  }
  if (!baseline.step_seconds || !std::isfinite(*baseline.step_seconds)) return std::nullopt;
  return StepTime{*baseline.step_seconds, std::max<std::size_t>(1, baseline.counted)};
}

/// As zenflow-sim runs it: a simulated run is matched task by task.
RunSettings run_of(const ImportedTrace& trace, const Job& job) {
  const std::int64_t window = window_of(job, trace);
  // One more window is simulated than is counted, and the last step has no end.
  const std::int64_t counted = std::ssize(trace.timeline.steps) + 1 - window;
  const std::int64_t warm_up = std::min<std::int64_t>(16, counted / 2) / window * window;
  return {.warmup_steps = warm_up, .steps = std::max<std::int64_t>(1, counted - warm_up)};
}

/// Whether each micro step is a step: DeepSpeed's ZenFlow does not accumulate.
bool drops_micro_steps(const Job& job) {
  return job.deepspeed.zenflow && job.target == LaunchTarget::kDeepSpeed;
}

/// What the ranges that mark steps are: who profiles a loop over batches marks micro steps, of
/// which only some have an update.
enum class Mark : std::uint8_t { kSteps, kMicroSteps, kUnknown };

Mark mark_of(const ImportedTrace& trace, const TraceAnalysis& analysis, std::int64_t micro_steps) {
  const bool is_named =
      trace.step_source == StepSource::kAnnotation || trace.step_source == StepSource::kPattern;
  const std::int64_t steps = std::ssize(analysis.steps);
  const auto updates = static_cast<std::int64_t>(analysis.steps_with_updates);
  if (!is_named || micro_steps == 1 || updates == steps) return Mark::kSteps;
  const bool fits = std::abs(steps - updates * micro_steps) < micro_steps;
  return updates > 0 && fits ? Mark::kMicroSteps : Mark::kUnknown;
}

/// How long a step of the global batch took; empty: the trace does not say.
std::optional<StepTime> step_of(TraceReading& reading, std::size_t i, const TraceBaseline& baseline,
                                const Job& job) {
  const ImportedTrace& trace = reading.traces[i];
  std::vector<std::string>& untold = reading.result.untold;
  const std::int64_t steps = job.deepspeed.gradient_accumulation_steps;
  if (trace.step_source == StepSource::kPeriod && !trace.timeline.steps.empty()) {
    const double batch = 1e3 * micro_batch_seconds(job);
    if (!may_repeat_steps(trace, job)) {
      insufficient(fmt::format(
          "{}: {} They take {:.3g} ms each, where forward and backward of this batch "
          "take about {:.3g} ms: name the ranges that are steps (--steps), or say what "
          "a step takes (--measured-step)",
          reading.file(i), kStepsOrLayers, 1e3 * baseline.step_seconds.value_or(0), batch));
    }
    untold.push_back(
        fmt::format("{}: {} Taken for steps, which this batch fits: its forward and backward take "
                    "about {:.3g} ms (--steps)",
                    reading.file(i), kStepsOrLayers, batch));
  }
  const bool dropped = drops_micro_steps(job);
  const Mark mark = dropped ? Mark::kSteps : mark_of(trace, baseline.analysis, steps);
  const std::optional<StepTime> time =
      step_time(trace, baseline, mark == Mark::kMicroSteps ? steps : window_of(job, trace));
  if (!time) {
    untold.push_back(reading.file(i) +
                     ": what a step takes: no steps were found (--steps, --measured-step)");
    return std::nullopt;
  }
  if (dropped && trace.timers && trace.timers->iterations.values.empty()) {
    // Its records sum up the steps between two updates.
    const std::size_t summed = std::max<std::size_t>(1, trace.timers->summed_micro_steps);
    return StepTime{time->seconds / static_cast<double>(summed), summed * time->steps,
                    time->window};
  }
  if (steps == 1 || dropped) return time;
  if (is_simulated(trace.timeline) || mark == Mark::kMicroSteps) {
    return StepTime{static_cast<double>(steps) * time->seconds,
                    std::max<std::size_t>(1, time->steps / static_cast<std::size_t>(steps)),
                    std::min<std::int64_t>(1, time->window)};
  }
  if (trace.timers && trace.timers->iterations.values.empty() &&
      trace.timers->find("fwd") == nullptr && trace.timers->find("forward") == nullptr) {
    untold.push_back(
        fmt::format("{}: what a step of {} micro steps takes: it times micro steps "
                    "alone (--measured-step)",
                    reading.file(i), steps));
    return std::nullopt;
  }
  if (mark == Mark::kUnknown) {
    untold.push_back(fmt::format(
        "{}: whether a step of it is all {} micro steps: taken as such (--measured-step)",
        reading.file(i), steps));
  }
  return time;
}

/// The mean over the traces, each of a rank or a run of the job.
void measure(TraceReading& reading, const TraceFit& fit, const std::vector<Job>& jobs,
             FittedJob& found) {
  double sum = 0;
  double times = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto step = step_of(reading, i, fit.baselines[i], jobs[i]);
    if (!step) continue;
    if (times == 0) {
      reading.result.parts = recorded_parts(
          reading.traces[i], fit.baselines[i].analysis, step->seconds,
          drops_micro_steps(jobs[i]) ? 1 : jobs[i].deepspeed.gradient_accumulation_steps);
    }
    sum += step->seconds;
    reading.result.window =
        times == 0 ? step->window : std::min(reading.result.window, step->window);
    times += 1;
    reading.result.steps += step->steps;
  }
  if (times > 0) found.measured_step = sum / times;
}

}  // namespace

void require_gpu_work(const TraceReading& reading) {
  for (const ImportedTrace& trace : reading.traces) {
    if (trace.timers) return;
    const Timeline& timeline = trace.timeline;
    if (std::any_of(timeline.spans.begin(), timeline.spans.end(),
                    [&](const auto& span) { return is_gpu_work(kind_of(timeline, span)); })) {
      return;
    }
  }
  // A file that was cut short says so.
  std::string damage;
  for (const ImportedTrace& trace : reading.traces) {
    for (const std::string& problem : trace.problems) damage += "; " + problem;
  }
  insufficient(
      fmt::format("{}: no kernels and no copies: nothing ran on a GPU, or it was not "
                  "recorded (ProfilerActivity.CUDA of the PyTorch profiler){}",
                  reading.file(0), damage));
}

FittedJob fit_deepspeed_job(TraceReading& reading) {
  const TraceFlags& options = reading.options;
  const Node base = load_ds_document(*options.base).root;
  FittedJob found;
  TracedScenario& scenario = found.scenario;
  scenario.model = *options.model;
  scenario.base = options.base;
  Batch batch(reading, base);
  const std::int64_t ranks = batch.ranks();
  place_ranks(reading, ranks, scenario);
  scenario.training.micro_batch_size_per_gpu = batch.micro_batch(ranks);
  scenario.training.sequence_length = batch.length();
  batch.compare_global(ranks, scenario.training.micro_batch_size_per_gpu);
  scenario.training.dtype = dtype_of(reading, base);
  if (const auto& told = reading.traced.checkpoints;
      told && !reading.sets("training.activation_checkpointing")) {
    scenario.training.activation_checkpointing = told->value != 0;
    reading.result.facts.push_back(fmt::format("activation checkpointing {}: {}",
                                               told->value != 0 ? "on" : "off", told->from));
  }
  std::vector<Job> jobs;
  for (const ImportedTrace& trace : reading.traces) {
    jobs.push_back(reading.job(scenario));
    if (is_simulated(trace.timeline) && !reading.sets("run.steps")) {
      scenario.run = run_of(trace, jobs.back());
      jobs.back() = reading.job(scenario);
    }
  }
  TraceFitInput input{read_hardware_profile(reading.hardware),
                      {},
                      options.trace_rules ? read_rules(*options.trace_rules) : default_rules()};
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    input.traces.push_back({reading.file(i), &reading.traces[i], &jobs[i]});
  }
  TraceFit fit = fit_traces(input);
  found.numbers = std::move(fit.numbers);
  for (std::string& one : fit.remarks) reading.result.untold.push_back(std::move(one));
  if (!options.measured_step) measure(reading, fit, jobs, found);
  return found;
}

}  // namespace zenflow::sim
