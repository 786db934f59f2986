/// From the words of the command line to what they stand for.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "runtime/data/token_source.h"
#include "runtime/gpu/driver.h"
#include "runtime/machine/core_share.h"
#include "runtime/tune/candidates.h"
#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "sim/config/reader.h"
#include "sim/offload/knobs.h"
#include "tools/environment.h"
#include "tools/train/options.h"

namespace zenflow::tools {
namespace {

using runtime::Decay;
using runtime::NormKind;
using runtime::OffloadSchedule;
using runtime::TrainOptions;

/// A name that stands for a value; the parser has checked that it is one of these.
template <class Value>
Value named(const std::string& name, const std::map<std::string, Value>& values) {
  return values.at(name);
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

/// A shell variable that was not set must not turn an output off.
void check_paths(const CLI::App& app) {
  for (const char* flag :
       {"--model", "--data", "--task", "--weights", "--save-weights", "--save-model", "--tokenizer",
        "--log-dir", "--checkpoint", "--trace", "--importance"}) {
    if (app.count(flag) == 0 || !app.get_option(flag)->as<std::string>().empty()) continue;
    throw Error(ErrorKind::kInput, fmt::format("{}: the name is empty", flag));
  }
}

std::filesystem::path whole(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path found =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);
  if (error) {
    throw Error(ErrorKind::kInput, fmt::format("{}: {}", path.generic_string(), error.message()));
  }
  return found.has_filename() ? found : found.parent_path();
}

/// A saved model's folder has nothing else in it.
void check_beside_model(const TrainCommand& o) {
  if (!o.train.save_model) return;
  const std::filesystem::path folder = whole(*o.train.save_model);
  const std::pair<const char*, std::optional<std::filesystem::path>> others[] = {
      {"--save-weights", o.train.save_weights},
      {"--checkpoint", o.train.checkpoint},
      {"--importance", o.train.importance},
      {"--log-dir", o.log_dir},
      {"--trace", o.trace}};
  for (const auto& [flag, path] : others) {
    if (!path || path->empty()) continue;
    const std::filesystem::path other = whole(*path);
    if (std::mismatch(folder.begin(), folder.end(), other.begin(), other.end()).first !=
        folder.end()) {
      continue;
    }
    throw Error(ErrorKind::kInput,
                fmt::format("{}: {} is in the folder of --save-model, which is to have a saved "
                            "model alone",
                            flag, path->generic_string()));
  }
}

/// With -f a saved model takes the place of the folder's, and that would be the one that is
/// trained.
void check_model_folder(const TrainOptions& t) {
  if (!t.save_model) return;
  const auto folder_of = [](const std::filesystem::path& path) {
    std::error_code unknown;
    return std::filesystem::is_directory(path, unknown) ? whole(path) : whole(path).parent_path();
  };
  const std::filesystem::path folder = folder_of(whole(*t.save_model) / "config.json");
  if (folder != folder_of(t.model) && (!t.weights || folder != folder_of(*t.weights))) return;
  throw Error(ErrorKind::kInput,
              fmt::format("--save-model: {} is the folder that the model is read from",
                          t.save_model->generic_string()));
}

/// Every file is written once: two outputs of one name would leave one of them.
void check_outputs(const TrainCommand& o) {
  const TrainOptions& t = o.train;
  std::vector<std::pair<std::string, std::filesystem::path>> outputs;
  if (!o.trace.empty()) outputs.emplace_back("--trace", o.trace);
  if (t.importance) outputs.emplace_back("--importance", *t.importance);
  if (t.save_weights) outputs.emplace_back("--save-weights", *t.save_weights);
  if (t.save_model) outputs.emplace_back("--save-model", *t.save_model);
  std::vector<std::pair<std::string, std::filesystem::path>> others = {{"--model", t.model},
                                                                       {"--data", t.data}};
  for (const auto& output : outputs) {
    const std::string name = output.second.filename().string();
    const bool run_owns_it = name.starts_with("checkpoint-") || name == ".lock";
    if (t.checkpoint && run_owns_it && whole(output.second).parent_path() == whole(*t.checkpoint)) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: {} is a name that --checkpoint uses for itself", output.first,
                              output.second.generic_string()));
    }
    for (const auto& other : others) {
      if (whole(output.second) != whole(other.second)) continue;
      throw Error(ErrorKind::kInput, fmt::format("{} and {} are one file: {}", other.first,
                                                 output.first, output.second.generic_string()));
    }
    others.push_back(output);
  }
}

