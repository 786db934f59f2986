#include "sim/tune/search.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/thread_pool.h"
#include "sim/tune/candidate_list.h"
#include "sim/tune/eligibility.h"
#include "sim/tune/pareto_front.h"
#include "sim/tune/published_setting.h"

namespace zenflow::sim {
namespace {

/// Simulated together; what one batch found excludes only from the next on, whatever the threads.
constexpr std::size_t kBatch = 16;
/// The same of candidates in order of risk, of which the first within the limit ends the search.
constexpr std::size_t kRiskBatch = 4;

/// What differs by less costs the same: the user's own job is averaged over another stretch of its
/// run than candidates are, so the same program may come out faster than itself.
constexpr double kSameCost = 1e-4;

/// What excludes candidates has to hold for those that are simulated.
void check_bounds(const Candidate& one, const Evaluation& evaluation) {
  const auto check = [&](std::string_view what, double simulated, double bound) {
    if (simulated >= bound) return;
    throw Error(ErrorKind::kRuntime,
                fmt::format("tune: {} was simulated below its bound: {} {} of {}",
                            describe(one.setting), what, simulated, bound));
  };
  check("step time in ps", evaluation.step_time, one.bounds.step_time);
  check("GPU memory in bytes", evaluation.gpu_bytes, one.bounds.gpu_bytes);
  check("traffic in bytes", evaluation.traffic(), one.bounds.traffic);
  check("staleness in steps", static_cast<double>(evaluation.staleness),
        static_cast<double>(one.bounds.staleness));
  for (std::size_t i = 0; i < kMemoryLimits; ++i) {
    check(to_string(static_cast<MemoryLimit>(i)) + " in bytes", evaluation.needs[i],
          one.bounds.needs[i]);
  }
}

class Search {
 public:
  Search(Candidates& candidates, const SearchOptions& options)
      : candidates_(candidates),
        request_(candidates.request()),
        options_(options),
        own_(setting_of(request_.job)),
        list_(list_candidates(candidates, options.threads, options.cancelled)) {}

  SearchResult go() {
    references();
    if (list_.not_reached) {
      result_.complete = false;
    } else {
      seed();
      if (find_best() && find_fits() && choose() && request_.front_within > 0) find_front();
    }
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
      result_.own_not_proposed = why_own_is_not_eligible(candidates_);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput) throw;
      result_.own_refusal = error.what();
    }
  }

  /// Simulates those of `batch` that have not been yet.
  void simulate(const std::vector<std::size_t>& batch) {
    std::vector<std::size_t> missing;
    std::vector<std::optional<Evaluation>> found(batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (options_.store != nullptr) found[i] = options_.store->find(list_.all[batch[i]].index);
      if (!found[i]) missing.push_back(i);
    }
    ThreadPool pool(std::min<std::size_t>(options_.threads, missing.size()));
    pool.run(missing.size(), [&](std::size_t i) {
      found[missing[i]] = candidates_.evaluate(list_.all[batch[missing[i]]].setting);
    });
    std::vector<std::pair<std::uint64_t, Evaluation>> fresh;
    for (const std::size_t i : missing) fresh.emplace_back(list_.all[batch[i]].index, *found[i]);
    if (options_.store != nullptr && !fresh.empty()) options_.store->store(fresh);
    for (std::size_t i = 0; i < batch.size(); ++i) note(batch[i], std::move(*found[i]));
    last_of_top_ = last_of_top();
    if (options_.progress) options_.progress(done_.size());
  }

  void note(std::size_t which, Evaluation evaluation) {
    Candidate& one = list_.all[which];
    const double step = evaluation.step_time;
    check_bounds(one, evaluation);
    one.simulated = done_.size();
    done_.push_back({one.index, one.setting, std::move(evaluation)});
    const Simulated& done = done_.back();
    if (!done.evaluation.infeasible.empty()) return;
    const double cost = candidates_.cost(one.setting, step);
    best_ = std::min(best_, cost);
    if (is_eligible(one.setting)) best_eligible_ = std::min(best_eligible_, cost);
    double& of_kind = best_of_kind_.try_emplace(one.kind, kInfinite).first->second;
    of_kind = std::min(of_kind, cost);
    double& of_place = best_of_place_[static_cast<std::size_t>(one.setting.placement())];
    of_place = std::min(of_place, cost);
    add_to_front(done);
  }

