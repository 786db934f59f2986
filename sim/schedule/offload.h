/// The pieces that offloading schedules share: gradients down, CPU update, parameters up.
#pragma once

#include "sim/cost/cpu_cost.h"
#include "sim/schedule/program_builder.h"

namespace zenflow::sim {

/// CPU time per parameter of one rank while all ranks of the node work, and the rates at
/// which its lanes load the host's memory.
struct CpuCosts {
  CpuWork update;
  CpuWork accumulate;
  RankRates rates;
};

/// `update_cores` and `accumulate_cores` are of the whole node.
[[nodiscard]] CpuCosts cpu_costs(const Job& job, double update_cores, double accumulate_cores,
                                 bool cast_gradient);

/// Where buffers that copies read and write live.
[[nodiscard]] inline MemoryHome pinned_home(const Job& job) {
  return job.deepspeed.pin_memory ? MemoryHome::kPinned : MemoryHome::kPageable;
}

/// fp32 master weights and moments of the node's `parameters`, in ordinary memory: 12 bytes each.
void declare_optimizer_on_host(ProgramBuilder& builder, double parameters);
/// Weights that are frozen, if there are any: all on each GPU, or a rank's part of them in stage 3;
/// a node's part elsewhere.
void declare_frozen(const Job& job, MemoryHome home, ProgramBuilder& builder);

/// Emits the offload tasks of each gradient bucket. `share` is the part of each bucket that
/// goes to the CPU: 1, or 1 - k under ZenFlow.
class Offloader {
 public:
  Offloader(ProgramBuilder& builder, const CpuCosts& costs) : builder_(builder), costs_(costs) {}

  /// Forward and backward of a step whose reduced buckets are copied D2H as they come. A copy
  /// also waits for `staging_free[c][b]`, which last read its host buffer (empty: nothing did).
  /// Returns the copies.
  std::vector<PerClass> step(const std::vector<After>& before, const ParameterGather& gather,
                             const std::vector<PerClass>& staging_free, double share);
  /// Adds what came down to the host's fp32 sums.
  std::vector<PerClass> accumulate(const std::vector<PerClass>& down, double share);
  /// Updates bucket b of class c after `ready[c][b]` and all of `also[c]`.
  std::vector<PerClass> update(const std::vector<PerClass>& ready, const std::vector<After>& also,
                               double share);
  TaskId update_bucket(std::size_t rank_class, std::size_t bucket,
                       std::initializer_list<TaskId> after, double share);
  /// Copies bucket b of class c H2D after `updated[c][b]` and all of `also[c]`.
  std::vector<PerClass> parameters_up(const std::vector<PerClass>& updated,
                                      const std::vector<After>& also, double share);
  /// All ranks gather `share` of the parameters from each other, after `after`. One rank:
  /// kNoTask.
  TaskId gather_parameters(const std::vector<After>& after, double share, Operation operation);
  /// All ranks gather each bucket as soon as every rank's copy of it has come up, on a stream of
  /// its own. Returns the last task of each class to wait for; one rank: its last copy.
  std::vector<After> gather_buckets(const std::vector<PerClass>& up, double share);

  [[nodiscard]] double shard(std::size_t bucket, double share) const {
    return builder_.plan().buckets[bucket].elements * share / builder_.ranks();
  }

 private:
  TaskId gradients_down(std::size_t rank_class, std::size_t bucket, TaskId reduced,
                        TaskId staging_free, double share);
  void wait_for(TaskId task, const After& also);

  ProgramBuilder& builder_;
  const CpuCosts& costs_;
};

/// A rank's work takes as many times longer than the node's as ranks share the node; its calls
/// begin as they would alone.
[[nodiscard]] CpuWork for_one_rank(CpuWork work, double ranks_on_node);

/// The last task of every class, each as the sole entry of a list.
[[nodiscard]] std::vector<After> last_of_each(const std::vector<PerClass>& tasks);

}  // namespace zenflow::sim