/// LOW:HIGH; what the numbers may be is checked with the other settings.
runtime::TopkRange ratio_range(const std::string& text) {
  const auto number = [](std::string_view part) -> std::optional<double> {
    double value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size()) return std::nullopt;
    return value;
  };
  const std::string_view whole = text;
  const std::size_t colon = whole.find(':');
  if (colon != std::string_view::npos) {
    const auto low = number(whole.substr(0, colon));
    const auto high = number(whole.substr(colon + 1));
    if (low && high) return {*low, *high};
  }
  throw Error(ErrorKind::kInput,
              fmt::format("--topk-range: expected LOW:HIGH, such as 0.05:0.3; found \"{}\"", text));
}

/// Refuses what would do nothing: a limit that is given is relied on.
void interpret_topk_range(const CLI::App& app, TrainCommand& o) {
  TrainOptions& t = o.train;
  const bool has_range = app.count("--topk-range") > 0;
  if (has_range && !t.tune_live) {
    throw Error(
        ErrorKind::kInput,
        "--topk-range: only --tune live with --update-interval auto changes the topk ratio");
  }
  if (has_range) t.offload.topk_range = ratio_range(o.topk_range);
  if (app.count("--max-deferred-share") == 0) return;
  const double most = t.tuner.max_deferred_share;
  if (!(most >= 0 && most <= 1)) {  // CLI11 lets nan pass
    throw Error(ErrorKind::kInput,
                fmt::format("--max-deferred-share: expected 0 to 1, found {}", most));
  }
  if (!has_range) {
    throw Error(ErrorKind::kInput, "--max-deferred-share: it limits what --topk-range may choose");
  }
  if (t.offload.norm == NormKind::kL1) {
    throw Error(ErrorKind::kInput,
                "--max-deferred-share: shares are of squared norms, which --column-norm l1 does "
                "not measure");
  }
}

/// What the tuner's predictions do not cover is refused: it would tune something else.
void interpret_tuning(TrainCommand& o) {
  TrainOptions& t = o.train;
  t.tune_live = o.tune == "live" && t.offload.interval_is_auto;
  if (!(t.tuner.slack >= 0 && t.tuner.slack <= 1)) {
    throw Error(ErrorKind::kInput,
                fmt::format("--tune-slack: expected 0 to 1, found {}", t.tuner.slack));
  }
  if (!t.tune_live) return;
  if (!t.offload.whole_step_gradients) {
    throw Error(ErrorKind::kInput,
                "--tune live: steps with --whole-step-gradients false cannot be predicted");
  }
  if (o.setup.topk_is_global) {
    throw Error(
        ErrorKind::kInput,
        "--tune live: steps with --topk-scope global cannot be predicted, as what is deferred "
        "of each layer depends on the data");
  }
  if (t.offload.topk_ratio >= 1) {
    throw Error(ErrorKind::kInput, "--tune live: with --topk-ratio 1 nothing is deferred");
  }
}

/// What is updated where and when.
void interpret_schedule(const CLI::App& app, TrainCommand& o) {
  TrainOptions& t = o.train;
  static_cast<sim::OffloadSetup&>(t.offload) = o.setup;
  t.training = o.setup;
  t.threads = o.setup.threads;
  t.offload.norm = o.column_norm == "l1" ? NormKind::kL1 : NormKind::kL2;
  if (o.setup.schedule == OffloadSchedule::kZenFlow) {
    t.offload.deferred_scaling = runtime::deferred_scaling(o.deferred_scaling);
  }
  t.offload.interval_is_auto =
      o.update_interval == "auto" && t.offload.schedule == OffloadSchedule::kZenFlow;
  if (o.update_interval == "auto") {
    // The first window, before anything has been measured.
    const std::int64_t limit =
        runtime::staleness_limit(t.offload.max_staleness, t.offload.overlap_step);
    if (t.offload.interval_is_auto && app.count("--start-interval") > 0 &&
        o.start_interval > limit) {
      throw Error(ErrorKind::kInput,
                  fmt::format("--start-interval: expected at most {}, by --max-staleness {}{}; "
                              "found {}",
                              limit, t.offload.max_staleness,
                              t.offload.overlap_step ? " with overlap" : "", o.start_interval));
    }
    t.offload.update_interval = std::clamp<std::int64_t>(o.start_interval, 1, limit);
  } else {
    t.offload.update_interval = whole_steps(o.update_interval);
  }
  interpret_tuning(o);
  interpret_topk_range(app, o);
  if (!(t.auto_ratio >= 0 && t.auto_ratio <= 1)) {  // CLI11 lets nan pass
    throw Error(ErrorKind::kInput,
                fmt::format("--auto-ratio: expected 0 to 1, found {}", t.auto_ratio));
  }
}

