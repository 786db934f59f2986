/// What is asked of the tuner: a job, the space around it, the objective and the limits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/simulate/memory_report.h"
#include "sim/tune/space.h"

namespace zenflow::sim {

/// What is asked for.
enum class Objective : std::uint8_t { kStepTime, kTokensPerSecond, kCostPerToken };
[[nodiscard]] std::string_view to_string(Objective objective);

/// When a setting that offloads may be chosen.
enum class OffloadWhen : std::uint8_t {
  kNeeded,  ///< where the job does not fit without
  kFaster,  ///< wherever it is faster
};
[[nodiscard]] std::string_view to_string(OffloadWhen when);
/// Throws Error(kInput) naming the known ones.
[[nodiscard]] OffloadWhen parse_offload_when(std::string_view text);

struct Limits {
  std::optional<double> gpu_memory{};      ///< bytes of one GPU; else the profile's
  std::optional<double> host_memory{};     ///< bytes of the node
  std::optional<double> shm{};             ///< bytes of /dev/shm of the node
  std::int64_t staleness = 31;             ///< steps
  std::optional<double> deferred_share{};  ///< of the squared gradient norm
};

/// Share of the squared gradient norm in the largest columns, as recorded by zenflow-train
/// --importance: points of a curve from (0, 0) to (1, 1), straight between them.
struct ImportanceCurve {
  std::vector<std::pair<double, double>>
      points;  ///< share of columns, share of the norm; ascending
  [[nodiscard]] double selected(double topk_ratio) const;
};

struct TuneRequest {
  Job job;  ///< the user's own
  Family family = Family::kDeepSpeed;
  Space space;
  std::int64_t global_batch = 1;
  Limits limits;
  /// Whether limits.staleness is the user's, or what is proposed without being asked.
  bool is_staleness_asked = true;
  Objective objective = Objective::kStepTime;
  OffloadWhen offload_when = OffloadWhen::kNeeded;
  double price_per_gpu_hour = 0;  ///< of kCostPerToken
  double slack = 0.02;
  std::size_t top = 5;
  /// The Pareto front reaches to settings that cost this much more than the best; 0: none is
  /// sought.
  double front_within = 0.5;
  std::optional<ImportanceCurve> importance{};
  /// Measured step time of the user's own setting, seconds; empty: simulated.
  std::optional<double> measured_step{};
};

/// What a setting needs of the machine.
struct Needs {
  double gpu_bytes = 0;  ///< peak of one GPU
  std::int64_t staleness = 0;
  std::array<double, kMemoryLimits> host{};
};

/// Micro steps of a step of the global batch: gradient_accumulation_steps; 0 if the micro-batch
/// does not divide it.
[[nodiscard]] std::int64_t accumulation_of(const TuneRequest& request, const Setting& setting);
/// The limit that does not hold, of the machine or the request; empty: all do.
[[nodiscard]] std::string exceeded_limit(const TuneRequest& request, const Setting& setting,
                                         const Needs& needs);
/// What is minimised: picoseconds a step of the global batch, or money a token.
[[nodiscard]] double cost_of(const TuneRequest& request, const Setting& setting, double step_time);

}  // namespace zenflow::sim
