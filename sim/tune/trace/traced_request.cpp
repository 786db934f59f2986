#include "sim/tune/trace/traced_request.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "sim/base/text.h"
#include "sim/calibrate/trace/base_profile.h"
#include "sim/calibrate/trace/device_match.h"
#include "sim/tune/trace/trace_reading.h"

namespace zenflow::sim {
namespace {

void require_options(const TraceFlags& options) {
  if (!options.model) {
    throw Error(ErrorKind::kInput,
                "--model: expected the config.json of the model that the traces are of");
  }
  for (const Override& one : overrides_of(options)) {
    for (const char* block : {"deepspeed", "model"}) {
      if (one.path != block && !one.path.starts_with(std::string(block) + ".")) continue;
      throw Error(ErrorKind::kInput,
                  fmt::format("--set {}: with --trace the {} file itself says so", one.path,
                              one.path.starts_with("model") ? "--model" : "--base"));
    }
  }
}

/// What serving programs, and what they cache, call their work.
constexpr std::array<std::string_view, 10> kInferenceWords = {
    "paged_attention", "pagedattention", "reshape_and_cache", "vllm",    "sglang",
    "kv_cache",        "kvcache",        "execute_model",     "prefill", "splitkv"};

/// The first name that says so.
std::optional<std::string> inference_name(const Timeline& timeline) {
  for (const TimelineSpan& span : timeline.spans) {
    const std::string name = lower_case(timeline.name_of(span));
    for (const std::string_view word : kInferenceWords) {
      if (name.find(word) != name.npos) return timeline.name_of(span);
    }
  }
  return std::nullopt;
}

bool trains(const ImportedTrace& trace) {
  const Timeline& timeline = trace.timeline;
  const bool has_pass =
      std::any_of(timeline.spans.begin(), timeline.spans.end(), [](const TimelineSpan& span) {
        return span.phase == SpanPhase::kBackward || span.phase == SpanPhase::kOptimizer;
      });
  return has_pass || trace.timers || trace.step_source == StepSource::kOptimizer;
}

/// A trace that has no backward pass and no optimizer, and work of serving, is not of training.
void require_training(const TraceReading& reading) {
  for (std::size_t i = 0; i < reading.traces.size(); ++i) {
    if (trains(reading.traces[i])) continue;
    if (const auto name = inference_name(reading.traces[i].timeline)) {
      insufficient(
          fmt::format("{}: is of inference: {} runs in it, and neither a backward pass nor an "
                      "optimizer; what is tuned is training",
                      reading.file(i), *name));
    }
  }
}

std::vector<ImportedTrace> import_all(const TraceFlags& options, const ReadTrace& read) {
  ImportOptions how;
  if (options.trace_rules) how.rules = read_rules(*options.trace_rules);
  how.steps = options.steps;
  std::vector<ImportedTrace> traces;
  for (const auto& path : options.traces) traces.push_back(read(path, how));
  return traces;
}

/// `{value, source}`, as profiles have it.
void set_number(Node& hardware, const std::string& path, const std::string& value,
                const std::string& source) {
  set_path(hardware, path, fmt::format("{{value: {}, source: \"{}\"}}", value, source));
}

/// --profile may be of another GPU than the traces: what they do not determine is then that one's.
void note_other_device(TraceReading& reading) {
  const std::vector<std::string>& named = reading.traced.devices;
  const std::string profiled = read_hardware_profile(reading.hardware).gpu.name;
  const bool is_same = std::any_of(named.begin(), named.end(), [&](const std::string& device) {
    return same_device(device, profiled) || device == "host";
  });
  if (named.empty() || is_same) return;
  reading.result.untold.push_back(
      fmt::format("the traces name {}, profile {} is of {}: numbers taken from it are that GPU's",
                  fmt::join(named, " and "), reading.result.base_profile, profiled));
}

bool says_gpu_memory(const TraceFlags& options) {
  const std::vector<Override> overrides = overrides_of(options);
  return std::any_of(overrides.begin(), overrides.end(), [](const Override& one) {
    return one.path.starts_with("hardware.gpu.memory");
  });
}

constexpr double kGibi = 0x1p30;

std::string gibibytes(std::int64_t bytes) {
  return fmt::format("{:.0f} GiB", static_cast<double>(bytes) / kGibi);
}

/// RAM of a node and its /dev/shm: as --host-memory says, else as a log prints them.
void set_host_memory(TraceReading& reading) {
  const TraceFlags& options = reading.options;
  const TracedJob& traced = reading.traced;
  const auto given = bytes_of("--host-memory", options.host_memory);
  if (!given && traced.host_memory) {
    reading.result.facts.push_back(fmt::format(
        "{} of RAM of a node: {}", gibibytes(traced.host_memory->value), traced.host_memory->from));
  }
  if (traced.shared_memory) {
    set_number(reading.hardware, "host.shared_memory",
               fmt::format("{} B", traced.shared_memory->value), "the log");
    reading.result.facts.push_back(fmt::format("{} of shared memory: {}",
                                               gibibytes(traced.shared_memory->value),
                                               traced.shared_memory->from));
  }
  if (!given && !traced.host_memory) return;
  const double memory =
      given ? static_cast<double>(*given) : static_cast<double>(traced.host_memory->value);
  const std::string text = given ? *options.host_memory : fmt::format("{:.0f} B", memory);
  const char* const source = given ? "--host-memory" : "the log";
  const Bytes shared = read_hardware_profile(reading.hardware).host.shared_memory;
  set_number(reading.hardware, "host.memory", text, source);
  if (shared.value() > memory) {
    set_number(reading.hardware, "host.shared_memory", text, fmt::format("bounded by {}", source));
  }
}

/// "Tesla V100-SXM2-16GB", "A100-SXM4-80GB MIG 2g.20gb" (the slice's): bytes; 0 if the name does
/// not say.
std::int64_t memory_in_name(std::string_view name) {
  const std::size_t end = std::max(name.rfind("GB") + 1, name.rfind("gb") + 1) - 1;
  if (end == name.npos || end == 0) return 0;
  std::size_t first = end;
  while (first > 0 && std::isdigit(static_cast<unsigned char>(name[first - 1])) != 0) --first;
  std::int64_t number = 0;
  std::from_chars(name.data() + first, name.data() + end, number);
  return std::min<std::int64_t>(number, 1 << 20) << 30;
}

/// Where nothing else says how much memory the recording's GPUs have their name may: the profile
/// may be of a larger one.
void bound_gpu_memory(TraceReading& reading) {
  if (reading.options.gpu_memory || reading.traced.device_memory ||
      says_gpu_memory(reading.options)) {
    return;
  }
  const double profiled = read_hardware_profile(reading.hardware).gpu.memory.value();
  for (const std::string& name : reading.traced.devices) {
    const std::int64_t memory = memory_in_name(name);
    if (memory == 0 && name.find("Laptop") != name.npos) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: a laptop's card has not the memory of profile {}, and the trace "
                              "does not say how much: --gpu-memory",
                              name, reading.result.base_profile));
    }
    if (memory == 0 || static_cast<double>(memory) >= profiled) continue;
    set_number(reading.hardware, "gpu.memory", fmt::format("{} B", memory), "the GPU's name");
    reading.result.facts.push_back(
        fmt::format("{} of GPU memory: the name {}", gibibytes(memory), name));
    return;
  }
}