void interpret_optimizer(TrainCommand& o) {
  TrainOptions& t = o.train;
  t.learning_rate.decay = named<Decay>(
      o.decay,
      {{"constant", Decay::kConstant}, {"linear", Decay::kLinear}, {"cosine", Decay::kCosine}});
  t.learning_rate.total_steps = t.steps;
  t.offload.adamw.learning_rate = static_cast<float>(t.learning_rate.peak);
}

void interpret_machine(TrainCommand& o) {
  TrainOptions& t = o.train;
  if (!o.link_bandwidth.empty()) {
    t.device.link_bandwidth = quantity("--link-bandwidth", o.link_bandwidth,
                                       [](const ValueReader& v) { return v.bandwidth(); });
  }
  if (!o.device_memory.empty()) {
    const Bytes memory = quantity("--device-memory", o.device_memory,
                                  [](const ValueReader& v) { return v.bytes(); });
    t.device.memory = memory;
    if (t.cuda) t.cuda->memory = memory;
  }
}

/// Tokens are made before, by the tokenizer's own library.
void interpret_tokenizer(const TrainOptions& t) {
  if (!t.tokenizer) return;
  const std::string tokenizer = t.tokenizer->generic_string();
  std::error_code unknown;
  if (!std::filesystem::exists(*t.tokenizer, unknown)) {
    throw Error(ErrorKind::kInput, fmt::format("--tokenizer: {}: no such file", tokenizer));
  }
  if (!t.task.empty()) {
    throw Error(ErrorKind::kInput,
                "--tokenizer: the tokens of a GLUE task are the bytes of its sentences, no "
                "tokenizer's; leave it out");
  }
  if (runtime::token_format(t.data) != runtime::TokenFormat::kBytes) return;
  const std::string data = t.data.generic_string();
  throw Error(
      ErrorKind::kInput,
      fmt::format("--tokenizer: {} holds no tokens; make some first: script/tokenize "
                  "--tokenizer {} {} -o data.{}",
                  data, tokenizer, data, t.data.extension() == ".jsonl" ? "safetensors" : "bin"));
}

/// More threads than cores take turns.
void note_threads(const CLI::App& app, TrainCommand& o) {
  const auto cores = static_cast<std::int64_t>(runtime::allowed_cpus().size());
  const std::array<std::pair<const char*, std::int64_t>, 3> given = {
      {{"--threads", o.setup.threads},
       {"--optimizer-threads", o.setup.optimizer_threads},
       {"--sum-threads", o.setup.sum_threads}}};
  for (const auto& [flag, threads] : given) {
    if (app.count(flag) == 0 || threads <= cores) continue;
    o.notes.push_back(fmt::format("{}: {} threads on {} core{} take turns", flag, threads, cores,
                                  cores == 1 ? "" : "s"));
  }
}

void interpret_saving(TrainCommand& o) {
  if (o.shard_size.empty()) return;
  const Bytes size =
      quantity("--shard-size", o.shard_size, [](const ValueReader& v) { return v.bytes(); });
  o.train.shard_bytes = static_cast<std::uint64_t>(size.value());
}

