/// The exact search: every point of the space is simulated, equal to one that is, or excluded by
/// a bound or a rule, and counted.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/tune/candidates.h"
#include "sim/tune/risk.h"

namespace zenflow::sim {

/// Results that outlive the search: what has been simulated is not simulated again.
class EvaluationStore {
 public:
  virtual ~EvaluationStore() = default;
  /// `index`: of the canonical setting in the space.
  [[nodiscard]] virtual std::optional<Evaluation> find(std::uint64_t index) = 0;
  virtual void store(const std::vector<std::pair<std::uint64_t, Evaluation>>& results) = 0;
};

struct SearchOptions {
  unsigned threads = 1;
  std::function<bool()> cancelled;  ///< asked again and again, by one thread; empty: never
  std::function<void(std::uint64_t done)> progress;  ///< simulations so far; may be empty
  EvaluationStore* store = nullptr;
};

struct Simulated {
  std::uint64_t index = 0;
  Setting setting;
  Evaluation evaluation;
};

/// How many points of the space met which end; the parts add up to `points`.
struct SearchCounts {
  std::uint64_t points = 0;
  std::uint64_t simulated = 0;
  std::uint64_t equal = 0;              ///< to one that was simulated
  std::uint64_t excluded_by_bound = 0;  ///< cannot be chosen, a runner-up or on the front
  std::uint64_t infeasible = 0;
  std::map<std::string, std::uint64_t> reasons;  ///< of infeasible
  std::uint64_t infeasible_when_simulated = 0;   ///< of simulated and equal
  std::uint64_t not_reached = 0;                 ///< cancelled before
};

struct SearchResult {
  bool complete = true;  ///< false: cancelled, and what follows is the best so far
  SearchCounts counts;
  std::vector<Simulated> simulated;    ///< ascending by index
  std::optional<std::size_t> fastest;  ///< of the objective; index into simulated
  std::optional<std::size_t> chosen;
  /// The job fits without offloading, so with the chosen number of GPUs nothing that offloads was
  /// eligible (OffloadWhen::kNeeded).
  bool fits_without_offloading = false;
  std::vector<std::size_t> top;  ///< best of each kind of setting, best first; at most request.top
  std::array<std::optional<std::size_t>, kPlacements> by_placement;
  std::vector<std::size_t> front;      ///< ascending by step time
  std::optional<Evaluation> own;       ///< the user's setting, unless DeepSpeed cannot run it
  std::string own_refusal;             ///< why it cannot
  std::string own_not_proposed;        ///< why nobody is advised to run it, though it can be run
  std::optional<Simulated> published;  ///< topk_ratio 0.1, update_interval 4, if feasible
};

/// Precondition: every knob of the space has a value.
/// Deterministic: the same result for any number of threads, resumed or not.
[[nodiscard]] SearchResult search(Candidates& candidates, const SearchOptions& options);

}  // namespace zenflow::sim
