/// What a simulated job needs of each kind of memory, beside what the machine has.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/simulate/metrics.h"

namespace zenflow::sim {

enum class MemoryLimit : std::uint8_t {
  kGpu,     ///< of one GPU
  kHost,    ///< RAM of the node, /dev/shm and PyTorch's own included
  kShared,  ///< /dev/shm of the node
  kLocked,  ///< page-locked memory of one process, rounding included: `ulimit -l`
  kNvme,    ///< of the node
};
inline constexpr int kMemoryLimits = 5;
[[nodiscard]] std::string to_string(MemoryLimit limit);  ///< as in JSON: "gpu_memory"
[[nodiscard]] std::string describe(MemoryLimit limit);   ///< for people: "RAM of the node"

struct LimitCheck {
  double need = 0;
  std::optional<double> capacity;  ///< empty: the profile does not state it; may be infinite

  [[nodiscard]] bool holds() const { return !capacity || need <= *capacity; }
};

struct MemoryReport {
  bool fits = true;  ///< all limits hold
  MemoryPeak gpu;
  double gpu_capacity = 0;
  MemoryPeak host;
  double host_capacity = 0;
  double host_framework = 0;  ///< what PyTorch adds to the host's peak
  std::array<LimitCheck, kMemoryLimits> limits;

  [[nodiscard]] const LimitCheck& limit(MemoryLimit which) const {
    return limits[static_cast<std::size_t>(which)];
  }
};

/// What the peak of a place (the GPU's or the host's) consists of, as in JSON: names and whole
/// bytes, without those of which there is nothing. The host's has what processes and PyTorch's
/// allocators add as "framework".
[[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> used_categories(
    const MemoryReport& report, MemoryPlace place);

/// Precondition: the whole program has run.
[[nodiscard]] MemoryReport memory_report(const Job& job, const Program& program,
                                         const Execution& execution);

/// Part of a step on the first rank's compute lane.
enum class StepPart : std::uint8_t { kForward, kBackward, kUpdate };
[[nodiscard]] std::string to_string(StepPart part);

/// Highest memory while a part of a step runs; on the host whatever runs beside it counts.
struct PartMemory {
  std::int32_t step;  ///< of the window
  StepPart part;
  Picoseconds duration;
  double gpu;
  double host;  ///< without PyTorch's own
};
/// The steps of one window, in order. Precondition: a window follows it.
[[nodiscard]] std::vector<PartMemory> memory_by_part(const Program& program,
                                                     const Execution& execution,
                                                     std::size_t window);

}  // namespace zenflow::sim
