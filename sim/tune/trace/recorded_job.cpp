/// Recordings of zenflow-train: they say themselves how it ran.
#include <algorithm>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/median.h"
#include "sim/calibrate/live_fit.h"
#include "sim/offload/knobs.h"
#include "sim/schedule/live_work.h"
#include "sim/tune/trace/trace_reading.h"

namespace zenflow::sim {
namespace {

/// A recording of before, by --setting and the flags that say the rest.
RecordedRun run_by_flags(const TraceReading& reading, std::size_t i) {
  const TraceFlags& options = reading.options;
  const std::vector<std::string>& settings = options.settings;
  if (settings.empty()) {
    insufficient(
        fmt::format("{}: does not say how zenflow-train ran: --setting zenflow:K:S, "
                    "zero-offload or gpu-only",
                    reading.file(i)));
  }
  if (settings.size() != 1 && settings.size() != options.traces.size()) {
    throw Error(ErrorKind::kInput, "--setting: expected once, or once for each trace");
  }
  if (!options.sequence_length || !reading.sets("training.micro_batch_size_per_gpu")) {
    insufficient(
        fmt::format("{}: does not say with which batch: --sequence-length and --set "
                    "training.micro_batch_size_per_gpu=N",
                    reading.file(i)));
  }
  const OffloadSetup point = parse_offload_setup(settings[std::min(i, settings.size() - 1)]);
  RecordedRun run;
  static_cast<OffloadSetup&>(run) = point;
  run.sequence_length = *options.sequence_length;
  run.dtype = DType::kFp32;
  return run;
}

/// What flags say in vain: the recording does.
void refuse_flags(const TraceReading& reading, std::size_t i, const RecordedRun& said) {
  const auto refuse = [&](const std::string& flag) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: {} says itself how it ran", flag, reading.file(i)));
  };
  const TraceFlags& options = reading.options;
  if (!options.settings.empty()) refuse("--setting");
  if (options.sequence_length.value_or(said.sequence_length) != said.sequence_length) {
    refuse("--sequence-length");
  }
  for (const Override& one : reading.overrides) {
    if (one.path.starts_with("training.")) refuse("--set " + one.path);
  }
  const bool on_host = read_hardware_profile(reading.hardware).gpu.runs_on_host();
  if (on_host == !said.gpu) return;
  throw Error(ErrorKind::kInput,
              fmt::format("--profile: {} ran on {}, profile {} has {}", reading.file(i),
                          said.gpu ? "a GPU" : "the host device", reading.result.base_profile,
                          on_host ? "the host for a device" : "a GPU"));
}

RecordedRun run_of(const TraceReading& reading, std::size_t i) {
  const auto said = recorded_run(reading.traces[i].timeline);
  if (said) refuse_flags(reading, i, *said);
  RecordedRun run = said ? *said : run_by_flags(reading, i);
  const std::pair<bool, std::string> kinds[] = {
      {run.topk_range.has_value(),
       "its topk ratio changed while it ran (--topk-range): record one that stays"},
      {run.interval_is_auto,
       "its update interval changed while it ran (--update-interval auto): record one that stays"},
      {run.schedule == OffloadSchedule::kZeroOffloadDpu,
       "zero-offload-dpu is no setting that is tuned: record gpu-only, zero-offload or zenflow"},
      {run.gradient_accumulation_steps > 1,
       fmt::format("its steps had {} micro-batches each, from which no job is put together: "
                   "record steps of one",
                   run.gradient_accumulation_steps)}};
  for (const auto& [is_so, why] : kinds) {
    if (is_so) insufficient(reading.file(i) + ": " + why);
  }
  return run;
}

std::int64_t window_of(const RecordedRun& run) {
  return as_scheduled(run).update_interval;
}
/// Two windows lack what later ones wait for.
std::int64_t settled_step(const RecordedRun& run) {
  return run.full_warm_up_rounds + 2 * window_of(run);
}

/// What DeepSpeed's file would say of it; its ZenFlow insists on the optimizer's parameters.
std::string deepspeed_of(const RecordedRun& run, std::int64_t cores) {
  std::string zero = "stage: 2, overlap_comm: true";
  if (run.schedule != OffloadSchedule::kGpuOnly)
    zero += ", offload_optimizer: {device: cpu, pin_memory: true}";
  if (run.schedule == OffloadSchedule::kZenFlow) {
    // The optimizer's share of the cores; all if it has a thread for each.
    const double share = static_cast<double>(run.optimizer_threads) / static_cast<double>(cores);
    zero += ", zenflow: {";
    for (const SetupKnob& knob : setup_knobs()) {
      const std::string_view key = key_in(kZenFlowBlock, knob);
      if (!key.empty()) zero += fmt::format("{}: {}, ", key, knob_text(knob, run));
    }
    zero += fmt::format("select_strategy: step, pt_reserved_cores_perc: {}}}",
                        share < 1 ? 1 - share : 0);
  }
  return fmt::format(
      "{{{}optimizer: {{type: AdamW, params: {{lr: 1e-3, betas: [0.9, 0.999], eps: 1e-8, "
      "weight_decay: 0.01}}}}, gradient_clipping: 0.0, zero_optimization: {{{}}}}}",
      run.dtype == DType::kBf16 ? "bf16: {enabled: true}, " : "", zero);
}

TracedScenario scenario_of(const TraceReading& reading, const RecordedRun& run) {
  TracedScenario scenario;
  scenario.model = *reading.options.model;
  scenario.training = run;
  scenario.offload = run;
  scenario.deepspeed = deepspeed_of(run, read_hardware_profile(reading.hardware).host.cores);
  return scenario;
}

/// Median over whole windows, past the first two: what the fit is to, too, and not moved by a
/// window in which something else ran on the machine. Seconds of a step.
double measured_step(TraceReading& reading, std::size_t i, const RecordedRun& run) {
  const std::vector<TimelineStep>& steps = reading.traces[i].timeline.steps;
  const std::int64_t first = settled_step(run);
  const std::int64_t window = window_of(run);
  std::vector<double> windows;
  for (std::int64_t s = first; s + window <= std::ssize(steps); s += window) {
    double sum = 0;
    for (std::int64_t of = s; of < s + window; ++of) {
      const TimelineStep& step = steps[static_cast<std::size_t>(of)];
      sum += to_seconds(step.end - step.start).value();
    }
    windows.push_back(sum / static_cast<double>(window));
  }
  if (windows.empty()) {
    insufficient(
        fmt::format("{}: {} steps, expected at least {}: two update windows to settle "
                    "and one to measure",
                    reading.file(i), steps.size(), first + window));
  }
  reading.result.steps += windows.size() * static_cast<std::size_t>(window);
  reading.result.window = window;
  return upper_median(std::move(windows));
}

void add_facts(TraceReading& reading, const RecordedRun& run) {
  std::string what(to_string(run.schedule));
  if (run.schedule == OffloadSchedule::kZenFlow) {
    what += fmt::format(", topk_ratio {}, update_interval {}", run.topk_ratio, run.update_interval);
    for (const SetupKnob& knob : setup_knobs()) {
      const bool is_place = !knob.words.empty() && !key_in("zenflow_train", knob).empty();
      if (!is_place || knob_value(knob, run) == 0) continue;
      what += fmt::format(", {} {}", knob.name, knob_text(knob, run));
    }
  }
  reading.result.facts.push_back(
      fmt::format("{}, {} sequences of {} tokens, {}, {} + {} + {} threads: what zenflow-train "
                  "wrote into its recording",
                  what, run.micro_batch_size_per_gpu, run.sequence_length, to_string(run.dtype),
                  run.threads, run.optimizer_threads, run.sum_threads));
  reading.result.untold.emplace_back(
      "learning rate and the like: ds_config_optimal.json has zenflow-train's defaults, and no "
      "step "
      "time depends on them");
  reading.result.untold.emplace_back(
      "what other numbers of threads would do: those of the recording are kept");
  if (run.schedule == OffloadSchedule::kGpuOnly) {
    reading.result.untold.emplace_back(
        "what offloading costs: it did not offload; record zero-offload or zenflow as well");
  }
}

}  // namespace

