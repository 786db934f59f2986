/// The points of a space as candidates: one for all that are the same program, with its bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/tune/candidates.h"
#include "sim/tune/risk.h"

namespace zenflow::sim {

/// A canonical setting and what is known of it before it is simulated.
struct Candidate {
  std::uint64_t index = 0;    ///< in the space
  std::uint64_t members = 0;  ///< points of the space that it stands for
  Setting setting;
  CandidateBounds bounds;
  double cost_bound = 0;
  std::uint64_t kind = 0;
  Risk risk{};                           ///< with the bound of the memory
  std::optional<std::size_t> simulated;  ///< into what the search has done
};

struct CandidateList {
  std::vector<Candidate> all;         ///< ascending by index
  std::vector<std::size_t> by_bound;  ///< those not infeasible by their bounds, cheapest first
  /// Points that nobody would run or that cannot fit, by reason.
  std::map<std::string, std::uint64_t> refused;
  /// Points that were neither refused nor listed before it was cancelled; then nothing is listed.
  std::optional<std::uint64_t> not_reached;

  /// The candidate of a canonical setting, unless it is infeasible by its bounds.
  [[nodiscard]] std::optional<std::size_t> find(std::uint64_t index) const;
};

/// Every point of the request's space is a member of one candidate or counted as refused, unless
/// `cancelled`, which may be empty, says so: it is asked by this thread alone, again and again.
[[nodiscard]] CandidateList list_candidates(Candidates& candidates, unsigned threads,
                                            const std::function<bool()>& cancelled = {});

}  // namespace zenflow::sim
