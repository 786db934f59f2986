#include "sim/tune/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/tune/parallel.h"

namespace zenflow::sim {
namespace {

/// Simulated together; what one batch found excludes only from the next on, whatever the threads.
constexpr std::size_t kBatch = 16;
/// Differences below a millionth are rounding.
constexpr double kSame = 1 + 1e-6;

/// A canonical setting and what is known of it.
struct Candidate {
  std::uint64_t index = 0;
  std::uint64_t members = 0;  ///< points of the space that it stands for
  Setting setting;
  CandidateBounds bounds;
  double cost_bound = 0;
  std::uint64_t kind = 0;
  Carefulness care{};  ///< with the bound of the memory
  std::optional<std::size_t> simulated;
};

class Search {
 public:
  Search(Candidates& candidates, const SearchOptions& options)
      : candidates_(candidates),
        request_(candidates.request()),
        options_(options),
        own_(setting_of(request_.job)) {}

  SearchResult go() {
    references();
    enumerate();
    bound();
    seed();
    if (find_best() && choose() && request_.front_within > 0) find_front();
    finish();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool cancelled() {
    if (options_.cancelled && options_.cancelled()) result_.complete = false;
    return !result_.complete;
  }

  void references() {
    try {
      result_.own = candidates_.evaluate_own();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput) throw;
      result_.own_refusal = error.what();
    }
  }

  void refuse(const std::string& why, std::uint64_t points) {
    result_.counts.infeasible += points;
    result_.counts.reasons[why] += points;
  }

  /// ZenFlow's knobs vary fastest, so points that differ only in them follow each other.
  void enumerate() {
    const Space& space = request_.space;
    std::uint64_t inner = 1;
    for (const KnobInfo& one : knobs()) {
      if (one.of_zenflow) inner *= space.values(one.knob).size();
    }
    result_.counts.points = space.size();
    std::unordered_map<std::uint64_t, std::uint64_t> members;
    const std::uint64_t outer = space.size() / inner;
    for (std::uint64_t o = 0; o < outer; ++o) {
      const Setting first = space.at(o * inner);
      if (const std::string why = candidates_.refusal_of_rest(first); !why.empty()) {
        refuse(why, inner);
        continue;
      }
      const std::uint64_t step = first.zenflow() ? 1 : inner;
      for (std::uint64_t i = 0; i < inner; i += step) {
        const Setting setting = step == 1 ? space.at(o * inner + i) : candidates_.canonical(first);
        const std::string& why = candidates_.refusal(setting);
        if (why.empty()) {
          members[space.index_of(candidates_.canonical(setting))] += step;
        } else {
          refuse(why, step);
        }
      }
    }
    all_.reserve(members.size());
    for (const auto& [index, count] : members) {
      Candidate& one = all_.emplace_back();
      one.index = index;
      one.members = count;
      one.setting = space.at(index);
    }
    std::sort(all_.begin(), all_.end(),
              [](const Candidate& a, const Candidate& b) { return a.index < b.index; });
  }

