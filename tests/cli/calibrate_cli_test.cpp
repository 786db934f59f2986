// zenflow-calibrate as its user meets it.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Calibrate : public ::testing::Test {
 protected:
  Outcome run(std::vector<std::string> arguments,
              const std::map<std::string, std::string>& environment = {}) const {
    arguments.insert(arguments.begin(), ZENFLOW_CALIBRATE);
    return run_program(arguments, {.folder = folder_.path(), .environment = environment});
  }
  /// The check of this id in doctor's document.
  json check(const std::string& id,
             const std::map<std::string, std::string>& environment = {}) const {
    const Outcome outcome = run({"doctor", "--json"}, environment);
    const json document = json::parse(outcome.out);
    for (const json& one : document["checks"]) {
      if (one["id"] == id) return one;
    }
    ADD_FAILURE() << "no check " << id << " in " << outcome.out << outcome.err;
    return {};
  }
  [[nodiscard]] bool has_gpu() const { return check("gpu-driver")["status"] == "ok"; }

  TemporaryFolder folder_;
};

TEST_F(Calibrate, RefusesWrongUsageWithTwo) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"measure"},
      {"doctor", "--device", "tpu"},
      {"doctor", "extra"},
      {"probe"},
      {"probe", "-o", "p.yaml", "--device", "tpu"},
      {"probe", "-o", "p.yaml", "--nvme", "missing"},
      {"probe", "-o", "p.yaml", "--date", "yesterday"},
      {"probe", "-o", "missing/p.yaml"},
      {"compare", "one.json"},
      {"compare", "missing.json", "missing.json"}};
  for (const auto& arguments : wrong) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.out << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, StartsWith("zenflow-calibrate: "));
  }
}

TEST_F(Calibrate, HelpsOnStandardOutput) {
  const Outcome outcome = run({"--help"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("doctor"), HasSubstr("probe"), HasSubstr("Exit codes")));
}

TEST_F(Calibrate, DoctorsTextAndJsonSayTheSame) {
  const Outcome text = run({"doctor"});
  const Outcome document = run({"doctor", "--json"});
  EXPECT_EQ(text.code, document.code);
  const json parsed = json::parse(document.out);
  for (const json& one : parsed["checks"]) {
    EXPECT_THAT(text.out, HasSubstr(one["id"].get<std::string>()));
  }
  EXPECT_EQ(document.code, parsed["counts"]["fail"] > 0 ? 1 : 0);
}

TEST_F(Calibrate, DoctorTellsTheTruthAboutThisMachinesLimits) {
  struct rlimit limit {};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  const json memlock = check("memlock");
  if (limit.rlim_cur == RLIM_INFINITY) {
    EXPECT_EQ(memlock["found"], "unlimited");
  } else {
    EXPECT_THAT(memlock["found"].get<std::string>(), HasSubstr("iB"));
  }
  const long cpus = ::sysconf(_SC_NPROCESSORS_ONLN);
  EXPECT_THAT(check("cpu-affinity")["found"].get<std::string>(),
              HasSubstr("of " + std::to_string(cpus) + " CPUs"));
}

TEST_F(Calibrate, GpuThatWasAskedForAndIsNotUsableIsFive) {
  const Outcome outcome = run({"doctor", "--device", "cuda"});
  if (has_gpu()) {
    EXPECT_THAT(outcome.err, Not(HasSubstr("--device cuda")));
  } else {
    EXPECT_EQ(outcome.code, 5);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("--device cuda: found"), HasSubstr("required: ")));
  }
}

TEST_F(Calibrate, ProbeOverwritesNothingUnasked) {
  folder_.write("mine.yaml", "precious");
  const Outcome outcome = run({"probe", "-o", "mine.yaml"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("mine.yaml"));
  EXPECT_EQ(file_content(folder_ / "mine.yaml"), "precious");
}

TEST_F(Calibrate, InterruptedProbeWritesNothing) {
  const Outcome outcome = run_program({ZENFLOW_CALIBRATE, "probe", "--quick", "-o", "mine.yaml"},
                                      {.folder = folder_.path(), .interrupt_after_ms = 2000});
  EXPECT_EQ(outcome.code, 130);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("stopped; no profile is written"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "mine.yaml"));
}