FittedJob fit_recorded_runs(TraceReading& reading) {
  const TraceFlags& options = reading.options;
  if (options.base) {
    throw Error(ErrorKind::kInput,
                "--base: zenflow-train has no DeepSpeed file; its recording says how it ran");
  }
  if (options.gpus.value_or(1) != 1) {
    throw Error(ErrorKind::kInput, "--gpus: zenflow-train has one device");
  }
  std::vector<RecordedRun> runs;
  std::vector<Job> jobs;
  std::vector<LiveRecording> recordings;
  FittedJob found;
  runs.reserve(reading.traces.size());
  jobs.reserve(reading.traces.size());
  for (std::size_t i = 0; i < reading.traces.size(); ++i) {
    runs.push_back(run_of(reading, i));
    if (i == 0) found.measured_step = measured_step(reading, i, runs[i]);
    // Who reads what is wrong with it knows it by its file.
    reading.traces[i].timeline.name = reading.file(i);
    TracedScenario scenario = scenario_of(reading, runs[i]);
    jobs.push_back(reading.job(scenario));
    recordings.push_back({&jobs[i], std::string(live_schedule_name(runs[i].schedule)),
                          &reading.traces[i].timeline, settled_step(runs[i])});
    if (i == 0) found.scenario = std::move(scenario);
  }
  found.numbers = fit_live(recordings).numbers;
  add_facts(reading, runs.front());
  if (runs.size() > 1) {
    reading.result.facts.push_back(
        fmt::format("{} more recordings tell about the machine; yours is {}", runs.size() - 1,
                    reading.file(0)));
  }
  found.run = runs.front();
  return found;
}

}  // namespace zenflow::sim
