/// Adds tasks in issue order and remembers what they are: the tool schedules are written with.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/cost/transfer_cost.h"
#include "sim/schedule/program.h"
#include "sim/schedule/rank_passes.h"
#include "sim/schedule/stage3_gathers.h"
#include "sim/schedule/step_plan.h"

namespace zenflow::sim {

/// Tasks to wait for. kNoTask entries are allowed and mean nothing.
using After = std::vector<TaskId>;

/// One task for each rank class.
using PerClass = std::vector<TaskId>;

/// How the parameters of partitioned layers come to the GPU (ZeRO stage 3).
struct ParameterGather {
  bool enabled = false;
  bool from_host = false;  ///< each rank's shard is copied H2D before the all-gather
  bool from_nvme = false;  ///< and read from NVMe before that
  /// What DeepSpeed leaves out of gathers; nullptr: every layer is gathered whole, twice. Outlives
  /// the builder's use of it.
  const Stage3Gathers* deepspeed = nullptr;
};

/// What happens to a bucket's gradients on the GPUs once backward has produced them.
enum class GradientReduction : std::uint8_t {
  kAllReduce,      ///< ZeRO stage 0: every rank keeps all gradients
  kReduceKeepAll,  ///< stage 1: each rank needs its share, but buffers stay whole until the update
  kReduceScatter,  ///< stages 2 and 3: each rank keeps its share
  kAllReduceBuckets,      ///< DeepSpeed, stages 1 and 2: copied to a bucket, freed after backward
  kReduceScatterBuckets,  ///< DeepSpeed, stage 3: likewise
  kToOwners,  ///< zenflow-train: each tensor's to the rank that owns it, added up on one core
};

/// Bucket buffers that backward fills in turn. The papers only say that gradients leave as they
/// come and need little memory; four ride out layers and buckets of unequal size, and bound what
/// accumulates on the GPU when the host link is slower than backward.
inline constexpr std::size_t kBucketBuffers = 4;

/// Called once a bucket's gradients are reduced (`reduced[c]`: the task after which class c has
/// them). Emits what becomes of them and returns, for each class, the task after which the
/// bucket's GPU buffer is free again; kNoTask: the schedule does not bound the buffers.
using BucketSink = std::function<PerClass(std::size_t bucket, const PerClass& reduced)>;

class ProgramBuilder {
 public:
  ProgramBuilder(const Job& job, StepPlan plan, Cluster cluster,
                 GradientReduction reduction = GradientReduction::kReduceScatter);

  [[nodiscard]] const StepPlan& plan() const { return plan_; }
  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  [[nodiscard]] std::size_t classes() const { return cluster_.classes.size(); }
  [[nodiscard]] std::int32_t step() const { return at_.step; }
  [[nodiscard]] double element_bytes() const { return element_bytes_; }
  [[nodiscard]] double ranks() const { return ranks_; }
  [[nodiscard]] const Communicator& group() const { return group_; }

  /// Makes room for the windows to come, and refuses what run.max_tasks is far too small for
  /// (Error(kInput)). Optional: only saves time.
  void reserve(std::span<const WindowShape> shapes);
  void begin_window(const WindowShape& shape);
  /// Forward and backward of one step. Throws Error(kInput) beyond run.max_tasks. The first forward
  /// task waits for `before[c]`; the layer that begins bucket b waits until the buffer of bucket b
  /// - kBucketBuffers is free.
  void forward_backward(const std::vector<After>& before, const ParameterGather& gather,
                        const BucketSink& sink);
  /// Whether backward's gradients are reduced over the ranks from the next step on; else they are
  /// summed where they are.
  void reduce_gradients(bool reduce) { reduces_ = reduce; }
  /// Called before the tasks of each layer's forward are added; empty: nothing is.
  void before_forward(std::function<void(std::size_t layer)> hook) { before_forward_ = hook; }
  /// One more micro-batch of the same step, whose gradients add to those that are there.
  void forward_backward_again(const BucketSink& sink);

  TaskId add(LaneUse where, Picoseconds duration, TaskLabel label, std::span<const TaskId> after);
  TaskId add(LaneUse where, Picoseconds duration, TaskLabel label,
             std::initializer_list<TaskId> after) {
    return add(where, duration, label, std::span(after.begin(), after.size()));
  }
  [[nodiscard]] TaskLabel label(Operation operation, std::int64_t index, double bytes = 0) const {
    return {operation, at_.step, static_cast<std::int32_t>(index), bytes, false};
  }

