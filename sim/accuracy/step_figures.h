/// What is compared of a step, predicted and measured: one list of figures, each of which may be
/// unknown.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/operation.h"
#include "sim/base/wait_cause.h"

namespace zenflow::sim {

/// Times are means of a step in milliseconds; of a phase, while its lane works on it.
enum class Metric : std::uint8_t {
  kStep,
  kCompute,
  kStall,  ///< the step without kCompute
  /// The first part of the stall; stall_by gives each. What no other cause explains is in
  /// kLaunch's.
  kStallByCause,
  // Bytes of a step over one GPU's host link.
  kD2HBytes = kStallByCause + kStallCauses,
  kH2DBytes,
  // Bytes, most at once.
  kDeviceMemory,
  kHostMemory,
  // Phases.
  kForward,
  kBackward,
  kPacking,    ///< norms of gradients; selected columns gathered, deferred ones packed
  kGpuUpdate,  ///< optimizer on the device: of selected columns, or of all
  kSelection,
  kCollective,
  kCopyDown,
  kCopyUp,
  kAccumulate,  ///< gradients summed on the CPU
  kCpuUpdate,
  kNvme,
  // A step by the clock of the thread that trains, as DeepSpeed's timers have it: what the next
  // part waits for belongs to the part before. Of logs alone.
  kTimerForward,
  kTimerBackward,
  kTimerStep,
};
inline constexpr std::size_t kMetrics = 28;
[[nodiscard]] constexpr Metric stall_by(WaitCause cause) {
  return static_cast<Metric>(static_cast<std::size_t>(Metric::kStallByCause) +
                             static_cast<std::size_t>(cause));
}
/// The figure that an operation's time counts towards, simulated or recorded; nothing: none.
[[nodiscard]] std::optional<Metric> phase_of(Operation operation);

enum class MetricGroup : std::uint8_t { kStep, kStallCause, kTraffic, kMemory, kPhase, kTimer };

/// In the order of the enumeration.
[[nodiscard]] const std::array<Metric, kMetrics>& all_metrics();
[[nodiscard]] MetricGroup group_of(Metric metric);
/// As in JSON, within its group: "step_time_ms", "cpu_update", "forward".
[[nodiscard]] std::string_view key_of(Metric metric);
/// As in JSON, with its group: "stall_by_cause_ms.cpu_update".
[[nodiscard]] std::string path_of(Metric metric);
/// For people: "stall: cpu_update", "phase: forward".
[[nodiscard]] std::string title_of(Metric metric);
/// Milliseconds with decimals as the size asks for, "12.50 MB" for bytes.
[[nodiscard]] std::string format_metric(Metric metric, double value);

struct StepFigures {
  std::array<std::optional<double>, kMetrics> values{};
  std::vector<double> step_times;  ///< ms, of the steps of an update window; empty: not known

  [[nodiscard]] std::optional<double>& operator[](Metric metric) {
    return values[static_cast<std::size_t>(metric)];
  }
  [[nodiscard]] const std::optional<double>& operator[](Metric metric) const {
    return values[static_cast<std::size_t>(metric)];
  }
};

/// The median of each figure on its own; one that a run lacks is unknown. Precondition: at least
/// one run.
[[nodiscard]] StepFigures median_of(const std::vector<StepFigures>& runs);

}  // namespace zenflow::sim