/// Says which flags were given and do nothing: a run must not seem to follow them.
void note_unused(const CLI::App& app, TrainCommand& o) {
  const auto unused = [&](bool applies, const std::string& why,
                          const std::vector<std::string>& flags) {
    for (const std::string& flag : flags) {
      if (!applies && app.count(flag) > 0) o.notes.push_back(flag + " has no effect: " + why);
    }
  };
  const bool zenflow = o.setup.schedule == OffloadSchedule::kZenFlow;
  std::vector<std::string> of_zenflow = {"--auto-ratio",     "--tune",        "--tune-slack",
                                         "--start-interval", "--column-norm", "--deferred-scaling"};
  for (const sim::SetupKnob& knob : sim::setup_knobs()) {
    if (knob.of_zenflow && !knob.flag.empty()) of_zenflow.emplace_back(knob.flag);
  }
  unused(zenflow, "it belongs to --schedule zenflow", of_zenflow);
  if (zenflow) {
    unused(o.update_interval == "auto", "it belongs to --update-interval auto",
           {"--auto-ratio", "--tune", "--start-interval"});
    unused(o.tune == "live", "it belongs to --tune live", {"--tune-slack"});
    unused(o.setup.topk_ratio != 0, "no column is selected",
           {"--select-interval", "--column-norm", "--topk-scope"});
    unused(!o.setup.accumulate_on_device, "the device sums gradients of whole steps",
           {"--whole-step-gradients", "--sum-threads"});
  }
  unused(o.device == "cpu", "it belongs to --device cpu", {"--threads", "--link-bandwidth"});
  unused(o.device == "cuda", "it belongs to --device cuda", {"--gpu"});
  unused(o.setup.schedule != OffloadSchedule::kGpuOnly, "nothing is offloaded",
         {"--max-staleness", "--optimizer-threads", "--optimizer-cores", "--sum-threads"});
  unused(o.train.task.empty(), "a GLUE task's tokens are bytes", {"--byte-tokens"});
  unused(!o.train.task.empty(), "it belongs to --task", {"--skip-malformed-rows"});
  unused(o.train.task.empty(), "a GLUE task has a validation file", {"--validation-fraction"});
  unused(!o.train.resume, "--resume takes the checkpoint's weights", {"--weights"});
  unused(o.train.save_model.has_value(), "there is no --save-model", {"--shard-size"});
  // Else a tokenizer's file is refused: it makes no tokens of a text.
  const bool has_tokens =
      o.train.task.empty() && runtime::token_format(o.train.data) != runtime::TokenFormat::kBytes;
  unused(!has_tokens || o.train.save_model.has_value(),
         "--data has tokens, and there is no --save-model to take a tokenizer along",
         {"--tokenizer"});
  unused(!has_tokens, "--data has tokens, not bytes", {"--byte-tokens"});
  unused(o.train.offload.adamw.weight_decay != 0, "there is no weight decay", {"--decay-vectors"});
  unused(o.train.checkpoint.has_value(), "there is no --checkpoint", {"--checkpoints-kept"});
}

}  // namespace

void share_cores(const CLI::App& app, runtime::OffloadSettings& offload) {
  if (app.count("--sum-threads") > 0 || app.count("--optimizer-threads") > 0) return;
  const runtime::CpuThreads shares = runtime::share_cores(offload.optimizer_threads, offload);
  offload.optimizer_threads = shares.optimizer;
  offload.sum_threads = shares.sums;
}

void interpret(const CLI::App& app, TrainCommand& o) {
  TrainOptions& t = o.train;
  check_paths(app);
  note_unused(app, o);
  interpret_optimizer(o);
  interpret_schedule(app, o);
  if (o.device == "cuda") {
    const runtime::DriverAnswer answer = runtime::ask_driver();
    runtime::require_gpu(answer, "--device cuda");
    runtime::require_gpu_number(answer, o.gpu, "--gpu");
    t.cuda.emplace();
    t.cuda->ordinal = o.gpu;
    t.cuda->libraries = runtime::library_folders(environment_variables());
  }
  t.offload.record_importance = t.importance.has_value();
  t.offload = runtime::settings_for(t.offload.schedule, t.offload);
  if (t.cuda) share_cores(app, t.offload);
  t.feed.seed = t.seed;
  check_outputs(o);
  check_beside_model(o);
  check_model_folder(t);
  interpret_saving(o);
  interpret_tokenizer(t);
  note_threads(app, o);
  t.record_trace = !o.trace.empty();
  if (t.record_trace) check_output(o.trace, t.overwrite);
  interpret_machine(o);
}

}  // namespace zenflow::tools
