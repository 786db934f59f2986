// How sure a prediction is, against what is worked out by hand.
#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/calibrate/profile_constants.h"
#include "sim/config/document.h"
#include "sim/config/scenario.h"
#include "sim/tune/sensitivity.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tune_requests.h"

namespace zenflow::sim {
namespace {

using ::testing::IsSubsetOf;
using testing::shipped_request;
using zenflow::testing::TemporaryFolder;

std::vector<HardwareProfile> shipped_profiles() {
  std::vector<HardwareProfile> profiles;
  const std::filesystem::path folder = std::filesystem::path(ZENFLOW_SOURCE_DIR) / "profiles";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    profiles.push_back(read_hardware_profile(load_hardware(entry.path())));
  }
  return profiles;
}

// Whatever a fit gives an error of is a number that may be uncertain.
TEST(UncertainNumbers, AreAllThatAFitKnows) {
  const auto expect_known = [](const HardwareProfile& profile) {
    std::vector<std::string> fitted;
    for (const ProfileConstant& one : profile_constants(profile)) fitted.push_back(one.path);
    EXPECT_THAT(fitted, IsSubsetOf(uncertain_numbers(profile))) << profile.name;
  };
  bool has_switches = false;
  for (HardwareProfile profile : shipped_profiles()) {
    expect_known(profile);
    std::vector<HostSwitch>& switches = profile.host_link.switches;
    if (switches.size() < 2) continue;
    has_switches = true;
    switches.back().path.d2h = 0.5 * switches.back().path.d2h;
    expect_known(profile);
  }
  EXPECT_TRUE(has_switches);
}

TEST(UncertainNumbers, AreFoundInAProfileAsItIsWritten) {
  const TemporaryFolder folder;
  const Node profile = load_document(folder.write("profile.yaml", R"(
host_link:
  h2d: {value: 20 GB/s, relative_error: 0.1}
  switches:
    - h2d: {value: 30 GB/s, relative_error: 0.2}
    - h2d: {value: 40 GB/s, relative_error: 0.3}
    - h2d: 40 GB/s
)"));
  const auto error = [&](const std::string& number) {
    const Node* found = find_number(profile, number + ".relative_error");
    return found == nullptr ? "none" : found->scalar;
  };
  EXPECT_EQ(error("host_link.h2d"), "0.1");
  EXPECT_EQ(error("host_link.d2h"), "none");
  EXPECT_EQ(error("host_link.switches.h2d"), "0.2");
  EXPECT_EQ(error("host_link.switches[0].h2d"), "0.2");
  EXPECT_EQ(error("host_link.switches[1,2].h2d"), "0.3");
  EXPECT_EQ(error("host_link.switches[2].h2d"), "none");
  EXPECT_EQ(error("host_link.switches[3].h2d"), "none");
}

SearchResult search_all(Candidates& candidates) {
  SearchOptions options;
  options.threads = 2;
  return search(candidates, options);
}

std::map<std::string, double> elasticities(const NumberEffects& effects) {
  std::map<std::string, double> all;
  for (const NumberEffect& one : effects.numbers) all[one.path] = one.elasticity;
  return all;
}

// Copies in both directions at once, of a link that carries no more than one of them, and of a
// switch above it.
TEST(NumberEffects, KnowWhatBothDirectionsShare) {
  TuneRequest request = shipped_request("qwen2_5_7b_4xl40s", Family::kPublished);
  for (const char* text :
       {"placement=zenflow", "overlap_step=true", "update_interval=2", "topk_ratio=0.1"}) {
    narrow(request.space, text);
  }
  request.front_within = 0;
  const auto share = [](HostPath& path, double scale) {
    path.h2d = path.d2h = path.bidirectional = scale * path.h2d;
  };
  const auto effects_with = [&](double of_switch) {
    TuneRequest shared = request;
    HostLinkProfile& path = shared.job.scenario.hardware.host_link;
    share(path.pinned, 0.05);
    for (HostSwitch& one : path.switches) share(one.path, of_switch);
    Candidates candidates(shared);
    const SearchResult result = search_all(candidates);
    return elasticities(number_effects(candidates, result, {}, {}));
  };
  ASSERT_FALSE(request.job.scenario.hardware.host_link.switches.empty());
  auto of_link = effects_with(10);
  EXPECT_LT(of_link["host_link.bidirectional"], -0.02);
  EXPECT_EQ(of_link["host_link.switches.bidirectional"], 0);
  auto of_switch = effects_with(0.02);
  EXPECT_LT(of_switch["host_link.switches.bidirectional"], -0.02);
}

// Two numbers that are uncertain, one of which works on all settings alike.
TEST(NumberEffects, GiveTheChanceThatARunnerUpIsBetter) {
  TuneRequest request = shipped_request("llama2_7b_4xa100");
  for (const char* text : {"placement=cpu,zenflow", "stage=2", "micro_batch_size_per_gpu=4",
                           "topk_ratio=0.1", "update_interval=2,3,4,8"}) {
    narrow(request.space, text);
  }
  request.front_within = 0;
  request.slack = 0.3;
  Candidates candidates(std::move(request));
  const SearchResult result = search_all(candidates);
  ASSERT_TRUE(result.chosen && result.own);
  const Uncertainty uncertainty{{{"gpu.gemm_efficiency", 0.2}, {"host.adam_bandwidth", 0.3}}, 0};
  const NumberEffects effects = number_effects(candidates, result, uncertainty, {});
  ASSERT_GT(effects.runners_up.size(), 2U);

  const Simulated& chosen = result.simulated[*result.chosen];
  const HardwareProfile& machine = candidates.request().job.scenario.hardware;
  HardwareProfile low_gemm = machine;
  HardwareProfile high_gemm = machine;
  low_gemm.gpu.gemm_efficiency /= 1.2;
  high_gemm.gpu.gemm_efficiency *= 1.2;
  HardwareProfile low_adam = machine;
  HardwareProfile high_adam = machine;
  low_adam.host.adam_bandwidth = 1 / 1.3 * low_adam.host.adam_bandwidth;
  high_adam.host.adam_bandwidth = 1.3 * high_adam.host.adam_bandwidth;
  // Half the difference, by the part of the logarithm that the error is.
  const auto central = [](double low, double high, double error) {
    return (high - low) / 2 * error / std::log(1 + error);
  };
  const auto change = [&](const Setting& setting) {
    const auto on = [&](const HardwareProfile& one) {
      return candidates.step_time_on(one, setting);
    };
    return std::pair(central(on(low_gemm), on(high_gemm), 0.2),
                     central(on(low_adam), on(high_adam), 0.3));
  };
  const double step = chosen.evaluation.step_time;
  const auto [by_gemm, by_adam] = change(chosen.setting);
  EXPECT_LT(by_gemm, 0);
  EXPECT_NEAR(effects.error, std::hypot(by_gemm, by_adam) / step, 1e-12);

  bool has_faster = false;
  for (const RunnerUp& one : effects.runners_up) {
    const Simulated& other = result.simulated[one.which];
    const double difference = (other.evaluation.step_time - step) / step;
    EXPECT_NEAR(one.difference, difference, 1e-12);
    const auto [other_gemm, other_adam] = change(other.setting);
    const double error = std::hypot(other_gemm - by_gemm, other_adam - by_adam) / step;
    EXPECT_NEAR(one.error, error, 1e-12);
    // The normal distribution's share below zero.
    EXPECT_NEAR(one.chance, std::erfc(difference / error / std::sqrt(2.0)) / 2, 1e-9);
    EXPECT_EQ(one.chance > 0.5, difference < 0);
    has_faster |= difference < 0;
    // Both settings' times change with the same numbers, and in the same direction: were they
    // independent, the difference's error would be larger.
    const double independent =
        std::hypot(std::hypot(by_gemm, by_adam), std::hypot(other_gemm, other_adam)) / step;
    EXPECT_LT(one.error, independent);
  }
  EXPECT_TRUE(has_faster) << "the slack is wide";

  const double own = result.own->step_time;
  const auto own_on = [&](const HardwareProfile& one) { return candidates.own_step_time_on(one); };
  const double own_gemm = central(own_on(low_gemm), own_on(high_gemm), 0.2);
  const double own_adam = central(own_on(low_adam), own_on(high_adam), 0.3);
  EXPECT_NEAR(effects.gain_error,
              std::hypot(own_gemm / own - by_gemm / step, own_adam / own - by_adam / step), 1e-12);
  EXPECT_GT(effects.gain_error, 0);
}

}  // namespace
}  // namespace zenflow::sim
