/// What DeepSpeed's ZeRO optimizers with CPU offload do in a step. What follows is as releases with
/// ZenFlow do it; what those before do differently is in docs/model.md, Releases and launchers.
///
/// One reduction stream per rank: buckets are all-reduced (stage 3: reduce-scattered), then
/// each rank copies its part. With gradient accumulation, or ZenFlow's update_interval in its
/// place, the running bf16 sum comes up, is added to on the GPU and goes down again in every
/// micro step; at a boundary the sum also goes down as fp32. Symbols: p parameters of the
/// rank's partition, G micro steps of a window.
///
///   stage 1, 2   D2H (2 + 4/G) p, G = 1: 4 p;  H2D 2 p, weights included
///   stage 3      D2H (2 + 4/G) p;              H2D (2 + 2/G) p
///   offload_param D2H (2 + 4/G) p;             H2D 2 p + 2 (gathered in a step) / N
///
/// offload_param (stage 3): weights are in page-locked memory or on NVMe; a rank's part of a layer
/// comes up before the layer is gathered, forward and backward (stage3_gathers.h), and the update
/// casts into host memory instead of copying up. Without it stage 3 casts into a temporary, which
/// goes up from ordinary memory.
///
/// grad_accum_dtype fp32: stages 1 and 2 sum on the GPU, so that gradients go down once, D2H 4/G p
/// and H2D 2/G p; stage 3's sum has 4 bytes, D2H (4 + 4/G) p, H2D (4 + 2/G) p. 16-bit master
/// weights take 16-bit gradients at the boundary, 2 in place of 4.
///
/// overlap_comm: bucket i's reduction and copies overlap backward until bucket i + 1 is ready;
/// without it they run on the compute stream. A bucket's copies are taken to be spread evenly
/// over the ranks. Without round_robin_gradients DeepSpeed gives whole buckets to one rank, and
/// the others would wait for it at the next reduction; the published log of two GPUs (0.70 to
/// 0.74 s a micro step of Llama-2-7B) leaves no room for that.
/// Source: deepspeed/runtime/zero/stage_1_and_2.py (copy_grads_in_partition,
/// async_accumulate_grad_in_cpu_via_gpu), stage3.py (partition_grads).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/schedule/deepspeed_memory.h"
#include "sim/schedule/offload.h"
#include "sim/schedule/schedule.h"

namespace zenflow::sim {

/// Which micro step of a window this is.
struct StepPlace {
  bool first = true;     ///< nothing has been summed yet
  bool boundary = true;  ///< the window's last: gradients go down as fp32
};

/// Whose gradients move.
struct StepKind {
  bool zenflow = false;
  double offloaded = 1;  ///< the share of the partition whose gradients go to the CPU
  bool swapped = false;  ///< fp32 gradients go on to NVMe
};

class DeepSpeedStep {
 public:
  DeepSpeedStep(const Job& job, ProgramBuilder& builder, StepKind kind = {});

  /// Forward, backward, reduction and gradient copies. Afterwards the builder's next compute
  /// task waits until the reduction stream is empty, as DeepSpeed's epilogue does.
  /// `pageable_fp32`: the fp32 gradients land in ordinary memory.
  void forward_backward(StepPlace which, const std::vector<After>& before, bool pageable_fp32);

  /// The task after which the last `elements` of the partition's gradients, in model order, have
  /// come down: gradients arrive from the model's end.
  [[nodiscard]] TaskId gradients_down(std::size_t rank_class, double elements) const;
  /// The last write of gradients to NVMe, if they go there.
  [[nodiscard]] TaskId gradients_written(std::size_t rank_class) const {
    return swap_[rank_class].written;
  }
  /// The last task of each rank's reduction stream.
  [[nodiscard]] const PerClass& gradients_ready() const { return stream_; }
  /// The partition's weights, in the training type, to where forward takes them from: the GPU, from
  /// page-locked memory (stage 3: ordinary memory); with offload_param they are there but for those
  /// on NVMe.
  TaskId weights_up(std::size_t rank_class, TaskId after);
  /// From ordinary memory, as ZenFlow's snapshot: in the training type, or where the GPU casts it
  /// in fp32, which stays there until then.
  TaskId snapshot_up(std::size_t rank_class, const After& after);
  /// One sub-group's part of it.
  TaskId weights_up(std::size_t rank_class, double elements, TaskId after);
  /// All ranks gather the updated weights (stages 1 and 2; kNoTask in stage 3 and for one rank).
  TaskId gather_weights(const After& after);

