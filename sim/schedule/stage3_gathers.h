/// Which parameters DeepSpeed's ZeRO stage 3 gathers in forward and again in backward.
///
/// Tensors of at most stage3_param_persistence_threshold elements stay whole on every GPU. A module
/// is released after its forward unless it is used again within stage3_max_reuse_distance elements
/// of the modules that follow: those at the model's end stay for their backward.
/// Source: deepspeed/runtime/zero/parameter_offload.py (mark_persistent_parameters),
/// partitioned_param_coordinator.py (__params_to_release, fetch_sub_module).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/schedule/job.h"

namespace zenflow::sim {

struct LayerGather {
  double parameters = 0;     ///< gathered: those of tensors above the threshold
  std::int32_t tensors = 1;  ///< of these, each copied by itself
  bool kept = false;         ///< from forward to backward
  /// The next layer's parameters come while this one computes: stage3_prefetch_bucket_size is not
  /// 0, and stage3_max_live_parameters leaves room beside this layer's largest tensor: modules are
  /// gathered and released one by one. overlap_comm decides nothing here.
  bool prefetches = true;
};

struct Stage3Gathers {
  std::vector<LayerGather> layers;  ///< embedding, blocks, head: in forward order
  double persistent = 0;            ///< parameters that stay whole on every GPU
  double on_nvme = 0;  ///< share of a rank's partition that offload_param keeps on NVMe

  /// Parameters gathered in a micro step: forward, and backward without those kept.
  [[nodiscard]] double in_a_step() const;
};

/// Precondition: ZeRO stage 3.
[[nodiscard]] Stage3Gathers stage3_gathers(const Job& job);

}  // namespace zenflow::sim