/// The base profile, with what the user knows better.
void find_hardware(TraceReading& reading) {
  const TraceFlags& options = reading.options;
  if (options.profile) {
    reading.result.base_profile = *options.profile;
  } else {
    const std::vector<std::string> matches =
        profiles_of_devices(reading.traced.devices, options.profile_directories);
    reading.result.base_profile = matches.front();
    if (matches.size() > 1) {
      reading.result.untold.push_back(
          fmt::format("which machine it was: {} is taken, of {} (--profile)", matches.front(),
                      fmt::join(matches, ", ")));
    }
  }
  reading.hardware = load_profile(reading.result.base_profile, options.profile_directories);
  set_host_memory(reading);
  if (options.gpu_memory && bytes_of("--gpu-memory", options.gpu_memory)) {
    set_number(reading.hardware, "gpu.memory", *options.gpu_memory, "--gpu-memory");
  } else if (const auto told = reading.traced.device_memory; told && !says_gpu_memory(options)) {
    set_number(reading.hardware, "gpu.memory", fmt::format("{} B", *told), "the traces");
    reading.result.facts.push_back(
        fmt::format("{:.2f} GiB of GPU memory: the traces' properties of the device",
                    static_cast<double>(*told) / (1U << 30U)));
  }
  bound_gpu_memory(reading);
  note_other_device(reading);
  for (const Override& one : overrides_of(options)) {
    constexpr std::string_view kHardware = "hardware.";
    if (one.path.starts_with(kHardware)) {
      set_path(reading.hardware, one.path.substr(kHardware.size()), one.value);
    } else {
      reading.overrides.push_back(one);
    }
  }
}

/// What no trace says, and which numbers these traces do not.
void list_untold(TraceReading& reading, const std::vector<FittedNumber>& numbers) {
  std::vector<std::string>& untold = reading.result.untold;
  std::string kept;
  for (const FittedNumber& one : numbers) {
    if (!one.fitted && !one.adjusted) kept += (kept.empty() ? "" : ", ") + one.path;
  }
  if (!kept.empty()) {
    untold.push_back(
        fmt::format("taken from profile {} as they are: {}", reading.result.base_profile, kept));
  }
  const TraceFlags& options = reading.options;
  const bool knows_gpu =
      options.gpu_memory || reading.traced.device_memory || says_gpu_memory(options);
  std::string memory = knows_gpu ? "" : "of the GPU (--gpu-memory)";
  if (!options.host_memory && !reading.traced.host_memory)
    memory += std::string(memory.empty() ? "" : ", ") + "of the node (--host-memory)";
  if (!memory.empty()) {
    untold.push_back(
        fmt::format("memory {}: as profile {} has it", memory, reading.result.base_profile));
  }
  const bool says_itself = recorded_run(reading.traces.front().timeline).has_value();
  if (!says_itself && !reading.traced.checkpoints &&
      !reading.sets("training.activation_checkpointing")) {
    untold.emplace_back(
        "activation checkpointing: taken as off (--set training.activation_checkpointing=true)");
  }
}

