#include <algorithm>

#include <fmt/format.h>

#include "runtime/doctor/check.h"

namespace zenflow::runtime {
namespace {

Check unsaid(const char* id) {
  return {id, CheckStatus::kUnknown, "the system does not say", "", ""};
}

Check check_vectors(const MachineFacts& facts) {
  if (facts.vector_sets.empty()) return unsaid("cpu-vector");
  Check check{"cpu-vector", CheckStatus::kOk, facts.vector_sets.back(), "", ""};
  if (!facts.cpu_name.empty()) check.found += " on " + facts.cpu_name;
  if (facts.vector_sets.back() == "avx512") return check;
  check.status = CheckStatus::kWarn;
  check.expected = "avx512 (F, BW, DQ and VL)";
  check.advice = facts.vector_sets.back() == "scalar"
                     ? "the CPU optimizer has no vector version for this processor and will be slow"
                     : "nothing to install: the CPU optimizer runs its AVX2 version; a virtual "
                       "machine may hide AVX-512 from its guest";
  return check;
}

/// Whether this process may use every CPU that is online.
Check check_affinity(const MachineFacts& facts) {
  if (facts.allowed_cpus.empty() || facts.online_cpus.empty()) return unsaid("cpu-affinity");
  const std::size_t allowed = facts.allowed_cpus.size();
  const std::size_t online = facts.online_cpus.size();
  Check check{"cpu-affinity", CheckStatus::kOk, fmt::format("{} of {} CPUs", allowed, online), "",
              ""};
  if (allowed >= online) return check;
  check.status = CheckStatus::kWarn;
  check.expected = "all, unless several ranks share the machine";
  check.advice =
      "the process is bound (taskset, numactl, a job's or container's cpuset): give "
      "each rank of a node an equal share of cores, --optimizer-threads to match";
  return check;
}

Check check_quota(const MachineFacts& facts) {
  Check check{"cpu-quota", CheckStatus::kOk, "none", "", ""};
  if (!facts.cpu_quota) return check;
  check.found = fmt::format("{:g} CPUs' time", *facts.cpu_quota);
  const auto allowed = static_cast<double>(facts.allowed_cpus.size());
  if (allowed > 0 && *facts.cpu_quota >= allowed) return check;
  check.status = CheckStatus::kWarn;
  check.expected = fmt::format("no quota, or {:g} CPUs", allowed);
  check.advice =
      "the group's threads are all stopped when the quota is used up: raise the "
      "container's --cpus, or run no more threads than it allows";
  return check;
}

Check check_sharing(const MachineFacts& facts) {
  if (!facts.load) return unsaid("cpu-load");
  // The work of others, as the last minute had it. A twentieth of the CPUs is what services take.
  constexpr double kShare = 0.05;
  constexpr double kLeast = 0.5;
  const double limit = std::max(kLeast, kShare * static_cast<double>(facts.online_cpus.size()));
  Check check{"cpu-load", CheckStatus::kOk,
              fmt::format("{:g} threads ran in the last minute", *facts.load), "", ""};
  if (*facts.load < limit) return check;
  check.status = CheckStatus::kWarn;
  check.expected = fmt::format("below {:g}", limit);
  check.advice =
      "others use these cores: measure when they are idle, and leave their cores out of "
      "--optimizer-cores";
  return check;
}

Check check_steal(const MachineFacts& facts) {
  if (!facts.steal) return unsaid("cpu-steal");
  constexpr double kLimit = 0.01;
  Check check{"cpu-steal", CheckStatus::kOk,
              fmt::format("{:.2g} % of the time since start", 100 * *facts.steal), "", ""};
  if (*facts.steal < kLimit) return check;
  check.status = CheckStatus::kWarn;
  check.expected = "below 1 %";
  check.advice = "the hypervisor gives these cores to other machines: ask for dedicated ones";
  return check;
}

/// Whether this process's CPUs lie on one NUMA node.
Check check_nodes(const MachineFacts& facts) {
  if (facts.numa_cpus.empty()) return unsaid("numa");
  std::size_t used = 0;
  for (const auto& [node, cpus] : facts.numa_cpus) {
    used += std::any_of(cpus.begin(), cpus.end(), [&](int cpu) {
      return std::find(facts.allowed_cpus.begin(), facts.allowed_cpus.end(), cpu) !=
             facts.allowed_cpus.end();
    });
  }
  Check check{"numa", CheckStatus::kOk,
              fmt::format("CPUs on {} of {} nodes", used, facts.numa_cpus.size()), "", ""};
  if (used <= 1) return check;
  check.status = CheckStatus::kWarn;
  check.expected = "each rank's threads and memory on one node";
  check.advice =
      "start each rank with numactl --cpunodebind=N --membind=N, or DeepSpeed's "
      "--bind_cores_to_rank";
  return check;
}

}  // namespace

std::vector<Check> check_processors(const MachineFacts& facts) {
  return {check_vectors(facts), check_affinity(facts), check_quota(facts),
          check_sharing(facts), check_steal(facts),    check_nodes(facts)};
}

}  // namespace zenflow::runtime
