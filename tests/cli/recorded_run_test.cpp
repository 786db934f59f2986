// What zenflow-sim explain says of a recording of zenflow-train, against what the run says of
// itself.
#include <cmath>
#include <cstdint>
#include <map>
#include <string>

#include "tests/support/train_program.h"

namespace zenflow::testing {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;

constexpr int kWindow = 3;
const Arguments kZenFlow = {"--schedule",        "zenflow", "--topk-ratio",      "0.3",
                            "--update-interval", "3",       "--select-interval", "6"};
const Arguments kZeroOffload = {"--schedule", "zero-offload"};
/// Slow enough that what is waited for takes longer than reading a clock.
const Arguments kSlow = {"--link-bandwidth", "100 MB/s"};

struct Bytes {
  std::int64_t up = 0;
  std::int64_t down = 0;
};

class RecordedRun : public TrainProgram {
 protected:
  /// Trains, keeps the run's own result, its recording and what is explained of that.
  void record(const Arguments& settings, int steps) {
    run_ = result(basic() + settings +
                  Arguments{"--steps", std::to_string(steps), "--trace", "t.json", "-f"});
    const Outcome explained =
        run_program({ZENFLOW_SIM, "explain", "--trace", "t.json", "--json"}, around());
    ASSERT_EQ(explained.code, 0) << explained.err;
    explained_ = json::parse(explained.out)["traces"][0];
    device_ = explained_["devices"][0];
    ASSERT_EQ(explained_["problems"], json::array());
    ASSERT_EQ(explained_["left_out"], json::array());
    ASSERT_EQ(explained_["steps"]["count"], steps);
  }

  /// The bytes that recorded copies of one kind moved in steps [first, end).
  [[nodiscard]] Bytes copied(const std::string& traffic, int first, int end) const {
    Bytes bytes;
    const json trace = json::parse(content("t.json"));
    for (const json& event : trace["traceEvents"]) {
      if (event.value("cat", "") != "gpu_memcpy") continue;
      const json& arguments = event["args"];
      const int step = arguments.value("step", -1);
      if (arguments["traffic"] != traffic || step < first || step >= end) continue;
      const bool is_up = event["name"] == "Memcpy HtoD (Pinned -> Device)";
      EXPECT_TRUE(is_up || event["name"] == "Memcpy DtoH (Device -> Pinned)") << event;
      (is_up ? bytes.up : bytes.down) += arguments["bytes"].get<std::int64_t>();
    }
    return bytes;
  }

  [[nodiscard]] double step_ms(int step) const {
    return explained_["steps"]["each"][static_cast<std::size_t>(step)]["duration_ms"];
  }