/// --measured-step, or what the traces have, which is of the recorded job's own batch.
void take_measured_step(const TraceFlags& options, const std::optional<double>& recorded,
                        TuneRequest& request, TracedRequest& result) {
  if (options.measured_step) {
    result.steps = 0;
    return;
  }
  const std::int64_t own = global_batch_of(request.job, request.family);
  if (recorded && request.global_batch != own) {
    result.steps = 0;
    result.parts.clear();
    result.untold.push_back(fmt::format(
        "what a step of {} sequences takes (--global-batch): the recorded job's have {}",
        request.global_batch, own));
    return;
  }
  request.measured_step = recorded;
}

std::string names_of(const TraceReading& reading) {
  std::string names;
  for (std::size_t i = 0; i < reading.traces.size(); ++i) {
    names += (names.empty() ? "" : ", ") + reading.file(i);
  }
  return names;
}

}  // namespace

void insufficient(const std::string& what) {
  throw Error(ErrorKind::kInput, "the trace does not suffice: " + what);
}

Job TraceReading::job(const TracedScenario& scenario) const {
  return traced_scenario_job(scenario, hardware, overrides);
}

LoadedRequest load_traced_request(const TraceFlags& options, const ReadTrace& read,
                                  const std::filesystem::path& folder, TracedRequest& traced) {
  require_options(options);
  TraceReading reading{options, {}, {}, {}, {}, traced};
  reading.traces = import_all(options, read);
  std::vector<const ImportedTrace*> all;
  for (const ImportedTrace& trace : reading.traces) all.push_back(&trace);
  reading.traced = traced_job(all);
  const auto recorded =
      std::count_if(reading.traces.begin(), reading.traces.end(),
                    [](const auto& trace) { return is_of_zenflow_train(trace.timeline); });
  if (recorded != 0 && recorded != std::ssize(reading.traces)) {
    throw Error(ErrorKind::kInput,
                "--trace: recordings of zenflow-train and of other programs are not of one job");
  }
  const bool is_recorded = recorded > 0;
  // fit_deepspeed_job lists them with what it left out itself.
  for (const ImportedTrace& trace : reading.traces) {
    if (!is_recorded) break;
    for (const std::string& problem : trace.problems) reading.result.untold.push_back(problem);
  }
  const auto fit = is_recorded ? fit_recorded_runs : fit_deepspeed_job;
  if (!is_recorded && !options.base) {
    throw Error(ErrorKind::kInput, "--base: expected the DeepSpeed file that the job ran with");
  }
  if (!is_recorded) require_gpu_work(reading);
  if (!is_recorded) require_training(reading);
  find_hardware(reading);
  const FittedJob fitted = fit(reading);
  list_untold(reading, fitted.numbers);

  LoadedRequest loaded;
  reading.result.numbers = fitted.numbers;
  reading.result.profile =
      fitted_profile_text(reading.hardware, fitted.numbers, "profile",
                          fmt::format("{} (zenflow-tune --trace)", names_of(reading)));
  loaded.tree = scenario_tree(fitted.scenario, parse_yaml(reading.result.profile, "profile.yaml"));
  loaded.overrides = reading.overrides;
  complete_request(options, is_recorded ? std::optional(Family::kLive) : std::nullopt, loaded);
  if (reading.contradictions.empty() || options.measured_step) {
    take_measured_step(options, fitted.measured_step, loaded.request, reading.result);
  } else {
    reading.result.steps = 0;
    reading.result.parts.clear();
    loaded.warnings.push_back(
        fmt::format("the recording is of another job than --base and the flags say, so nothing is "
                    "compared with "
                    "it, and numbers fitted to it may be wrong: {}",
                    fmt::join(reading.contradictions, "; ")));
  }
  if (is_recorded) {
    // Threads are not tuned: the recording says what a number of them does, not what another would.
    const double own = setting_of(loaded.request.job).get(Knob::kReservedCores);
    loaded.request.space.set(Knob::kReservedCores, {own});
  }
  const Candidates candidates(loaded.request);
  reading.result.scenario =
      scenario_text(fitted.scenario, loaded.request.job.scenario,
                    std::string(candidates.schedule(setting_of(loaded.request.job)).name()), folder,
                    names_of(reading));
  loaded.run = fitted.run;
  return loaded;
}

}  // namespace zenflow::sim