  void bound() {
    constexpr std::size_t kChunks = 16;
    const std::size_t size = (all_.size() + kChunks - 1) / kChunks;
    in_parallel(kChunks, options_.threads, [&](std::size_t chunk) {
      if (chunk * size >= all_.size()) return;
      BoundsComputer computer;
      Job scratch = candidates_.job(all_[chunk * size].setting);
      for (std::size_t i = chunk * size; i < std::min(all_.size(), (chunk + 1) * size); ++i) {
        Candidate& one = all_[i];
        one.bounds = candidates_.bounds(one.setting, scratch, computer);
        one.cost_bound = candidates_.cost(one.setting, one.bounds.step_time);
        one.kind = kind_of(one.setting);
        one.care =
            carefulness(one.setting, one.bounds.staleness, one.bounds.gpu_bytes, own_, one.index);
      }
    });
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].bounds.infeasible.empty()) {
        by_bound_.push_back(i);
      } else {
        refuse(all_[i].bounds.infeasible, all_[i].members);
      }
    }
    std::sort(by_bound_.begin(), by_bound_.end(), [&](std::size_t a, std::size_t b) {
      // Of equal bounds those first that meet them: nothing shares cores with a bound worker.
      const bool bound_a = !all_[a].setting.flag(Knob::kBindCores);
      const bool bound_b = !all_[b].setting.flag(Knob::kBindCores);
      return std::tie(all_[a].cost_bound, bound_a, all_[a].index) <
             std::tie(all_[b].cost_bound, bound_b, all_[b].index);
    });
  }

  /// Simulates those of `batch` that have not been yet.
  void simulate(const std::vector<std::size_t>& batch) {
    std::vector<std::size_t> missing;
    std::vector<std::optional<Evaluation>> found(batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (options_.store != nullptr) found[i] = options_.store->find(all_[batch[i]].index);
      if (!found[i]) missing.push_back(i);
    }
    in_parallel(missing.size(), options_.threads, [&](std::size_t i) {
      found[missing[i]] = candidates_.evaluate(all_[batch[missing[i]]].setting);
    });
    std::vector<std::pair<std::uint64_t, Evaluation>> fresh;
    for (const std::size_t i : missing) fresh.emplace_back(all_[batch[i]].index, *found[i]);
    if (options_.store != nullptr && !fresh.empty()) options_.store->store(fresh);
    for (std::size_t i = 0; i < batch.size(); ++i) note(batch[i], std::move(*found[i]));
    if (options_.progress) options_.progress(done_.size());
  }

  void note(std::size_t which, Evaluation evaluation) {
    Candidate& one = all_[which];
    const double step = evaluation.step_time;
    if (step < one.bounds.step_time || evaluation.gpu_bytes < one.bounds.gpu_bytes ||
        evaluation.traffic() < one.bounds.traffic) {
      throw Error(
          ErrorKind::kRuntime,
          fmt::format("tune: {} was simulated below its bound: step {} of {} ps, GPU {} of {} "
                      "bytes, traffic {} of {} bytes",
                      describe(one.setting), step, one.bounds.step_time, evaluation.gpu_bytes,
                      one.bounds.gpu_bytes, evaluation.traffic(), one.bounds.traffic));
    }
    one.simulated = done_.size();
    done_.push_back({one.index, one.setting, std::move(evaluation)});
    const Simulated& done = done_.back();
    if (!done.evaluation.infeasible.empty()) return;
    const double cost = candidates_.cost(one.setting, step);
    best_ = std::min(best_, cost);
    double& of_kind = best_of_kind_.try_emplace(one.kind, kInfinite).first->second;
    of_kind = std::min(of_kind, cost);
    double& of_place = best_of_place_[static_cast<std::size_t>(one.setting.placement())];
    of_place = std::min(of_place, cost);
    add_to_front(done.evaluation);
  }

  /// The published setting and, if it is a point of the space, the user's own.
  void seed() {
    const Space& space = request_.space;
    Setting published = own_;
    published.set(Knob::kPlacement, static_cast<double>(Placement::kZenFlow));
    published.set(Knob::kTopkRatio, 0.1);
    published.set(Knob::kUpdateInterval, 4);
    published.set(Knob::kOverlapStep, 1);
    if (published.whole(Knob::kSelectInterval) == 0) {
      published.set(Knob::kSelectInterval, space.values(Knob::kSelectInterval).back());
    }
    std::vector<std::size_t> batch;
    for (const Setting& one : {own_, published}) {
      if (!space.contains(one)) continue;
      const std::uint64_t index = space.index_of(candidates_.canonical(one));
      const auto at = std::lower_bound(all_.begin(), all_.end(), index,
                                       [](const Candidate& candidate, std::uint64_t wanted) {
                                         return candidate.index < wanted;
                                       });
      if (at == all_.end() || at->index != index || !at->bounds.infeasible.empty()) continue;
      const auto which = static_cast<std::size_t>(at - all_.begin());
      if (std::find(batch.begin(), batch.end(), which) == batch.end()) batch.push_back(which);
      if (one == published) published_ = which;
    }
    simulate(batch);
  }

  /// Cost of the best kind number `request.top`; infinite while there are fewer.
  [[nodiscard]] double last_of_top() const {
    if (best_of_kind_.size() < std::max<std::size_t>(1, request_.top)) return kInfinite;
    std::vector<double> costs;
    for (const auto& [kind, cost] : best_of_kind_) costs.push_back(cost);
    std::nth_element(costs.begin(), costs.begin() + static_cast<std::ptrdiff_t>(request_.top) - 1,
                     costs.end());
    return costs[request_.top - 1];
  }

  /// Whether it could be the best of its kind among the top, or of its placement.
  [[nodiscard]] bool could_be_best(const Candidate& one, double last) const {
    const auto kind = best_of_kind_.find(one.kind);
    const double of_kind = kind == best_of_kind_.end() ? kInfinite : kind->second;
    if (one.cost_bound < std::min(of_kind, last)) return true;
    return one.cost_bound < best_of_place_[static_cast<std::size_t>(one.setting.placement())];
  }

  bool find_best() {
    std::vector<std::size_t> batch;
    double last = last_of_top();
    const auto flush = [&] {
      simulate(batch);
      batch.clear();
      last = last_of_top();
    };
    for (const std::size_t which : by_bound_) {
      if (all_[which].simulated || !could_be_best(all_[which], last)) continue;
      batch.push_back(which);
      if (batch.size() < kBatch) continue;
      flush();
      if (cancelled()) return false;
    }
    if (!batch.empty()) flush();
    return !cancelled();
  }

  /// What a choice may cost at most: within the slack of the best, and no more than what the user
  /// has, or would have with the published setting, if that is feasible.
  [[nodiscard]] double limit_of_choice() const {
    double limit = best_ * (1 + request_.slack);
    if (result_.own && result_.own->infeasible.empty()) {
      limit = std::min(limit, candidates_.cost(own_, result_.own->step_time));
    }
    if (published_ && all_[*published_].simulated) {
      const Simulated& one = done_[*all_[*published_].simulated];
      if (one.evaluation.infeasible.empty()) {
        limit = std::min(limit, candidates_.cost(one.setting, one.evaluation.step_time));
      }
    }
    return std::max(limit, best_);
  }

  [[nodiscard]] Carefulness care_of(const Simulated& one) const {
    return carefulness(one.setting, one.evaluation.staleness, one.evaluation.gpu_bytes, own_,
                       one.index);
  }

  /// The most careful of what has been simulated within the limit.
  [[nodiscard]] std::optional<std::size_t> most_careful(double limit) const {
    std::optional<std::size_t> chosen;
    for (std::size_t i = 0; i < done_.size(); ++i) {
      if (!done_[i].evaluation.infeasible.empty()) continue;
      if (candidates_.cost(done_[i].setting, done_[i].evaluation.step_time) > limit) continue;
      if (!chosen || care_of(done_[i]) < care_of(done_[*chosen])) chosen = i;
    }
    return chosen;
  }

  bool choose() {
    const double limit = limit_of_choice();
    std::vector<std::size_t> within;
    for (const std::size_t which : by_bound_) {
      if (all_[which].cost_bound <= limit && !all_[which].simulated) within.push_back(which);
    }
    std::sort(within.begin(), within.end(),
              [&](std::size_t a, std::size_t b) { return all_[a].care < all_[b].care; });
    std::optional<std::size_t> chosen = most_careful(limit);
    std::vector<std::size_t> batch;
    for (std::size_t i = 0; i < within.size(); ++i) {
      // Its carefulness with the memory's bound is no worse than it will be.
      if (chosen && !(all_[within[i]].care < care_of(done_[*chosen]))) break;
      batch.push_back(within[i]);
      if (batch.size() < kBatch && i + 1 < within.size()) continue;
      simulate(batch);
      batch.clear();
      chosen = most_careful(limit);
      if (cancelled()) return false;
    }
    if (!batch.empty()) simulate(batch);
    return !cancelled();
  }

  struct Point {
    double step_time;
    double gpu_bytes;
    double traffic;
    std::int64_t staleness;
  };
  /// Whether `a` is as good as `b` in everything.
  static bool covers(const Point& a, const Point& b) {
    return a.step_time <= b.step_time * kSame && a.staleness <= b.staleness &&
           a.gpu_bytes <= b.gpu_bytes * kSame && a.traffic <= b.traffic * kSame;
  }
  static Point point_of(const Evaluation& one) {
    return {one.step_time, one.gpu_bytes, one.traffic(), one.staleness};
  }
  static Point point_of(const CandidateBounds& one) {
    return {one.step_time, one.gpu_bytes, one.traffic, one.staleness};
  }
  [[nodiscard]] bool covered(const Point& point) const {
    return std::any_of(front_.begin(), front_.end(),
                       [&](const Point& one) { return covers(one, point); });
  }
  void add_to_front(const Evaluation& evaluation) {
    const Point point = point_of(evaluation);
    if (covered(point)) return;
    std::erase_if(front_, [&](const Point& one) { return covers(point, one); });
    front_.push_back(point);
  }

  void find_front() {
    std::vector<std::size_t> batch;
    for (const std::size_t which : by_bound_) {
      if (all_[which].cost_bound > best_ * (1 + request_.front_within)) break;
      if (all_[which].simulated || covered(point_of(all_[which].bounds))) continue;
      batch.push_back(which);
      if (batch.size() < kBatch) continue;
      simulate(batch);
      batch.clear();
      if (cancelled()) return;
    }
    simulate(batch);
    static_cast<void>(cancelled());
  }

  void count() {
    SearchCounts& counts = result_.counts;
    for (const std::size_t which : by_bound_) {
      const Candidate& one = all_[which];
      if (!one.simulated) {
        (result_.complete ? counts.excluded_by_bound : counts.not_reached) += one.members;
        continue;
      }
      ++counts.simulated;
      counts.equal += one.members - 1;
      if (!done_[*one.simulated].evaluation.infeasible.empty()) {
        counts.infeasible_when_simulated += one.members;
        counts.reasons[done_[*one.simulated].evaluation.infeasible] += one.members;
      }
    }
  }

  void finish() {
    count();
    result_.simulated = done_;
    std::sort(result_.simulated.begin(), result_.simulated.end(),
              [](const Simulated& a, const Simulated& b) { return a.index < b.index; });
    done_ = result_.simulated;
    if (published_ && all_[*published_].simulated) {
      const std::uint64_t index = all_[*published_].index;
      for (const Simulated& one : done_) {
        if (one.index == index && one.evaluation.infeasible.empty()) result_.published = one;
      }
    }
    for (Candidate& one : all_) one.simulated.reset();
    for (std::size_t i = 0; i < done_.size(); ++i) {
      if (published_ && done_[i].index == all_[*published_].index) all_[*published_].simulated = i;
    }
    rank();
    if (best_ < kInfinite) result_.chosen = most_careful(limit_of_choice());
    take_front();
  }

  /// The best of each kind and placement; ties by index.
  void rank() {
    std::vector<std::pair<double, std::size_t>> feasible;
    for (std::size_t i = 0; i < done_.size(); ++i) {
      if (!done_[i].evaluation.infeasible.empty()) continue;
      feasible.emplace_back(candidates_.cost(done_[i].setting, done_[i].evaluation.step_time), i);
    }
    std::sort(feasible.begin(), feasible.end());
    std::vector<std::uint64_t> kinds;
    for (const auto& [cost, i] : feasible) {
      if (!result_.fastest) result_.fastest = i;
      auto& place = result_.by_placement[static_cast<std::size_t>(done_[i].setting.placement())];
      if (!place) place = i;
      const std::uint64_t kind = kind_of(done_[i].setting);
      if (result_.top.size() >= request_.top) continue;
      if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) continue;
      kinds.push_back(kind);
      result_.top.push_back(i);
    }
  }

  void take_front() {
    if (request_.front_within <= 0) return;
    const double limit = best_ * (1 + request_.front_within);
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < done_.size(); ++i) {
      if (!done_[i].evaluation.infeasible.empty()) continue;
      const double cost = candidates_.cost(done_[i].setting, done_[i].evaluation.step_time);
      if (cost <= limit) order.push_back(i);
    }
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::tie(done_[a].evaluation.step_time, done_[a].index) <
             std::tie(done_[b].evaluation.step_time, done_[b].index);
    });
    for (const std::size_t i : order) {
      const Point point = point_of(done_[i].evaluation);
      const bool beaten = std::any_of(order.begin(), order.end(), [&](std::size_t other) {
        if (other == i) return false;
        const Point better = point_of(done_[other].evaluation);
        return covers(better, point) &&
               (!covers(point, better) || done_[other].index < done_[i].index);
      });
      if (!beaten) result_.front.push_back(i);
    }
  }

  static constexpr double kInfinite = std::numeric_limits<double>::infinity();

  Candidates& candidates_;
  const TuneRequest& request_;
  const SearchOptions& options_;
  Setting own_;
  SearchResult result_;
  std::vector<Candidate> all_;         ///< canonical, ascending by index
  std::vector<std::size_t> by_bound_;  ///< those not infeasible by their bounds
  std::vector<Simulated> done_;
  std::optional<std::size_t> published_;  ///< into all_
  double best_ = kInfinite;
  std::map<std::uint64_t, double> best_of_kind_;
  std::array<double, kPlacements> best_of_place_ = {kInfinite, kInfinite, kInfinite, kInfinite};
  std::vector<Point> front_;
};

}  // namespace

std::uint64_t kind_of(const Setting& setting) {
  constexpr std::uint64_t kMany = 1 << 20;
  std::uint64_t kind = static_cast<std::uint64_t>(setting.placement()) * 4 +
                       static_cast<std::uint64_t>(setting.stage());
  kind = kind * kMany + static_cast<std::uint64_t>(setting.whole(Knob::kMicroBatch)) % kMany;
  if (!setting.zenflow()) return kind * kMany * 2;
  kind = kind * kMany + static_cast<std::uint64_t>(setting.interval());
  return 2 * kind + (setting.flag(Knob::kOverlapStep) ? 1 : 0);
}

Carefulness carefulness(const Setting& setting, std::int64_t staleness, double gpu_bytes,
                        const Setting& own, std::uint64_t index) {
  int changes = 0;
  for (const KnobInfo& one : knobs()) {
    if (one.of_zenflow && !setting.zenflow()) continue;
    changes += setting.get(one.knob) != own.get(one.knob) ? 1 : 0;
  }
  return {staleness, setting.zenflow() ? -setting.topk_ratio() : -1, gpu_bytes, changes, index};
}

SearchResult search(Candidates& candidates, const SearchOptions& options) {
  return Search(candidates, options).go();
}

}  // namespace zenflow::sim
