// zenflow-sim explain --trace as users meet it.
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/file_content.h"
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kTrace = R"({"traceEvents": [
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 9, "tid": 9, "ts": 0, "dur": 100, "args": {}},
  {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10, "dur": 20, "args": {"device": 0, "stream": 7}}]})";

class TraceCli : public ::testing::Test {
 protected:
  Outcome explain(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {ZENFLOW_SIM, "explain"});
    return run_program(arguments, {.folder = folder_.path()});
  }
  TemporaryFolder folder_;
};

TEST_F(TraceCli, ExplainsARecordedRun) {
  folder_.write("t.json", kTrace);
  const Outcome text = explain({"--trace", "t.json"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("1 step (by annotation): mean 0.100 ms"));
  EXPECT_THAT(text.err, IsEmpty());
  const Outcome result = explain({"--trace", "t.json", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const json document = json::parse(result.out);
  EXPECT_EQ(document["schema_version"], 1);
  EXPECT_EQ(document["traces"][0]["devices"][0]["busy_ms"], 0.02);
}

// A product of 4096 x 4096 x 4096 in 0.25 ms: 549.8 TFLOPS, of 989.4 that NVIDIA states for the
// H100.
TEST_F(TraceCli, TellsProductsAsSharesOfTheCardsPeak) {
  const std::string events = R"("traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 9, "ts": 0, "dur": 9, "args":
      {"Input Dims": [[4096, 4096], [4096, 4096]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 2, "dur": 1,
      "args": {"correlation": 1}},
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10, "dur": 250,
      "args": {"device": 0, "stream": 7, "correlation": 1}},
    {"ph": "X", "cat": "kernel", "name": "relu", "pid": 1, "tid": 7, "ts": 10, "dur": 5,
      "args": {"device": 1, "stream": 7}}]})";
  // With another card beside it, it is not known which one a product is of.
  const std::string h100 = "NVIDIA H100 80GB HBM3";
  for (const auto& [first, second, share] :
       {std::tuple(h100, h100, 549.8 / 989.4), std::tuple(h100, std::string("A card of 2031"), 0.0),
        std::tuple(h100, std::string("NVIDIA A100-SXM4-40GB"), 0.0)}) {
    folder_.write("t.json", R"({"deviceProperties": [{"id": 0, "name": ")" + first +
                                R"("}, {"id": 1, "name": ")" + second + R"("}],)" + events);
    const Outcome text = explain({"--trace", "t.json"});
    ASSERT_EQ(text.code, 0) << text.err;
    EXPECT_THAT(text.out, HasSubstr(share > 0 ? "of peak" : "of the fastest"));
    const json product = json::parse(
        explain({"--trace", "t.json", "--json"}).out)["traces"][0]["products_by_shape"][0];
    EXPECT_NEAR(product["tflops"].get<double>(), 549.8, 0.1);
    if (share == 0) {
      EXPECT_TRUE(product["share_of_peak"].is_null());
    } else {
      EXPECT_NEAR(product["share_of_peak"].get<double>(), share, 0.001);
    }
  }
}

