/// What a run will hold, before it holds anything: by the model that `zenflow-sim fit` uses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/train/trainer.h"

namespace zenflow::runtime {

struct PlannedMemory {
  std::string what;
  std::uint64_t bytes = 0;
};

/// Buffers of the live schedule (sim/schedule/live.cpp) at their largest, less activations: those
/// are the model's, which differ by device. Column indices and other small arrays are not in it.
struct MemoryPlan {
  std::vector<PlannedMemory> device;
  std::vector<PlannedMemory> host;
};

/// Of a run on any device, whose settings `settings_for` has made. Throws Error(kInput) if the
/// schedule refuses them.
[[nodiscard]] MemoryPlan plan_memory(const sim::ModelSpec& model, const TrainOptions& options);

/// About what the host model keeps of a pass, in host memory: transformer.h, "Memory".
[[nodiscard]] std::uint64_t host_activation_bytes(const sim::ModelSpec& model,
                                                  const FeedOptions& feed);

[[nodiscard]] std::uint64_t total(const std::vector<PlannedMemory>& parts);

/// Throws Error(kInfeasible), `place` first, if `parts` exceed `free` bytes of `capacity`: needed,
/// free, and what takes how much.
void require_memory(const std::string& place, const std::vector<PlannedMemory>& parts,
                    std::uint64_t free, std::uint64_t capacity);

}  // namespace zenflow::runtime
