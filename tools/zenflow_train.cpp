/// zenflow-train: trains a transformer with its optimizer offloaded, on the host device.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/train/measured_result.h"
#include "runtime/train/trainer.h"
#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "sim/config/reader.h"
#include "sim/trace/chrome_trace.h"
#include "tools/command_line.h"
#include "tools/environment.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

using runtime::Decay;
using runtime::ElementType;
using runtime::NormKind;
using runtime::OffloadSchedule;
using runtime::TrainOptions;

struct Options {
  TrainOptions train;
  std::string schedule = "zenflow";
  std::string update_interval = "4";
  std::string device = "cpu";
  std::string dtype = "fp32";
  std::string decay = "constant";
  std::string column_norm = "l2";
  std::string accumulate = "host";
  std::string deferred_scaling = "none";
  std::string link_bandwidth;
  std::string device_memory;
  std::filesystem::path trace;
  std::vector<std::string> notes;  ///< what was given and has no effect
  bool json = false;
  bool quiet = false;
  bool verbose = false;
};

/// A name that stands for a value; the parser has checked that it is one of these.
template <class Value>
Value named(const std::string& name, const std::map<std::string, Value>& values) {
  return values.at(name);
}

void add_choice(CLI::App& app, const std::string& flags, std::string& name,
                const std::vector<std::string>& choices, const std::string& what) {
  const auto check = [choices](const std::string& value) { return check_choice(choices, value); };
  app.add_option(flags, name, what)
      ->check(CLI::Validator(check, fmt::format("{{{}}}", fmt::join(choices, ","))))
      ->capture_default_str();
}

/// CLI11 wraps negative numbers into unsigned ones and takes the largest for larger ones.
CLI::Validator whole_number() {
  const auto check = [](const std::string& value) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool whole = error == std::errc() && end == value.data() + value.size();
    return whole ? "" : fmt::format("expected a whole number, found \"{}\"", value);
  };
  return CLI::Validator(check, "");
}

/// true or false, to be written out: a default of true needs a way to say no.
void add_switch(CLI::App& app, const std::string& flag, bool& value, const std::string& what) {
  app.add_option(flag, value, what)
      ->check(CLI::Validator(
          [](const std::string& text) {
            return check_choice({"true", "false"}, text);
          },
          "{true,false}"))
      ->default_str(value ? "true" : "false");
}

void add_model_options(CLI::App& app, Options& o) {
  TrainOptions& t = o.train;
  app.add_option("--model", t.model, "Hugging Face config.json (llama, mistral, qwen2, gpt2)")
      ->required();
  app.add_option("--data", t.data, "text (bytes are tokens), tokens (*.bin), or a GLUE folder")
      ->required();
  app.add_option(
      "--task", t.task,
      "a GLUE task, e.g. sst-2, to classify --data's TSV files; else language modelling");
  app.add_flag("--skip-malformed-rows", t.feed.skip_malformed_rows,
               "leave out rows of GLUE files that do not have the task's columns or labels");
  app.add_option("--weights", t.weights, "safetensors to begin with; else random by --seed");
  app.add_option("--save-weights", t.save_weights, "write the trained weights (fp32 safetensors)");
  add_choice(app, "--dtype", o.dtype, {"fp32", "bf16"}, "of weights and gradients");
  const CLI::Range positive(std::int64_t{1}, std::int64_t{1} << 40);
  const CLI::Range natural(std::int64_t{0}, std::int64_t{1} << 40);
  app.add_option("--steps", t.steps, "steps in all, those before a resume included")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--micro-batch-size", t.feed.sequences, "sequences of a step")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--sequence-length", t.feed.length, "tokens of a sequence")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--seed", t.seed, "of initial weights and of the order of data")
      ->check(whole_number())
      ->capture_default_str();
  app.add_option("--validation-fraction", t.feed.validation_fraction,
                 "share of a text kept, at its end, for validation")
      ->check(CLI::Range(0.0, 0.99))
      ->capture_default_str();
  app.add_option("--evaluate-interval", t.evaluate_interval,
                 "steps between validations; 0: at the end only")
      ->check(natural)
      ->capture_default_str();
}

