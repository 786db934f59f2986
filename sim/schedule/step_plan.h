/// One step cut into layers and gradient buckets, with GPU times: the same for all schedules.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/schedule/job.h"

namespace zenflow::sim {

struct PlannedLayer {
  double parameters = 0;  ///< trained: those with gradients
  double weights = 0;     ///< all, frozen ones as elements of the training type of as many bytes
  Picoseconds forward;
  Picoseconds backward;  ///< with recomputation, and the copy of gradients into buckets
  Picoseconds
      launching;  ///< of both: the GPU's waiting for the host, which launches and runs hooks
  double activation_bytes = 0;  ///< kept from forward to backward
  double transient_bytes = 0;   ///< held during backward only
  double logit_bytes = 0;
};

struct GradientBucket {
  double elements = 0;
  double matrix_elements = 0;
  std::int32_t tensors = 0;
  std::int32_t first_layer = 0;  ///< the first whose backward adds to it; layers count down
  bool begins_layer = false;     ///< with that layer's first gradient, not in its midst
  std::int32_t ready_layer = 0;  ///< the one whose backward completes it
};

struct StepPlan {
  std::vector<PlannedLayer> layers;     ///< embedding, blocks, head: in forward order
  std::vector<GradientBucket> buckets;  ///< in the order in which backward completes them
  std::int64_t matrix_columns = 0;      ///< of all matrices: what selection exchanges
};

/// Buckets follow DeepSpeed: parameters are added in reverse order; one that would exceed
/// reduce_bucket_size elements closes the bucket first; a larger one has a bucket of its own.
[[nodiscard]] StepPlan plan_step(const Job& job);

/// Whether the host's time of PyTorch and DeepSpeed is counted: the framework is eager, and the
/// GPU's time does not contain it, as the shares do by which a device without stated
/// multiprocessors is described.
[[nodiscard]] bool counts_framework(const Job& job);
/// Host time of DeepSpeed's optimizer step on one rank, besides updates and copies: its loops over
/// parameters.
[[nodiscard]] Seconds framework_step_time(const Job& job);

}  // namespace zenflow::sim
