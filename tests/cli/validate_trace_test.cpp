// zenflow-validate --trace as its user meets it, on runs that are simulated: a profile that the
// program does not know makes the traces, and what is fitted to some of them predicts the others.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/small_scenario.h"
#include "tests/support/trace_manifest.h"

namespace zenflow::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class ValidateTraces : public ::testing::Test {
 protected:
  ValidateTraces() { write_small_scenario(folder_); }

  [[nodiscard]] Outcome run(Arguments command) const {
    return run_program(command, {.folder = folder_.path()});
  }
  [[nodiscard]] Outcome validate(const Arguments& more) const {
    Arguments command = {ZENFLOW_VALIDATE, "small.yaml"};
    command.insert(command.end(), more.begin(), more.end());
    return run(command);
  }
  /// On a machine that is half as fast as the profile in everything that a run tells.
  void record(const std::string& file, const std::string& schedule, const std::string& k = "0.1",
              const std::string& s = "4") const {
    const Outcome outcome = run({ZENFLOW_SIM,  "run",
                                 "small.yaml", "--schedule",
                                 schedule,     "--trace",
                                 file,         "-q",
                                 "--set",      "topk_ratio=" + k,
                                 "--set",      "update_interval=" + s,
                                 "--set",      "hardware.gpu.gemm_efficiency.value=0.2",
                                 "--set",      "hardware.host.adam_bandwidth.value=5 GB/s",
                                 "--set",      "hardware.host_link.h2d.value=2 GB/s",
                                 "--set",      "hardware.host_link.d2h.value=3 GB/s",
                                 "--set",      "hardware.host_link.bidirectional.value=4 GB/s"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  void record_four() const {
    record("a.json.gz", "live-zero-offload");
    record("b.json.gz", "live-zenflow");
    record("c.json.gz", "live-zero-offload-dpu");
    record("d.json.gz", "live-zenflow", "0.3", "2");
  }
  [[nodiscard]] static Arguments four() {
    return {"--trace",
            "a.json.gz",
            "b.json.gz",
            "c.json.gz",
            "d.json.gz",
            "--setting",
            "zero-offload,zenflow:0.1:4,zero-offload-dpu,zenflow:0.3:2"};
  }
  TemporaryFolder folder_;
};

TEST_F(ValidateTraces, FitsToSomeAndPredictsTheOthers) {
  record_four();
  // The base profile is of another machine.
  const Outcome base = validate(four() + Arguments{"--json"});
  EXPECT_EQ(base.code, 4) << base.err;
  const Outcome fitted = validate(
      four() + Arguments{"--json", "--calibrate", "zero-offload,zenflow:0.1:4", "--write-profile",
                         "p.yaml", "--tolerance", "3", "--worst", "8", "--date", "2026-11-20"});
  EXPECT_EQ(fitted.code, 0) << fitted.err << fitted.out;
  const json document = json::parse(fitted.out);
  EXPECT_EQ(document["summary"]["predicted"], 2);
  EXPECT_EQ(document["date"], "2026-11-20");
  EXPECT_THAT(document["command"].get<std::string>(),
              HasSubstr("zenflow-validate small.yaml --trace a.json.gz b.json.gz"));
  EXPECT_THAT(document["summary"]["not_told"], Contains("memory.gpu_peak_bytes"));
  EXPECT_THAT(document["summary"]["not_told"], Not(Contains("phases_ms.forward")));
  for (const json& one : document["results"]) {
    EXPECT_TRUE(one["bytes_error"] <= 0.001) << one;
    EXPECT_FALSE(one["measured"].contains("memory")) << one;
    EXPECT_GT(one["measured"]["phases_ms"]["forward"], 0.0);
  }
  EXPECT_EQ(document["results"][3]["measured"]["step_times_ms"].size(), 2U);
  EXPECT_THAT(
      file_content(folder_ / "p.yaml"),
      HasSubstr("fitted to 2 recorded runs of small, zenflow-validate --trace, 2026-11-20"));
}

TEST_F(ValidateTraces, OfAnotherProgramTellWhatTheyTell) {
  record("a.json.gz", "live-gpu-only");
  // Held against the schedule that made it, with its profile: the same numbers twice.
  const Outcome outcome =
      validate({"--trace", "a.json.gz", "--schedule", "live-gpu-only", "--first-step", "4", "--set",
                "hardware.gpu.gemm_efficiency.value=0.2"});
  EXPECT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("live-gpu-only"), HasSubstr("phase: forward"),
                                 HasSubstr("not told by what was measured: ")));
  // A log tells the step and its parts by the host's clock alone.
  folder_.write("train.log",
                "[2024-11-21 02:14:39,317] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | "
                "fwd: 2.00 | bwd: 4.00 | step: 4.00\n");
  const Outcome log = validate({"--trace", "train.log", "--schedule", "live-gpu-only", "--json"});
  EXPECT_EQ(log.code, 4) << log.err;
  EXPECT_THAT(log.err, HasSubstr("train.log: a log's forward, backward and optimizer times"));
  // What it prints of its batch is another one's than the scenario's.
  folder_.write("two.log", "  train_micro_batch_size_per_gpu ............... 7\n" +
                               file_content(folder_ / "train.log"));
  const Outcome other = validate({"--trace", "two.log", "--schedule", "live-gpu-only"});
  EXPECT_THAT(other.err, HasSubstr("two.log: sequences of a micro-batch: 7 in the recording "
                                   "(settings that the log prints), "));
  EXPECT_THAT(log.err, Not(HasSubstr("in the recording")));
  // However far off the step may be: what is not known is not within a tolerance, unless it is not
  // asked for.
  const Arguments loose = {"--trace", "train.log", "--schedule", "live-gpu-only",     "--tolerance",
                           "1000",    "--worst",   "1000",       "--stall-tolerance", "any"};
  const Outcome unknown = validate(loose);
  EXPECT_EQ(unknown.code, 4) << unknown.err;
  EXPECT_THAT(unknown.out, HasSubstr("bytes of some settings unknown"));
  EXPECT_EQ(validate(loose + Arguments{"--bytes-tolerance", "any"}).code, 0);
  const json document = json::parse(log.out);
  const json timers = {{"forward", 2.0}, {"backward", 4.0}, {"step", 4.0}};
  EXPECT_EQ(document["results"][0]["measured"],
            json({{"step_time_ms", 10.0}, {"timers_ms", timers}}));
  EXPECT_EQ(document["results"][0]["first_to_look_at"], "timers_ms.step") << log.out;
  EXPECT_THAT(document["summary"]["not_told"],
              AllOf(Contains("gpu_compute_ms"), Contains("d2h_bytes_per_step")));
}

TEST_F(ValidateTraces, RefusesWhatItWouldPassOver) {
  const Arguments trace = {"--trace", "a.json", "--schedule", "live-gpu-only"};
  const Arguments live = {"--live"};
  for (const Arguments& wrong :
       {trace + Arguments{"--rounds", "2"}, trace + Arguments{"--predict", "gpu-only"},
        trace + Arguments{"--machine", "mine"}, live + Arguments{"--first-step", "2"},
        live + Arguments{"--rules", "r.yaml"}, live + Arguments{"--name", "ours"}}) {
    const Outcome outcome = validate(wrong);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("requires --"));
  }
  EXPECT_THAT(validate(live + Arguments{"--rounds", "3", "--most-rounds", "2"}).err,
              HasSubstr("--rounds of at most --most-rounds"));
}