TEST_F(TraceCli, TakesSeveralTracesAndRules) {
  folder_.write("a.json", kTrace);
  folder_.write("b.json", kTrace);
  folder_.write("rules.yaml", "phases: [{phase: optimizer, kernel: k}]\n");
  const Outcome result = explain({"--trace", "a.json", "--trace", "b.json", "--rules", "rules.yaml",
                                  "--steps", "Profiler.*", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const json document = json::parse(result.out);
  ASSERT_EQ(document["traces"].size(), 2U);
  EXPECT_EQ(document["traces"][1]["devices"][0]["phases"][0]["phase"], "optimizer");
  EXPECT_EQ(document["traces"][1]["steps"]["source"], "pattern");
}

TEST_F(TraceCli, CalibrateFitAnalyzesAsExplainDoes) {
  folder_.write("a.json", kTrace);
  folder_.write("b.json", kTrace);
  const Outcome fit =
      run_program({ZENFLOW_CALIBRATE, "fit", "--analyze", "a.json", "b.json", "--json"},
                  {.folder = folder_.path()});
  EXPECT_EQ(fit.code, 0) << fit.err;
  EXPECT_EQ(fit.out, explain({"--trace", "a.json", "--trace", "b.json", "--json"}).out);
  const Outcome nothing = run_program({ZENFLOW_CALIBRATE, "fit"}, {.folder = folder_.path()});
  EXPECT_EQ(nothing.code, 2);
}

/// Copies of 4 KiB to 32 MiB up, 8 us and 20 GB/s each.
std::string copies_on(const std::string& gpu) {
  std::string text = R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": ")" + gpu +
                     R"("}], "traceEvents": [)";
  for (int i = 0; i < 42; ++i) {
    const double bytes = 4096.0 * (1 << (i % 14));
    text += (i == 0 ? "" : ",") + std::string(R"({"ph": "X", "cat": "gpu_memcpy", "name": )") +
            R"_("Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 7, "ts": )_" +
            std::to_string(1e4 * i) + R"(, "dur": )" + std::to_string(8 + bytes / 20e3) +
            R"(, "args": {"device": 0, "stream": 7, "bytes": )" +
            std::to_string(static_cast<long>(bytes)) + "}}";
  }
  return text + "]}";
}

TEST_F(TraceCli, CalibrateFitsAProfileOfTheGpuThatTheTraceNames) {
  folder_.write("h100.json", copies_on("NVIDIA H100 80GB HBM3"));
  const auto fit = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {ZENFLOW_CALIBRATE, "fit"});
    return run_program(arguments, {.folder = folder_.path()});
  };
  const Outcome known = fit({"h100.json", "-o", "fitted.yaml", "--date", "2026-11-20"});
  EXPECT_EQ(known.code, 0) << known.err;
  EXPECT_THAT(known.err, HasSubstr("base profile dgx_h100"));
  EXPECT_THAT(known.out, HasSubstr("nothing in the traces depends on it"));
  const std::string profile = file_content(folder_.path() / "fitted.yaml");
  EXPECT_THAT(profile, ContainsRegex("h2d: \\{value: 20 GB/s, relative_error: [0-9.e-]+, "
                                     "source: \"fitted to 1 trace, zenflow-calibrate fit, "
                                     "2026-11-20: "));
  EXPECT_THAT(profile, HasSubstr("latency: {value: 8 us"));

  const Outcome other = fit({"h100.json", "--profile", "dgx_a100_80g"});
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.out, HasSubstr("recorded on \"NVIDIA H100 80GB HBM3\", where the profile's GPU "
                                   "is A100-SXM4-80GB"));
  EXPECT_THAT(known.out, Not(HasSubstr("recorded on")));

  folder_.write("other.json", copies_on("Voodoo 2"));
  const Outcome unknown = fit({"other.json"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("--profile"));
  EXPECT_EQ(fit({"other.json", "--profile", "fitted.yaml"}).code, 0);
  EXPECT_EQ(fit({"h100.json", "--model", "m.json"}).code, 2);
}

// A fit believes the flags, which the log may contradict.
TEST_F(TraceCli, CalibrateSaysWhereALogIsOfAnotherJob) {
  std::string log =
      "  train_micro_batch_size_per_gpu ............... 1\n"
      "  train_batch_size ............... 4\n";
  for (int i = 0; i < 12; ++i) {
    log +=
        "[Rank 0] time (ms) | fwd: 1400.00 | bwd: 4000.00 | optimizer_step: 700.00 | step: "
        "900.00\n";
  }
  folder_.write("train.log", log);
  const auto fit = [&](const std::string& micro) {
    return run_program(
        {ZENFLOW_CALIBRATE, "fit", "train.log", "--model", "Qwen/Qwen3-8B", "--profile", "dgx_h100",
         "--micro-batch-size", micro, "--sequence-length", "4096", "--accumulation-steps", "4"},
        {.folder = folder_.path()});
  };
  const Outcome other = fit("2");
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.out, AllOf(HasSubstr("sequences of a micro-batch: 1 in the recording "
                                         "(settings that the log prints), 2 in the job: what is "
                                         "fitted to it may be wrong"),
                               HasSubstr("sequences of a batch: 4 in the recording")));
  EXPECT_THAT(other.err, HasSubstr("ZeRO stage 2 with the optimizer on the CPU is assumed"));
  EXPECT_THAT(fit("1").out, Not(HasSubstr("in the recording")));
}