  [[nodiscard]] double partition() const { return partition_; }
  [[nodiscard]] const Stage3Gathers& gathers() const { return gathers_; }

 private:
  /// Elements of the bucket that one rank owns.
  [[nodiscard]] double owned(std::size_t bucket) const;
  TaskId accumulate(std::size_t c, std::size_t bucket, StepPlace which, TaskId after);
  TaskId copy(std::size_t c, Operation operation, std::size_t bucket, double bytes, TaskId after,
              bool pageable, std::int32_t pieces = 1);
  /// The training thread takes gradients one by one for `time`, and enqueues nothing else
  /// meanwhile.
  TaskId enqueue(std::size_t c, std::size_t bucket, Seconds time, TaskId after);
  /// What the GPU does with a bucket's gradients before they go down at an update. In stages 1 and
  /// 2 the host waits for it; stage 3's stream has it beside backward, from which it takes memory
  /// bandwidth.
  TaskId check(std::size_t c, std::size_t bucket, TaskId after);
  /// Tensors of the bucket of which one rank has a part: each is copied by itself.
  [[nodiscard]] std::int32_t gradient_copies(std::size_t bucket) const;
  void bucket_ready(std::size_t bucket, const PerClass& reduced, StepPlace which,
                    bool pageable_fp32);
  TaskId fp32_down(std::size_t c, std::size_t bucket, TaskId after, bool pageable);
  TaskId gradients_by_way_of_host(std::size_t c, std::size_t bucket, TaskId after);
  /// What the upload `up` brings stands on the GPU until it is cast.
  void hold_for_cast(std::size_t rank_class, TaskId up, double bytes);

  const Job& job_;
  ProgramBuilder& builder_;
  bool overlap_;
  bool stage3_;
  bool zenflow_;
  bool sums_single_steps_;
  bool holds_backward_;  ///< backward waits for the reductions enqueued before
  bool stops_for_fp32_;  ///< the fp32 copy blocks the host, and with it backward
  bool swapped_;
  /// Buffers between a rank's fp32 gradients and NVMe, in elements.
  struct Swap {
    double room = 0;
    TaskId written = kNoTask;
  };
  double swap_room_ = 0;  ///< of all buffers
  double partition_;
  double offloaded_;
  double gradient_bytes_;  ///< of an element, as the optimizer reads it
  Stage3Gathers gathers_;
  std::vector<PerClass> down_;  ///< of each class and bucket: its last copy
  std::vector<Swap> swap_;      ///< of each class
  PerClass stream_;             ///< last task on each rank's reduction stream
  BucketMemory bucket_memory_;
  BackwardTemporaries temporaries_;
  std::optional<BufferId> snapshot_;  ///< on the GPU, once an fp32 upload has been issued
};

/// DeepSpeed's step without offloading on one rank: what its GPU works, or the host if that takes
/// longer.
[[nodiscard]] Seconds deepspeed_zero_update(const Job& job);

/// What the GPU does, at an update, with so many elements of gradients whose optimizer is offloaded
/// before they go down: their norm, for which they are copied to fp64, in stages 1 and 2 the check
/// for values that are not finite, and the cast to fp32 where the GPU casts. By the traffic of its
/// memory. Source: stage_1_and_2.py (set_norm_for_param_grad_in_gpu, _has_inf_or_nan), stage3.py
/// (_constant_buffered_norm2).
[[nodiscard]] Seconds gradient_check_time(const Job& job, double elements);

/// Host time of a gradient whose optimizer is offloaded: what moves its running sum, and at an
/// update its norm, the check for values that are not finite and its cast. In stages 1 and 2 that
/// check waits for the copy before. With `zenflow` also what selects columns of it there, of all
/// ranks' gradients on each: of `tensors` in its bucket a rank has one in `ranks`, or one where
/// there are more ranks. 0 if not counted.
[[nodiscard]] Seconds gradient_host_time(const Job& job, StepPlace which, bool zenflow,
                                         double tensors);

/// The node's lanes; with the training thread's, where its time is counted.
[[nodiscard]] Cluster deepspeed_cluster(const Job& job, const RankRates& rates);

/// Bytes a parameter of stage 3's gradients, as they come down for an update in RAM.
[[nodiscard]] double stage3_gradient_bytes(const Job& job);
/// How many micro steps of a window leave gradients or their sum in host memory, stages 1 and 2.
[[nodiscard]] double sums_down(const Job& job);

/// Bytes over one GPU's host link in a micro step of stage 3, of which `offloaded` parameters of a
/// rank are updated on the CPU.
[[nodiscard]] ClosedForm stage3_traffic(const Job& job, double offloaded);

/// Where the optimizer runs.
enum class OptimizerPlace {
  kTraining,  ///< in the training process, which waits
  kWorker,    ///< in ZenFlow's process, which copies what it updated to a snapshot
};

/// CPU work of DeepSpeed's optimizer step on one rank while all ranks of the node work.
struct DeepSpeedCpu {
  Seconds scale;   ///< norm, unscaling and clipping, and the framework's time of the step
  Seconds update;  ///< Adam; in ZenFlow's worker also the copy to the stale snapshot
  Seconds launch;  ///< of a call of Adam, besides
  Seconds cast;    ///< fp32 to the 16-bit weights that go up
  /// Of the fp32 master by 16-bit weights, once they are down: ZenFlow, before it selects columns.
  Seconds overwrite;
  RankRates rates;