void add_optimizer_options(CLI::App& app, Options& o) {
  runtime::OffloadSettings& s = o.train.offload;
  runtime::LearningRate& rate = o.train.learning_rate;
  const CLI::Range natural(std::int64_t{0}, std::int64_t{1} << 40);
  add_choice(app, "--schedule", o.schedule,
             {"gpu-only", "zero-offload", "zero-offload-dpu", "zenflow"},
             "what is updated where and when");
  app.add_option("--topk-ratio", s.topk_ratio,
                 "share of columns updated on the device in every step")
      ->capture_default_str();
  app.add_option("--update-interval", o.update_interval,
                 "steps between updates of the rest, or auto")
      ->capture_default_str();
  app.add_option("--auto-ratio", o.train.auto_ratio,
                 "of auto: share of matrices whose deferred gradients must have added up")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--select-interval", s.select_interval,
                 "steps between selections of columns; 0: once")
      ->capture_default_str();
  app.add_option("--full-warm-up-rounds", s.full_warm_up_rounds,
                 "first steps, in which everything is updated at once")
      ->capture_default_str();
  add_switch(app, "--overlap-step", s.overlap_step,
             "true: the CPU update runs beside the next window");
  app.add_option("--max-staleness", s.max_staleness, "steps from a gradient to its use, at most")
      ->check(natural)
      ->capture_default_str();
  add_choice(app, "--column-norm", o.column_norm, {"l1", "l2"}, "by which columns are ranked");
  add_choice(app, "--accumulate-on", o.accumulate, {"host", "device"},
             "where deferred gradients are summed");
  add_switch(
      app, "--whole-step-gradients", s.whole_step_gradients,
      "false: two groups' gradients take turns on the device, and backward waits for the link");
  add_choice(app, "--deferred-scaling", o.deferred_scaling, {"none", "sqrt", "linear"},
             "learning rate of an update from the mean of S gradients: as of one step (DeepSpeed), "
             "times sqrt(S), times S; the last two decay as S steps do");
  app.add_option("--lr", rate.peak, "learning rate")->capture_default_str();
  add_choice(app, "--lr-decay", o.decay, {"constant", "linear", "cosine"},
             "after the warm-up, to zero at --steps");
  app.add_option("--lr-warmup-steps", rate.warmup_steps, "linear rise")
      ->check(natural)
      ->capture_default_str();
  app.add_option("--beta1", s.adamw.beta1, "AdamW: decay of the mean of gradients")
      ->capture_default_str();
  app.add_option("--beta2", s.adamw.beta2, "AdamW: decay of the mean of their squares")
      ->capture_default_str();
  app.add_option("--epsilon", s.adamw.epsilon, "AdamW: added to the root of that mean")
      ->capture_default_str();
  app.add_option("--weight-decay", s.adamw.weight_decay,
                 "AdamW: share of a weight that goes, times the learning rate")
      ->capture_default_str();
  app.add_option("--gradient-clipping", s.gradient_clipping,
                 "largest norm of a step's gradient; 0: none")
      ->capture_default_str();
}

void add_machine_options(CLI::App& app, Options& o) {
  TrainOptions& t = o.train;
  const CLI::Range threads(1, 4096);
  add_choice(app, "--device", o.device, {"cpu", "cuda"}, "what trains");
  app.add_option("--threads", t.threads, "of forward and backward")
      ->check(threads)
      ->capture_default_str();
  app.add_option("--optimizer-threads", t.offload.optimizer_threads, "of the CPU optimizer")
      ->check(threads)
      ->capture_default_str();
  app.add_option("--sum-threads", t.offload.sum_threads, "that add up deferred gradients")
      ->check(threads)
      ->capture_default_str();
  app.add_option("--optimizer-cores", t.offload.optimizer_cores,
                 "CPUs to bind the optimizer's threads to, e.g. 2,3")
      ->check(whole_number())
      ->delimiter(',');
  app.add_option("--link-bandwidth", o.link_bandwidth,
                 "slow copies down to this, in each direction, e.g. \"25 GB/s\"");
  app.add_option("--device-memory", o.device_memory,
                 "refuse to use more than this on the device, e.g. \"80 GiB\"");
}

