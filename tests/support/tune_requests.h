/// What the tuner's tests ask for: shipped scenarios, and brute force.
#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/tune/search.h"

namespace zenflow::sim::testing {

inline TuneRequest shipped_request(const std::string& scenario, Family family = Family::kDeepSpeed,
                                   const std::vector<Override>& overrides = {}) {
  const std::filesystem::path root = ZENFLOW_SOURCE_DIR;
  LoadOptions options;
  options.profile_directories = {root / "profiles"};
  options.overrides = overrides;
  TuneRequest request;
  request.job = make_job(load_scenario(root / "scenarios" / (scenario + ".yaml"), options));
  request.family = family;
  request.global_batch = global_batch_of(request.job, family);
  request.space = default_space(request.job, family, request.global_batch);
  request.limits.staleness = request.job.scenario.max_staleness;
  return request;
}

/// The names of all files in scenarios/ and scenarios/live: "llama2_7b_4xa100", "live/gpt2".
inline std::vector<std::string> shipped_scenarios() {
  std::vector<std::string> names;
  const std::filesystem::path folder = std::filesystem::path(ZENFLOW_SOURCE_DIR) / "scenarios";
  for (const char* of : {"", "live/"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder / of)) {
      if (entry.path().extension() == ".yaml") names.push_back(of + entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Small numbers that look random; equal on every machine.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  std::uint64_t below(std::uint64_t bound) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return (state_ >> 33U) % bound;
  }
  double between(double low, double high) {
    return low + (high - low) * static_cast<double>(below(1U << 30U)) / (1U << 30U);
  }

 private:
  std::uint64_t state_;
};

/// Every point of the space by itself, without canonical forms, bounds or batches; or those that a
/// search has simulated.
struct BruteForce {
  struct Point {
    Setting setting;
    Evaluation evaluation;
    double cost;
  };
  std::vector<Point> feasible;
  std::uint64_t refused = 0;

  explicit BruteForce(Candidates& candidates) {
    const Space& space = candidates.request().space;
    for (std::uint64_t i = 0; i < space.size(); ++i) {
      const Setting setting = space.at(i);
      if (!candidates.refusal(setting).empty()) {
        ++refused;
        continue;
      }
      Evaluation one = candidates.evaluate(setting);
      if (!one.infeasible.empty()) continue;
      const double cost = candidates.cost(setting, one.step_time);
      feasible.push_back({setting, std::move(one), cost});
    }
  }
  BruteForce(const Candidates& candidates, const std::vector<Simulated>& simulated) {
    for (const Simulated& one : simulated) {
      if (!one.evaluation.infeasible.empty()) continue;
      feasible.push_back(
          {one.setting, one.evaluation, candidates.cost(one.setting, one.evaluation.step_time)});
    }
  }
  /// Whether the request lets it be chosen: not if it offloads and something that does not is
  /// feasible with as many GPUs, in the user's micro-batch or a larger one.
  [[nodiscard]] bool is_eligible(const Setting& setting, const Candidates& candidates) const {
    const TuneRequest& request = candidates.request();
    const bool decides = request.offload_when == OffloadWhen::kNeeded &&
                         !request.job.scenario.hardware.gpu.runs_on_host();
    if (!decides || setting.placement() == Placement::kGpu) return true;
    const Setting own = setting_of(request.job);
    return std::none_of(feasible.begin(), feasible.end(), [&](const Point& one) {
      return one.setting.placement() == Placement::kGpu &&
             one.setting.get(Knob::kGpus) == setting.get(Knob::kGpus) &&
             one.setting.get(Knob::kMicroBatch) >= own.get(Knob::kMicroBatch);
    });
  }
  [[nodiscard]] double best_eligible(const Candidates& candidates) const {
    double best = std::numeric_limits<double>::infinity();
    for (const Point& one : feasible) {
      if (is_eligible(one.setting, candidates)) best = std::min(best, one.cost);
    }
    return best;
  }
  [[nodiscard]] double best() const {
    double best = std::numeric_limits<double>::infinity();
    for (const Point& one : feasible) best = std::min(best, one.cost);
    return best;
  }
};

/// The published setting as docs/tuning.md has it, sought among all points of the space; empty: the
/// runtime runs none of them, or it does not fit.
inline std::optional<BruteForce::Point> published(Candidates& candidates) {
  const Space& space = candidates.request().space;
  const Setting own = setting_of(candidates.request().job);
  const auto nearest = [&own](const Setting& one) {
    const auto other = [&](Knob knob) { return one.get(knob) != own.get(knob); };
    const auto not_own_or_large = [&](Knob knob) {
      const bool keeps = own.get(knob) > 0 && !other(knob);
      return std::pair(!keeps, -one.get(knob));
    };
    return std::tuple(other(Knob::kStage), one.stage(), other(Knob::kMicroBatch),
                      one.get(Knob::kMicroBatch), not_own_or_large(Knob::kSelectInterval),
                      not_own_or_large(Knob::kWarmUp));
  };
  Setting published = own;
  published.set(Knob::kPlacement, static_cast<double>(Placement::kZenFlow));
  published.set(Knob::kTopkRatio, 0.1);
  published.set(Knob::kUpdateInterval, 4);
  published.set(Knob::kOverlapStep, 1);
  std::optional<Setting> found;
  for (const double stage : space.values(Knob::kStage)) {
    published.set(Knob::kStage, stage);
    for (const double micro : space.values(Knob::kMicroBatch)) {
      published.set(Knob::kMicroBatch, micro);
      for (const double select : space.values(Knob::kSelectInterval)) {
        published.set(Knob::kSelectInterval, select);
        for (const double rounds : space.values(Knob::kWarmUp)) {
          published.set(Knob::kWarmUp, rounds);
          if (!space.contains(published) || !candidates.refusal(published).empty()) continue;
          if (!found || nearest(published) < nearest(*found)) found = published;
        }
      }
    }
  }
  if (!found) return std::nullopt;
  Evaluation one = candidates.evaluate(*found);
  if (!one.infeasible.empty()) return std::nullopt;
  const double cost = candidates.cost(*found, one.step_time);
  return BruteForce::Point{*found, std::move(one), cost};
}

}  // namespace zenflow::sim::testing
