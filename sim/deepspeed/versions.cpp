#include "sim/deepspeed/versions.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"

namespace zenflow::sim {
namespace {

constexpr std::array<Version, 54> kVersions = {
    {{0, 12, 6}, {0, 13, 0}, {0, 13, 1}, {0, 13, 2}, {0, 13, 3}, {0, 13, 4}, {0, 13, 5}, {0, 14, 0},
     {0, 14, 1}, {0, 14, 2}, {0, 14, 3}, {0, 14, 4}, {0, 14, 5}, {0, 15, 0}, {0, 15, 1}, {0, 15, 2},
     {0, 15, 3}, {0, 15, 4}, {0, 16, 0}, {0, 16, 1}, {0, 16, 2}, {0, 16, 3}, {0, 16, 4}, {0, 16, 5},
     {0, 16, 6}, {0, 16, 7}, {0, 16, 8}, {0, 16, 9}, {0, 17, 0}, {0, 17, 1}, {0, 17, 2}, {0, 17, 3},
     {0, 17, 4}, {0, 17, 5}, {0, 17, 6}, {0, 18, 0}, {0, 18, 1}, {0, 18, 2}, {0, 18, 3}, {0, 18, 4},
     {0, 18, 5}, {0, 18, 6}, {0, 18, 7}, {0, 18, 8}, {0, 18, 9}, {0, 19, 0}, {0, 19, 1}, {0, 19, 2},
     {0, 19, 3}, {0, 19, 4}, {0, 19, 5}, {0, 19, 6}, {0, 19, 7}, {0, 19, 8}}};

// Read in the source distributions of the releases on either side of each change.
constexpr std::array<VersionedChange, 40> kChanges = {{
    {Change::kStage1Overlaps,
     {0, 13, 0},
     "stage 1 obeys overlap_comm, contiguous_gradients and round_robin_gradients; before, it "
     "ignored them, had no buckets and reduced gradients once backward had ended",
     "deepspeed/runtime/engine.py _configure_zero_optimizer"},
    {Change::kElementwiseOverflowCheck,
     {0, 13, 3},
     "stages 1 and 2 with the optimizer offloaded look for values that are not finite in each "
     "element of an fp32 copy of a gradient; before, they looked at the sum of that copy",
     "deepspeed/runtime/zero/stage_1_and_2.py _has_inf_or_nan"},
    {Change::kFp32Upload,
     {0, 14, 1},
     "stages 1 and 2 send updated weights up as fp32 and cast them on the GPU, 4 bytes a parameter "
     "of the partition there; before, they were cast on the host into ordinary memory",
     "deepspeed/runtime/zero/stage_1_and_2.py step"},
    {Change::kCommunicationTypeBf16,
     {0, 14, 1},
     "communication_data_type bf16; before, it was spelt bfp16",
     "deepspeed/runtime/config.py get_communication_data_type"},
    {Change::kReductionHoldsBackward,
     {0, 14, 3},
     "with overlap_comm stages 1 and 2 have backward wait for the reductions that were enqueued "
     "before; earlier it did not, and a bucket could be overwritten too soon",
     "deepspeed/runtime/zero/stage_1_and_2.py average_tensor"},
    {Change::kPydantic2,
     {0, 15, 0},
     "the configuration is checked by pydantic 2; before, by pydantic 1, which cuts off fractions "
     "and takes numbers for texts",
     "deepspeed/runtime/config_utils.py"},
    {Change::kOnlyFirstSum,
     {0, 15, 2},
     "a window's first micro step alone leaves its gradients in host memory; before, each but the "
     "last left its sum",
     "deepspeed/runtime/zero/stage_1_and_2.py async_accumulate_grad_in_cpu_via_gpu"},
    {Change::kStage3PinnedBuffer,
     {0, 15, 4},
     "stage 3 casts gradients to fp32 on the GPU and copies each through one page-locked buffer; "
     "before, they came down in 16 bits into ordinary memory and were cast there",
     "deepspeed/runtime/zero/stage3.py partition_grads"},
    {Change::kStage3DirectGradients,
     {0, 16, 3},
     "stage 3 copies fp32 gradients to where the optimizer reads them",
     "deepspeed/runtime/zero/stage3.py partition_grads"},
    {Change::kBufferedUpload,
     {0, 17, 0},
     "stages 1 and 2 cast updated weights on the host into a page-locked buffer, from which they "
     "go up",
     "deepspeed/runtime/zero/stage_1_and_2.py step"},
    {Change::kStrictPrecision,
     {0, 17, 1},
     "fp16 and bf16 refuse keys that they do not know; before, they ignored them",
     "deepspeed/runtime/precision_config.py"},
    {Change::kZenFlow,
     {0, 17, 5},
     "zero_optimization.zenflow exists (stages 1 and 2)",
     "deepspeed/runtime/zero/config.py"},
    {Change::kWorkerCores,
     {0, 17, 6},
     "pt_reserved_cores_perc exists: ZenFlow's worker has cores of its own; before, it ran on all",
     "deepspeed/runtime/zenflow/zenflow_stage_1_and_2.py start_optimizer_process"},
    {Change::kBf16WithoutZero,
     {0, 17, 6},
     "bf16 without ZeRO is run as fp16 is; before, by BF16_Optimizer, which divides the "
     "optimizer's "
     "state over the ranks and sums gradients in fp32",
     "deepspeed/runtime/engine.py _do_optimizer_sanity_check"},
    {Change::kMuon,
     {0, 17, 6},
     "the optimizer Muon (stages 1 and 2)",
     "deepspeed/runtime/engine.py _configure_basic_optimizer"},
    {Change::kSuperOffload,
     {0, 18, 0},
     "offload_optimizer.super_offload exists",
     "deepspeed/runtime/zero/offload_config.py"},
    {Change::kLastGroupsOnCpu,
     {0, 18, 0},
     "Twin-Flow keeps the first sub-groups on the GPU; before, the last ones",
     "deepspeed/runtime/zero/stage3.py _create_fp32_partitions"},
    {Change::kStage3ZenFlow,
     {0, 18, 1},
     "ZenFlow with stage 3",
     "deepspeed/runtime/zenflow/engine_stage3.py"},
    {Change::kEngineRunsBackward,
     {0, 18, 3},
     "the engine runs backward itself; ZenFlow's preparation is no longer called and losses turn "
     "NaN",
     "DeepSpeed #7759"},
    {Change::kSumOnlyIfShared,
     {0, 19, 0},
     "a window of a single micro step copies no running sum; before, update_interval above 1 made "
     "every window do so",
     "deepspeed/runtime/zero/stage_1_and_2.py copy_grads_in_partition"},
    {Change::kOptimizerParamsKept,
     {0, 19, 1},
     "adam_w_mode, torch_adam and fp32_optimizer_states stay in optimizer.params, where ZenFlow's "
     "selective optimizer refuses them",
     "deepspeed/runtime/engine.py _configure_basic_optimizer"},
    {Change::kZenFlowPrologue,
     {0, 19, 2},
     "ZenFlow's preparation is called again",
     "DeepSpeed #7771"},
    {Change::kSelectiveSwap,
     {0, 19, 2},
     "ZenFlow stage 3 works with offload_param",
     "DeepSpeed #8042"},
    {Change::kNativeWorker,
     {0, 19, 3},
     "overlap_step uses a native worker (Linux only); zero_allow_untested_optimizer is not needed",
     "DeepSpeed #8058"},
    {Change::kBf16Upload,
     {0, 19, 3},
     "overlap_step casts the weights on the host and uploads bf16 in stages 1 and 2 as in 3; "
     "before, "
     "fp32 went up and was cast on the GPU, where it took 4 bytes a parameter of the partition",
     "DeepSpeed #8058"},
    {Change::kClippingByDefault,
     {0, 19, 3},
     "gradient_clipping defaults to 1.0 instead of 0",
     "deepspeed/runtime/constants.py"},
    {Change::kWarmupStepsChecked,
     {0, 19, 3},
     "warmup_num_steps must be a positive whole number",
     "deepspeed/runtime/lr_schedules.py; transformers #48640"},
    {Change::kUnmanagedAccumulation,
     {0, 19, 4},
     "managed_gradient_accumulation exists",
     "deepspeed/runtime/config.py"},
    {Change::kLockedSwapBuffers,
     {0, 19, 4},
     "NVMe's swap buffers are locked at their size; before, PyTorch pinned them in powers of two",
     "deepspeed/runtime/swap_tensor/utils.py SwapBufferManager"},
    {Change::kPinnedByDefault, {0, 19, 5}, "pin_memory defaults to true", "DeepSpeed #8207"},
    {Change::kAsyncStage3Gradients,
     {0, 19, 5},
     "ZeRO-3 without ZenFlow copies fp32 gradients asynchronously; before, backward stopped for "
     "them",
     "DeepSpeed #8207"},
    {Change::kAllreduceOp,
     {0, 19, 6},
     "gradient_allreduce_op exists",
     "deepspeed/runtime/config.py"},
    {Change::kReducedOverflowCheck,
     {0, 19, 6},
     "stages 1 and 2 with the optimizer offloaded look for values that are not finite in a "
     "gradient's largest and smallest element",
     "deepspeed/runtime/utils.py has_inf_or_nan"},
    {Change::kNativePinning,
     {0, 19, 6},
     "DS_PIN_MEMORY_BACKEND=native pins blocks at their size, not in powers of two",
     "deepspeed/utils/pin_memory.py"},
    {Change::kSelectionFloor,
     {0, 19, 6},
     "topk_ratio must lie strictly between 0 and 1, update_interval must be at least 1, and every "
     "slice of a matrix selects at least one column",
     "DeepSpeed #8274"},
    {Change::kComputeGradNorm,
     {0, 19, 7},
     "compute_grad_norm and parameter_alignment exist",
     "deepspeed/runtime/zero/config.py"},
    {Change::kBlocksRemoved,
     {0, 19, 7},
     "nebula, compression_training, quantize_training, sparse_attention and MiCS are refused",
     "DeepSpeed #8489"},
    {Change::kMoreBlocksRemoved,
     {0, 19, 8},
     "amp, sparse_gradients, eigenvalue, elasticity, graph_harvesting, curriculum_learning, "
     "progressive_layer_drop and zeropp_loco_param are refused",
     "DeepSpeed #8489"},
    {Change::kFloatStepCounter,
     {0, 19, 8},
     "the selective optimizer counts its steps in fp32; bf16 stopped at 256",
     "DeepSpeed #8496"},
    {Change::kFp32SumsOnGpu,
     {0, 19, 8},
     "grad_accum_dtype fp32 keeps the sums of stages 1 and 2 on the GPU, 4 bytes a parameter of "
     "the "
     "partition; before, offloaded sums were 16-bit and in host memory whatever it said",
     "deepspeed/runtime/zero/stage_1_and_2.py _use_compact_grad_partition_buffer"},
}};

/// "0.13.0 to 0.13.5", one for each feature release.
std::vector<std::string> ranges() {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < kVersions.size(); ++i) {
    const std::size_t first = i;
    while (i + 1 < kVersions.size() && kVersions[i + 1].feature == kVersions[i].feature) ++i;
    texts.push_back(to_string(kVersions[first]));
    if (i > first) texts.back() += " to " + to_string(kVersions[i]);
  }
  return texts;
}

}  // namespace

std::string to_string(const Version& version) {
  return fmt::format("{}.{}.{}", version.release, version.feature, version.patch);
}

std::span<const VersionedChange> version_changes() {
  return kChanges;
}

bool has_change(const Version& version, Change change) {
  return std::any_of(kChanges.begin(), kChanges.end(), [&](const VersionedChange& row) {
    return row.change == change && version >= row.since;
  });
}

std::span<const Version> known_versions() {
  return kVersions;
}

Version newest_version() {
  return kVersions.back();
}

std::optional<Version> find_version(std::string_view text) {
  for (const Version& version : kVersions) {
    if (to_string(version) == text) return version;
  }
  return std::nullopt;
}

std::string expected_version(std::string_view found) {
  return fmt::format(
      "expected a release from {} (the oldest known) to {} (the newest known), found \"{}\"; "
      "known: {}",
      to_string(kVersions.front()), to_string(kVersions.back()), found, fmt::join(ranges(), ", "));
}

Version parse_version(std::string_view text) {
  if (const auto version = find_version(text)) return *version;
  throw Error(ErrorKind::kInput, "--deepspeed-version: " + expected_version(text));
}

}  // namespace zenflow::sim