TEST_F(TraceCli, SaysWhatIsMissingOfACutTrace) {
  folder_.write("cut.json", kTrace.substr(0, kTrace.size() - 20));
  const Outcome result = explain({"--trace", "cut.json", "--json"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("note: cut.json: byte "));
  EXPECT_EQ(json::parse(result.out)["traces"][0]["problems"].size(), 1U);
}

// Not "no steps": the user named them.
TEST_F(TraceCli, RefusesStepsThatNoRangeMatches) {
  folder_.write("t.json", kTrace);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{ZENFLOW_SIM, "explain", "--trace", "t.json"},
        {ZENFLOW_CALIBRATE, "fit", "t.json", "--profile", "dgx_h100"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--steps", "epoch [0-9]+"});
    const Outcome result = run_program(arguments, {.folder = folder_.path()});
    EXPECT_EQ(result.code, 2) << command[0];
    EXPECT_THAT(result.err, HasSubstr("t.json: --steps: expected an expression"));
  }
}

TEST_F(TraceCli, RefusesBadUsageAndInput) {
  folder_.write("t.json", kTrace);
  const auto expect = [&](const std::vector<std::string>& arguments, const std::string& what) {
    const Outcome outcome = explain(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(what));
    EXPECT_THAT(outcome.out, IsEmpty());
  };
  expect({}, "expected a scenario, a job");
  expect({"--trace", "none.json"}, "none.json: cannot read: No such file");
  expect({"--trace", "."}, "is not a regular file");
  expect({"--trace", "t.json", "--steps", "("}, "expected a regular expression");
  expect({"--trace", "t.json", "--steps", "None"}, "ranges are ProfilerStep#1");
  expect({"--trace", "t.json", "--rules", "none.yaml"}, "none.yaml");
  expect({"scenario.yaml", "--trace", "t.json"}, "excludes");
  expect({"scenario.yaml", "--steps", "x"}, "requires");
  // What a recording does not take is not passed over.
  for (const char* option : {"--profile", "--set", "--schedule", "--gpu", "--ds", "--ram"}) {
    expect({"--trace", "t.json", option, "x=y"}, std::string("excludes ") + option);
  }
}

TEST_F(TraceCli, CalibrateRefusesWhatItWouldPassOver) {
  folder_.write("t.json", kTrace);
  const std::vector<std::vector<std::string>> wrong = {
      {"t.json", "--scenario", "s.yaml", "--micro-batch-size", "4"},
      {"t.json", "--scenario", "s.yaml", "--activation-checkpointing"},
      {"t.json", "--scenario", "s.yaml", "--setting", "gpu-only", "--steps", "x"},
      {"--analyze", "t.json", "--profile", "dgx_h100"},
      {"--analyze", "t.json", "--model", "m.json"},
      {"t.json", "./t.json", "--profile", "dgx_h100"}};
  for (std::vector<std::string> arguments : wrong) {
    arguments.insert(arguments.begin(), {ZENFLOW_CALIBRATE, "fit"});
    const Outcome outcome = run_program(arguments, {.folder = folder_.path()});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, ContainsRegex("requires|excludes|given twice"));
  }
}

}  // namespace
}  // namespace zenflow::testing
