// The search against brute force, against itself with other threads, and on the shipped scenarios.
#include <map>
#include <optional>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/tune/published_setting.h"
#include "tests/support/long_tests.h"
#include "tests/support/tune_requests.h"

namespace zenflow::sim {
namespace {

using testing::BruteForce;
using testing::published;
using testing::shipped_request;
using testing::shipped_scenarios;

struct Case {
  std::string scenario;
  Family family;
  std::vector<std::string> vary;
  Objective objective = Objective::kStepTime;
  double front_within = 10;
  std::size_t top = 5;
  double slack = 0.02;
};

// Spaces in which different ends of the search decide: what fits, the slack, the front.
std::vector<Case> cases() {
  return {
      {"opt_1_3b_1xrtx3090",
       Family::kDeepSpeed,
       {"stage=1,2", "micro_batch_size_per_gpu=2,4", "topk_ratio=0.05,0.1,0.3",
        "update_interval=1,8", "select_interval=48", "full_warm_up_rounds=0,48",
        "pt_reserved_cores_perc=0.25,0.5", "reduce_bucket_size=200000000"}},
      {"llama2_7b_4xa100",
       Family::kDeepSpeed,
       {"placement=cpu,zenflow", "stage=2,3", "micro_batch_size_per_gpu=4", "topk_ratio=0.05,0.2",
        "update_interval=2,8", "select_interval=48", "full_warm_up_rounds=48", "offload=false",
        "reduce_bucket_size=200000000"}},
      {"mistral_7b_1xrtx4090",
       Family::kPublished,
       {"stage=2,3", "topk_ratio=0.05,0.1,0.3", "update_interval=1,4,16", "select_interval=48"}},
      {"llama_10m_this_host",
       Family::kLive,
       {"topk_ratio=0.05,0.1,0.3", "update_interval=1,2,4,8", "accumulate_on=host"}},
      {"llama_10m_this_host",
       Family::kLive,
       {"placement=gpu,zenflow", "topk_ratio=0.05,0.3", "update_interval=1,2,8",
        "accumulate_on=host,device"}},
      // A link on which a window's sums are worth keeping back.
      {"live/gpt2",
       Family::kLive,
       {"placement=cpu,zenflow", "topk_ratio=0.1,0.3", "update_interval=1,4",
        "pt_reserved_cores_perc=0.5", "accumulate_on=host,device"}},
      // Fits without offloading, which is slower.
      {"gpt2_xl_1xh200",
       Family::kPublished,
       {"stage=2,3", "topk_ratio=0.05,0.1", "update_interval=2,4,8", "select_interval=48"}},
      // The same, but only in smaller micro-batches than the user's: then it does not count as
      // fitting.
      {"gpt2_xl_1xh200",
       Family::kLive,
       {"micro_batch_size_per_gpu=1,2", "topk_ratio=0.05,0.1", "update_interval=1,2,4",
        "select_interval=48", "accumulate_on=host"}},
      // With four GPUs it fits without offloading, with one it does not, which is cheaper.
      {"qwen2_5_3b_4xa100",
       Family::kPublished,
       {"gpus=1,4", "stage=2,3", "topk_ratio=0.05,0.1", "update_interval=4,8", "select_interval=48",
        "reduce_bucket_size=200000000"},
       Objective::kCostPerToken},
      // Four GPUs, as the user has, are better in all that the front is about, and cost too much
      // for it.
      {"qwen2_5_1_5b_4xa100",
       Family::kDeepSpeed,
       {"placement=zenflow", "gpus=1,4", "stage=2", "micro_batch_size_per_gpu=4,16",
        "activation_checkpointing=false,true", "topk_ratio=0.05,0.1", "update_interval=4,8,16",
        "select_interval=48", "full_warm_up_rounds=48", "offload=false", "overlap_comm=true",
        "overlap_step=true", "pt_reserved_cores_perc=0.5", "reduce_bucket_size=200000000"},
       Objective::kCostPerToken,
       0.4,
       1},
      // Warm-ups that leave update boundaries at different places between selections.
      {"mistral_7b_1xrtx4090",
       Family::kDeepSpeed,
       {"placement=zenflow", "stage=2", "micro_batch_size_per_gpu=1", "topk_ratio=0.05,0.1",
        "update_interval=6,16", "select_interval=48,64", "full_warm_up_rounds=4,6,12,48",
        "offload=false", "pt_reserved_cores_perc=0.5", "reduce_bucket_size=200000000",
        "overlap_comm=true"}},
      // The user offloads for nothing, and a little faster than without.
      {"gpt2_xl_1xh200",
       Family::kPublished,
       {"stage=0,1,2", "activation_checkpointing=false,true", "topk_ratio=0.1", "update_interval=4",
        "select_interval=48", "reduce_bucket_size=200000000"},
       Objective::kStepTime,
       10,
       5,
       0.5},
  };
}

TuneRequest request_of(const Case& which) {
  TuneRequest request = shipped_request(which.scenario, which.family);
  for (const std::string& text : which.vary) narrow(request.space, text);
  request.objective = which.objective;
  request.price_per_gpu_hour = 2;
  request.front_within = which.front_within;
  request.top = which.top;
  request.slack = which.slack;
  return request;
}

SearchOptions on_threads(unsigned threads) {
  SearchOptions options;
  options.threads = threads;
  return options;
}

/// A space, what the search finds in it, and what is in it.
struct Solved {
  explicit Solved(const Case& which)
      : candidates(request_of(which)),
        result(search(candidates, on_threads(2))),
        all(candidates),
        as_published(published(candidates)) {
    for (const BruteForce::Point& one : all.feasible) {
      kinds.push_back(kind_of(candidates.canonical(one.setting)));
    }
  }