  /// A front of what may cost more would cover cheaper settings, if they have other numbers of
  /// GPUs.
  void add_to_front(const Simulated& one) {
    if (!one.evaluation.infeasible.empty()) return;
    if (candidates_.cost(one.setting, one.evaluation.step_time) > front_limit_) return;
    front_.add(FrontPoint(one.evaluation));
  }

  /// The user's own setting, if it is a point of the space, and the published one.
  void seed() {
    std::vector<std::size_t> batch;
    const auto add = [&](const std::optional<Setting>& one) -> std::optional<std::size_t> {
      if (!one || !request_.space.contains(*one)) return std::nullopt;
      const auto which = list_.find(request_.space.index_of(candidates_.canonical(*one)));
      if (which && std::find(batch.begin(), batch.end(), *which) == batch.end()) {
        batch.push_back(*which);
      }
      return which;
    };
    add(own_);
    published_ = add(published_setting(candidates_));
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
  [[nodiscard]] bool could_be_best(const Candidate& one) const {
    const auto kind = best_of_kind_.find(one.kind);
    const double of_kind = kind == best_of_kind_.end() ? kInfinite : kind->second;
    if (one.cost_bound < std::min(of_kind, last_of_top_)) return true;
    return one.cost_bound < best_of_place_[static_cast<std::size_t>(one.setting.placement())];
  }

  /// Simulates those of `open` that still count, in their order, until none is left; one that is
  /// like another of the same batch waits for what that one finds. False: cancelled.
  template <class Counts, class IsLike>
  bool simulate_while(std::vector<std::size_t> open, Counts counts, IsLike is_like) {
    while (!open.empty()) {
      std::vector<std::size_t> batch;
      std::vector<std::size_t> later;
      auto next = open.begin();
      for (; next != open.end() && batch.size() < kBatch; ++next) {
        const Candidate& one = list_.all[*next];
        if (one.simulated || !counts(one)) continue;
        const bool waits = std::any_of(batch.begin(), batch.end(), [&](std::size_t other) {
          return is_like(one, list_.all[other]);
        });
        (waits ? later : batch).push_back(*next);
      }
      later.insert(later.end(), next, open.end());
      if (batch.empty()) return true;
      simulate(batch);
      if (cancelled()) return false;
      open = std::move(later);
    }
    return true;
  }

  bool find_best() {
    return simulate_while(
        list_.by_bound, [&](const Candidate& one) { return could_be_best(one); },
        [](const Candidate& one, const Candidate& other) { return one.kind == other.kind; });
  }

  /// Whether a job that fits without offloading is not offloaded. Where the device is the host
  /// there is nothing to offload from.
  [[nodiscard]] bool fitting_decides() const {
    return request_.offload_when == OffloadWhen::kNeeded &&
           !request_.job.scenario.hardware.gpu.runs_on_host();
  }

  /// Without offloading, in the scenario's own micro-batch or a larger one, so that none is called
  /// for to make it fit.
  [[nodiscard]] bool may_fit(const Setting& setting) const {
    return setting.placement() == Placement::kGpu &&
           setting.get(Knob::kMicroBatch) >= own_.get(Knob::kMicroBatch);
  }

  /// With how many GPUs the job fits without offloading, if that decides.
  bool find_fits() {
    if (!fitting_decides()) return true;
    // Most of those that do not fit are known by their bounds; of the others the smallest first.
    std::vector<std::size_t> open;
    for (const std::size_t which : list_.by_bound) {
      if (may_fit(list_.all[which].setting)) open.push_back(which);
    }
    std::sort(open.begin(), open.end(), [&](std::size_t a, std::size_t b) {
      return std::tie(list_.all[a].bounds.gpu_bytes, a) <
             std::tie(list_.all[b].bounds.gpu_bytes, b);
    });
    for (const std::size_t which : open) {
      const Candidate& one = list_.all[which];
      if (fits_.contains(one.setting.whole(Knob::kGpus))) continue;
      if (!one.simulated) simulate({which});
      if (cancelled()) return false;
      if (!done_[*one.simulated].evaluation.infeasible.empty()) continue;
      fits_.insert(one.setting.whole(Knob::kGpus));
    }
    find_best_eligible();
    return true;
  }

  /// What a search that was cancelled knows of it: what it has simulated.
  void find_fits_so_far() {
    for (const Simulated& one : done_) {
      if (!fitting_decides() || !may_fit(one.setting) || !one.evaluation.infeasible.empty()) {
        continue;
      }
      fits_.insert(one.setting.whole(Knob::kGpus));
    }
    find_best_eligible();
  }

  [[nodiscard]] bool is_eligible(const Setting& setting) const {
    return setting.placement() == Placement::kGpu || !fits_.contains(setting.whole(Knob::kGpus));
  }

  /// Once it is known what may be chosen.
  void find_best_eligible() {
    best_eligible_ = kInfinite;
    for (const Simulated& one : done_) {
      if (!one.evaluation.infeasible.empty() || !is_eligible(one.setting)) continue;
      best_eligible_ =
          std::min(best_eligible_, candidates_.cost(one.setting, one.evaluation.step_time));
    }
  }

  /// What a choice may cost at most: within the slack of the best, and no more than what the user
  /// has, or would have with the published setting, if that is feasible. What is cheaper than
  /// anything that may be chosen (what the user has, where he offloads for nothing) asks for what
  /// there is not, and counts for nothing.
  [[nodiscard]] double limit_of_choice() const {
    double limit = best_eligible_ * (1 + request_.slack);
    const auto keep_to = [&](const Setting& setting, const Evaluation& evaluation) {
      if (!evaluation.infeasible.empty()) return;
      const double cost = candidates_.cost(setting, evaluation.step_time);
      if (cost < best_eligible_ * (1 - kSameCost)) return;
      limit = std::min(limit, std::max(cost, best_eligible_));
    };
    if (result_.own) keep_to(own_, *result_.own);
    if (published_ && list_.all[*published_].simulated) {
      const Simulated& one = done_[*list_.all[*published_].simulated];
      keep_to(one.setting, one.evaluation);
    }
    return limit;
  }

  [[nodiscard]] Risk risk(const Simulated& one) const {
    return risk_of(one.setting, one.evaluation.staleness, one.evaluation.gpu_bytes, own_,
                   one.index);
  }

  /// The least risky of what has been simulated within the limit.
  [[nodiscard]] std::optional<std::size_t> least_risky(double limit) const {
    std::optional<std::size_t> chosen;
    for (std::size_t i = 0; i < done_.size(); ++i) {
      if (!done_[i].evaluation.infeasible.empty() || !is_eligible(done_[i].setting)) continue;
      if (candidates_.cost(done_[i].setting, done_[i].evaluation.step_time) > limit) continue;
      if (!chosen || risk(done_[i]) < risk(done_[*chosen])) chosen = i;
    }
    return chosen;
  }

  bool choose() {
    // The best of all that may be chosen, where that is not the best of a placement.
    const bool certain = simulate_while(
        list_.by_bound,
        [&](const Candidate& one) {
          return is_eligible(one.setting) && one.cost_bound < best_eligible_;
        },
        [](const Candidate& one, const Candidate& other) { return one.kind == other.kind; });
    if (!certain) return false;
    const double limit = limit_of_choice();
    std::vector<std::size_t> within;
    for (const std::size_t which : list_.by_bound) {
      const Candidate& one = list_.all[which];
      if (one.cost_bound <= limit && !one.simulated && is_eligible(one.setting)) {
        within.push_back(which);
      }
    }
    std::sort(within.begin(), within.end(),
              [&](std::size_t a, std::size_t b) { return list_.all[a].risk < list_.all[b].risk; });
    std::optional<std::size_t> chosen = least_risky(limit);
    std::vector<std::size_t> batch;
    for (std::size_t i = 0; i < within.size(); ++i) {
      // Its risk with the memory's bound is no worse than it will be.
      if (chosen && !(list_.all[within[i]].risk < risk(done_[*chosen]))) break;
      batch.push_back(within[i]);
      if (batch.size() < kRiskBatch && i + 1 < within.size()) continue;
      simulate(batch);
      batch.clear();
      chosen = least_risky(limit);
      if (cancelled()) return false;
    }
    if (!batch.empty()) simulate(batch);
    return !cancelled();
  }

  void find_front() {
    front_limit_ = best_ * (1 + request_.front_within);
    for (const Simulated& one : done_) add_to_front(one);
    const auto end = std::partition_point(
        list_.by_bound.begin(), list_.by_bound.end(),
        [&](std::size_t which) { return list_.all[which].cost_bound <= front_limit_; });
    static_cast<void>(simulate_while(
        {list_.by_bound.begin(), end},
        [&](const Candidate& one) { return !front_.covers(FrontPoint(one.bounds)); },
        [](const Candidate& one, const Candidate& other) {
          return FrontPoint(other.bounds).covers(FrontPoint(one.bounds));
        }));
  }

  void count() {
    SearchCounts& counts = result_.counts;
    counts.points = request_.space.size();
    counts.reasons = list_.refused;
    counts.not_reached = list_.not_reached.value_or(0);
    for (const auto& [why, points] : list_.refused) counts.infeasible += points;
    for (const std::size_t which : list_.by_bound) {
      const Candidate& one = list_.all[which];
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
    if (published_ && list_.all[*published_].simulated) {
      const std::uint64_t index = list_.all[*published_].index;
      for (const Simulated& one : done_) {
        if (one.index == index && one.evaluation.infeasible.empty()) result_.published = one;
      }
    }
    for (Candidate& one : list_.all) one.simulated.reset();
    for (std::size_t i = 0; i < done_.size(); ++i) {
      if (published_ && done_[i].index == list_.all[*published_].index)
        list_.all[*published_].simulated = i;
    }
    rank();
    if (!result_.complete) find_fits_so_far();
    if (best_ < kInfinite) result_.chosen = least_risky(limit_of_choice());
    if (result_.chosen) {
      const Setting& chosen = done_[*result_.chosen].setting;
      result_.fits_without_offloading = fits_.contains(chosen.whole(Knob::kGpus));
    }
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
    std::vector<std::size_t> within;
    std::vector<FrontPoint> points;
    for (std::size_t i = 0; i < done_.size(); ++i) {
      if (!done_[i].evaluation.infeasible.empty()) continue;
      if (candidates_.cost(done_[i].setting, done_[i].evaluation.step_time) > limit) continue;
      within.push_back(i);
      points.emplace_back(done_[i].evaluation);
    }
    for (const std::size_t one : not_covered(points)) result_.front.push_back(within[one]);
    std::stable_sort(result_.front.begin(), result_.front.end(), [&](std::size_t a, std::size_t b) {
      return done_[a].evaluation.step_time < done_[b].evaluation.step_time;
    });
  }

  static constexpr double kInfinite = std::numeric_limits<double>::infinity();

  Candidates& candidates_;
  const TuneRequest& request_;
  const SearchOptions& options_;
  Setting own_;
  SearchResult result_;
  CandidateList list_;
  std::vector<Simulated> done_;
  std::optional<std::size_t> published_;  ///< into list_.all
  double best_ = kInfinite;
  double best_eligible_ = kInfinite;
  std::set<std::int64_t> fits_;  ///< numbers of GPUs with which the job fits without offloading
  std::map<std::uint64_t, double> best_of_kind_;
  double last_of_top_ = kInfinite;
  std::array<double, kPlacements> best_of_place_ = {kInfinite, kInfinite, kInfinite, kInfinite};
  double front_limit_ = 0;  ///< what the front's settings cost at most; until it is sought, nothing
  ParetoFront front_;
};

}  // namespace

SearchResult search(Candidates& candidates, const SearchOptions& options) {
  return Search(candidates, options).go();
}

}  // namespace zenflow::sim