  /// All of the rank's parameters in one call.
  [[nodiscard]] Seconds whole_update() const { return launch + update; }
};
/// `training_cores`, `update_cores`: of the node, at most. What OpenMP runs is on no more than
/// rank_threads; only ZenFlow's worker starts its threads itself.
[[nodiscard]] DeepSpeedCpu deepspeed_cpu(const Job& job, double training_cores, double update_cores,
                                         OptimizerPlace place);

/// Stage 3 updates its partition in sub-groups, one after the other: whole tensors' parts in model
/// order, until there are sub_group_size elements or more.
/// Source: deepspeed/runtime/zero/stage3.py (_create_fp16_sub_groups).
struct SubGroups {
  std::vector<double> elements;  ///< of each
  /// The first int((1 - ratio) n) stay on the GPU (Twin-Flow), before kLastGroupsOnCpu all but the
  /// first int(ratio n); none where the optimizer is on NVMe: sub-groups are swapped whatever ratio
  /// says.
  std::size_t on_gpu = 0;
  bool first_on_gpu = true;

  [[nodiscard]] bool is_on_gpu(std::size_t group) const;

  [[nodiscard]] double gpu_elements() const;
  [[nodiscard]] double cpu_elements() const;
  [[nodiscard]] double largest() const;
};
[[nodiscard]] SubGroups sub_groups(const Job& job);

/// Throws Error(kInput), located, if offload_param's device is nvme and the profile has none.
void check_parameter_nvme(const Job& job, std::string_view schedule);

/// What has no effect where the optimizer is in CPU memory: NVMe for it, and offload_param below
/// stage 3.
[[nodiscard]] std::vector<std::string> ignored_by_deepspeed(const Job& job,
                                                            std::string_view schedule);

/// Throws Error(kInput), located, unless the job is ZeRO stage 3, and as check_parameter_nvme.
void check_stage3(const Job& job, std::string_view schedule);

/// Whether ZenFlow's overlapped upload is fp32, cast on the GPU (stages 1 and 2 before
/// kBf16Upload).
[[nodiscard]] bool zenflow_uploads_fp32(const Job& job);

/// Micro steps between updates under ZenFlow: update_interval, which takes the place of
/// gradient_accumulation_steps, unless HF Trainer or accelerate set the boundaries themselves.
/// Precondition: update_interval is a number.
[[nodiscard]] std::int64_t zenflow_window(const Job& job);

/// Windows whose last micro steps are the update boundaries of DeepSpeed's ZenFlow:
/// (m + 1 < W) or (m + 1 - W) mod S = 0 or (I != 0 and (m + 1) mod I = 0), with W
/// full_warm_up_rounds and I select_interval; selections at m = W and multiples of I.
/// HF Trainer and accelerate: m + 1 a multiple of gradient_accumulation_steps, and nothing else.
[[nodiscard]] std::vector<WindowShape> deepspeed_zenflow_windows(const Job& job,
                                                                 std::int64_t steps);

}  // namespace zenflow::sim
