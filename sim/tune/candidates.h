/// Candidates: what a setting means as a job, whether anyone would run it, and how good it is.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/report/simulation.h"
#include "sim/tune/bounds.h"
#include "sim/tune/space.h"

namespace zenflow::sim {

/// What is asked for.
enum class Objective : std::uint8_t { kStepTime, kTokensPerSecond, kCostPerToken };
[[nodiscard]] std::string_view to_string(Objective objective);

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
  Objective objective = Objective::kStepTime;
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

/// How a candidate does, per step of the global batch where it says so.
struct Evaluation {
  double step_time = 0;   ///< picoseconds, of the global batch
  double micro_step = 0;  ///< picoseconds
  double compute = 0;     ///< picoseconds of a micro step
  StallTimes stall{};     ///< of a micro step
  double d2h_bytes = 0;   ///< over one GPU's host link, a step of the global batch
  double h2d_bytes = 0;
  double model_sizes = 0;  ///< of a micro step
  double tokens_per_second = 0;
  double mfu = 0;
  std::int64_t staleness = 0;  ///< steps of the global batch
  double gpu_bytes = 0;
  std::array<double, kMemoryLimits> needs{};
  std::string infeasible;  ///< the limit that does not hold; empty: feasible

  [[nodiscard]] double traffic() const { return d2h_bytes + h2d_bytes; }
};

/// Lower bounds of an Evaluation; staleness is exact.
struct CandidateBounds {
  double step_time = 0;
  double gpu_bytes = 0;
  double traffic = 0;
  std::int64_t staleness = 0;
  std::string infeasible;  ///< a limit that cannot hold
};

class Candidates {
 public:
  explicit Candidates(TuneRequest request);

  [[nodiscard]] const TuneRequest& request() const { return request_; }
  /// The user's DeepSpeed document as strict JSON would read it.
  [[nodiscard]] const Node& document() const { return document_; }

  /// Micro steps of a step of the global batch: gradient_accumulation_steps; 0 if the micro-batch
  /// does not divide it.
  [[nodiscard]] std::int64_t accumulation(const Setting& setting) const;
  /// Why nobody would run it, apart from memory; empty if somebody would. Remembers what the linter
  /// said. Not for use by two threads at once.
  [[nodiscard]] const std::string& refusal(const Setting& setting);
  /// As refusal, but of what does not depend on ZenFlow's knobs.
  [[nodiscard]] std::string refusal_of_rest(const Setting& setting) const;
  /// The setting that stands for all whose simulations are the same: knobs without effect have
  /// their first value.
  [[nodiscard]] Setting canonical(const Setting& setting) const;
  [[nodiscard]] const Schedule& schedule(const Setting& setting) const;
  /// The job that is simulated: averages are over a whole number of selection intervals, past
  /// warm-up.
  [[nodiscard]] Job job(const Setting& setting) const;
  /// Changes a job made by `job` into that of another setting.
  void apply(Job& job, const Setting& setting) const;

  [[nodiscard]] CandidateBounds bounds(const Setting& setting, Job& scratch,
                                       BoundsComputer& computer) const;
  /// With another profile than the request's: what-if.
  [[nodiscard]] Evaluation evaluate(const Setting& setting,
                                    const HardwareProfile* hardware = nullptr) const;
  /// The user's own job as it is, whatever the space says. Throws Error(kInput) if its schedule
  /// cannot run it.
  [[nodiscard]] Evaluation evaluate_own(const HardwareProfile* hardware = nullptr) const;
  /// The limit that does not hold; empty: all do.
  [[nodiscard]] std::string infeasible(const Setting& setting, const Evaluation& evaluation) const {
    return exceeded(setting, evaluation.gpu_bytes, evaluation.staleness, evaluation.needs);
  }
  /// What is minimised: picoseconds a step of the global batch, or money a token.
  [[nodiscard]] double cost(const Setting& setting, double step_time) const;

 private:
  [[nodiscard]] Evaluation judged(const Setting& setting, const Job& job,
                                  const SimulationResult& result, std::int64_t accumulation) const;
  [[nodiscard]] std::string exceeded(const Setting& setting, double gpu, std::int64_t staleness,
                                     const std::array<double, kMemoryLimits>& needs) const;
  [[nodiscard]] double extra_gpu_bytes(const Job& job, const Setting& setting) const;
  [[nodiscard]] std::uint64_t memory_key(const Setting& setting, std::int64_t steps) const;
  [[nodiscard]] std::uint64_t step_key(const Setting& setting) const;

  TuneRequest request_;
  Setting own_;
  Node document_;
  Job base_;  ///< without documents, to be copied often
  std::unordered_map<std::uint64_t, std::string> refusals_;
};

}  // namespace zenflow::sim