void add_output_options(CLI::App& app, Options& o) {
  TrainOptions& t = o.train;
  const CLI::Range natural(std::int64_t{0}, std::int64_t{1} << 40);
  app.add_option("--checkpoint", t.checkpoint, "directory for checkpoints");
  app.add_option("--checkpoint-interval", t.checkpoint_interval,
                 "steps between checkpoints; 0: at the end only")
      ->check(natural)
      ->capture_default_str();
  app.add_option("--checkpoints-kept", t.checkpoints_kept, "newest ones to keep")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--resume", t.resume, "go on from the newest valid checkpoint");
  app.add_option("--trace", o.trace, "write a Chrome trace; gzip if the name ends in .gz");
  app.add_option("--importance", t.importance,
                 "write shares of the gradient norm by column, a row per matrix and step (CSV)");
  app.add_flag("--json", o.json, "one result document on standard output");
  app.add_flag("-f,--force", t.overwrite, "overwrite existing files");
  app.add_flag("-q,--quiet", o.quiet, "no progress and no notes");
  app.add_flag("-v,--verbose", o.verbose, "a line for every step");
}

template <class Read>
auto quantity(const std::string& flag, const std::string& text, Read read) {
  Node node = parse_yaml(text, flag);
  node.at = {};  // the flag says where
  return read(ValueReader(node, flag));
}

std::int64_t whole_steps(const std::string& text) {
  std::int64_t steps = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), steps);
  if (error == std::errc() && end == text.data() + text.size() && steps > 0) return steps;
  throw Error(ErrorKind::kInput,
              fmt::format("--update-interval: expected a number of steps, at least 1, or auto; "
                          "found \"{}\"{}",
                          text, suggestion(text, std::vector<std::string>{"auto"})));
}

/// Every file is written once: two outputs of one name would leave one of them.
void check_outputs(const Options& o) {
  const TrainOptions& t = o.train;
  std::vector<std::pair<std::string, std::filesystem::path>> outputs;
  if (!o.trace.empty()) outputs.emplace_back("--trace", o.trace);
  if (t.importance) outputs.emplace_back("--importance", *t.importance);
  if (t.save_weights) outputs.emplace_back("--save-weights", *t.save_weights);
  std::vector<std::pair<std::string, std::filesystem::path>> others = {{"--model", t.model},
                                                                       {"--data", t.data}};
  const auto whole = [](const std::filesystem::path& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path));
  };
  for (const auto& output : outputs) {
    for (const auto& other : others) {
      if (whole(output.second) != whole(other.second)) continue;
      throw Error(ErrorKind::kInput, fmt::format("{} and {} are one file: {}", other.first,
                                                 output.first, output.second.generic_string()));
    }
    others.push_back(output);
  }
}

void interpret(Options& o) {
  TrainOptions& t = o.train;
  if (o.device == "cuda") {
    throw Error(ErrorKind::kDevice,
                "--device cuda: training on a GPU is not in this version; use --device cpu");
  }
  t.schedule =
      named<OffloadSchedule>(o.schedule, {{"gpu-only", OffloadSchedule::kGpuOnly},
                                          {"zero-offload", OffloadSchedule::kZeroOffload},
                                          {"zero-offload-dpu", OffloadSchedule::kZeroOffloadDpu},
                                          {"zenflow", OffloadSchedule::kZenFlow}});
  t.dtype = o.dtype == "bf16" ? ElementType::kBfloat16 : ElementType::kFloat32;
  t.learning_rate.decay = named<Decay>(
      o.decay,
      {{"constant", Decay::kConstant}, {"linear", Decay::kLinear}, {"cosine", Decay::kCosine}});
  t.learning_rate.total_steps = t.steps;
  t.offload.norm = o.column_norm == "l1" ? NormKind::kL1 : NormKind::kL2;
  using runtime::DeferredScaling;
  t.offload.deferred_scaling =
      named<DeferredScaling>(o.deferred_scaling, {{"none", DeferredScaling::kNone},
                                                  {"sqrt", DeferredScaling::kSquareRoot},
                                                  {"linear", DeferredScaling::kLinear}});
  t.offload.accumulate_on_device = o.accumulate == "device";
  t.offload.adamw.learning_rate = static_cast<float>(t.learning_rate.peak);
  t.offload.adaptive_interval =
      o.update_interval == "auto" && t.schedule == OffloadSchedule::kZenFlow;
  if (o.update_interval == "auto") {
    // The first window, before anything has been measured.
    const std::int64_t limit =
        t.offload.overlap_step ? (t.offload.max_staleness + 1) / 2 : t.offload.max_staleness + 1;
    t.offload.update_interval = std::clamp<std::int64_t>(4, 1, std::max<std::int64_t>(1, limit));
  } else {
    t.offload.update_interval = whole_steps(o.update_interval);
  }
  t.offload.record_importance = t.importance.has_value();
  t.offload = runtime::settings_for(t.schedule, t.offload);
  t.feed.seed = t.seed;
  if (!(t.auto_ratio >= 0 && t.auto_ratio <= 1)) {  // CLI11 lets nan pass
    throw Error(ErrorKind::kInput,
                fmt::format("--auto-ratio: expected 0 to 1, found {}", t.auto_ratio));
  }
  check_outputs(o);
  t.record_trace = !o.trace.empty();
  if (t.record_trace) check_output(o.trace, t.overwrite);
  if (!o.link_bandwidth.empty()) {
    t.device.link_bandwidth = quantity("--link-bandwidth", o.link_bandwidth,
                                       [](const ValueReader& v) { return v.bandwidth(); });
  }
  if (!o.device_memory.empty()) {
    t.device.memory = quantity("--device-memory", o.device_memory,
                               [](const ValueReader& v) { return v.bytes(); });
  }
}