  Candidates candidates;
  SearchResult result;
  BruteForce all;
  std::optional<BruteForce::Point> as_published;
  std::vector<std::uint64_t> kinds;  ///< of all.feasible
};

/// Brute force is what these tests take their time for: once a space.
const Solved& solved(std::size_t which) {
  static std::map<std::size_t, Solved> known;
  return known.try_emplace(which, cases()[which]).first->second;
}

class TuneSearch : public ::testing::TestWithParam<std::size_t> {};

TEST_P(TuneSearch, FindsWhatBruteForceFinds) {
  const auto& [candidates, result, all, as_published, kinds] = solved(GetParam());
  ASSERT_FALSE(all.feasible.empty());
  ASSERT_TRUE(result.fastest);
  const Simulated& fastest = result.simulated[*result.fastest];
  // Sums over steps of one length may differ in their last bits (SimulationDetail).
  EXPECT_DOUBLE_EQ(candidates.cost(fastest.setting, fastest.evaluation.step_time), all.best());

  // The answer is the eligible setting of least risk within the slack, and no slower than what the
  // user has or the published one, where there is such a setting.
  const double best = all.best_eligible(candidates);
  double limit = best * (1 + candidates.request().slack);
  const Setting own = setting_of(candidates.request().job);
  const auto keep_to = [&](const Setting& setting, const Evaluation& evaluation) {
    const double cost = candidates.cost(setting, evaluation.step_time);
    if (evaluation.infeasible.empty() && cost >= best) limit = std::min(limit, cost);
  };
  if (result.own) keep_to(own, *result.own);
  ASSERT_EQ(result.published.has_value(), as_published.has_value());
  if (as_published) {
    EXPECT_EQ(result.published->evaluation.step_time, as_published->evaluation.step_time);
    keep_to(as_published->setting, as_published->evaluation);
  }
  std::optional<Risk> least;
  for (const BruteForce::Point& one : all.feasible) {
    if (one.cost > limit || !all.is_eligible(one.setting, candidates)) continue;
    const Risk risk =
        risk_of(one.setting, one.evaluation.staleness, one.evaluation.gpu_bytes, own, 0);
    if (!least || risk < *least) least = risk;
  }
  ASSERT_TRUE(least);
  ASSERT_TRUE(result.chosen);
  const Simulated& chosen = result.simulated[*result.chosen];
  const Risk found =
      risk_of(chosen.setting, chosen.evaluation.staleness, chosen.evaluation.gpu_bytes, own, 0);
  EXPECT_EQ(found.staleness, least->staleness);
  EXPECT_EQ(found.minus_topk_ratio, least->minus_topk_ratio);
  EXPECT_EQ(found.gpu_bytes, least->gpu_bytes);
}

template <class Key>
void keep_best(std::map<Key, double>& best, Key key, double cost) {
  double& least = best.try_emplace(key, cost).first->second;
  least = std::min(least, cost);
}

/// The best setting of each placement, and as many of the best kinds of settings as were asked for.
void expect_best_of_each(const Candidates& candidates, const SearchResult& result,
                         const Solved& solved) {
  std::map<Placement, double> of_placement;
  std::map<std::uint64_t, double> of_kind;
  for (std::size_t i = 0; i < solved.all.feasible.size(); ++i) {
    const BruteForce::Point& one = solved.all.feasible[i];
    keep_best(of_placement, one.setting.placement(), one.cost);
    keep_best(of_kind, solved.kinds[i], one.cost);
  }
  const auto cost = [&](std::size_t which) {
    const Simulated& one = result.simulated[which];
    return candidates.cost(one.setting, one.evaluation.step_time);
  };
  for (std::size_t i = 0; i < kPlacements; ++i) {
    const auto place = static_cast<Placement>(i);
    const std::optional<std::size_t> found = result.by_placement[i];
    ASSERT_EQ(found.has_value(), of_placement.contains(place)) << to_string(place);
    if (!found) continue;
    EXPECT_EQ(result.simulated[*found].setting.placement(), place);
    EXPECT_DOUBLE_EQ(cost(*found), of_placement[place]) << to_string(place);
  }
  std::vector<double> best;
  for (const auto& [kind, least] : of_kind) best.push_back(least);
  std::sort(best.begin(), best.end());
  best.resize(std::min(best.size(), candidates.request().top));
  std::vector<double> found;
  for (const std::size_t one : result.top) {
    found.push_back(cost(one));
    EXPECT_DOUBLE_EQ(cost(one), of_kind[kind_of(result.simulated[one].setting)]);
  }
  EXPECT_THAT(found, ::testing::Pointwise(::testing::DoubleEq(), best));
}

// For themselves, not because a choice, the front or, with one kind, the others need them.
TEST_P(TuneSearch, FindsTheBestOfEachPlacementAndOfEachKind) {
  for (const std::size_t top : {std::size_t{1}, std::size_t{5}}) {
    TuneRequest request = request_of(cases()[GetParam()]);
    request.top = top;
    request.front_within = 0;
    request.slack = 0;
    Candidates candidates(std::move(request));
    expect_best_of_each(candidates, search(candidates, on_threads(2)), solved(GetParam()));
  }
}

TEST_P(TuneSearch, FindsTheParetoFrontThatBruteForceFinds) {
  const auto& [candidates, result, all, as_published, kinds] = solved(GetParam());
  constexpr double kSame = 1 + 3e-6;
  const auto covers = [](const Evaluation& a, const Evaluation& b, double same) {
    return a.step_time <= b.step_time * same && a.staleness <= b.staleness &&
           a.gpu_bytes <= b.gpu_bytes * same && a.traffic() <= b.traffic() * same;
  };
  // Everything feasible within the limit is covered by the front, and nothing on the front clearly
  // beaten.
  const double limit = all.best() * (1 + candidates.request().front_within);
  for (const BruteForce::Point& one : all.feasible) {
    if (one.cost > limit) continue;
    EXPECT_TRUE(std::any_of(result.front.begin(), result.front.end(), [&](std::size_t on) {
      return covers(result.simulated[on].evaluation, one.evaluation, kSame);
    })) << describe(one.setting);
    for (const std::size_t on : result.front) {
      const Evaluation& point = result.simulated[on].evaluation;
      EXPECT_FALSE(covers(one.evaluation, point, 1) && !covers(point, one.evaluation, kSame))
          << describe(one.setting) << " beats " << describe(result.simulated[on].setting);
    }
  }
}

TEST_P(TuneSearch, CountsEveryPointOnce) {
  const auto& [candidates, result, all, as_published, kinds] = solved(GetParam());
  const SearchCounts& counts = result.counts;
  EXPECT_EQ(counts.points, candidates.request().space.size());
  EXPECT_EQ(counts.points,
            counts.simulated + counts.equal + counts.excluded_by_bound + counts.infeasible);
  EXPECT_EQ(counts.not_reached, 0U);
  EXPECT_EQ(counts.simulated, result.simulated.size());
  EXPECT_GE(counts.infeasible, all.refused);
  // Else it would be brute force itself.
  EXPECT_LT(counts.simulated, all.feasible.size());
  std::uint64_t reasons = 0;
  for (const auto& [why, count] : counts.reasons) reasons += count;
  EXPECT_EQ(reasons, counts.infeasible + counts.infeasible_when_simulated);
}

void expect_same(const SearchResult& one, const SearchResult& other) {
  EXPECT_EQ(one.chosen, other.chosen);
  EXPECT_EQ(one.fastest, other.fastest);
  EXPECT_EQ(one.top, other.top);
  EXPECT_EQ(one.by_placement, other.by_placement);
  EXPECT_EQ(one.front, other.front);
  EXPECT_EQ(one.counts.excluded_by_bound, other.counts.excluded_by_bound);
  EXPECT_EQ(one.counts.reasons, other.counts.reasons);
  ASSERT_EQ(one.simulated.size(), other.simulated.size());
  for (std::size_t i = 0; i < one.simulated.size(); ++i) {
    EXPECT_EQ(one.simulated[i].index, other.simulated[i].index);
    EXPECT_EQ(one.simulated[i].evaluation.step_time, other.simulated[i].evaluation.step_time);
  }
}

TEST_P(TuneSearch, DoesNotDependOnTheNumberOfThreads) {
  std::vector<SearchResult> results;
  for (const unsigned threads : {1U, 2U, 5U}) {
    Candidates candidates(request_of(cases()[GetParam()]));
    results.push_back(search(candidates, on_threads(threads)));
  }
  for (const SearchResult& one : results) expect_same(one, results[0]);
}

/// When a search was stopped, every point is counted, and its choice is eligible and within the
/// slack of the best that it has simulated.
void expect_best_so_far(const Candidates& candidates, const SearchResult& result) {
  const SearchCounts& counts = result.counts;
  EXPECT_EQ(counts.points,
            counts.simulated + counts.equal + counts.not_reached + counts.infeasible);
  EXPECT_EQ(counts.simulated, result.simulated.size());
  const BruteForce so_far(candidates, result.simulated);
  const double best = so_far.best_eligible(candidates);
  ASSERT_EQ(result.chosen.has_value(), best < std::numeric_limits<double>::infinity());
  if (!result.chosen) return;
  const Simulated& chosen = result.simulated[*result.chosen];
  EXPECT_EQ(chosen.evaluation.infeasible, "");
  EXPECT_TRUE(so_far.is_eligible(chosen.setting, candidates)) << describe(chosen.setting);
  EXPECT_LE(candidates.cost(chosen.setting, chosen.evaluation.step_time),
            best * (1 + candidates.request().slack));
}

// Whenever it is asked to: while points are listed, between batches, at its end.
TEST_P(TuneSearch, StopsWhenAskedTo) {
  const Solved& whole = solved(GetParam());
  bool complete = false;
  int without_choice = 0;
  for (int n = 1; !complete; ++n) {
    SCOPED_TRACE(n);
    Candidates candidates(request_of(cases()[GetParam()]));
    int asked = 0;
    SearchOptions options = on_threads(2);
    options.cancelled = [&] { return ++asked >= n; };
    const SearchResult result = search(candidates, options);
    complete = result.complete;
    EXPECT_EQ(complete, asked < n);
    if (complete) {
      EXPECT_EQ(result.chosen, whole.result.chosen);
    } else {
      expect_best_so_far(candidates, result);
      without_choice += result.chosen ? 0 : 1;
    }
  }
  EXPECT_GT(without_choice, 1) << "points are not listed at once";
}

/// Ends the search once it has been given results so many times.
class FailingStore : public EvaluationStore {
 public:
  std::optional<Evaluation> find(std::uint64_t index) override {
    const auto found = known_.find(index);
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }
  void store(const std::vector<std::pair<std::uint64_t, Evaluation>>& results) override {
    if (until_failure == 0) throw Error(ErrorKind::kRuntime, "disk full");
    --until_failure;
    for (const auto& [index, evaluation] : results) {
      EXPECT_TRUE(known_.emplace(index, evaluation).second) << "simulated again";
    }
  }