  json run_;
  json explained_;
  json device_;
};

/// 24 steps are 8 windows; the means leave the first two out. Every time of the trace is the one
/// that the run read from the clock.
TEST_F(RecordedRun, HasTheRunsOwnStepTimes) {
  constexpr int kSteps = 24;
  record(kZenFlow, kSteps);
  ASSERT_EQ(run_["steps"]["measured"], kSteps - 2 * kWindow);
  double sum = 0;
  for (int step = 2 * kWindow; step < kSteps; ++step) sum += step_ms(step);
  EXPECT_NEAR(run_["step_time_ms"], sum / (kSteps - 2 * kWindow), 1e-6);
  for (int i = 0; i < kWindow; ++i) {
    EXPECT_DOUBLE_EQ(run_["step_times_ms"][static_cast<std::size_t>(i)],
                     step_ms(kSteps - kWindow + i));
  }
  // If there is one window alone, the mean is over all its steps.
  record(kZeroOffload, 2);
  EXPECT_EQ(run_["steps"]["measured"], 2);
  EXPECT_NEAR(run_["step_time_ms"], explained_["steps"]["mean_ms"], 1e-6);
}

TEST_F(RecordedRun, HasTheRunsBytesByDirection) {
  struct Case {
    Arguments settings;
    int window;
  };
  for (const auto& [settings, window] :
       {Case{kZenFlow, kWindow}, Case{kZeroOffload, 1},
        Case{kZenFlow + Arguments{"--accumulate-on", "device"}, kWindow}}) {
    constexpr int kSteps = 24;
    record(settings, kSteps);
    // All of it, weights at the start and the last export included.
    EXPECT_EQ(explained_["bytes_by_direction"]["HtoD"], run_["trace"]["h2d_bytes"]);
    EXPECT_EQ(explained_["bytes_by_direction"]["DtoH"], run_["trace"]["d2h_bytes"]);
    std::int64_t up = 0;
    for (const json& kind : device_["copies_by_kind"]) {
      if (kind["direction"] == "HtoD") {
        EXPECT_EQ(kind["from"], "Pinned");
        EXPECT_EQ(kind["to"], "Device");
        up += kind["bytes"].get<std::int64_t>();
      }
    }
    EXPECT_EQ(up, run_["trace"]["h2d_bytes"]);
    // What the schedule moves, in the windows that the means are over.
    const int first = 2 * window;
    const int steps = kSteps - first;
    ASSERT_EQ(run_["steps"]["measured"], steps);
    const auto a_step = [&](std::int64_t bytes) {
      return std::llround(static_cast<double>(bytes) / steps);
    };
    EXPECT_EQ(run_["pcie"]["d2h_bytes_per_step"], a_step(copied("gradients", first, kSteps).down));
    EXPECT_EQ(run_["pcie"]["h2d_bytes_per_step"], a_step(copied("parameters", first, kSteps).up));
    EXPECT_GT(copied("parameters", first, kSteps).up, 0);
    EXPECT_EQ(copied("gradients", 0, kSteps).up, 0);
    EXPECT_EQ(copied("parameters", 0, kSteps).down, 0);
  }
}

/// Every operation has a phase; waits are no work, and what is waited for has a name.
TEST_F(RecordedRun, SaysWhatTheDeviceWaitsFor) {
  record(kZeroOffload + kSlow, 6);
  std::map<std::string, double> stall = device_["stall_by_cause_ms"];
  for (const char* cause : {"cpu_update", "d2h", "h2d"}) EXPECT_GT(stall[cause], 0) << cause;
  double sum = 0;
  for (const auto& [cause, time] : stall) sum += time;
  EXPECT_NEAR(device_["stall_ms"], sum, 1e-6);
  EXPECT_NEAR(device_["compute_ms"].get<double>() + sum, device_["span_ms"], 1e-6);
  // The link's rate bounds copies from below: 2 x 6 steps of all bytes, and the first weights.
  const double bytes = run_["trace"]["h2d_bytes"];
  double up = 0;
  for (const json& kind : device_["copies_by_kind"]) {
    if (kind["direction"] == "HtoD") up += kind["time_ms"].get<double>();
  }
  EXPECT_GE(up, bytes / 100e6 * 1e3);
}

TEST_F(RecordedRun, LeavesNothingWithoutAPhase) {
  const Arguments others[] = {
      kZenFlow,
      kZeroOffload,
      {"--schedule", "gpu-only"},
      {"--schedule", "zero-offload-dpu"},
      kZenFlow + Arguments{"--accumulate-on", "device", "--gradient-clipping", "0.5"},
      kZenFlow + Arguments{"--full-warm-up-rounds", "2", "--overlap-step", "false",
                           "--evaluate-interval", "4", "--checkpoint", "ck"}};
  for (const Arguments& settings : others) {
    record(settings, 13);
    EXPECT_EQ(device_["unassigned"], json::array()) << device_["unassigned"];
    std::map<std::string, int> phases;
    for (const json& one : device_["phases"]) phases[one["phase"]] = one["spans"];
    for (const char* phase : {"forward", "backward", "optimizer", "copy"}) {
      EXPECT_THAT(phases, Contains(Key(phase)));
    }
    EXPECT_THAT(phases, Not(Contains(Key("unassigned"))));
  }
  record(kZenFlow, 13);
  EXPECT_THAT(device_["phases"].dump(), ::testing::HasSubstr("selection"));
}

}  // namespace
}  // namespace zenflow::testing