/// A line on standard error: rewritten on a terminal, else one every ten seconds.
class Progress {
 public:
  Progress(const Options& options, bool terminal)
      : steps_(options.train.steps), verbose_(options.verbose), terminal_(terminal) {}

  void show(const runtime::StepResult& step, const runtime::StepTimes& times, double tokens) {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> since = now - last_;
    constexpr double kTerminal = 0.1;
    constexpr double kLog = 10;
    const bool final_step = step.step + 1 == steps_;
    if (!verbose_ && !final_step && since.count() < (terminal_ ? kTerminal : kLog)) return;
    last_ = now;
    const double stall = times.total - times.compute;
    const std::string line =
        fmt::format("step {}/{}  loss {:.4f}  {:.0f} tokens/s  step {:.1f} ms  stall {:.1f} ms",
                    step.step + 1, steps_, step.loss, tokens, times.total * 1e3, stall * 1e3);
    const bool rewrite = terminal_ && !verbose_;
    complain(rewrite ? fmt::format("\r{:<100}", line) : line + "\n");
    open_ = rewrite;
  }
  /// Before any other line.
  void end_line() {
    if (open_) complain("\n");
    open_ = false;
  }

 private:
  std::int64_t steps_;
  bool verbose_;
  bool terminal_;
  bool open_ = false;
  std::chrono::steady_clock::time_point last_;
};

std::string summary(const Options& options, const runtime::TrainReport& report) {
  const runtime::StepTimes& mean = report.times.mean;
  std::string text =
      fmt::format("{}: {} parameters, {}, {} steps\n", report.model_name, report.parameters,
                  runtime::schedule_name(options.train.schedule), report.steps);
  if (!report.losses.empty()) {
    text += fmt::format("  loss          {:.4f} at first, {:.4f} at last\n", report.losses.front(),
                        report.losses.back());
  }
  if (!report.validations.empty()) {
    const runtime::Validation& last = report.validations.back();
    text += fmt::format("  validation    loss {:.4f}", last.loss);
    for (const auto& metric : last.metrics)
      text += fmt::format("  {} {:.4f}", metric.name, metric.value);
    text += "\n";
  }
  if (report.times.steps > 0) {
    text += fmt::format(
        "  step          {:.1f} ms: compute {:.1f}, waiting for CPU update {:.1f}, d2h {:.1f}, "
        "h2d {:.1f}, launch {:.1f} (mean of {})\n",
        mean.total * 1e3, mean.compute * 1e3, mean.cpu_update * 1e3, mean.d2h * 1e3, mean.h2d * 1e3,
        mean.launch * 1e3, report.times.steps);
    text += fmt::format("  speed         {:.0f} tokens/s\n", report.tokens_per_second);
  }
  if (report.staleness_max) {
    text += fmt::format("  staleness     {} to {} steps\n", *report.staleness_min,
                        *report.staleness_max);
  }
  if (options.train.record_trace) {
    text += fmt::format("  trace         {} spans, {:.2f} % of the time went into recording\n",
                        report.trace_spans,
                        100 * report.trace_overhead_seconds / std::max(1e-9, report.seconds));
  }
  return text;
}

