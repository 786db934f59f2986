/// Live tuning of a training on any number of ranks: rank 0 decides, and every rank has the same
/// setting from the same window on.
///
/// What rank 0 decides by: step times, the mean of all ranks'; its own recordings, in which it is
/// one of as many ranks; from all ranks, when each came to an exchange and left it, since an
/// exchange begins when the last one has come; and what columns of all ranks defer. What other
/// programs take of the cores is not asked where there are several ranks: they would be taken for
/// each other's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/tune/live_tuning.h"

namespace zenflow::runtime {

/// What ranks exchange at once.
struct GroupSize {
  double bytes = 0;
  std::int64_t tensors = 0;
};
/// Of the groups of parameters, embedding first.
[[nodiscard]] std::vector<GroupSize> group_sizes(const ParameterTable& table, ElementType type);

/// How long each exchange took, from when the last rank had come until the last one had left.
/// `stays`: rank after rank when it came to each exchange and when it left, in seconds on one
/// clock; of each step first the weights of all groups, embedding first, then the gradients, head
/// first. Precondition: as many of each rank.
[[nodiscard]] std::vector<sim::CollectiveSample> exchange_samples(
    std::span<const double> stays, int ranks, std::span<const GroupSize> groups);

struct RankTuningSettings {
  LiveTuningSettings tuning;  ///< the same on every rank; its two questions to ranks are asked here
  /// Squared norms of this rank's columns that would be deferred with each ratio, and of all.
  std::function<std::vector<double>(const std::vector<double>& topk_ratios)> deferred_squares{};
  std::vector<GroupSize> groups{};
  ClockOffset clock{};  ///< of this rank
};

class RankTuning {
 public:
  /// All outlive this. `on_event` is rank 0's.
  RankTuning(RankTuningSettings settings, Communicator& ranks, Recorder& recorder,
             std::function<void(const TuneEvent&)> on_event);

  /// LiveTuning's, on every rank at the same window's end, with the same answer.
  [[nodiscard]] TunePoint window_ended(const WindowObservation& seen, Clock::time_point step_start);

  /// Rank 0's; null on others.
  [[nodiscard]] LiveTuning* leader() { return tuning_ ? &*tuning_ : nullptr; }

 private:
  /// What rank 0 tells the others.
  struct Word {
    enum Kind : std::uint8_t { kNext, kShares, kExchanges };
    Kind kind = kNext;
    TunePoint next{};             ///< kNext
    bool records = false;         ///< likewise: the window that begins
    std::int64_t first_step = 0;  ///< kExchanges: from there on
  };
  /// Rank 0's word on every rank.
  Word tell(const Word& word);
  [[nodiscard]] TunePoint follow();

  [[nodiscard]] std::vector<double> deferred_shares(const std::vector<double>& topk_ratios);
  [[nodiscard]] std::vector<sim::CollectiveSample> exchanges(std::int64_t first_step);
  /// Start and end of each exchange in the steps of a recording, in seconds on rank 0's clock.
  /// Empty: the recording is not whole.
  [[nodiscard]] std::vector<double> stays(std::int64_t first_step) const;

  RankTuningSettings settings_;
  Communicator& ranks_;
  Recorder& recorder_;
  RecordedStep at_hand_{};
  bool records_ = false;
  std::optional<LiveTuning> tuning_;
};

}  // namespace zenflow::runtime