  /// `pieces`: copies that the bytes go in one after the other, each with the link's latency.
  TaskId copy(std::size_t rank_class, Operation operation, std::int64_t bucket, double bytes,
              std::span<const TaskId> after, std::int32_t pieces = 1);
  TaskId copy(std::size_t rank_class, Operation operation, std::int64_t bucket, double bytes,
              std::initializer_list<TaskId> after, std::int32_t pieces = 1) {
    return copy(rank_class, operation, bucket, bytes, std::span(after.begin(), after.size()),
                pieces);
  }
  /// One more task that `task`, the one added last, waits for.
  void also_after(TaskId task, TaskId before) {
    if (before == kNoTask) return;
    dependencies_.push_back({before, task});
    if (varies()) passes_.follow(task, before);
  }
  /// A copy from or to ordinary memory: slower, and no competitor for the link.
  TaskId pageable_copy(std::size_t rank_class, Operation operation, std::int64_t bucket,
                       double bytes, std::span<const TaskId> after, std::int32_t pieces = 1);
  TaskId pageable_copy(std::size_t rank_class, Operation operation, std::int64_t bucket,
                       double bytes, std::initializer_list<TaskId> after, std::int32_t pieces = 1) {
    return pageable_copy(rank_class, operation, bucket, bytes,
                         std::span(after.begin(), after.size()), pieces);
  }
  /// The next compute task of this class also waits for `task`.
  void hold_compute(std::size_t rank_class, TaskId task) {
    if (task != kNoTask) classes_[rank_class].next_compute.push_back(task);
  }
  /// What that will be, so far.
  [[nodiscard]] const After& held_compute(std::size_t rank_class) const {
    return classes_[rank_class].next_compute;
  }
  /// The layer's next forward also waits for `task`.
  void hold_forward(std::size_t layer, std::size_t rank_class, TaskId task) {
    if (task != kNoTask) classes_[rank_class].next_forward[layer].push_back(task);
  }
  /// By how much the slowest of all ranks is later than the others, on average, after a layer's
  /// pass: ranks.jitter. For schedules of zenflow-train, whose ranks meet after every pass.
  [[nodiscard]] Seconds wait_for_slowest(Seconds pass) const;
  /// On all ranks at once, once the slowest is there; `bytes` is the whole buffer. Returns kNoTask
  /// for one rank.
  TaskId collective(Operation operation, Seconds time, std::int64_t index, double bytes,
                    std::span<const TaskId> after);
  [[nodiscard]] TaskId last_compute(std::size_t rank_class) const {
    return last_compute_[rank_class];
  }
  /// After this task all gradients of the step are reduced: reductions are in order.
  [[nodiscard]] TaskId last_reduced(std::size_t rank_class) const {
    return last_reduced_[rank_class];
  }
  TaskId compute(std::size_t rank_class, Operation operation, std::int64_t index, Seconds time,
                 std::initializer_list<TaskId> after);

  /// Declares a buffer of the first class's GPU, of the node's host memory or of its NVMe.
  BufferId buffer(MemoryBuffer declared);
  /// A symbol of its own that a schedule's formulas use.
  void symbol(MemorySymbol added) { symbols_.push_back(std::move(added)); }
  /// A buffer changes in size when `task` starts or ends. For the GPU `task` is of the first class.
  /// Changes at the starts of a lane's tasks, and at their ends, are stated in the tasks' order.
  void memory(TaskId task, bool at_end, BufferId buffer, double bytes);
  /// Gradients on the GPU, from their layer's backward until they have left.
  [[nodiscard]] BufferId gradients() const { return held_.gradients; }
  /// The next step's backward begins with `bytes` more in the buffer. (Changes are kept in the
  /// order of each lane's tasks, so this cannot be said afterwards.)
  void grow_at_backward(BufferId buffer, double bytes) { at_backward_.push_back({buffer, bytes}); }
  /// Likewise when the head's backward, in which the logits are, has ended.
  void grow_after_head(BufferId buffer, double bytes) { after_head_.push_back({buffer, bytes}); }

  [[nodiscard]] Program finish();

