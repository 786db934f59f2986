#include "sim/tune/gain.h"

#include <algorithm>
#include <limits>

namespace zenflow::sim {
namespace {

double cost(const TuneAnswer& answer, const Simulated& one) {
  return answer.candidates.cost(one.setting, one.evaluation.step_time);
}

}  // namespace

double times_better(const TuneAnswer& answer, const Simulated& one, const Simulated& other) {
  return cost(answer, other) / cost(answer, one);
}

Simulated simulated_own(const TuneAnswer& answer) {
  return {0, setting_of(answer.loaded.request.job), *answer.result.own};
}

StepBreakdown step_breakdown(const Evaluation& one) {
  const double steps = one.step_time / one.micro_step;
  StepBreakdown parts{one.compute * steps, one.stall};
  for (double& stall : parts.stall) stall *= steps;
  return parts;
}

LongestWait longest_wait(const Evaluation& one) {
  const auto longest = std::max_element(one.stall.begin(), one.stall.end());
  LongestWait wait{static_cast<WaitCause>(longest - one.stall.begin()), *longest, 0};
  for (const double stall : one.stall) wait.all += stall;
  return wait;
}

std::vector<MemoryUse> memory_uses(const TuneAnswer& answer) {
  const TuneRequest& request = answer.loaded.request;
  const HardwareProfile& hardware = request.job.scenario.hardware;
  const Evaluation& one = answer.chosen().evaluation;
  std::vector<MemoryUse> uses;
  const auto add = [&](std::string_view what, double need, double machine,
                       std::optional<double> own = std::nullopt) {
    constexpr double kNone = std::numeric_limits<double>::infinity();
    uses.push_back({what, need, std::min(machine, own.value_or(kNone))});
  };
  const auto need = [&](MemoryLimit limit) { return one.needs[static_cast<std::size_t>(limit)]; };
  const HostProfile& host = hardware.host;
  add("GPU memory", one.gpu_bytes, hardware.gpu.memory.value(), request.limits.gpu_memory);
  add("RAM of the node", need(MemoryLimit::kHost), host.memory.value(), request.limits.host_memory);
  add("/dev/shm", need(MemoryLimit::kShared), host.shared_memory.value(), request.limits.shm);
  if (host.locked_memory_limit) {
    add("locked by a process", need(MemoryLimit::kLocked), host.locked_memory_limit->value());
  }
  if (hardware.nvme && need(MemoryLimit::kNvme) > 0) {
    add("NVMe", need(MemoryLimit::kNvme), hardware.nvme->capacity.value());
  }
  return uses;
}

std::optional<double> deferred_share(const TuneAnswer& answer) {
  const TuneRequest& request = answer.loaded.request;
  const Setting& setting = answer.chosen().setting;
  if (!request.limits.deferred_share || !setting.zenflow()) return std::nullopt;
  return 1 - request.importance->selected(setting.topk_ratio());
}

Ceilings ceilings(const TuneAnswer& answer, const Simulated& best) {
  const double most = (1 + answer.loaded.request.slack) * cost(answer, best);
  const double chosen = cost(answer, answer.chosen());
  const auto is_one = [&](const Simulated& one) {
    const double its = cost(answer, one);
    return one.evaluation.infeasible.empty() && its < most && its >= chosen;
  };
  const auto& own = answer.result.own;
  const auto& published = answer.result.published;
  const bool is_own = own && published && own->step_time == published->evaluation.step_time;
  return {own && is_one(simulated_own(answer)), published && !is_own && is_one(*published)};
}

}  // namespace zenflow::sim
