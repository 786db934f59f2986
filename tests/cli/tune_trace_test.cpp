// zenflow-tune --trace as its user meets it: from recordings to a configuration, or to the reason
// why there is none.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/support/nsight_file.h"
#include "tests/support/traces.h"
#include "tests/support/train_program.h"

namespace zenflow::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

const std::string kSource = ZENFLOW_SOURCE_DIR;
const std::string kModel = kSource + "/scenarios/models/opt_1_3b.json";
const std::string kBase = kSource + "/scenarios/ds/zero2_offload.json";
/// The machine on which the job runs is not the one that the shipped profile says.
const Arguments kReally = {"--set", "hardware.gpu.gemm_efficiency.value=0.5",
                           "--set", "hardware.gpu.elementwise_efficiency.value=0.6",
                           "--set", "hardware.host.adam_bandwidth.value=90 GB/s",
                           "--set", "hardware.host_link.h2d.value=35 GB/s",
                           "--set", "hardware.host_link.d2h.value=31 GB/s"};
/// Whether it offloads is not asked: without, four H100 would not wait for the host at all.
const Arguments kOffloading = {"--vary",  "placement=cpu,zenflow", "--vary",
                               "stage=2", "--front-within",        "0"};

class TuneTrace : public TrainProgram {
 protected:
  TuneTrace() {
    folder_.write("job.yaml", "name: job\nmodel: " + kModel +
                                  "\nhardware: dgx_h100\ngpus: 4\nnodes: 1\n"
                                  "training: {micro_batch_size_per_gpu: 4, sequence_length: 1024, "
                                  "dtype: bf16, activation_checkpointing: false}\ndeepspeed: " +
                                  kBase +
                                  "\nschedules: [deepspeed-zero-offload]\n"
                                  "run: {warmup_steps: 4, steps: 12}\n");
  }
  [[nodiscard]] Outcome tune(const Arguments& arguments) const {
    return run_program(Arguments{ZENFLOW_TUNE} + arguments, around());
  }
  void record_job() const {
    const Outcome outcome = run_program(
        Arguments{ZENFLOW_SIM, "run", "job.yaml", "--trace", "run.json.gz", "-q"} + kReally,
        around());
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  [[nodiscard]] static Arguments job() {
    return {"--trace", "run.json.gz", "--model",           kModel,
            "--base",  kBase,         "--sequence-length", "1024"};
  }
  [[nodiscard]] json summary() const { return json::parse(content("out/summary.json")); }
  /// Exit code and message; nothing is printed and no file appears.
  void expect_refused(const Arguments& arguments, const ::testing::Matcher<std::string>& message,
                      int code = 2) const {
    const std::set<std::string> before = files();
    const Outcome outcome = tune(arguments + Arguments{"-o", "out"});
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, message);
    EXPECT_EQ(files(), before);
  }
};

TEST_F(TuneTrace, PredictsWhatTheTunedSettingTakesOnTheMachineThatWasRecorded) {
  record_job();
  const Outcome outcome = tune(job() + kOffloading + Arguments{"-o", "out"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, content("out/summary.txt"));
  const json said = summary();
  const double measured = said["baseline"]["measured_step_time_ms"];
  EXPECT_NEAR(said["baseline"]["result"]["step_time_ms"].get<double>(), measured, 0.01 * measured);
  EXPECT_NEAR(said["trace"]["simulated_over_measured"].get<double>(), 1, 0.01);
  EXPECT_EQ(said["baseline"]["setting"]["gpus"], 4);
  EXPECT_EQ(said["trace"]["base_profile"], "dgx_h100");
  EXPECT_THAT(said["trace"]["told"], Contains("4 GPUs: GPUs that its tracks stand for"));
  EXPECT_THAT(content("out/summary.txt"),
              AllOf(HasSubstr("From the traces:"), HasSubstr("What they could not tell:"),
                    HasSubstr("activation checkpointing: taken as off")));
  EXPECT_GT(said["speedup"], 1.0);
  EXPECT_GT(said["speedup_relative_error"], 0.0);

  // The tuned file, simulated with what the machine really does.
  const bool binds = said["chosen"]["setting"]["bind_cores_to_rank"];
  const Outcome really =
      tune(Arguments{"job.yaml", "--base", "out/ds_config_optimal.json", "--json", "--set",
                     binds ? "launch.bind_cores_to_rank=true" : "launch.bind_cores_to_rank=false"} +
           kReally + kOffloading);
  ASSERT_EQ(really.code, 0) << really.err;
  const json truth = json::parse(really.out)["baseline"];
  EXPECT_EQ(truth["setting"], said["chosen"]["setting"]);
  const double predicted = said["chosen"]["result"]["step_time_ms"];
  EXPECT_NEAR(predicted, truth["result"]["step_time_ms"].get<double>(), 0.03 * predicted);
  EXPECT_NEAR(said["trace"]["scaled_step_time_ms"].get<double>(),
              truth["result"]["step_time_ms"].get<double>(), 0.03 * predicted);
}

TEST_F(TuneTrace, WritesAScenarioAndAProfileToGoOnWith) {
  record_job();
  ASSERT_EQ(tune(job() + kOffloading + Arguments{"-o", "out"}).code, 0);
  const Outcome run = run_program(
      {ZENFLOW_SIM, "run", "out/scenario.yaml", "--schedule", "deepspeed-zero-offload", "--json"},
      around());
  ASSERT_EQ(run.code, 0) << run.err;
  const double own = summary()["baseline"]["result"]["step_time_ms"];
  EXPECT_NEAR(json::parse(run.out)["results"][0]["step_time_ms"].get<double>(), own, 1e-3 * own);
  EXPECT_THAT(content("out/profile.yaml"), HasSubstr("fitted to run.json.gz"));
  // The tuner itself takes it as well, with the standard errors of the fit.
  const Outcome again = tune(Arguments{"out/scenario.yaml", "--json"} + kOffloading);
  ASSERT_EQ(again.code, 0) << again.err;
  const auto given = [](const json& numbers) {
    std::map<std::string, double> errors;
    for (const json& one : numbers) {
      if (one["from"] == "given") errors[one["number"]] = one["relative_error"];
    }
    return errors;
  };
  EXPECT_GT(given(summary()["numbers"]).size(), 4U);
  EXPECT_EQ(given(json::parse(again.out)["numbers"]), given(summary()["numbers"]));
}

// 16 steps, of which the last has no end.
TEST_F(TuneTrace, SaysOfWhatTheMeasuredStepIsTheMedian) {
  record_job();
  const Outcome measured = tune(job() + kOffloading + Arguments{"-o", "out"});
  ASSERT_EQ(measured.code, 0) << measured.err;
  EXPECT_THAT(measured.out, HasSubstr(" a step, the median of 15 steps;"));
  EXPECT_EQ(summary()["trace"]["measured_steps"], 15);
  const Outcome said = tune(job() + kOffloading +
                            Arguments{"--measured-step", "2 s", "--anyway", "-o", "out", "-f"});
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("Measured: 2.00 s a step, as --measured-step says;"));
  EXPECT_THAT(said.out, Not(HasSubstr("the median of")));
  EXPECT_EQ(summary()["trace"]["measured_steps"], 0);
}