  int until_failure = 0;

 private:
  std::map<std::uint64_t, Evaluation> known_;
};

TEST_P(TuneSearch, GoesOnWhereItWasKilled) {
  const Solved& whole = solved(GetParam());
  bool complete = false;
  for (int stores = 0; !complete; ++stores) {
    SCOPED_TRACE(stores);
    FailingStore store;
    store.until_failure = stores;
    SearchOptions options = on_threads(2);
    options.store = &store;
    Candidates killed(request_of(cases()[GetParam()]));
    try {
      complete = search(killed, options).complete;
    } catch (const Error&) {
    }
    store.until_failure = std::numeric_limits<int>::max();
    Candidates resumed(request_of(cases()[GetParam()]));
    expect_same(search(resumed, options), whole.result);
  }
}

INSTANTIATE_TEST_SUITE_P(Spaces, TuneSearch, ::testing::Range(std::size_t{0}, cases().size()));

/// At the scenario's own micro-batch, in any stage. Where the device is the host there is nothing
/// to offload from: its memory is the same, and the optimizer only gets cores of its own.
bool fits_without_offloading(const Candidates& candidates) {
  if (candidates.request().job.scenario.hardware.gpu.runs_on_host()) return false;
  const Space& space = candidates.request().space;
  Setting setting = setting_of(candidates.request().job);
  setting.set(Knob::kPlacement, static_cast<double>(Placement::kGpu));
  for (const int stage : {0, 1, 2, 3}) {
    setting.set(Knob::kStage, stage);
    for (const double overlap : {1, 0}) {
      setting.set(Knob::kOverlapComm, overlap);
      for (const double bucket : space.values(Knob::kBucket)) {
        setting.set(Knob::kBucket, bucket);
        if (candidates.evaluate(setting).infeasible.empty()) return true;
      }
    }
  }
  return false;
}

/// Searches for the published schedule that take two fifths of the time of all: for DeepSpeed's
/// alone, unless all is asked for.
const std::set<std::string> kLongSearches = {"llama2_13b_4xa100", "llama2_13b_4xh100",
                                             "qwen2_5_7b_4xl40s"};

/// Every schedule that the tuner has for the scenario's device: the published one, unless that
/// search is long; DeepSpeed's, unless the device is the host; zenflow-train's operations on one
/// GPU.
std::vector<Family> families_of(const std::string& scenario) {
  const Job job = shipped_request(scenario).job;
  std::vector<Family> families;
  if (zenflow::testing::long_tests() || !kLongSearches.contains(scenario)) {
    families.push_back(Family::kPublished);
  }
  if (!job.scenario.hardware.gpu.runs_on_host()) families.push_back(Family::kDeepSpeed);
  if (job.scenario.ranks() == 1) families.push_back(Family::kLive);
  return families;
}

class TuneShipped : public ::testing::TestWithParam<std::string> {};

SearchResult search_for_choice(const std::string& scenario, Family family, OffloadWhen when) {
  TuneRequest request = shipped_request(scenario, family);
  request.front_within = 0;
  request.offload_when = when;
  Candidates candidates(std::move(request));
  return search(candidates, on_threads(2));
}

/// No slower than the published setting and than the user's own, if they are feasible and nothing
/// speaks against proposing them.
void expect_at_least_as_good(const Simulated& chosen,
                             const std::optional<BruteForce::Point>& published,
                             const SearchResult& result) {
  ASSERT_EQ(result.published.has_value(), published.has_value());
  if (published) {
    EXPECT_EQ(result.published->evaluation.step_time, published->evaluation.step_time);
    EXPECT_LE(chosen.evaluation.step_time, published->evaluation.step_time)
        << describe(chosen.setting);
  }
  if (result.own && result.own->infeasible.empty() && result.own_not_proposed.empty()) {
    EXPECT_LE(chosen.evaluation.step_time, result.own->step_time) << describe(chosen.setting);
  }
}

TEST_P(TuneShipped, IsAtLeastAsGoodAsThePublishedSettingAndDoesNotOffloadWhatFits) {
  for (const Family family : families_of(GetParam())) {
    SCOPED_TRACE(to_string(family));
    Candidates candidates(shipped_request(GetParam(), family));
    const SearchResult result = search_for_choice(GetParam(), family, OffloadWhen::kNeeded);
    const bool fits = fits_without_offloading(candidates);
    // What zenflow-train does not run, or has no memory for, is no answer.
    if (!result.chosen) {
      EXPECT_NE(family, Family::kDeepSpeed);
      EXPECT_FALSE(fits || published(candidates));
      continue;
    }
    const Simulated& chosen = result.simulated[*result.chosen];
    EXPECT_EQ(chosen.evaluation.infeasible, "");
    EXPECT_EQ(candidates.evaluate(chosen.setting).infeasible, "");
    if (!fits) {
      EXPECT_FALSE(result.fits_without_offloading);
      expect_at_least_as_good(chosen, published(candidates), result);
      continue;
    }
    EXPECT_TRUE(result.fits_without_offloading);
    EXPECT_EQ(chosen.setting.placement(), Placement::kGpu) << describe(chosen.setting);
    const SearchResult by_speed = search_for_choice(GetParam(), family, OffloadWhen::kFaster);
    ASSERT_TRUE(by_speed.chosen);
    expect_at_least_as_good(by_speed.simulated[*by_speed.chosen], published(candidates), by_speed);
    // As DeepSpeed ships it, offloading what fits is never faster.
    if (family != Family::kDeepSpeed) continue;
    expect_at_least_as_good(chosen, published(candidates), result);
    EXPECT_EQ(by_speed.simulated[*by_speed.chosen].setting, chosen.setting);
  }
}

INSTANTIATE_TEST_SUITE_P(Scenarios, TuneShipped, ::testing::ValuesIn(shipped_scenarios()));

// That the comparisons above compare something.
TEST(TuneShippedSettings,
     OfMostScenariosThePublishedOneIsFeasibleAndSomeDoNotFitWithoutOffloading) {
  std::size_t families = 0;
  std::size_t compared = 0;
  std::size_t too_large = 0;
  for (const std::string& scenario : shipped_scenarios()) {
    for (const Family family : families_of(scenario)) {
      Candidates candidates(shipped_request(scenario, family));
      ++families;
      compared += published(candidates) ? 1U : 0U;
      too_large += fits_without_offloading(candidates) ? 0U : 1U;
    }
  }
  EXPECT_GT(compared, families / 2);
  EXPECT_GT(too_large, 3U);
  EXPECT_LT(too_large, families - 3);
}

/// What of the published setting is not the user's own.
struct AsPublished {
  int stage;
  std::int64_t micro_batch;
  std::int64_t warm_up;
};
void expect_published(TuneRequest request, const AsPublished& expected) {
  request.global_batch = global_batch_of(request.job, request.family);
  request.space = default_space(request.job, request.family, request.global_batch);
  request.front_within = 0;
  Candidates candidates(std::move(request));
  const std::optional<Setting> found = published_setting(candidates);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->placement(), Placement::kZenFlow);
  EXPECT_EQ(found->topk_ratio(), 0.1);
  EXPECT_EQ(found->interval(), 4);
  EXPECT_TRUE(found->flag(Knob::kOverlapStep));
  EXPECT_EQ(found->stage(), expected.stage);
  EXPECT_EQ(found->whole(Knob::kMicroBatch), expected.micro_batch);
  EXPECT_EQ(found->whole(Knob::kWarmUp), expected.warm_up);
  const SearchResult result = search(candidates, on_threads(2));
  ASSERT_TRUE(result.published);
  EXPECT_EQ(result.published->evaluation.step_time, candidates.evaluate(*found).step_time);
}

// DeepSpeed does not run overlap_step without warm-up, an offloaded optimizer in stage 0, or
// gradient accumulation with ZenFlow, unless its windows are those of accumulation.
TEST(TunePublished, IsTheNearestThatDeepSpeedRuns) {
  expect_published(shipped_request("llama2_7b_4xa100"), {2, 4, 4});
  TuneRequest plain = shipped_request("llama2_7b_4xa100");
  plain.job.deepspeed.zenflow.reset();
  expect_published(plain, {2, 4, 48});

  TuneRequest on_gpu = plain;
  on_gpu.job.deepspeed.zero_stage = 0;
  on_gpu.job.deepspeed.offload_optimizer = OffloadDevice::kNone;
  expect_published(on_gpu, {1, 4, 48});

  TuneRequest accumulates = plain;
  accumulates.job.deepspeed.gradient_accumulation_steps = 2;
  expect_published(accumulates, {2, 8, 48});

  for (const LaunchTarget target : {LaunchTarget::kHf, LaunchTarget::kAccelerate}) {
    TuneRequest launched = plain;
    launched.job.target = target;
    launched.job.deepspeed.gradient_accumulation_steps = 8;
    expect_published(launched, {2, 8, 48});
  }
}

TEST(TunePublished, IsNoneWhereTheSpaceHasNone) {
  const auto in = [](const char* vary) {
    TuneRequest request = shipped_request("llama2_7b_4xa100");
    narrow(request.space, vary);
    Candidates candidates(std::move(request));
    return published_setting(candidates);
  };
  EXPECT_TRUE(in("full_warm_up_rounds=0,16"));
  for (const char* vary : {"full_warm_up_rounds=0", "topk_ratio=0.05,0.2", "placement=gpu,cpu",
                           "update_interval=8", "overlap_step=false", "stage=0"}) {
    EXPECT_FALSE(in(vary)) << vary;
  }
}

// The user's own is averaged over another stretch of its run than candidates, and can come out
// faster than itself by what sums round.
TEST(TuneChoice, IsNoSlowerThanTheUsersOwnWhereThatIsTheBest) {
  int rounded = 0;
  const std::vector<std::string> scenarios = {"llama2_7b_4xa100", "llama3_8b_1xgh200",
                                              "qwen2_5_1_5b_4xa100", "llama2_13b_4xh100"};
  for (int i = 0; i < 40; ++i) {
    const std::string& scenario = scenarios[static_cast<std::size_t>(i) % scenarios.size()];
    TuneRequest request = shipped_request(scenario);
    HostProfile& host = request.job.scenario.hardware.host;
    host.adam_bandwidth = (1 + 0.013 * i) * host.adam_bandwidth;
    request.job.deepspeed.zenflow->update_interval = 3;
    request.job.deepspeed.zenflow->full_warm_up_rounds = 48;
    // A smaller interval is slower, of less risk and within the slack.
    for (const char* text :
         {"placement=zenflow", "stage=2", "update_interval=1,2,3", "topk_ratio=0.1",
          "select_interval=64", "full_warm_up_rounds=48", "overlap_step=true", "offload=false",
          "overlap_comm=true", "bind_cores_to_rank=false", "pt_reserved_cores_perc=0.5",
          "reduce_bucket_size=200000000"}) {
      narrow(request.space, text);
    }
    request.front_within = 0;
    request.slack = 3;
    Candidates candidates(std::move(request));
    const SearchResult result = search(candidates, on_threads(2));
    ASSERT_TRUE(result.own && result.chosen && result.fastest);
    EXPECT_EQ(result.own_not_proposed, "");
    const double own = result.own->step_time;
    const double fastest = result.simulated[*result.fastest].evaluation.step_time;
    EXPECT_NEAR(fastest / own, 1, 1e-9) << scenario;
    rounded += own < fastest ? 1 : 0;
    EXPECT_NEAR(result.simulated[*result.chosen].evaluation.step_time / own, 1, 1e-9) << scenario;
  }
  EXPECT_GT(rounded, 0) << "else nothing is shown";
}

// DeepSpeed's linter refuses ZenFlow without an optimizer in the file (ZF025); zenflow-train reads
// no such file.
TEST(TuneShippedSettings, OfTheUsersOwnItIsSaidWhyItMayNotBeChosen) {
  const auto refusal = [](const std::string& scenario, const std::string& vary) {
    TuneRequest request = shipped_request(scenario, Family::kPublished);
    if (!vary.empty()) narrow(request.space, vary);
    request.front_within = 0;
    Candidates candidates(std::move(request));
    return search(candidates, on_threads(2)).own_not_proposed;
  };
  EXPECT_EQ(refusal("opt_1_3b_1xrtx3090", ""), "");
  EXPECT_EQ(refusal("opt_1_3b_1xrtx3090", "placement=gpu,cpu"),
            "placement zenflow is not searched");
  // The scenario has no optimizer in its DeepSpeed settings.
  EXPECT_THAT(refusal("live/gpt2", ""), ::testing::StartsWith("lint ZF025"));
}

TEST(TuneLive, IsNotRefusedForWhatOnlyDeepSpeedMinds) {
  TuneRequest request = shipped_request("llama_10m_this_host", Family::kLive);
  Candidates candidates(request);
  Setting setting = setting_of(request.job);
  setting.set(Knob::kSelectInterval, 48);
  EXPECT_EQ(candidates.refusal(setting), "");
  request.family = Family::kDeepSpeed;
  setting.set(Knob::kWarmUp, 48);
  request.space = default_space(request.job, request.family, request.global_batch);
  Candidates for_deepspeed(request);
  EXPECT_EQ(for_deepspeed.refusal(setting),
            "lint ZF025: ZenFlow without an optimizer in the file (optimizer)");

  const SearchResult result = search(candidates, on_threads(2));
  ASSERT_TRUE(result.by_placement[static_cast<std::size_t>(Placement::kZenFlow)]);
  const Simulated& zenflow =
      result.simulated[*result.by_placement[static_cast<std::size_t>(Placement::kZenFlow)]];
  ASSERT_TRUE(result.fastest);
  EXPECT_LE(result.simulated[*result.fastest].evaluation.step_time, zenflow.evaluation.step_time);
  EXPECT_GT(result.counts.excluded_by_bound, 0U);
}

// A step of zenflow-train ends with its updates, however many micro-batches it has.
TEST(TuneLive, CountsTheMicroBatchesOfAStep) {
  constexpr std::int64_t kMicroBatches = 3;
  const std::vector<Override> overrides = {{"deepspeed.gradient_accumulation_steps", "3"}};
  for (const Placement placement : {Placement::kGpu, Placement::kCpu, Placement::kZenFlow}) {
    TuneRequest request = shipped_request("llama_10m_this_host", Family::kLive, overrides);
    EXPECT_EQ(request.global_batch, kMicroBatches);
    Candidates candidates(request);
    Setting setting = setting_of(request.job);
    setting.set(Knob::kPlacement, static_cast<double>(placement));
    EXPECT_EQ(candidates.refusal(setting), "");
    EXPECT_EQ(candidates.accumulation(setting), kMicroBatches);
    Job job = candidates.job(setting);
    EXPECT_EQ(job.deepspeed.gradient_accumulation_steps, kMicroBatches);
    const SimulationResult step = simulate_schedule(job, candidates.schedule(setting));
    const Evaluation one = candidates.evaluate(setting);
    EXPECT_EQ(one.step_time, step.step_time);
    EXPECT_EQ(one.d2h_bytes, step.d2h_bytes);
    EXPECT_EQ(one.staleness, step.staleness.max);
    EXPECT_DOUBLE_EQ(one.micro_step * kMicroBatches, step.step_time);
    EXPECT_DOUBLE_EQ(one.compute * kMicroBatches, step.compute);
    const double tokens = kMicroBatches * 64;
    EXPECT_NEAR(one.tokens_per_second * one.step_time * 1e-12, tokens, 1e-6);
    EXPECT_EQ(find_path(candidates.config(setting).root, "gradient_accumulation_steps")->scalar,
              "3");
    if (placement == Placement::kZenFlow) {
      EXPECT_EQ(candidates.evaluate_own().step_time, one.step_time);
    }
  }
}

// Another global batch is another number of micro-batches, of what the user has, too.
TEST(TuneLive, MeasuresWhatTheUserHasInTheGlobalBatchAskedFor) {
  TuneRequest request = shipped_request("llama_10m_this_host", Family::kLive);
  request.global_batch = 2;
  const Candidates candidates(request);
  const Setting own = setting_of(request.job);
  EXPECT_EQ(candidates.evaluate_own().step_time, candidates.evaluate(own).step_time);
}

// Where sums are: as the scenario has it and elsewhere; nowhere in what has none.
TEST(TuneLive, SearchesWhereSumsAre) {
  TuneRequest request = shipped_request("llama_10m_this_host", Family::kLive,
                                        {{"zenflow_train.accumulate_on", "device"}});
  Candidates candidates(request);
  const Setting own = setting_of(request.job);
  EXPECT_EQ(own.get(Knob::kAccumulateOn), 1);
  EXPECT_EQ(request.space.values(Knob::kAccumulateOn), (std::vector<double>{0, 1}));
  const auto with = [&](double place, std::int64_t interval, bool overlap) {
    Setting setting = own;
    setting.set(Knob::kPlacement, static_cast<double>(Placement::kZenFlow));
    setting.set(Knob::kAccumulateOn, place);
    setting.set(Knob::kUpdateInterval, static_cast<double>(interval));
    setting.set(Knob::kOverlapStep, overlap ? 1 : 0);
    return setting;
  };
  for (const bool overlap : {false, true}) {
    for (const std::int64_t interval : {1, 4}) {
      const Setting on_host = with(0, interval, overlap);
      const Setting on_device = with(1, interval, overlap);
      EXPECT_TRUE(candidates.job(on_device).scenario.offload.accumulate_on_device);
      EXPECT_FALSE(candidates.job(on_host).scenario.offload.accumulate_on_device);
      const bool has_sums = interval > 1 || overlap;
      EXPECT_EQ(candidates.canonical(on_device), on_device);
      // The user's own stands for both where there is no difference.
      EXPECT_EQ(candidates.canonical(on_host), has_sums ? on_host : on_device);
      const Evaluation host = candidates.evaluate(on_host);
      const Evaluation device = candidates.evaluate(on_device);
      EXPECT_EQ(host.gpu_bytes < device.gpu_bytes, has_sums);
      EXPECT_EQ(host.d2h_bytes != device.d2h_bytes, interval > 1) << "fp32: 4 bytes either way";
      for (const MemoryLimit limit : {MemoryLimit::kHost, MemoryLimit::kLocked}) {
        const auto which = static_cast<std::size_t>(limit);
        EXPECT_EQ(host.needs[which], device.needs[which]);
      }
      if (has_sums) continue;
      EXPECT_EQ(host.step_time, device.step_time);
      EXPECT_EQ(host.stall, device.stall);
    }
  }
  Setting plain = with(0, 4, true);
  plain.set(Knob::kPlacement, static_cast<double>(Placement::kCpu));
  EXPECT_EQ(candidates.canonical(plain).get(Knob::kAccumulateOn), 1);
  for (const Family other : {Family::kDeepSpeed, Family::kPublished}) {
    EXPECT_FALSE(has_knob(other, Knob::kAccumulateOn));
    EXPECT_EQ(default_space(request.job, other, 1).values(Knob::kAccumulateOn).size(), 1U);
  }
}

TEST(TuneLive, RefusesWhatZenFlowTrainDoesNotHave) {
  TuneRequest request = shipped_request("llama_10m_this_host", Family::kLive);
  Candidates candidates(request);
  Setting setting = setting_of(request.job);
  setting.set(Knob::kPlacement, static_cast<double>(Placement::kNvme));
  EXPECT_EQ(candidates.refusal_of_rest(setting),
            "placement: zenflow-train does not offload to NVMe");
}

}  // namespace
}  // namespace zenflow::sim
