#include "sim/calibrate/trace/traced_job.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/calibrate/trace/base_profile.h"
#include "sim/trace/import/operation_shapes.h"
#include "sim/trace/launches.h"

namespace zenflow::sim {
namespace {

using nlohmann::json;

/// Importers call a GPU without a name by its number.
bool is_number(const std::string& device) {
  constexpr std::size_t kLongest = 8;
  return device.starts_with("GPU ") && device.size() < kLongest;
}

void add_devices(const Timeline& timeline, std::vector<std::string>& devices) {
  for (const std::string& device : timeline.devices) {
    const bool is_new = std::find(devices.begin(), devices.end(), device) == devices.end();
    if (is_new && !is_number(device)) devices.push_back(device);
  }
}

std::set<int> devices_with_work(const Timeline& timeline) {
  std::set<int> found;
  for (const TimelineSpan& span : timeline.spans) {
    if (is_gpu_work(kind_of(timeline, span))) found.insert(timeline.tracks[span.track].device);
  }
  return found;
}

void add_memory(const Timeline& timeline, std::optional<std::int64_t>& least) {
  for (const int device : devices_with_work(timeline)) {
    if (device < 0 || device >= std::ssize(timeline.device_memory)) continue;
    const std::int64_t memory = timeline.device_memory[static_cast<std::size_t>(device)];
    if (memory > 0) least = std::min(least.value_or(memory), memory);
  }
}

/// PyTorch: {"backend": "nccl", "rank": 0, "world_size": 8, ...}.
std::int64_t world_size(const Timeline& timeline) {
  for (const auto& [key, value] : timeline.metadata) {
    if (key != "distributedInfo") continue;
    const json map = json::parse(value, nullptr, false);
    if (!map.is_object() || !map.contains("world_size")) continue;
    if (map["world_size"].is_number_integer()) return map["world_size"].get<std::int64_t>();
  }
  return 0;
}

std::int64_t largest_group(const Timeline& timeline) {
  std::int64_t largest = 0;
  for (const SpanDetail& detail : timeline.details) {
    for (const auto& [name, value] : detail.fields) {
      if (name != kGroupSizeField) continue;
      std::int64_t size = 0;
      std::from_chars(value.data(), value.data() + value.size(), size);
      largest = std::max(largest, size);
    }
  }
  return largest;
}

/// "GPU 0 A100 (one of 4 alike)", summed over a simulated run's GPUs.
std::int64_t stands_for(const Timeline& timeline) {
  constexpr std::string_view kBefore = " (one of ";
  std::int64_t sum = 0;
  for (const std::string& device : timeline.devices) {
    const std::size_t at = device.rfind(kBefore);
    if (at == device.npos) return 0;
    std::int64_t count = 0;
    const char* first = device.data() + at + kBefore.size();
    std::from_chars(first, device.data() + device.size(), count);
    sum += count;
  }
  return sum;
}

constexpr const char* kPrinted = "settings that the log prints";

std::optional<std::int64_t> printed(const ImportedTrace& trace, std::string_view name) {
  if (!trace.timers) return std::nullopt;
  const auto found = trace.timers->printed.find(name);
  return found == trace.timers->printed.end() ? std::nullopt : std::optional(found->second);
}

/// What the logs print of their machine, the first that does.
void add_machine(const ImportedTrace& trace, TracedJob& job) {
  if (!trace.timers) return;
  const PrintedMachine& machine = trace.timers->machine;
  const auto bytes = [](double of) { return static_cast<std::int64_t>(of); };
  if (machine.host_memory > 0 && !job.host_memory) {
    job.host_memory = StatedNumber{
        bytes(machine.host_memory),
        fmt::format("the log's CPU Virtual Memory, {} % used at most", machine.used_percent)};
  }
  if (machine.shared_memory > 0 && !job.shared_memory) {
    job.shared_memory = StatedNumber{bytes(machine.shared_memory), "/dev/shm in the log's report"};
  }
  if (machine.checkpoints_activations && !job.checkpoints) {
    job.checkpoints = StatedNumber{*machine.checkpoints_activations ? 1 : 0,
                                   machine.checkpointing_setting + " in the log"};
  }
}

/// The first that a log prints.
std::optional<StatedNumber> printed_in(const std::vector<const ImportedTrace*>& traces,
                                       std::initializer_list<std::string_view> names) {
  for (const ImportedTrace* trace : traces) {
    for (const std::string_view name : names) {
      if (const auto number = printed(*trace, name)) return StatedNumber{*number, kPrinted};
    }
  }
  return std::nullopt;
}

std::optional<StatedNumber> ranks_of(const std::vector<const ImportedTrace*>& traces) {
  using Find = std::int64_t (*)(const Timeline&);
  const std::pair<Find, const char*> kWays[] = {{world_size, "the profiler's world_size"},
                                                {largest_group, "the group of its collectives"},
                                                {stands_for, "GPUs that its tracks stand for"}};
  for (const auto& [find, from] : kWays) {
    std::int64_t most = 0;
    for (const ImportedTrace* trace : traces) most = std::max(most, find(trace->timeline));
    if (most > 0) return StatedNumber{most, from};
  }
  for (const ImportedTrace* trace : traces) {
    // Ranks that do not all have data of their own are another job than is simulated.
    const auto ranks = printed(*trace, "world_size");
    const auto copies = printed(*trace, "data_parallel_size");
    if (ranks && copies.value_or(*ranks) == *ranks) return StatedNumber{*ranks, kPrinted};
  }
  // One GPU may be one rank's view of many.
  std::int64_t most = 0;
  for (const ImportedTrace* trace : traces) {
    most = std::max(most, std::ssize(devices_with_work(trace->timeline)));
  }
  if (most > 1) return StatedNumber{most, "GPUs with work in one trace"};
  return std::nullopt;
}

}  // namespace

TracedJob traced_job(const std::vector<const ImportedTrace*>& traces) {
  TracedJob job;
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> batches;
  for (const ImportedTrace* trace : traces) {
    add_devices(trace->timeline, job.devices);
    add_memory(trace->timeline, job.device_memory);
    add_machine(*trace, job);
    std::vector<std::size_t> uses(trace->timeline.details.size());
    for (const TimelineSpan& span : trace->timeline.spans) {
      const std::int32_t detail = trace->timeline.extra_of(span).detail;
      if (detail >= 0) ++uses[static_cast<std::size_t>(detail)];
    }
    for (std::size_t d = 0; d < uses.size(); ++d) {
      const auto shape = operation_shape(trace->timeline.details[d]);
      const bool is_forward = shape && shape->kind == OperationKind::kAttention &&
                              shape->name.find("backward") == std::string::npos;
      // Queries: sequences, heads, tokens, head's size.
      constexpr std::size_t kDims = 4;
      if (!is_forward || shape->dims.empty() || shape->dims[0].size() != kDims) continue;
      batches[{shape->dims[0][0], shape->dims[0][2]}] += uses[d];
    }
  }
  job.ranks = ranks_of(traces);
  job.global_batch = printed_in(traces, {"train_batch_size", "global_batch_size"});
  const auto most =
      std::max_element(batches.begin(), batches.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == batches.end()) {
    job.micro_batch = printed_in(traces, {"train_micro_batch_size_per_gpu", "micro_batch_size"});
    job.sequence_length = printed_in(traces, {"seq_length"});
    return job;
  }
  job.micro_batch = StatedNumber{most->first.first, "shapes of its attention"};
  job.sequence_length = StatedNumber{most->first.second, "shapes of its attention"};
  job.lengths_differ = batches.size() > 1;
  return job;
}

std::vector<std::string> differences(const TracedJob& traced, const HardwareProfile& profile) {
  std::vector<std::string> found;
  for (const std::string& device : traced.devices) {
    if (is_of_device(profile, device)) continue;
    found.push_back(
        fmt::format("recorded on \"{}\", where the profile's GPU is {}", device, profile.gpu.name));
  }
  return found;
}

std::vector<std::string> differences(const TracedJob& traced, const Job& job) {
  struct Number {
    const std::optional<StatedNumber>& recorded;
    std::int64_t of_job;
    const char* what;
  };
  const Scenario& scenario = job.scenario;
  const TrainingSettings& training = scenario.training;
  const std::int64_t batch = training.micro_batch_size_per_gpu * scenario.ranks() *
                             job.deepspeed.gradient_accumulation_steps;
  std::vector<Number> numbers = {
      {traced.ranks, scenario.ranks(), "GPUs"},
      {traced.micro_batch, training.micro_batch_size_per_gpu, "sequences of a micro-batch"}};
  if (scenario.deepspeed.is_map()) {
    numbers.push_back({traced.global_batch, batch, "sequences of a batch"});
  }
  if (!traced.lengths_differ) {
    numbers.push_back({traced.sequence_length, training.sequence_length, "tokens of a sequence"});
  }
  std::vector<std::string> found;
  for (const Number& one : numbers) {
    if (!one.recorded || one.recorded->value == one.of_job) continue;
    found.push_back(fmt::format("{}: {} in the recording ({}), {} in the job", one.what,
                                one.recorded->value, one.recorded->from, one.of_job));
  }
  return found;
}

}  // namespace zenflow::sim