int run(Options& options) {
  interpret(options);
  Progress progress(options, is_terminal(stderr));
  runtime::TrainEvents events;
  events.stop = [] { return signal_exit_code() != 0; };
  if (!options.quiet) {
    const auto line = [&progress](const std::string& text) {
      progress.end_line();
      complain(text + "\n");
    };
    events.step = [&](const auto& step, const auto& times, double tokens) {
      progress.show(step, times, tokens);
    };
    events.note = [line](const std::string& text) { line("zenflow-train: " + text); };
    events.validation = [line](const runtime::Validation& v) {
      std::string text = fmt::format("step {}: validation loss {:.4f}", v.step, v.loss);
      for (const auto& metric : v.metrics)
        text += fmt::format(", {} {:.4f}", metric.name, metric.value);
      line(text);
    };
    events.decision = [&options, line](const runtime::IntervalDecision& d) {
      if (d.next == d.previous && !options.verbose) return;
      line(
          fmt::format("window {}: update_interval {} -> {}: {} (by gradient {}, by stall {}, "
                      "limit {}; {:.1f} % of the squared gradient norm is deferred)",
                      d.window, d.previous, d.next, d.reason, d.by_gradient, d.by_stall, d.limit,
                      100 * d.deferred_share));
    };
  }
  for (const std::string& text : options.notes) {
    if (events.note) events.note(text);
  }
  const runtime::TrainReport report = runtime::train(options.train, events);
  progress.end_line();
  print(options.json ? runtime::measured_result_json(options.train, report, kVersion)
                     : summary(options, report));
  if (options.train.record_trace) {
    write_output(options.trace, sim::chrome_trace(report.timeline), options.train.overwrite);
  }
  return report.stopped ? signal_exit_code() : 0;
}

/// Says which flags were given and do nothing: a run must not seem to follow them.
void note_unused(const CLI::App& app, Options& o) {
  const auto unused = [&](bool applies, const std::string& why,
                          const std::vector<std::string>& flags) {
    for (const std::string& flag : flags) {
      if (!applies && app.count(flag) > 0) o.notes.push_back(flag + " has no effect: " + why);
    }
  };
  unused(o.schedule == "zenflow", "it belongs to --schedule zenflow",
         {"--topk-ratio", "--update-interval", "--auto-ratio", "--select-interval",
          "--full-warm-up-rounds", "--overlap-step", "--column-norm", "--accumulate-on",
          "--deferred-scaling"});
  if (o.schedule == "zenflow") {
    unused(o.update_interval == "auto", "it belongs to --update-interval auto", {"--auto-ratio"});
  }
  unused(o.schedule != "gpu-only", "nothing is offloaded",
         {"--max-staleness", "--optimizer-threads", "--optimizer-cores", "--sum-threads"});
  unused(!o.train.task.empty(), "it belongs to --task", {"--skip-malformed-rows"});
  unused(o.train.task.empty(), "a GLUE task has a validation file", {"--validation-fraction"});
  unused(!o.train.resume, "--resume takes the checkpoint's weights", {"--weights"});
  unused(o.train.checkpoint.has_value(), "there is no --checkpoint", {"--checkpoints-kept"});
}

int main_program(int argc, char** argv) {
  CLI::App app{"Trains a transformer with its optimizer offloaded to the CPU."};
  app.name("zenflow-train");
  app.set_version_flag("--version", kVersion);
  app.footer(
      "Exit codes: 0 done, 1 failed while running, 2 bad usage or input, 3 does not fit, 5 no "
      "usable GPU, 130/143 stopped by a signal after the step and a checkpoint.");
  Options options;
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  options.train.threads = cores;
  options.train.offload.optimizer_threads = static_cast<int>(cores);
  add_model_options(app, options);
  add_optimizer_options(app, options);
  add_machine_options(app, options);
  add_output_options(app, options);
  if (!parse_command_line(app, argc, argv)) return 0;
  if (app.count("--task") > 0 && options.train.task.empty()) {
    throw Error(ErrorKind::kInput, "--task: the name is empty");
  }
  note_unused(app, options);
  return run(options);
}

}  // namespace
}  // namespace zenflow::tools

int main(int argc, char** argv) {
  zenflow::tools::catch_signals();
  return zenflow::tools::run_program("zenflow-train",
                                     [&] { return zenflow::tools::main_program(argc, argv); });
}