TEST_F(ValidateTraces, OverlaysHaveAProcessForEachSetting) {
  record_four();
  const Outcome outcome = validate(four() + Arguments{"--overlay", "both.json.gz", "-q"});
  EXPECT_EQ(outcome.code, 4) << outcome.err;
  const Outcome read = run({ZENFLOW_SIM, "explain", "--trace", "both.json.gz", "--json"});
  ASSERT_EQ(read.code, 0) << read.err;
  const json trace = json::parse(read.out)["traces"][0];
  EXPECT_EQ(trace["devices"].size(), 4U);
  EXPECT_EQ(trace["problems"], json::array());
  EXPECT_EQ(trace["left_out"], json::array());
  EXPECT_EQ(trace["devices"][1]["name"], "zenflow k=0.1 S=4");
  std::vector<std::string> tracks;
  for (const json& one : trace["devices"][1]["idle_by_stream"]) tracks.push_back(one["stream"]);
  EXPECT_THAT(tracks, AllOf(Contains("compute: predicted"), Contains("compute: measured"),
                            Contains("d2h: predicted"), Contains("d2h: measured")));
}

TEST_F(ValidateTraces, APageHasTheDocumentAndBothLanes) {
  record("a.json.gz", "live-gpu-only");
  const Outcome outcome = validate({"--trace", "a.json.gz", "--schedule", "live-gpu-only",
                                    "--first-step", "4", "--json", "--report", "p.html"});
  if (outcome.err.find("libjs-chart.js") != std::string::npos) GTEST_SKIP() << outcome.err;
  EXPECT_EQ(outcome.code, 4) << outcome.err;
  const std::string html = file_content(folder_ / "p.html");
  const auto element = [&html](const std::string& id) {
    const std::string begin = "id=\"" + id + "\">";
    const std::size_t from = html.find(begin) + begin.size();
    return json::parse(html.substr(from, html.find("</script>", from) - from));
  };
  EXPECT_EQ(element("document"), json::parse(outcome.out));
  const json run = element("run-0");
  std::vector<std::string> lanes;
  for (const json& track : run["tracks"]) lanes.push_back(track["name"]);
  EXPECT_THAT(lanes, AllOf(Contains("compute: predicted"), Contains("compute: measured")));
}

