#include "runtime/tune/rank_tuning.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "sim/calibrate/rank_collectives.h"

namespace zenflow::runtime {
namespace {

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Of one step, in their order; whether there are as many as there have to be.
bool add_stays(const sim::Timeline& timeline, const sim::TimelineStep& step, Operation operation,
               std::size_t count, double later, std::vector<double>& stays) {
  std::vector<std::pair<double, double>> found;
  for (const sim::TimelineSpan& span : timeline.spans) {
    if (span.operation != operation || span.start < step.start || span.start >= step.end) continue;
    found.emplace_back(to_seconds(span.start).value() + later,
                       to_seconds(span.end).value() + later);
  }
  std::sort(found.begin(), found.end());
  for (const auto& [start, end] : found) stays.insert(stays.end(), {start, end});
  return found.size() == count;
}

}  // namespace

std::vector<GroupSize> group_sizes(const ParameterTable& table, ElementType type) {
  std::vector<GroupSize> sizes;
  for (const ParameterGroup& group : table.groups) {
    GroupSize& size = sizes.emplace_back();
    size.tensors = static_cast<std::int64_t>(group.count);
    for (std::size_t i = group.first; i < group.first + group.count; ++i) {
      size.bytes += static_cast<double>(bytes_per_element(type)) *
                    static_cast<double>(table.parameters[i].elements());
    }
  }
  return sizes;
}

std::vector<sim::CollectiveSample> exchange_samples(std::span<const double> stays, int ranks,
                                                    std::span<const GroupSize> groups) {
  const std::size_t length = stays.size() / static_cast<std::size_t>(ranks);  // of a rank
  std::vector<sim::CollectiveSample> samples;
  for (std::size_t i = 0; 2 * i < length; ++i) {
    double came = stays[2 * i];
    double left = stays[2 * i + 1];
    for (std::size_t one = 2 * i + length; one < stays.size(); one += length) {
      came = std::max(came, stays[one]);
      left = std::max(left, stays[one + 1]);
    }
    const std::size_t at = i % (2 * groups.size());
    const bool gathers = at < groups.size();
    const GroupSize& group = groups[gathers ? at : 2 * groups.size() - 1 - at];
    samples.push_back({gathers ? Operation::kAllGather : Operation::kReduceScatter, group.bytes,
                       group.tensors, ranks, left - came});
  }
  return samples;
}

RankTuning::RankTuning(RankTuningSettings settings, Communicator& ranks, Recorder& recorder,
                       std::function<void(const TuneEvent&)> on_event)
    : settings_(std::move(settings)), ranks_(ranks), recorder_(recorder) {
  if (ranks.rank() > 0) return;
  LiveTuningSettings own = settings_.tuning;
  own.model.ranks = ranks.size();
  own.shares_of_norms = [this](const std::vector<double>& topk_ratios) {
    tell({.kind = Word::kShares});
    return deferred_shares(topk_ratios);
  };
  if (ranks.size() > 1) {
    own.read_cores = {};
    own.exchanges = [this](std::int64_t first_step) {
      tell({.kind = Word::kExchanges, .first_step = first_step});
      return exchanges(first_step);
    };
  }
  tuning_.emplace(std::move(own), recorder, std::move(on_event));
}

RankTuning::Word RankTuning::tell(const Word& word) {
  std::array<double, 5> said{};  // exact
  if (ranks_.rank() == 0) {
    said = {static_cast<double>(word.kind), static_cast<double>(word.next.update_interval),
            word.next.topk_ratio, word.records ? 1.0 : 0.0, static_cast<double>(word.first_step)};
  }
  ranks_.sum(said);
  return {static_cast<Word::Kind>(static_cast<int>(said[0])),
          {static_cast<std::int64_t>(said[1]), said[2]},
          said[3] > 0,
          static_cast<std::int64_t>(said[4])};
}

TunePoint RankTuning::window_ended(const WindowObservation& seen, Clock::time_point step_start) {
  at_hand_ = {seen.first_step + seen.steps - 1, step_start, Clock::now()};
  if (!tuning_) return follow();
  const TunePoint next = tuning_->window_ended(seen, step_start);
  tell({.kind = Word::kNext, .next = next, .records = tuning_->is_recording()});
  return next;
}

TunePoint RankTuning::follow() {
  for (;;) {
    const Word word = tell({});
    switch (word.kind) {
      case Word::kShares:
        static_cast<void>(deferred_shares(settings_.tuning.topk_ratios));
        break;
      case Word::kExchanges:
        static_cast<void>(exchanges(word.first_step));
        break;
      case Word::kNext:
        if (word.records != records_) recorder_.keep_spans(word.records);
        records_ = word.records;
        return word.next;
    }
  }
}

std::vector<double> RankTuning::deferred_shares(const std::vector<double>& topk_ratios) {
  std::vector<double> squares = settings_.deferred_squares(topk_ratios);
  ranks_.sum(squares);
  const double total = squares.back();
  squares.pop_back();
  if (total <= 0) return {};
  for (double& one : squares) one /= total;
  return squares;
}

std::vector<double> RankTuning::stays(std::int64_t first_step) const {
  const sim::Timeline timeline = recorder_.recent(first_step, at_hand_, "", "");
  const double later =
      seconds_of(recorder_.origin().time_since_epoch()) - 1e-9 * settings_.clock.nanoseconds;
  std::vector<double> all;
  for (const sim::TimelineStep& step : timeline.steps) {
    const std::size_t groups = settings_.groups.size();
    const bool whole = add_stays(timeline, step, Operation::kAllGather, groups, later, all) &&
                       add_stays(timeline, step, Operation::kReduceScatter, groups, later, all);
    if (!whole) return {};
  }
  return all;
}

std::vector<sim::CollectiveSample> RankTuning::exchanges(std::int64_t first_step) {
  const std::vector<double> own = stays(first_step);
  const auto count = static_cast<std::size_t>(ranks_.size());
  const auto rank = static_cast<std::size_t>(ranks_.rank());
  std::vector<double> lengths(count, 0.0);
  lengths[rank] = static_cast<double>(own.size());
  ranks_.sum(lengths);
  const bool alike = std::all_of(lengths.begin(), lengths.end(),
                                 [&](double one) { return one == lengths.front(); });
  if (!alike || lengths.front() == 0) return {};
  std::vector<double> all(count * own.size(), 0.0);
  std::copy(own.begin(), own.end(), all.begin() + static_cast<std::ptrdiff_t>(rank * own.size()));
  ranks_.sum(all);
  return exchange_samples(all, ranks_.size(), settings_.groups);
}

}  // namespace zenflow::runtime