// What was recorded is of 16 sequences.
TEST_F(TuneTrace, ComparesWhatWasMeasuredWithAStepOfItsBatchAlone) {
  record_job();
  const Outcome outcome =
      tune(job() + kOffloading + Arguments{"--global-batch", "32", "-o", "out"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("so the model is not held against the job"),
                                 HasSubstr("what a step of 32 sequences takes (--global-batch): "
                                           "the recorded job's have 16")));
  EXPECT_FALSE(summary()["baseline"].contains("measured_step_time_ms"));
  EXPECT_FALSE(summary()["trace"].contains("simulated_over_measured"));
  fs::remove_all(folder_ / "out");
  expect_refused(job() + Arguments{"--global-batch", "32", "--measured-step", "2 s"},
                 HasSubstr("--measured-step: is of your own setting, whose step has 16 sequences"));
}

// A step of the file is a micro step; windows of four begin and end where they like in the trace.
TEST_F(TuneTrace, AddsUpMicroSteps) {
  json base = json::parse(file_content(kBase));
  base["gradient_accumulation_steps"] = 4;
  folder_.write("base.json", base.dump());
  ASSERT_EQ(run_program({ZENFLOW_SIM, "run", "job.yaml", "--set", "deepspeed=base.json", "--trace",
                         "run.json.gz", "-q"},
                        around())
                .code,
            0);
  const Outcome outcome = tune(with(job(), "--base", "base.json") + kOffloading +
                               Arguments{"--vary", "topk_ratio=0.1", "-o", "out"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NEAR(summary()["trace"]["simulated_over_measured"].get<double>(), 1, 0.01);
  EXPECT_EQ(summary()["global_batch"], 64);
  // The last micro step has no end; of the others as many as fill windows of four count.
  EXPECT_EQ(summary()["trace"]["measured_steps"], 5);
}

TEST_F(TuneTrace, GoesOnWithItsStudyAndOverwritesOnlyWhenTold) {
  record_job();
  ASSERT_EQ(tune(job() + kOffloading + Arguments{"-o", "out"}).code, 0);
  const std::string before = content("out/summary.txt");
  const Outcome again = tune(job() + kOffloading + Arguments{"-o", "out"});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("out/ds_config_optimal.json"));
  ASSERT_EQ(tune(job() + kOffloading + Arguments{"-o", "out", "-f"}).code, 0);
  EXPECT_EQ(content("out/summary.txt"), before);
}

TEST_F(TuneTrace, MindsWhatTheUserKnowsOfTheMachine) {
  record_job();
  const Outcome little =
      tune(job() + kOffloading + Arguments{"--host-memory", "9 GiB", "-o", "out"});
  EXPECT_EQ(little.code, 3) << little.out;
  EXPECT_THAT(little.err, HasSubstr("memory: RAM of the node"));
  EXPECT_FALSE(fs::exists(folder_ / "out/summary.txt"));
}

/// Steps of half a second by the PyTorch profiler: fused attention over 4 sequences of 1024 tokens,
/// and gradients that go down at 20 GB/s. In the last of each `micro_steps` of them an optimizer
/// updates, which takes 200 ms more; 0: nobody says where.
std::string profiled(int steps = 3, int micro_steps = 0) {
  std::string text = R"({"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 4},
"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}], "traceEvents": [)";
  int next = 1;
  int begin = 0;
  for (int step = 0; step < steps; ++step) {
    const bool updates = micro_steps > 0 && (step + 1) % micro_steps == 0;
    const int length = updates ? 700'000 : 500'000;
    text += (step == 0 ? "" : ",") + event("user_annotation", fmt::format("ProfilerStep#{}", step),
                                           "100", "100", std::to_string(begin),
                                           std::to_string(length - 1000));
    if (updates) {
      text += "," + event("user_annotation", "Optimizer.step#AdamW.step", "100", "100",
                          std::to_string(begin + 450'000), "200000");
    }
    for (int i = 0; i < 14; ++i) {
      const int at = begin + 1000 + 10'000 * i;
      text += "," + event("cpu_op", "aten::_scaled_dot_product_flash_attention", "100", "100",
                          std::to_string(at), "20",
                          R"("Input Dims": [[4, 32, 1024, 64], [4, 32, 1024, 64],)"
                          R"([4, 32, 1024, 64], [], [], []], "Input type": ["c10::BFloat16",)"
                          R"("c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar", "Scalar"],)"
                          R"("Concrete Inputs": ["", "", "", "0.", "True", "False"])");
      text += "," + launch("cudaLaunchKernel", std::to_string(at + 5), "4", next);
      text += "," + kernel("flash_fwd_kernel", std::to_string(at + 30), "120", next++);
      const long bytes = 65'536L << (i % 8);
      text +=
          "," + copy("DtoH (Device -> Pinned)", std::to_string(at + 500),
                     fmt::format("{:.3f}", 8 + static_cast<double>(bytes) / 20e3), bytes, next++);
    }
    begin += length;
  }
  return text + "]}";
}

// The profile is of a larger GPU than the recording's.
TEST_F(TuneTrace, ProposesNothingThatTheRecordedGpuCannotHold) {
  std::string text = profiled();
  const std::string name = "NVIDIA H100 80GB HBM3";
  text.replace(text.find(name), name.size(), "Tesla V100-SXM2-16GB");
  folder_.write("v100.json", text);
  const Outcome outcome = tune(Arguments{"--trace", "v100.json", "--model", kModel, "--base", kBase,
                                         "--profile", "dgx_h100", "--anyway", "-o", "out"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(summary()["trace"]["told"],
              Contains("16 GiB of GPU memory: the name Tesla V100-SXM2-16GB"));
  EXPECT_LE(summary()["chosen"]["result"]["gpu_peak_bytes"].get<double>(), 16 * 0x1p30);
}

// What comes later than as published is for those who ask for it.
TEST_F(TuneTrace, ProposesLateUpdatesOnlyIfAsked) {
  folder_.write("job.json", profiled());
  const auto tuned = [&](const Arguments& more) {
    const Outcome outcome =
        tune(Arguments{"--trace", "job.json", "--model", kModel, "--base", kBase, "--schedule",
                       "zenflow", "--vary", "placement=zenflow", "--front-within", "0", "--anyway",
                       "-f", "-o", "out"} +
             more);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  const std::string usual = tuned({});
  json said = summary();
  EXPECT_LE(said["chosen"]["result"]["staleness_steps_max"].get<int>(), 7);
  EXPECT_LE(said["fastest"]["result"]["staleness_steps_max"].get<int>(), 7);
  EXPECT_EQ(said["convergence"]["max_staleness"], 7);
  EXPECT_EQ(said["convergence"]["asked_for_staleness"], false);
  EXPECT_THAT(usual, AllOf(HasSubstr("nothing was measured of it on your job"),
                           HasSubstr("byte-level Llama of 3 million parameters"),
                           HasSubstr("topk_ratio 0.1, update_interval 4, text, deferred scaling "
                                     "none: +3.88 %"),
                           HasSubstr("more than 7 steps late are not proposed unless you ask")));
  const std::string asked = tuned({"--max-staleness", "31"});
  said = summary();
  EXPECT_GT(said["fastest"]["result"]["staleness_steps_max"].get<int>(), 7);
  EXPECT_EQ(said["convergence"]["max_staleness"], 31);
  EXPECT_THAT(asked, Not(HasSubstr("are not proposed unless you ask")));
}

// A server's trace, as vLLM's, has no backward pass.
TEST_F(TuneTrace, RefusesATraceOfInference) {
  std::string text = profiled();
  for (std::size_t at = 0; (at = text.find("flash_fwd_kernel", at)) != std::string::npos;) {
    text.replace(at, 16, "flash_fwd_splitkv_kernel");
    at += 20;
  }
  folder_.write("served.json", text);
  expect_refused({"--trace", "served.json", "--model", kModel, "--base", kBase},
                 AllOf(HasSubstr("served.json: is of inference: flash_fwd_splitkv_kernel"),
                       HasSubstr("what is tuned is training")));
}

// Kernels that repeat may be a model's layers.
TEST_F(TuneTrace, AsksWhetherRepetitionsAreSteps) {
  std::string layers = profiled();
  for (std::size_t at = 0; (at = layers.find("ProfilerStep#", at)) != std::string::npos;) {
    layers.replace(at, 13, "part ");
  }
  folder_.write("layers.json", layers);
  const Arguments of = {"--trace", "layers.json", "--model", kModel, "--base", kBase};
  expect_refused(of,
                 AllOf(HasSubstr("repetitions: steps or layers? They take 28 ms each"),
                       HasSubstr("forward and backward of this batch take"), HasSubstr("--steps")));
  // Named, they are steps; and fewer of them, half a second apart, fit.
  const Outcome named =
      tune(of + Arguments{"--steps", "part [0-9]", "--anyway", "-o", "out"} + kOffloading);
  ASSERT_EQ(named.code, 0) << named.err;
  EXPECT_NEAR(summary()["baseline"]["measured_step_time_ms"].get<double>(), 500, 1e-6);
}

TEST_F(TuneTrace, TakesTheMemoryOfTheGpuFromTheTrace) {
  std::string text = profiled();
  const std::string name = "\"NVIDIA H100 80GB HBM3\"";
  folder_.write("other.json", text);
  text.replace(text.find(name), name.size(),
               "\"Tesla V100-SXM2-16GB\", \"totalGlobalMem\": 16945512448");
  folder_.write("v100.json", text);
  const auto of = [&](const std::string& trace) {
    return tune(Arguments{"--trace", trace, "--model", kModel, "--base", kBase, "--profile",
                          "dgx_h100", "-o", trace + "-out"} +
                kOffloading);
  };
  const Outcome outcome = of("v100.json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("of 15.8 GiB"),
                    HasSubstr("15.78 GiB of GPU memory: the traces' properties of the device"),
                    HasSubstr("the traces name Tesla V100-SXM2-16GB, profile dgx_h100 is of "
                              "H100-SXM5-80GB: numbers taken from it are that GPU's"),
                    Not(HasSubstr("of the GPU (--gpu-memory)"))));
  const Outcome same = of("other.json");
  ASSERT_EQ(same.code, 0) << same.err;
  EXPECT_THAT(same.out,
              AllOf(Not(HasSubstr("the traces name")), HasSubstr("of the GPU (--gpu-memory)")));
}

TEST_F(TuneTrace, AsksNothingThatTheProfilersTraceTells) {
  folder_.write("rank0.pt.trace.json.gz", gzip(profiled()));
  const Outcome outcome = tune(Arguments{"--trace", "rank0.pt.trace.json.gz", "--model", kModel,
                                         "--base", kBase, "-o", "out"} +
                               kOffloading);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json said = summary();
  EXPECT_EQ(said["trace"]["base_profile"], "dgx_h100");
  EXPECT_THAT(said["trace"]["told"],
              AllOf(Contains("4 GPUs: the profiler's world_size"),
                    Contains("1024 tokens of a sequence: shapes of its attention")));
  EXPECT_EQ(said["baseline"]["setting"]["gpus"], 4);
  EXPECT_NEAR(said["baseline"]["measured_step_time_ms"].get<double>(), 500, 1e-6);
  bool has_link = false;
  for (const json& one : said["trace"]["fitted"]) {
    if (one["number"] != "host_link.d2h") continue;
    has_link = true;
    EXPECT_NEAR(one["value"].get<double>(), 20, 0.1);
  }
  EXPECT_TRUE(has_link) << said["trace"];
  // A step is as long as it is for no reason that the trace shows: that is said.
  EXPECT_THAT(outcome.out, HasSubstr("WARNING: the model misses"));
}

// Who profiles a loop over batches marks micro steps; in some of them an optimizer updates.
TEST_F(TuneTrace, MeasuresMicroStepsThatAreMarkedAsSteps) {
  json base = json::parse(file_content(kBase));
  base["gradient_accumulation_steps"] = 4;
  folder_.write("base.json", base.dump());
  const auto tuned = [&](const std::string& trace) {
    folder_.write("job.json", trace);
    fs::remove_all(folder_ / "out");
    const Outcome outcome = tune(Arguments{"--trace", "job.json", "--model", kModel, "--base",
                                           "base.json", "--anyway", "-o", "out"} +
                                 kOffloading);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return summary();
  };
  const auto measured = [](const json& said) {
    return said["baseline"]["measured_step_time_ms"].get<double>();
  };
  const auto is_asked = Contains(HasSubstr("whether a step of it is all 4 micro steps"));
  const json micro = tuned(profiled(8, 4));
  EXPECT_NEAR(measured(micro), 3 * 500 + 700, 1e-6);
  EXPECT_THAT(micro["trace"]["untold"], Not(is_asked));
  const json whole = tuned(profiled(4, 1));
  EXPECT_NEAR(measured(whole), 700, 1e-6);
  EXPECT_THAT(whole["trace"]["untold"], Not(is_asked));
  EXPECT_THAT(tuned(profiled(4))["trace"]["untold"], is_asked);
}

std::string deepspeed_log() {
  std::string log;
  for (int i = 0; i < 12; ++i) {
    log +=
        "[2024-11-21 02:14:39,317] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | "
        "fwd: 70.00 | bwd: 180.00 | optimizer_step: 60.00 | step: 100.00\n";
  }
  return log;
}

TEST_F(TuneTrace, TakesALogOfDeepSpeedWithWhatItCannotTell) {
  folder_.write("train.log", deepspeed_log());
  const Arguments log = {"--trace", "train.log", "--model", kModel, "--base", kBase};
  expect_refused(log,
                 AllOf(HasSubstr("--profile"), HasSubstr("name no GPU"), HasSubstr("dgx_h100")));
  const Arguments with_profile = log + Arguments{"--profile", "dgx_h100"};
  expect_refused(with_profile,
                 AllOf(HasSubstr("does not suffice"), HasSubstr("--sequence-length")));
  const Outcome outcome =
      tune(with_profile + Arguments{"--sequence-length", "1024", "-o", "out"} + kOffloading);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json said = summary();
  EXPECT_NEAR(said["baseline"]["measured_step_time_ms"].get<double>(), 350, 1e-9);
  std::vector<std::string> fitted;
  for (const json& one : said["trace"]["fitted"]) fitted.push_back(one["number"]);
  EXPECT_THAT(fitted, AllOf(Contains("gpu.gemm_efficiency"), Contains("host.adam_bandwidth")));
  EXPECT_THAT(said["trace"]["untold"],
              Contains("how many GPUs the job has: one is assumed (--gpus)"));
}

// A model's file, its folder and its name are one model.
TEST_F(TuneTrace, KnowsAModelByItsFolderAndItsNameToo) {
  folder_.write("train.log", deepspeed_log());
  const std::string file = kSource + "/scenarios/models/qwen3_0_6b.json";
  fs::create_directory(folder_ / "qwen");
  fs::copy_file(file, folder_ / "qwen/config.json");
  const auto step = [&](const std::string& model) {
    fs::remove_all(folder_ / "out");
    const Outcome outcome =
        tune(Arguments{"--trace", "train.log", "--model", model, "--base", kBase, "--profile",
                       "dgx_h100", "--sequence-length", "1024", "--anyway", "-o", "out"} +
             kOffloading);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? summary()["baseline"]["result"]["step_time_ms"].get<double>() : 0;
  };
  const double by_file = step(file);
  EXPECT_GT(by_file, 0);
  EXPECT_EQ(step("qwen"), by_file);
  EXPECT_EQ(step("Qwen/Qwen3-0.6B"), by_file);
  expect_refused(
      {"--trace", "train.log", "--model", "Qwen/Qwen3-0.5B", "--base", kBase, "--profile",
       "dgx_h100", "--sequence-length", "1024"},
      AllOf(HasSubstr("no description of \"Qwen/Qwen3-0.5B\""), HasSubstr("Qwen/Qwen3-0.6B")));
}

// DeepSpeed's ZenFlow writes a record of every micro step, which is a step, and one of those
// between two updates together.
TEST_F(TuneTrace, TakesALogOfZenFlowByItsMicroSteps) {
  std::string log;
  for (int window = 0; window < 5; ++window) {
    for (int i = 0; i < 4; ++i) {
      log += "[Rank 0] time (ms) | fwd_microstep: 70.00 | bwd_microstep: 180.00 | step_microstep: ";
      log += i == 3 ? "40.00\n" : "0.00\n";
    }
    log += "[Rank 0] time (ms) | fwd: 280.00 | bwd: 720.00 | step: 40.00\n";
  }
  folder_.write("train.log", log);
  const Outcome outcome =
      tune(Arguments{"--trace", "train.log", "--model", kModel, "--base",
                     kSource + "/scenarios/ds/zenflow_k10_s4.json", "--profile", "dgx_h100",
                     "--sequence-length", "1024", "--anyway", "-o", "out"} +
           kOffloading);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NEAR(summary()["baseline"]["measured_step_time_ms"].get<double>(), 1040.0 / 4, 1e-9);
}

// As DeepSpeed and Megatron print them when they begin, and a first iteration that takes longer.
TEST_F(TuneTrace, TakesWhatALogPrintsOfItsSettings) {
  const std::string printed =
      "[2024-11-21 02:11:28,156] [INFO] [config.py:1000:print]   world_size ................... 4\n"
      "  seq_length ...................................... 1024\n"
      "  log_world_size_to_tensorboard ................... 9\n"
      "  retriever_seq_length ............................ 256\n";
  std::string iterations;
  for (const char* time : {"1634.0", "950.0", "940.0", "955.0", "945.0"}) {
    iterations += fmt::format(" iteration | elapsed time per iteration (ms): {} |\n", time);
  }
  const auto tuned = [&](const std::string& log, const Arguments& more) {
    fs::remove_all(folder_ / "out");
    folder_.write("train.log", log);
    return tune(Arguments{"--trace", "train.log", "--model", kModel, "--base", kBase, "--profile",
                          "dgx_h100", "--anyway", "-f", "-o", "out"} +
                more + kOffloading);
  };
  const Outcome outcome = tuned(printed + deepspeed_log() + iterations, {});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json said = summary();
  EXPECT_THAT(said["trace"]["told"],
              AllOf(Contains("4 GPUs: settings that the log prints"),
                    Contains("1024 tokens of a sequence: settings that the log prints")));
  EXPECT_EQ(said["baseline"]["setting"]["gpus"], 4);
  EXPECT_NEAR(said["baseline"]["measured_step_time_ms"].get<double>(), 950, 1e-6) << "the median";
  const Outcome other = tuned(printed + deepspeed_log() + iterations, {"--gpus", "2"});
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(
      other.out,
      HasSubstr("why there are 4 GPUs (settings that the log prints), where --gpus says 2"));
  EXPECT_THAT(other.out, Not(HasSubstr("in the recording")));  // as calibrate fit says it
  // What it measured is not of the job that is simulated.
  EXPECT_THAT(other.err, HasSubstr("nothing is compared with it"));
  EXPECT_FALSE(summary()["baseline"].contains("measured_step_time_ms"));
  // Not every rank has data of its own: another job than is simulated.
  const Outcome parallel = tuned(printed + "  data_parallel_size ... 2\n" + deepspeed_log(), {});
  ASSERT_EQ(parallel.code, 0) << parallel.err;
  EXPECT_THAT(parallel.out, HasSubstr("how many GPUs the job has: one is assumed (--gpus)"));
}

/// A job whose optimizer state is on NVMe: 10 s to read, 30 s to write, 2 s to update.
std::string nvme_log() {
  std::string log =
      "  world_size ...................................... 4\n"
      "  seq_length ...................................... 1024\n"
      "  global_batch_size ............................... 16\n"
      "  checkpoint_activations .......................... True\n"
      "[INFO] [utils.py:808:see_memory_usage] CPU Virtual Memory:  used = 74.1 GB, "
      "percent = 74.1%\n";
  for (int i = 0; i < 12; ++i) {
    log += fmt::format(
        "time (ms) | optimizer_swap_in_state: {0}.00 | optimizer_swap_out_state: {1}.00\n"
        "time (ms) | optimizer_step: {2}.00\n"
        "time (ms) | fwd: 70.00 | bwd: 180.00 | step: {2}.00\n"
        " elapsed time per iteration (ms): {3}.0 |\n",
        10'000 + i, 30'000 + i, 42'000 + 2 * i, 42'250 + 2 * i);
  }
  return log;
}

json nvme_base() {
  json base = json::parse(file_content(kBase));
  base["zero_optimization"] = {
      {"stage", 3},
      {"sub_group_size", 100'000'000},
      {"offload_optimizer", {{"device", "nvme"}, {"nvme_path", "/nvme"}, {"pin_memory", true}}}};
  return base;
}

// Their timer is the wait for the last of them; the others pass beside reads and updates.
TEST_F(TuneTrace, FitsNoRateOfWritesToWritesThatAreHidden) {
  json base = nvme_base();
  base["zero_optimization"]["offload_optimizer"]["pipeline_write"] = true;
  folder_.write("base.json", base.dump());
  folder_.write("train.log", nvme_log());
  const Outcome outcome = tune({"--trace", "train.log", "--model", kModel, "--base", "base.json",
                                "--profile", "dgx_h100", "--anyway", "-f", "-o", "out"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::vector<std::string> fitted;
  const json said = summary();
  for (const json& one : said["trace"]["fitted"]) fitted.push_back(one["number"]);
  EXPECT_THAT(fitted, AllOf(Contains("nvme.read"), Not(Contains("nvme.write"))));
  // 12 bytes of each of 1.3 billion parameters in 42 s.
  EXPECT_THAT(said["trace"]["untold"],
              Contains(AllOf(HasSubstr("optimizer_swap_out_state"),
                             HasSubstr("NVMe writes at least 0.38 GB/s"))));
}

TEST_F(TuneTrace, FitsNvmeToSwapTimersAndKeepsToTheMachineOfTheLog) {
  const json base = nvme_base();
  folder_.write("base.json", base.dump());
  folder_.write("train.log", nvme_log());
  const Arguments log = {"--trace",   "train.log", "--model",  kModel, "--base", "base.json",
                         "--profile", "dgx_h100",  "--anyway", "-f",   "-o",     "out"};
  const Outcome outcome = tune(log);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json said = summary();
  std::map<std::string, double> fitted;
  for (const json& one : said["trace"]["fitted"]) fitted[one["number"]] = one["value"];
  ASSERT_THAT(fitted,
              AllOf(Contains(::testing::Key("nvme.read")), Contains(::testing::Key("nvme.write")),
                    Contains(::testing::Key("host.adam_bandwidth"))));
  // 16 bytes an element are read, 12 are written, in three times the time.
  EXPECT_NEAR(fitted["nvme.read"] / fitted["nvme.write"], 16.0 / 12 * 3, 0.02);
  EXPECT_THAT(said["trace"]["told"],
              AllOf(Contains(HasSubstr("100 GiB of RAM of a node: the log's CPU Virtual Memory")),
                    Contains("activation checkpointing on: checkpoint_activations in the log"),
                    Contains(HasSubstr("sequences of a batch"))));
  EXPECT_THAT(content("out/scenario.yaml"), HasSubstr("activation_checkpointing: true"));
  EXPECT_THAT(content("out/profile.yaml"), HasSubstr("source: \"the log\""));
  // Nothing that this node cannot hold.
  EXPECT_LE(said["chosen"]["result"]["needs"]["host_memory_bytes"].get<double>(), 100.1 * 0x1p30);
  // What misses is named before what the step misses.
  const std::size_t total = outcome.out.find("Measured: ");
  ASSERT_NE(total, std::string::npos);
  for (const json& one : said["trace"]["parts"]) {
    const double recorded = one["recorded_ms"];
    const double simulated = one["simulated_ms"];
    const bool misses = std::abs(recorded - simulated) >
                        std::max(0.15 * std::max(recorded, simulated), 0.03 * 42'250);
    const std::size_t at =
        outcome.out.find(fmt::format("The model misses {}:", one["part"].get<std::string>()));
    EXPECT_EQ(at != std::string::npos, misses) << one;
    if (misses) {
      EXPECT_LT(at, total);
    }
  }
  EXPECT_THAT(said["trace"]["parts"], SizeIs(3));
  // A user knows better.
  fs::remove_all(folder_ / "out");
  const Outcome told = tune(log + Arguments{"--host-memory", "1.5 TiB", "--set",
                                            "training.activation_checkpointing=false"});
  ASSERT_EQ(told.code, 0) << told.err;
  EXPECT_THAT(summary()["trace"]["told"], Not(Contains(HasSubstr("of RAM of a node"))));
  EXPECT_THAT(content("out/scenario.yaml"), HasSubstr("activation_checkpointing: false"));
}

// An iteration is a whole step, however many micro steps that has.
TEST_F(TuneTrace, MeasuresIterationsThatAccumulate) {
  json base = json::parse(file_content(kBase));
  base["gradient_accumulation_steps"] = 8;
  folder_.write("base.json", base.dump());
  for (const int count : {7, 16}) {
    std::string log = deepspeed_log();
    for (int i = 0; i < count; ++i) {
      log += fmt::format(" elapsed time per iteration (ms): {} |\n", i == 0 ? 2900.0 : 950.0);
    }
    folder_.write("train.log", log);
    fs::remove_all(folder_ / "out");
    const Outcome outcome =
        tune(Arguments{"--trace", "train.log", "--model", kModel, "--base", "base.json",
                       "--profile", "dgx_h100", "--sequence-length", "1024", "-o", "out"} +
             kOffloading);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NEAR(summary()["baseline"]["measured_step_time_ms"].get<double>(), 950, 1e-6);
    EXPECT_THAT(outcome.out, HasSubstr(fmt::format(", the median of {} steps", count)));
  }
}

// The forward alone is known, and everything else is another machine's.
TEST_F(TuneTrace, ScalesNothingByAModelOfAnotherJob) {
  folder_.write("train.log", deepspeed_log() + " elapsed time per iteration (ms): 900000.0 |\n");
  const Outcome outcome =
      tune(Arguments{"--trace", "train.log", "--model", kModel, "--base", kBase, "--profile",
                     "dgx_h100", "--sequence-length", "1024", "-o", "out"} +
           kOffloading);
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.err, HasSubstr("--anyway"));
  EXPECT_FALSE(fs::exists(folder_ / "out/ds_config_optimal.json"));
  EXPECT_TRUE(fs::exists(folder_ / "out/profile.yaml"));
  EXPECT_EQ(summary()["baseline"]["reliable"], false);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("WARNING: the model is off by a factor of "),
                                 Not(HasSubstr("scaled by the same"))));
  EXPECT_FALSE(summary()["trace"].contains("scaled_step_time_ms"));
  EXPECT_TRUE(summary()["trace"].contains("simulated_over_measured"));
}

// Steps that the file leaves open follow from the GPUs, not these from one step.
TEST_F(TuneTrace, TakesABatchWithoutSteps) {
  json base = json::parse(file_content(kBase));
  base.erase("gradient_accumulation_steps");
  base["train_batch_size"] = 64;
  base["train_micro_batch_size_per_gpu"] = 4;
  folder_.write("base.json", base.dump());
  folder_.write("train.log", deepspeed_log());
  const Arguments log = {
      "--trace",  "train.log",         "--model", kModel,     "--base", "base.json", "--profile",
      "dgx_h100", "--sequence-length", "1024",    "--anyway", "-f",     "-o"};
  const Outcome untold = tune(log + Arguments{"one"} + kOffloading);
  ASSERT_EQ(untold.code, 0) << untold.err;
  EXPECT_THAT(untold.out, HasSubstr("how many GPUs the job has: one is assumed (--gpus)"));
  const Outcome told = tune(log + Arguments{"out", "--gpus", "4"} + kOffloading);
  ASSERT_EQ(told.code, 0) << told.err;
  EXPECT_EQ(summary()["global_batch"], 64);
  EXPECT_EQ(summary()["baseline"]["setting"]["gradient_accumulation_steps"], 4);
}

TEST_F(TuneTrace, KnowsTheOtherNameOfTheBlockOfBf16) {
  json base = json::parse(file_content(kBase));
  base["bfloat16"] = base["bf16"];
  base.erase("bf16");
  folder_.write("base.json", base.dump());
  record_job();
  const Outcome outcome =
      tune(with(job(), "--base", "base.json") + kOffloading + Arguments{"-o", "out"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(content("out/scenario.yaml"), HasSubstr("dtype: bf16"));
}

// A file for each rank; each has half of the truth.
TEST_F(TuneTrace, TakesLogsOfSeveralRanksAsOneJob) {
  std::string other = deepspeed_log();
  for (std::size_t at = 0; (at = other.find("Rank 0", at)) != other.npos;) other[at + 5] = '1';
  for (std::size_t at = 0; (at = other.find("bwd: 180", at)) != other.npos;) other[at + 5] = '2';
  folder_.write("rank0.log", deepspeed_log());
  folder_.write("rank1.log", other);
  const Outcome outcome = tune(Arguments{"--trace", "rank0.log", "--trace", "rank1.log", "--model",
                                         kModel, "--base", kBase, "--profile", "dgx_h100",
                                         "--sequence-length", "1024", "--gpus", "8", "-o", "out"} +
                               kOffloading);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json said = summary();
  EXPECT_EQ(said["baseline"]["setting"]["gpus"], 8);
  // 350 ms and 450 ms.
  EXPECT_NEAR(said["baseline"]["measured_step_time_ms"].get<double>(), 400, 1e-9);
}

/// Four GPUs in one export: gradients that go down at 20 GB/s, and steps of 100 ms as ranges.
void write_nsight_export(const fs::path& path) {
  NsightFile file(path);
  for (const char* table : {NsightFile::kKernels, NsightFile::kCopies, NsightFile::kRanges,
                            NsightFile::kStrings, NsightFile::kOperations, NsightFile::kMemories}) {
    file.run(table);
  }
  file.run("INSERT INTO StringIds VALUES (1,'flash_fwd_kernel'),(2,'ampere_bf16_s16816gemm')");
  constexpr long kStep = 100'000'000;  // nanoseconds
  int next = 1;
  for (int step = 0; step < 6; ++step) {
    for (int device = 0; device < 4; ++device) {
      for (int i = 0; i < 8; ++i) {
        const long at = kStep * step + 10'000'000L * i + 1'000'000;
        const long bytes = 65'536L << i;
        file.run(fmt::format(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({},{},{},1,7,{},1,{},{},NULL)", at,
            at + 200'000, device, next, 1 + i % 2, 1 + i % 2));
        file.run(fmt::format(
            "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES ({},{},{},1,8,{},1,{},2,2,1)",
            at + 500'000, at + 508'000 + bytes / 20, device, next + 1, bytes));
        next += 2;
      }
    }
    file.run(fmt::format("INSERT INTO NVTX_EVENTS VALUES ({},{},59,'step {}',1677721607,NULL)",
                         kStep * step, kStep * (step + 1) - 1000, step));
  }
}

TEST_F(TuneTrace, TunesANsightExportOfSeveralGpus) {
  write_nsight_export(folder_ / "report.sqlite");
  const Arguments job = {"--trace", "report.sqlite", "--model", kModel, "--base", kBase};
  expect_refused(job, AllOf(HasSubstr("--profile"), HasSubstr("name no GPU")));
  expect_refused(job + Arguments{"--profile", "dgx_h100"},
                 AllOf(HasSubstr("does not suffice"), HasSubstr("--sequence-length")));
  const Outcome outcome = tune(
      job +
      Arguments{"--profile", "dgx_h100", "--sequence-length", "1024", "--anyway", "-o", "out"} +
      kOffloading);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json said = summary();
  EXPECT_EQ(said["baseline"]["setting"]["gpus"], 4);
  EXPECT_THAT(said["trace"]["told"], Contains("4 GPUs: GPUs with work in one trace"));
  EXPECT_NEAR(said["baseline"]["measured_step_time_ms"].get<double>(), 100, 1e-6);
  std::map<std::string, double> fitted;
  for (const json& one : said["trace"]["fitted"]) fitted[one["number"]] = one["value"];
  EXPECT_NEAR(fitted["host_link.d2h"], 20, 0.1);
}

TEST_F(TuneTrace, SaysWhyANsightExportWithoutGpuWorkDoesNotSuffice) {
  {
    NsightFile file(folder_ / "report.sqlite");
    file.run(NsightFile::kCalls);
    file.run(NsightFile::kStrings);
  }
  expect_refused(
      {"--trace", "report.sqlite", "--model", kModel, "--base", kBase, "--profile", "dgx_h100"},
      AllOf(HasSubstr("does not suffice"), HasSubstr("nothing ran on a GPU")));
}

TEST_F(TuneTrace, SaysWhyARecordingWithoutAGpuDoesNotSuffice) {
  const std::string trace = kSource + "/tests/data/traces/pytorch_cpu/trace.json.gz";
  expect_refused({"--trace", trace, "--model", kModel, "--base", kBase, "--profile", "dgx_h100"},
                 AllOf(HasSubstr("does not suffice"), HasSubstr("nothing ran on a GPU")));
  // Not that a profile is wanted, as the trace names no GPU.
  expect_refused({"--trace", trace, "--model", kModel, "--base", kBase},
                 HasSubstr("nothing ran on a GPU"));
}

TEST_F(TuneTrace, SaysThatATraceWithoutGpuWorkWasCutShort) {
  std::string events;
  for (int i = 0; i < 3000; ++i) {
    events += event("cpu_op", fmt::format("aten::op{}", i), "100", "100", fmt::format("{}", 7 * i),
                    "5", "") +
              ",";
  }
  std::string text = profiled();
  const std::string_view list = "\"traceEvents\": [";
  text.insert(text.find(list) + list.size(), events);
  const std::string whole = gzip(text);
  folder_.write("cut.json.gz", whole.substr(0, whole.size() / 2));
  expect_refused(
      {"--trace", "cut.json.gz", "--model", kModel, "--base", kBase, "--profile", "dgx_h100"},
      AllOf(HasSubstr("nothing ran on a GPU"), HasSubstr("cut short")));
}

/// A recording of zenflow-train says everything itself: profile, batch and setting.
TEST_F(TuneTrace, TunesARecordingOfZenFlowTrain) {
  for (const Arguments& setting :
       {Arguments{"--schedule", "zero-offload"},
        Arguments{"--schedule", "zenflow", "--topk-ratio", "0.3", "--update-interval", "2"}}) {
    ASSERT_EQ(
        run(basic() + setting + Arguments{"--steps", "24", "--trace", "t.json.gz", "-f", "-q"})
            .code,
        0);
    const Outcome outcome =
        tune({"--trace", "t.json.gz", "--model", "llama.json", "-o", "out", "--front-within", "0",
              "--vary", "topk_ratio=0.1,0.3", "--vary", "update_interval=1,2,4", "--vary",
              "accumulate_on=host", "--anyway"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json said = summary();
    EXPECT_EQ(said["schedule"], "live-zenflow");
    EXPECT_EQ(said["trace"]["base_profile"], "this_host");
    EXPECT_GT(said["baseline"]["measured_step_time_ms"], 0.0);
    // On a busy machine steps of this size take any time.
    const double off = std::abs(std::log(said["trace"]["simulated_over_measured"].get<double>()));
    EXPECT_EQ(said["trace"].contains("scaled_step_time_ms"), off <= std::log(2.0)) << off;
    // 24 steps less two windows and what began after them; and the machine has no name yet.
    EXPECT_THAT(outcome.out,
                HasSubstr(setting.size() == 2 ? "the median of 22 steps"
                                              : "the median of 10 update windows of 2 steps"));
    EXPECT_THAT(outcome.out, HasSubstr("(this_host, fitted to the traces)"));
    // The recording tells that, too.
    EXPECT_THAT(said["trace"]["untold"].dump(), Not(HasSubstr("activation checkpointing")));
    EXPECT_THAT(content("out/cmd_optimal.txt"),
                AllOf(HasSubstr("zenflow-train --model ../llama.json"),
                      HasSubstr("--threads 1 --optimizer-threads 1 --sum-threads 1")));
    const Outcome live = run_program({ZENFLOW_SIM, "run", "out/scenario.yaml", "--json"}, around());
    EXPECT_EQ(live.code, 0) << live.err;
    fs::remove_all(folder_ / "out");
  }
}

/// A scenario of this machine with the tiny model, whose name the shell does not take as it is.
class TunedCommand : public TuneTrace {
 protected:
  TunedCommand() {
    folder_.write("my models/it's $HOME.json", kTinyLlama);
    folder_.write("tiny.yaml",
                  "name: tiny\nmodel: \"my models/it's $HOME.json\"\nhardware: this_host\n"
                  "gpus: 1\nnodes: 1\ntraining: {micro_batch_size_per_gpu: 1, sequence_length: 8, "
                  "dtype: fp32, activation_checkpointing: false}\n"
                  "deepspeed:\n  train_micro_batch_size_per_gpu: 1\n  gradient_clipping: 0.5\n"
                  "  optimizer: {type: AdamW, params: {lr: 2e-3, betas: [0.8, 0.99], eps: 1e-7, "
                  "weight_decay: 0.02}}\n"
                  "  zero_optimization:\n    stage: 2\n    overlap_comm: true\n"
                  "    offload_optimizer: {device: cpu, pin_memory: true}\n"
                  "    zenflow: {topk_ratio: 0.1, update_interval: 2, select_interval: 4, "
                  "select_strategy: step, overlap_step: true, full_warm_up_rounds: 3, "
                  "pt_reserved_cores_perc: 0.5}\n"
                  "launch: {bind_cores_to_rank: false}\nschedules: [live-zenflow]\n");
  }
  [[nodiscard]] static Arguments one_setting() {
    return {"--vary", "placement=zenflow",     "--vary",         "topk_ratio=0.1",
            "--vary", "update_interval=2",     "--vary",         "select_interval=4",
            "--vary", "full_warm_up_rounds=3", "--front-within", "0"};
  }
  /// What the file says, done where it is, by a shell; for a few steps.
  [[nodiscard]] json done_in(const fs::path& folder) const {
    std::ofstream(folder / "data.txt") << some_text(3000);
    const fs::path programs = fs::path(ZENFLOW_TRAIN).parent_path();
    const Outcome outcome =
        run_program({"/bin/sh", "-c",
                     "PATH=\"" + programs.string() +
                         ":$PATH\"; eval \"$(cat cmd_optimal.txt)\" --steps 8 --json -q"},
                    {.folder = folder});
    EXPECT_EQ(outcome.code, 0) << outcome.err << file_content(folder / "cmd_optimal.txt");
    return outcome.code == 0 ? json::parse(outcome.out)["results"][0] : json();
  }
};

TEST_F(TunedCommand, RunsWhereItIsWritten) {
  fs::path elsewhere = folder_.path();
  elsewhere += ".elsewhere";
  fs::remove_all(elsewhere);
  fs::create_directories(folder_ / "deep/down");
  fs::create_directory(folder_ / "deep/models");
  folder_.write("deep/models/tiny.json", kTinyLlama);
  fs::create_directory_symlink(folder_ / "deep/down", folder_ / "link");
  fs::create_directory_symlink(folder_ / "deep/models", folder_ / "shelf");
  const std::string absolute = (folder_ / "shelf/tiny.json").string();
  for (const std::string& out : {std::string("out"), std::string("link/out"), elsewhere.string()}) {
    // By the scenario, through a link, through a link and back up, absolute.
    for (const std::string& model : {std::string(), std::string("shelf/tiny.json"),
                                     std::string("shelf/../models/tiny.json"), absolute}) {
      Arguments arguments = Arguments{"tiny.yaml", "-o", out, "-f", "-q"} + one_setting();
      if (!model.empty()) arguments = arguments + Arguments{"--set", "model=" + model};
      const Outcome tuned = tune(arguments);
      ASSERT_EQ(tuned.code, 0) << tuned.err;
      const fs::path folder = fs::path(out).is_absolute() ? fs::path(out) : folder_ / out;
      const json result = done_in(folder);
      ASSERT_FALSE(result.is_null()) << out << " " << model;
      EXPECT_EQ(result["update_interval"], 2);
      const std::string command = file_content(folder / "cmd_optimal.txt");
      EXPECT_EQ(command.find(absolute) != std::string::npos, model == absolute) << command;
      fs::remove_all(folder);  // the next one is another study
    }
  }
}

TEST_F(TunedCommand, SaysWhatTheFileSays) {
  ASSERT_EQ(tune(Arguments{"tiny.yaml", "-o", "out", "-q"} + one_setting()).code, 0);
  const std::string command = content("out/cmd_optimal.txt");
  EXPECT_THAT(command, HasSubstr("--model '../my models/it'\\''s $HOME.json' --data data.txt "));
  EXPECT_THAT(command, HasSubstr(" --full-warm-up-rounds 3 "));
  EXPECT_THAT(command, HasSubstr(" --gradient-clipping 0.5 --lr 2e-3 --beta1 0.8 --beta2 0.99 "
                                 "--epsilon 1e-7 --weight-decay 0.02 "));
  EXPECT_THAT(command, Not(HasSubstr("--device")));
  EXPECT_THAT(command, Not(HasSubstr("--max-staleness")));
  const Arguments none =
      with(one_setting(), "--front-within", "0.1") + Arguments{"--vary", "full_warm_up_rounds=0"};
  ASSERT_EQ(
      tune(Arguments{"tiny.yaml", "-o", "none", "-q", "--set", "full_warm_up_rounds=0"} + none)
          .code,
      0);
  EXPECT_THAT(content("none/cmd_optimal.txt"), Not(HasSubstr("warm-up")));
  // Older gradients than zenflow-train takes unless told.
  ASSERT_EQ(
      tune({"tiny.yaml", "-o", "stale", "-q", "--vary", "placement=zenflow", "--vary",
            "update_interval=32", "--vary", "select_interval=64", "--vary", "overlap_step=true",
            "--max-staleness", "63", "--set", "update_interval=32", "--set", "select_interval=64"})
          .code,
      0);
  EXPECT_THAT(content("stale/cmd_optimal.txt"), HasSubstr(" --max-staleness 63 "));
  static_cast<void>(done_in(folder_ / "stale"));
}

/// What zenflow-train would do instead is another job.
TEST_F(TunedCommand, SaysWhyZenFlowTrainCannotDoIt) {
  const std::string scenarios = kSource + "/scenarios/";
  const struct {
    Arguments arguments;
    std::string why;
  } cases[] = {
      {{scenarios + "llama2_7b_4xa100.yaml", "--schedule", "zenflow", "--vary",
        "update_interval=4,8", "--vary", "topk_ratio=0.1"},
       "gpus: it has one device, this needs 4"},
      {{scenarios + "opt_125m_this_host.yaml", "--set",
        "model=" + scenarios + "models/opt_350m.json"},
       "norms after the sums, as OPT-350M has, are not trained"},
      {{scenarios + "zero_offload_10b_1xv100.yaml", "--schedule", "zenflow"},
       "dtype: it has no fp16"},
      {Arguments{"tiny.yaml", "--set", "model.num_hidden_layers=1"} + one_setting(),
       "--set model.num_hidden_layers: it takes the model as its file says"},
      {with(one_setting(), "--front-within", "0.1") +
           Arguments{"tiny.yaml", "--vary", "select_interval=5", "--set", "select_interval=5"},
       "windows of 2 steps, not every 5 steps"},
      {with(one_setting(), "--front-within", "0") +
           Arguments{"tiny.yaml", "--set", "training.dtype=bf16", "--set",
                     "deepspeed.gradient_accumulation_steps=129", "--set",
                     "deepspeed.bf16.enabled=true"},
       "gradient_accumulation_steps: it takes at most 128 in bf16, this has 129"},
  };
  for (const auto& [arguments, why] : cases) {
    fs::remove_all(folder_ / "out");
    const Outcome tuned = tune(arguments + Arguments{"-o", "out", "-q"});
    ASSERT_EQ(tuned.code, 0) << tuned.err;
    EXPECT_THAT(content("out/cmd_optimal.txt"), Not(HasSubstr("--data")));
    const Outcome outcome =
        run_program({"/bin/sh", "cmd_optimal.txt"}, {.folder = folder_ / "out"});
    EXPECT_NE(outcome.code, 0) << why;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("zenflow-train cannot run what was tuned: "), HasSubstr(why)));
    EXPECT_EQ(summary()["command"].get<std::string>() + "\n", content("out/cmd_optimal.txt"));
  }
}

TEST_F(TunedCommand, TrainsOnTheGpuThatWasTunedFor) {
  ASSERT_EQ(
      tune({kSource + "/scenarios/gpt2_xl_1xh200.yaml", "--schedule", "live-zenflow", "-o", "out",
            "-q", "--vary", "topk_ratio=0.1", "--vary", "update_interval=4", "--front-within", "0"})
          .code,
      0);
  EXPECT_THAT(content("out/cmd_optimal.txt"), HasSubstr(" --device cuda "));
}

TEST_F(TuneTrace, ARecordingSaysWhereSumsWere) {
  const json trained =
      result(basic() + Arguments{"--schedule", "zenflow", "--topk-ratio", "0.3",
                                 "--update-interval", "2", "--accumulate-on", "device", "--steps",
                                 "24", "--trace", "t.json.gz", "-f"});
  const Outcome outcome =
      tune({"--trace", "t.json.gz", "--model", "llama.json", "-o", "out", "--front-within", "0",
            "--vary", "topk_ratio=0.3", "--vary", "update_interval=2,4", "--vary",
            "placement=zenflow", "--vary", "accumulate_on=device", "--anyway"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json said = summary();
  EXPECT_EQ(said["baseline"]["setting"]["accumulate_on"], "device");
  EXPECT_THAT(said["trace"]["told"][0].get<std::string>(), HasSubstr("accumulate_on device"));
  EXPECT_THAT(content("out/cmd_optimal.txt"), HasSubstr("--accumulate-on device"));
  EXPECT_THAT(
      content("out/scenario.yaml"),
      HasSubstr("zenflow_train: {accumulate_on: device, optimizer_threads: 1, sum_threads: 1}\n"));
  const Outcome live = run_program({ZENFLOW_SIM, "run", "out/scenario.yaml", "--json"}, around());
  EXPECT_EQ(live.code, 0) << live.err;
  const json predicted = json::parse(live.out)["results"][0];
  EXPECT_EQ(predicted["schedule"], "live-zenflow");
  for (const char* bytes : {"d2h_bytes_per_step", "h2d_bytes_per_step"}) {
    EXPECT_EQ(predicted["pcie"][bytes], trained["pcie"][bytes]);
  }
}

TEST_F(TuneTrace, SaysWhyARecordingOfZenFlowTrainDoesNotSuffice) {
  const auto record = [&](const Arguments& more) {
    ASSERT_EQ(run(basic() + more + Arguments{"--trace", "t.json", "-f", "-q"}).code, 0);
  };
  const Arguments recorded = {"--trace", "t.json", "--model", "llama.json"};
  record({"--schedule", "zenflow", "--update-interval", "4", "--steps", "9"});
  expect_refused(recorded, AllOf(HasSubstr("does not suffice"), HasSubstr("9 steps")));
  expect_refused(recorded + Arguments{"--base", kBase}, HasSubstr("has no DeepSpeed file"));
  expect_refused(recorded + Arguments{"--setting", "zenflow:0.1:4"}, HasSubstr("says itself"));
  expect_refused(recorded + Arguments{"--sequence-length", "4096"},
                 HasSubstr("--sequence-length: t.json says itself"));
  expect_refused(recorded + Arguments{"--set", "training.micro_batch_size_per_gpu=64"},
                 HasSubstr("--set training.micro_batch_size_per_gpu: t.json says itself"));
  expect_refused(recorded + Arguments{"--profile", "dgx_h100"},
                 HasSubstr("t.json ran on the host device, profile dgx_h100 has a GPU"));
  record({"--schedule", "zero-offload-dpu", "--steps", "9"});
  expect_refused(recorded, HasSubstr("zero-offload-dpu is no setting that is tuned"));
  record({"--schedule", "zenflow", "--update-interval", "auto", "--steps", "9"});
  expect_refused(recorded, HasSubstr("its update interval changed"));
  record({"--schedule", "zenflow", "--update-interval", "auto", "--tune", "live", "--topk-range",
          "0.1:0.6", "--steps", "9"});
  expect_refused(recorded, HasSubstr("its topk ratio changed while it ran (--topk-range)"));
  // Another model than the recorded one.
  record({"--schedule", "zenflow", "--update-interval", "2", "--steps", "12"});
  expect_refused({"--trace", "t.json", "--model", "gpt2.json"},
                 AllOf(HasSubstr("t.json: track"),
                       HasSubstr("is this a recording of the schedule and model given?")));
}

TEST_F(TuneTrace, RefusesWhatCannotBeMeant) {
  record_job();
  expect_refused({}, HasSubstr("expected SCENARIO, a job in its place"));
  expect_refused(job() + Arguments{"job.yaml"}, HasSubstr("not both"));
  expect_refused({"job.yaml", "--steps", "x"}, HasSubstr("with --trace"));
  expect_refused(job() + Arguments{"--ram", "64GB"}, HasSubstr("--trace takes --model"));
  expect_refused({"--trace", "run.json.gz", "--base", kBase}, HasSubstr("--model: expected"));
  expect_refused({"--trace", "run.json.gz", "--model", kModel}, HasSubstr("--base: expected"));
  expect_refused({"--trace", "run.json.gz", "--model", kModel, "--base", kBase},
                 HasSubstr("--sequence-length: the traces have no shapes"));
  expect_refused(job() + Arguments{"--set", "deepspeed.zero_optimization.stage=3"},
                 HasSubstr("the --base file itself says so"));
  expect_refused(job() + Arguments{"--profile", "dgx_h10"}, HasSubstr("dgx_h100"));
  expect_refused(job() + Arguments{"--gpus", "12"}, HasSubstr("the job has 12 GPUs"));
  expect_refused(job() + Arguments{"--host-memory", "12"}, HasSubstr("--host-memory"));
  expect_refused({"--trace", "missing.json", "--model", kModel, "--base", kBase},
                 HasSubstr("missing.json"));
  folder_.write("bad.json", "{\"traceEvents\": 7}");
  expect_refused({"--trace", "bad.json", "--model", kModel, "--base", kBase},
                 HasSubstr("bad.json"));
}

}  // namespace
}  // namespace zenflow::testing
