/// Candidates: which settings are the same program, which nobody would run, and how good one is.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "sim/simulate/simulation.h"
#include "sim/tune/bounds.h"
#include "sim/tune/refusals.h"
#include "sim/tune/setting_job.h"

namespace zenflow::sim {

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
  /// By MemoryLimit; of kGpu nothing, which is gpu_bytes.
  std::array<double, kMemoryLimits> needs{};
  std::string infeasible;  ///< a limit that cannot hold
};

class Candidates {
 public:
  explicit Candidates(TuneRequest request);
  Candidates(const Candidates&) = delete;
  Candidates& operator=(const Candidates&) = delete;

  [[nodiscard]] const TuneRequest& request() const { return request_; }

  [[nodiscard]] std::int64_t accumulation(const Setting& setting) const {
    return accumulation_of(request_, setting);
  }
  /// As Refusals::of. Not for use by two threads at once.
  [[nodiscard]] const std::string& refusal(const Setting& setting) { return refusals_.of(setting); }
  /// As refusal, but of what does not depend on ZenFlow's knobs.
  [[nodiscard]] std::string refusal_of_rest(const Setting& setting) const {
    return refusals_.of_rest(setting);
  }
  /// Why the user's own setting would not be proposed, whatever the space says; empty: it may be.
  [[nodiscard]] std::string refusal_of_own() const { return refusals_.of_any(own_); }
  /// The setting that stands for all whose simulations are the same: knobs without effect have the
  /// user's value, or the first. Not for use by two threads at once.
  [[nodiscard]] Setting canonical(const Setting& setting);
  [[nodiscard]] const Schedule& schedule(const Setting& setting) const {
    return schedule_of(request_.family, setting.placement());
  }
  /// The job that is simulated: averages are over a whole number of selection intervals, past
  /// warm-up.
  [[nodiscard]] Job job(const Setting& setting) const;
  /// The DeepSpeed file that says so. What zenflow-train runs is not corrected for DeepSpeed.
  [[nodiscard]] TunedConfig config(const Setting& setting) const;

  [[nodiscard]] CandidateBounds bounds(const Setting& setting, Job& scratch,
                                       BoundsComputer& computer) const;
  [[nodiscard]] Evaluation evaluate(const Setting& setting) const;
  /// The user's own job as it is, whatever the space says. Throws Error(kInput) if its schedule
  /// cannot run it.
  [[nodiscard]] Evaluation evaluate_own() const;
  /// Their step_time on another machine than the request's: what-if.
  [[nodiscard]] double step_time_on(const HardwareProfile& hardware, const Setting& setting) const;
  [[nodiscard]] double own_step_time_on(const HardwareProfile& hardware) const;
  /// The limit that does not hold; empty: all do.
  [[nodiscard]] std::string infeasible(const Setting& setting, const Evaluation& evaluation) const;
  [[nodiscard]] double cost(const Setting& setting, double step_time) const {
    return cost_of(request_, setting, step_time);
  }

  /// The user's own job as it is simulated. Throws Error(kInput) if it cannot be.
  struct OwnJob {
    Job job;
    const Schedule& schedule;
  };
  [[nodiscard]] OwnJob own_job() const;

 private:
  [[nodiscard]] Evaluation judged(const Setting& setting, const Job& job,
                                  const SimulationResult& result) const;
  /// What the schedule calls a step, in one of the global batch: micro steps, but of zenflow-train
  /// the step itself.
  [[nodiscard]] std::int64_t schedule_steps(const Setting& setting, const Job& job) const;
  [[nodiscard]] Setting without_effectless(const Setting& setting) const;
  [[nodiscard]] Setting with_settled_warm_up(const Setting& setting);
  [[nodiscard]] Setting with_published_stage(const Setting& setting);
  [[nodiscard]] std::uint64_t memory_key(const Setting& setting, std::int64_t steps) const;
  [[nodiscard]] std::uint64_t step_key(const Setting& setting) const;

  TuneRequest request_;
  Setting own_;
  Node document_;  ///< the user's, as strict JSON would read it
  Job base_;       ///< without documents, to be copied often
  Refusals refusals_;
};

}  // namespace zenflow::sim
