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

/// Buffers of the live schedule (sim/schedule/live_memory.h) at their largest, with the model's
/// activations. Column indices and other small arrays are not in it.
struct MemoryPlan {
  std::vector<PlannedMemory> device;
  std::vector<PlannedMemory> host;
};

/// What a run will hold, on any device. `options` are as `settings_for` has made them. Throws
/// Error(kInput) if the schedule refuses them.
[[nodiscard]] MemoryPlan plan_memory(const TransformerConfig& config, const TrainOptions& options);

[[nodiscard]] std::uint64_t total(const std::vector<PlannedMemory>& parts);
/// Activations and workspace, which a host device does not count as its memory.
[[nodiscard]] inline bool is_of_the_model(const PlannedMemory& part) {
  return part.what == "activations kept" || part.what == "model workspace";
}

/// Throws Error(kInfeasible), `place` first, if `parts` exceed `free` bytes of `capacity`: needed,
/// free, and what takes how much.
void require_memory(const std::string& place, const std::vector<PlannedMemory>& parts,
                    std::uint64_t free, std::uint64_t capacity);

}  // namespace zenflow::runtime
