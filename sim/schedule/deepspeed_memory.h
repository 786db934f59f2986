/// The buffers of DeepSpeed's ZeRO optimizers with CPU offload, as release 0.19 allocates them.
/// Before 0.17.0 stages 1 and 2 have no buffer for the upload; before 0.14.1 a temporary in its
/// place.
///
/// Host, bytes a parameter of the partition, without what PyTorch's allocators add:
///
///   ZeRO-1, 2; ZenFlow without overlap_step   18: master 4, gradients 4, moments 8, 16-bit weights
///                                             for the upload 2; 20 with a running sum
///   ZeRO-3                                    18: master 4, gradients 4, moments 8, running sum 2
///   ZenFlow with overlap_step                 36, stage 3 34: master 4, snapshot 4 and two sets of
///                                             gradients 8 in /dev/shm, two sets of moments 16,
///                                             upload buffer 2 (not used), running sum 2
///
///   offload_param                             2 more, page-locked: the weights
///
/// Those bytes are AdamW's with fp32 master weights; others' are in sim/deepspeed/optimizer.h. With
/// bf16_master_weights_and_grads and bf16_optimizer_states stages 1 and 2 have 10: master 2,
/// gradients 2, in which they are summed, moments 4, the upload 2. With grad_accum_dtype fp32 the
/// sums of stages 1 and 2 are on the GPU, 4 bytes a parameter of the partition, and stage 3's have
/// 4 bytes.
///
/// PyTorch adds: page-locked blocks are rounded up to powers of two, and blocks that became free
/// stay with its allocator, as the page-locked master and gradients do when overlap_step moves
/// them to /dev/shm, and tensors' parts when offload_param puts them together; a copy that casts
/// fp32 in host memory makes a 16-bit temporary there. Source:
/// deepspeed/runtime/zero/stage_1_and_2.py, stage3.py (_create_fp32_partitions,
/// initialize_optimizer_states), zenflow/zenflow_stage_1_and_2.py, zenflow_utils.py.
#pragma once

#include "sim/schedule/program_builder.h"

namespace zenflow::sim {

/// What a rank's process takes of the host besides: Python and its libraries, the host's side of
/// the CUDA context, NCCL's buffers.
/// Source: log of 52 B parameters on four GPUs (github mauryaavinash95/MLP-Offload): the node uses
/// 18.7 GiB before any buffer of offloading is pinned, some 2.5 GiB of it the system's own (an
/// assumption).
inline constexpr double kProcessBytes = 4.0 * 1024 * 1024 * 1024;

/// Python, CUDA and NCCL of the node's ranks. Adds the symbol H.
void declare_processes(const Job& job, ProgramBuilder& builder);

/// What is in host memory besides what every ZeRO optimizer keeps there.
struct DeepSpeedHostMemory {
  bool running_sum = false;  ///< stages 1 and 2; stage 3 always has one
  bool overlap = false;      ///< ZenFlow's overlap_step
  bool reselects = false;    ///< the master is overwritten from the GPU: a cast in host memory
  bool casts_upload = true;  ///< overlapped weights are cast in host memory, not on the GPU
  double elements = 0;       ///< of a rank that are updated on the CPU, symbol c
  bool nvme = false;         ///< optimizer state and gradients are swapped by sub-groups
};
/// Declares it for the node, and stage 3's offload_param. Adds the symbol c.
void declare_host_memory(const Job& job, const DeepSpeedHostMemory& kept, ProgramBuilder& builder);

/// Stage 3's offload_param alone, where the optimizer is on the GPU. Adds the symbols px and qp.
void declare_offloaded_parameters(const Job& job, ProgramBuilder& builder);

/// Moments of the columns that ZenFlow updates on the GPU: on every rank, in stage 3 sharded; with
/// zenflow.offload in host memory. `elements`: of one rank.
void declare_selected_state(const Job& job, double elements, ProgramBuilder& builder);

/// "16-bit weights", or what they are.
[[nodiscard]] std::string weights_name(const Job& job);

/// Weights on the GPU; in stage 3 buckets and the temporary they are joined in, too.
void declare_gpu_memory(const Job& job, ProgramBuilder& builder);

/// Stages 1 and 2: gradient buckets, and the temporary that one is flattened into to be reduced.
/// Buckets are there from the first gradient, which the head's backward produces, until backward
/// has ended (stage_1_and_2.py: setup_buckets, _release_ipg_buffers, allreduce_bucket).
class BucketMemory {
 public:
  BucketMemory(const Job& job, ProgramBuilder& builder);
  /// Before the next step's tasks are added.
  void begin();
  /// `task` reduces the bucket; for one rank it produces it.
  void reduced(std::size_t bucket, TaskId task);
  /// Until the end of `last`.
  void end(TaskId last);

 private:
  ProgramBuilder& builder_;
  double bucket_bytes_ = 0;  ///< 0 in stages 0 and 3
  /// That makes the buckets; before 0.18.3 backward had them from its start, of which releases with
  /// ZenFlow are simulated as 0.18.3.
  bool by_first_gradient_;
  TaskId last_ = kNoTask;  ///< that reduced a bucket: one rank's task may produce several
  double flattened_bytes_ = 0;
  BufferId buckets_ = 0;
  BufferId flattened_ = 0;
};
/// Bytes of the buckets, 0 in stages 0 and 3.
[[nodiscard]] double bucket_memory(const Job& job);

/// Temporaries of backward, of the largest gradient.
class BackwardTemporaries {
 public:
  /// `swapped`: a bucket's fp32 gradients wait together for their way to NVMe.
  BackwardTemporaries(const Job& job, ProgramBuilder& builder, bool swapped);
  /// The next step's. `boundary`: norms are taken.
  void begin(bool boundary) { boundary_ = boundary; }
  /// They begin: the first bucket is reduced at the end of `task`.
  void reduced(TaskId task);
  /// Until the end of `last`.
  void end(TaskId last);

 private:
  ProgramBuilder& builder_;
  double copy_bytes_ = 0;
  double norm_bytes_ = 0;
  bool boundary_ = false;
  BufferId copy_ = 0;
  BufferId norm_ = 0;
};

/// Temporaries of ZenFlow's update of selected columns on the GPU.
class SelectedTemporaries {
 public:
  /// `elements`: selected, of one rank.
  SelectedTemporaries(const Job& job, double elements, ProgramBuilder& builder);
  /// The next step's gradients and, at a boundary, saved weights, from its first backward task on.
  void begin(bool boundary);
  /// Until the end of `update`, during which AdamW has its own.
  void end(TaskId update);
  /// zenflow.offload: the moments are on the GPU from the start of `up` to the end of `down`.
  void hold_moments(TaskId up, TaskId down, double bytes);

 private:
  ProgramBuilder& builder_;
  double bytes_;
  bool boundary_ = false;
  double bucket_share_;  ///< between boundaries AdamW runs bucket by bucket
  BufferId gradients_;
  BufferId saved_;
  BufferId adamw_;
  BufferId moments_;
};

}  // namespace zenflow::sim
