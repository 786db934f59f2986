/// The part of a DeepSpeed configuration that decides how a step runs.
///
/// Keys keep DeepSpeed's names to the letter. Defaults are those of DeepSpeed 0.19.
/// Source: deepspeed/runtime/{config,zero/config,zenflow/zenflow_config}.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/document.h"
#include "sim/deepspeed/optimizer.h"
#include "sim/model/model_spec.h"
#include "sim/offload/training_setup.h"

namespace zenflow::sim {

enum class OffloadDevice { kNone, kCpu, kNvme };
[[nodiscard]] std::string to_string(OffloadDevice device);

/// Where a scenario has it.
inline constexpr std::string_view kZenFlowBlock = "deepspeed.zero_optimization.zenflow";

/// zero_optimization.zenflow
struct ZenFlowSettings {
  double topk_ratio = 0.1;                      ///< share of columns updated on the GPU, in (0, 1)
  std::optional<std::int64_t> update_interval;  ///< steps; empty: "auto"
  std::optional<std::int64_t> select_interval;  ///< steps; 0 selects once; empty: "auto"
  std::string select_strategy = "auto";
  bool overlap_step = false;
  bool offload = false;
  double auto_ratio = 0.99;
  std::int64_t full_warm_up_rounds = 0;
  double pt_reserved_cores_perc = 0.5;  ///< share of cores kept from the optimizer's worker
};

/// The knobs of a training's setup that the block has, from one to the other. "auto" is a window of
/// one step, and one selection.
void copy_knobs(const ZenFlowSettings& from, OffloadSetup& to);
void copy_knobs(const OffloadSetup& from, ZenFlowSettings& to);

/// gradient_accumulation_steps, at most: a window of them is simulated step by step.
inline constexpr std::int64_t kMostAccumulation = 100'000;

struct DeepSpeedConfig {
  std::optional<std::int64_t> train_batch_size;
  std::optional<std::int64_t> train_micro_batch_size_per_gpu;
  std::int64_t gradient_accumulation_steps = 1;
  bool gradient_accumulation_steps_written = false;  ///< a number, in the file
  bool gradient_accumulation_steps_auto = false;     ///< "auto", in the file
  int zero_stage = 0;
  std::int64_t reduce_bucket_size = 500'000'000;  ///< elements
  std::int64_t sub_group_size = 1'000'000'000;    ///< elements; 0: each parameter alone
  std::optional<bool> overlap_comm;               ///< empty: true in stage 3 only
  bool round_robin_gradients = false;
  bool bf16 = false;
  bool fp16 = false;
  OffloadDevice offload_optimizer = OffloadDevice::kNone;
  OffloadDevice offload_param = OffloadDevice::kNone;
  bool param_pin_memory = true;  ///< of offload_param, as pin_memory
  bool param_pin_memory_written = false;
  std::int64_t param_buffer_count = 5;               ///< page-locked buffers of parameters on NVMe
  std::int64_t param_buffer_size = 100'000'000;      ///< elements of each
  std::int64_t max_in_cpu = 1'000'000'000;           ///< elements of a rank not put on NVMe
  std::int64_t prefetch_bucket_size = 50'000'000;    ///< stage3_..., elements
  std::int64_t max_live_parameters = 1'000'000'000;  ///< likewise
  std::int64_t max_reuse_distance = 1'000'000'000;   ///< likewise
  std::int64_t persistence_threshold = 100'000;      ///< stage3_param_..., elements of a tensor
  bool gathers_on_save = false;                      ///< stage3_gather_16bit_weights_on_model_save
  bool pin_memory = true;           ///< unless written, the default of the newest release known
  bool pin_memory_written = false;  ///< in the file
  double offload_ratio = 1.0;       ///< share of the optimizer on the CPU (Twin-Flow)
  bool pipeline_read = false;       ///< NVMe reads overlap the update
  bool pipeline_write = false;
  std::int64_t buffer_count = 4;  ///< page-locked NVMe buffers, each of one sub-group
  bool super_offload = false;
  double cpuadam_cores_perc = 0.8;
  double gradient_clipping = 1.0;  ///< likewise
  bool gradient_clipping_written = false;
  OptimizerSettings optimizer;
  /// data_types.grad_accum_dtype is fp32: micro steps add up in fp32.
  bool fp32_gradient_sums = false;
  /// torch_autocast is on: weights, gradients and moments are fp32, products are not.
  bool autocast = false;
  std::optional<ZenFlowSettings> zenflow;
  std::vector<std::string> warnings;      ///< located; what DeepSpeed will ignore
  std::vector<std::string> not_modelled;  ///< paths of keys whose effect is left out

  [[nodiscard]] bool overlaps_communication() const {
    return overlap_comm.value_or(zero_stage == 3);
  }
};

/// Reads a DeepSpeed document. Blocks that DeepSpeed itself checks strictly
/// (zero_optimization and below, bf16, fp16) are checked strictly; unknown blocks at
/// the top are kept out of the way with a warning, unless they look misspelt.
/// Throws Error(kInput), located.
[[nodiscard]] DeepSpeedConfig read_deepspeed_config(const Node& root);

/// How DeepSpeed's ZenFlow ends on a trained tensor of three dimensions or more. Source: 0.19.8 run
/// on a CPU with a tiny Mixtral of transformers 5.
[[nodiscard]] std::string stacked_tensor_failure(const Tensor& tensor, std::int64_t stage);

/// The full path of a short ZenFlow name ("topk_ratio" ->
/// "deepspeed.zero_optimization.zenflow.topk_ratio") or of a knob that DeepSpeed does not have (the
/// zenflow_train block), or `path` itself.
[[nodiscard]] std::string expand_short_name(const std::string& path);
/// The same, also of any key of DeepSpeed's file that stands in one block alone ("stage",
/// "overlap_comm") and of what people call such keys ("pin_memory", "micro_batch_size").
[[nodiscard]] std::string expand_usual_name(const std::string& path);
/// Whether `path`, as it was expanded, is a bare word that is no key of a scenario; then `nearest`
/// is what reader.h's suggestion says of it.
[[nodiscard]] bool is_unknown_word(const std::string& path, std::string& nearest);

}  // namespace zenflow::sim