 private:
  [[nodiscard]] std::size_t most_tasks() const;
  [[noreturn]] void refuse_size(const std::string& tasks, std::size_t steps) const;

  struct Layer {
    Picoseconds gather_time;
    std::vector<std::size_t> completes{};  ///< buckets
    std::vector<std::size_t> waits_for{};  ///< buckets whose buffer must be free
  };
  struct Bucket {
    Picoseconds reduce_time;
    PerClass buffer_free;  ///< when its latest use of a buffer ends
  };
  /// What a class's tasks wait for besides.
  struct ClassHolds {
    TaskId compute_before_last = kNoTask;
    After next_compute{};
    std::vector<After> next_forward{};  ///< by layer
  };
  /// What changes in size within a step.
  struct StepBuffers {
    BufferId activations = 0;
    BufferId recomputed = 0;
    BufferId logits = 0;
    BufferId logit_gradients = 0;
    BufferId gradients = 0;
    BufferId gathered = 0;
  };
  /// The step at hand, and whether its first task, and its window's, is still to come.
  struct Position {
    std::int32_t step = -1;
    bool window_opens = false;
    bool step_opens = false;
  };

  void declare_buffers();
  /// Whether ranks drift apart between collectives.
  [[nodiscard]] bool varies() const {
    return late_ > 0 && reduction_ != GradientReduction::kToOwners;
  }
  /// On the collectives' lane, after `after` and after the slowest rank's.
  TaskId on_all_ranks(Picoseconds time, TaskLabel label, std::span<const TaskId> after);
  /// The task that ends when the slowest rank is through `after`; kNoTask if ranks do not drift, or
  /// have met since their last pass.
  TaskId slowest(std::span<const TaskId> after);
  void passes(const std::vector<After>& before, const ParameterGather& gather,
              const BucketSink& sink);
  [[nodiscard]] Seconds link_time(Operation operation, bool pinned, double bytes,
                                  std::int32_t pieces) const;
  [[nodiscard]] Seconds reduce_time(const GradientBucket& bucket) const;
  [[nodiscard]] bool all_reduces() const {
    return reduction_ == GradientReduction::kAllReduce ||
           reduction_ == GradientReduction::kAllReduceBuckets;
  }
  void forward_layer(std::size_t layer, const std::vector<After>& before,
                     const ParameterGather& gather);
  void backward_layer(std::size_t layer, TaskId gathered, double held);
  void release_holds(std::size_t rank_class, TaskId compute);
  void wait_for_buffers(std::size_t layer, std::size_t rank_class, TaskId backward);
  TaskId gather_layer(std::size_t layer, std::optional<std::size_t> previous,
                      const ParameterGather& gather, const std::vector<After>* before);
  TaskId gather_again(std::size_t layer, const ParameterGather& gather);
  [[nodiscard]] double gathered_bytes(std::size_t layer, const ParameterGather& gather) const;
  TaskId fetch_shard(std::size_t rank_class, std::size_t layer, const ParameterGather& gather,
                     double bytes, const After& ready);
  void reduce_ready_buckets(std::size_t layer, const BucketSink& sink);

  const Job& job_;
  StepPlan plan_;
  Cluster cluster_;
  GradientReduction reduction_;
  bool reduces_ = true;
  std::function<void(std::size_t)> before_forward_;
  double element_bytes_;
  double ranks_;
  Communicator group_;
  double late_;  ///< standard deviations by which the slowest is
  RankPasses passes_;
  std::vector<LaneId> slowest_lanes_;
  std::vector<Layer> layers_;
  std::vector<Bucket> buckets_;
  std::vector<Task> tasks_;
  std::vector<TaskLabel> labels_;
  std::vector<Dependency> dependencies_;
  std::vector<WindowShape> shapes_;
  std::vector<Window> windows_;
  std::vector<TaskId> step_markers_;
  std::vector<MemorySymbol> symbols_;
  std::vector<MemoryBuffer> buffers_;
  std::vector<MemoryChange> memory_;
  StepBuffers held_;
  std::vector<std::pair<BufferId, double>> at_backward_;
  std::vector<std::pair<BufferId, double>> after_head_;
  PerClass last_compute_;
  PerClass last_reduced_;
  std::vector<ClassHolds> classes_;
  Position at_;
};

}  // namespace zenflow::sim
