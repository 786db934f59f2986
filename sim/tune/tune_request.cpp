#include "sim/tune/tune_request.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/config/reader.h"

namespace zenflow::sim {
namespace {

std::string exceeded_by_machine(const HardwareProfile& hardware, const Needs& needs) {
  const auto need = [&](MemoryLimit limit) { return needs.host[static_cast<std::size_t>(limit)]; };
  if (needs.gpu_bytes > hardware.gpu.memory.value()) return "memory: GPU";
  if (need(MemoryLimit::kHost) > hardware.host.memory.value()) return "memory: RAM of the node";
  if (need(MemoryLimit::kShared) > hardware.host.shared_memory.value()) return "memory: /dev/shm";
  if (hardware.host.locked_memory_limit &&
      need(MemoryLimit::kLocked) > hardware.host.locked_memory_limit->value()) {
    return "memory: locked by a process";
  }
  if (hardware.nvme && need(MemoryLimit::kNvme) > hardware.nvme->capacity.value()) {
    return "memory: NVMe";
  }
  return "";
}

}  // namespace

std::string_view to_string(Objective objective) {
  switch (objective) {
    case Objective::kStepTime:
      return "step_time";
    case Objective::kTokensPerSecond:
      return "tokens_per_second";
    case Objective::kCostPerToken:
      return "cost_per_token";
  }
  return "";
}

std::string_view to_string(OffloadWhen when) {
  return when == OffloadWhen::kNeeded ? "needed" : "faster";
}

OffloadWhen parse_offload_when(std::string_view text) {
  for (const OffloadWhen one : {OffloadWhen::kNeeded, OffloadWhen::kFaster}) {
    if (to_string(one) == text) return one;
  }
  const std::vector<std::string> known = {"needed", "faster"};
  throw Error(ErrorKind::kInput,
              fmt::format("--offload-when: expected needed or faster, found \"{}\"{}", text,
                          suggestion(text, known)));
}

double ImportanceCurve::selected(double topk_ratio) const {
  std::pair<double, double> before = {0, 0};
  for (const std::pair<double, double>& point : points) {
    if (topk_ratio <= point.first) {
      const double along = (topk_ratio - before.first) / (point.first - before.first);
      return before.second + along * (point.second - before.second);
    }
    before = point;
  }
  if (before.first >= 1) return before.second;
  return before.second + (topk_ratio - before.first) / (1 - before.first) * (1 - before.second);
}

std::int64_t accumulation_of(const TuneRequest& request, const Setting& setting) {
  const std::int64_t step =
      setting.whole(Knob::kMicroBatch) * setting.whole(Knob::kGpus) * request.job.scenario.nodes;
  return request.global_batch % step == 0 ? request.global_batch / step : 0;
}

std::string exceeded_limit(const TuneRequest& request, const Setting& setting, const Needs& needs) {
  std::string machine = exceeded_by_machine(request.job.scenario.hardware, needs);
  if (!machine.empty()) return machine;
  const Limits& limits = request.limits;
  const auto need = [&](MemoryLimit limit) { return needs.host[static_cast<std::size_t>(limit)]; };
  if (limits.gpu_memory && needs.gpu_bytes > *limits.gpu_memory) return "limit: --max-gpu-memory";
  if (limits.host_memory && need(MemoryLimit::kHost) > *limits.host_memory) {
    return "limit: --max-host-memory";
  }
  if (limits.shm && need(MemoryLimit::kShared) > *limits.shm) return "limit: --max-shm";
  if (needs.staleness > limits.staleness) return "limit: --max-staleness";
  if (limits.deferred_share && setting.zenflow() && request.importance &&
      1 - request.importance->selected(setting.topk_ratio()) > *limits.deferred_share) {
    return "limit: --max-deferred-share";
  }
  return "";
}

double cost_of(const TuneRequest& request, const Setting& setting, double step_time) {
  if (request.objective != Objective::kCostPerToken) return step_time;
  constexpr double kPicosecondsPerHour = 3600e12;
  const auto gpus = static_cast<double>(setting.whole(Knob::kGpus) * request.job.scenario.nodes);
  const double tokens = static_cast<double>(request.global_batch) *
                        static_cast<double>(request.job.scenario.training.sequence_length);
  return request.price_per_gpu_hour * gpus * step_time / kPicosecondsPerHour / tokens;
}

}  // namespace zenflow::sim