TEST_F(Calibrate, ProbeOfAGpuThatIsNotUsableIsFive) {
  if (has_gpu()) GTEST_SKIP() << "this machine has one";
  const Outcome outcome = run({"probe", "--device", "cuda", "-o", "gpu.yaml"});
  EXPECT_EQ(outcome.code, 5);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--device cuda: found"), HasSubstr("required: ")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "gpu.yaml"));
}

/// What `probe --json` prints of one figure.
std::string figures(double low, double median, double high, const char* id = "copy.both") {
  return json({{"figures",
                {{{"id", id},
                  {"unit", "GB/s"},
                  {"what", "a test's"},
                  {"median", median},
                  {"low", low},
                  {"high", high},
                  {"repetitions", 12}}}}})
      .dump();
}

TEST_F(Calibrate, ComparesTwoProbes) {
  folder_.write("first.json", figures(9, 10, 11));
  folder_.write("second.json", figures(9.5, 10.5, 12));
  folder_.write("slower.json", figures(5, 6, 7));
  folder_.write("other.json", figures(5, 6, 7, "latency.copy"));
  Outcome outcome = run({"compare", "first.json", "second.json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("agree    copy.both"), HasSubstr("1.050"),
                                 HasSubstr("1 agree, 0 close, 0 apart, 0 in one alone")));
  outcome = run({"compare", "first.json", "slower.json", "--json"});
  EXPECT_EQ(outcome.code, 4);
  const json document = json::parse(outcome.out);
  EXPECT_EQ(document["counts"]["apart"], 1);
  EXPECT_EQ(document["figures"][0]["ratio"], 0.6);
  EXPECT_EQ(document["figures"][0]["second"]["high"], 7);
  outcome = run({"compare", "first.json", "other.json"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("no figure that both have"));
}

TEST_F(Calibrate, ComparesNothingThatIsNoProbe) {
  folder_.write("good.json", figures(9, 10, 11));
  for (const std::string& bad : {std::string("not json"), std::string("{}"), figures(9, 8, 11),
                                 figures(0, 10, 11), figures(9, 10, 9)}) {
    folder_.write("bad.json", bad);
    const Outcome outcome = run({"compare", "good.json", "bad.json"});
    EXPECT_EQ(outcome.code, 2) << bad;
    EXPECT_THAT(outcome.err, HasSubstr("bad.json:1:")) << bad;
    EXPECT_THAT(outcome.err, Not(HasSubstr("exception"))) << bad;
    EXPECT_EQ(outcome.out, "");
  }
  // If two files are wrong, the first is named.
  folder_.write("worse.json", "[");
  EXPECT_THAT(run({"compare", "worse.json", "bad.json"}).err, HasSubstr("worse.json:1:"));
  folder_.write("bad.json", R"({"figures": [{"id": "a", "unit": "s", "median": "fast"}]})");
  EXPECT_THAT(run({"compare", "good.json", "bad.json"}).err,
              HasSubstr("bad.json:1:49: figures[0].median: expected a number"));
}

TEST_F(Calibrate, DoctorFindsALibraryInTheFolderThatTheUserNames) {
  const json nvml = check("library-nvml", {{"ZENFLOW_CUDA_LIB_DIR", ZENFLOW_FAKE_LIBRARIES}});
  EXPECT_EQ(nvml["status"], "ok");
  EXPECT_THAT(nvml["found"].get<std::string>(), HasSubstr("fake_libraries/libnvidia-ml.so.1"));
}

TEST_F(Calibrate, DoctorSeesAStubInTheWayAndAProfilersInjection) {
  folder_.write("stubs/libcuda.so", "not loaded under this name");
  EXPECT_EQ(check("libcuda-stub", {{"LD_LIBRARY_PATH", folder_ / "stubs"}})["status"], "warn");
  EXPECT_EQ(check("cupti-free", {{"NSYS_PROFILING_SESSION_ID", "1"}})["status"], "warn");
}

}  // namespace
}  // namespace zenflow::testing