TEST_F(ValidateTraces, RefusesWhatCannotBeMeant) {
  record("a.json.gz", "live-zenflow");
  const auto refuses = [&](const Arguments& arguments, const std::string& what) {
    const Outcome outcome = validate(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr(what));
    EXPECT_EQ(outcome.out, "");
  };
  refuses({"--trace", "missing.json", "--setting", "zenflow:0.1:4"}, "missing.json");
  refuses({"--trace", "a.json.gz", "--setting", "zenflow:0.1"}, "zenflow:K:S");
  refuses({"--trace", "a.json.gz", "--setting", "zenflow:0.1:4,gpu-only"}, "once for each trace");
  refuses({"--trace", "a.json.gz", "--schedule", "zenfow"}, "zenflow");
  refuses({"--trace", "a.json.gz", "--schedule", "zenflow", "--setting", "gpu-only"}, "not both");
  refuses({"--trace", "a.json.gz", "--live"}, "not both");
  refuses({"--trace", "a.json.gz", "--setting", "zenflow:0.1:4", "--calibrate", "gpu-only"},
          "no --trace is of this --setting");
  refuses({"--trace", "a.json.gz", "--calibrate", "gpu-only"}, "--setting with --calibrate");
  refuses({"--trace", "a.json.gz", "--setting", "zenflow:0.1:4", "--first-step", "4000"},
          "from step 4000 on");
  refuses({"--trace", "a.json.gz", "--setting", "zenflow:0.4:4", "--calibrate", "zenflow:0.4:4"},
          "is this the setting that was recorded?");
  refuses({"--trace", "small.json", "--setting", "zenflow:0.1:4"}, "small.json");
}

/// What script/gpu-check brings home, or a test makes.
void judge(const TraceManifest& manifest) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run_program(manifest.command(ZENFLOW_VALIDATE), {.folder = folder.path()});
  EXPECT_EQ(outcome.code, 0) << manifest.folder << "\n" << outcome.err << outcome.out;
}

TEST_F(ValidateTraces, AFolderWithAManifestIsHeldAgainstItsLimits) {
  record_four();
  json manifest = {{"scenario", "small.yaml"}, {"device", "cuda"}, {"traces", json::array()}};
  const auto add = [&](const char* file, const char* setting, bool calibrated) {
    manifest["traces"].push_back(
        {{"file", file}, {"setting", setting}, {"calibrated", calibrated}});
  };
  add("a.json.gz", "zero-offload", true);
  add("b.json.gz", "zenflow:0.1:4", true);
  add("c.json.gz", "zero-offload-dpu", false);
  add("d.json.gz", "zenflow:0.3:2", false);
  folder_.write("more/small.yaml", file_content(folder_ / "small.yaml"));
  folder_.write("more/small.json", file_content(folder_ / "small.json"));
  for (const char* file : {"a.json.gz", "b.json.gz", "c.json.gz", "d.json.gz"}) {
    folder_.write("more/" + std::string(file), file_content(folder_ / file));
  }
  folder_.write("more/manifest.json", manifest.dump());
  folder_.write("other/README.md", "no recordings with a manifest");
  // As of tests/data/traces.
  const std::vector<std::filesystem::path> found = manifest_folders(folder_.path());
  ASSERT_EQ(found, std::vector{folder_ / "more"});
  const TraceManifest read = TraceManifest::read(found[0]);
  const Outcome good = run(read.command(ZENFLOW_VALIDATE));
  EXPECT_EQ(good.code, 0) << good.err << good.out;
  // A trace of a machine that is slower by more than the limit is found.
  const Outcome slow = run({ZENFLOW_SIM, "run", "small.yaml", "--schedule", "live-zero-offload-dpu",
                            "--trace", "more/c.json.gz", "-f", "-q"});
  ASSERT_EQ(slow.code, 0) << slow.err;
  EXPECT_EQ(run(read.command(ZENFLOW_VALIDATE)).code, 4);
}

TEST(RecordedOnGpus, StepsArePredictedWithinThreePercentAndBytesWithinAThousandth) {
  const auto folders =
      manifest_folders(std::filesystem::path(ZENFLOW_SOURCE_DIR) / "tests/data/traces");
  bool has_gpu = false;
  for (const auto& folder : folders) {
    const TraceManifest manifest = TraceManifest::read(folder);
    judge(manifest);
    has_gpu = has_gpu || manifest.device() == "cuda";
  }
  if (!has_gpu) {
    GTEST_SKIP() << "tests/data/traces has no folder with a manifest.json of a GPU yet: "
                    "script/gpu-check makes one on a machine with a GPU";
  }
}

}  // namespace
}  // namespace zenflow::testing
