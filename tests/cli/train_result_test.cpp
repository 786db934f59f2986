// What zenflow-train says of a run: the result document, the trace, the importance of columns.
#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <zlib.h>

#include "tests/support/event_reader.h"
#include "tests/support/scenario_files.h"
#include "tests/support/train_program.h"

namespace zenflow::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const char* const kSchedules[] = {"gpu-only", "zero-offload", "zero-offload-dpu", "zenflow"};

class TrainResult : public TrainProgram {
 protected:
  [[nodiscard]] json document(const Arguments& arguments) const {
    const Outcome outcome = run(basic() + arguments + Arguments{"--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(outcome.out);
  }
};

/// Paths of all keys of nested objects, but not of maps whose keys are data.
void collect(const json& value, const std::string& path, std::set<std::string>& keys) {
  if (!value.is_object() || path == ".memory.gpu" || path == ".memory.host") return;
  for (const auto& [key, child] : value.items()) {
    keys.insert(path + "." + key);
    collect(child, path + "." + key, keys);
  }
}

TEST_F(TrainResult, HasEveryKeyOfASimulatedResult) {
  write_scenario(folder_);
  const Outcome simulated =
      run_program({ZENFLOW_SIM, "run", "scenarios/one.yaml", "--json"}, around());
  ASSERT_EQ(simulated.code, 0) << simulated.err;
  const json sim = json::parse(simulated.out);
  const json measured = document({"--steps", "12"});
  std::set<std::string> here;
  collect(measured, "", here);
  std::set<std::string> there;
  collect(sim, "", there);
  for (const std::string& key : there) EXPECT_TRUE(here.count(key)) << key;
  EXPECT_EQ(measured["tool"], "zenflow-train");
  EXPECT_EQ(measured["schema_version"], sim["schema_version"]);
  for (const json& one : sim["results"]) {
    // Keys of a schedule depend on it.
    const std::string schedule = one["schedule"];
    if (std::find(std::begin(kSchedules), std::end(kSchedules), schedule) == std::end(kSchedules)) {
      continue;
    }
    there.clear();
    here.clear();
    collect(one, "", there);
    collect(document({"--steps", "12", "--schedule", schedule})["results"][0], "", here);
    for (const std::string& key : there) EXPECT_TRUE(here.count(key)) << schedule << key;
  }
}

TEST_F(TrainResult, AddsUp) {
  for (const char* schedule : kSchedules) {
    const json one = document({"--steps", "24", "--schedule", schedule})["results"][0];
    double stall = 0;
    for (const auto& [cause, time] : one["stall_by_cause_ms"].items()) {
      EXPECT_GE(time.get<double>(), 0) << cause;
      stall += time.get<double>();
    }
    // Times are rounded to a nanosecond each.
    EXPECT_NEAR(one["gpu_stall_ms"].get<double>(), stall, 1e-5) << schedule;
    const double step = one["step_time_ms"];
    EXPECT_NEAR(one["gpu_compute_ms"].get<double>() + stall, step, 1e-5) << schedule;
    EXPECT_NEAR(one["tokens_per_second"].get<double>() * step * 1e-3, 8, 1e-3) << schedule;
    EXPECT_EQ(one["losses"].size(), 24U);
    EXPECT_EQ(one["losses"].back(), one["final_loss"]);
    EXPECT_EQ(one["steps"]["done"], 24);
    EXPECT_EQ(one["validations"].size(), 1U);
    std::uint64_t held = 0;
    for (const auto& [purpose, bytes] : one["memory"]["gpu"].items()) {
      held += bytes.get<std::uint64_t>();
    }
    EXPECT_GE(held, one["memory"]["gpu_peak_bytes"].get<std::uint64_t>()) << schedule;
    EXPECT_TRUE(one["memory"]["fits"]);
  }
}

/// The simulator's names, and its sizes (sim/schedule/buffers.h): fp32 sums in two sets, staging in
/// working precision down, up and of the largest tensor, 12 bytes of fp32 state. Every size is a
/// number of elements here.
TEST_F(TrainResult, MemoryHasTheSimulatorsCategories) {
  const json one =
      document({"--topk-ratio", "0.5", "--steps", "12", "--dtype", "bf16"})["results"][0];
  constexpr std::uint64_t kMatrices = 12176 - 5 * 16;
  constexpr std::uint64_t kDeferred = kMatrices / 2;
  constexpr std::uint64_t kSelected = 12176 - kDeferred;
  const json& gpu = one["memory"]["gpu"];
  const json& host = one["memory"]["host"];
  EXPECT_EQ(host["gradients"], 2 * 4 * kDeferred);
  constexpr std::uint64_t kLargest = 258 * 16;  // the embedding
  EXPECT_EQ(host["staging"], 2 * (2 * kDeferred + kLargest));
  EXPECT_EQ(host["optimizer_state"], 12 * 12176);
  EXPECT_EQ(gpu["selected_state"], 12 * kSelected);
  // Parameters begin at multiples of 256 bytes; both sets of weights are whole.
  EXPECT_GE(gpu["weights"], 2 * 12176);
  EXPECT_EQ(gpu["parameter_buffer"], gpu["weights"]);
  EXPECT_GT(one["memory"]["host_capacity_bytes"], one["memory"]["host_peak_bytes"]);
}

TEST_F(TrainResult, MicroBatchesOfAStepAreABatch) {
  const Arguments adamw = {"--schedule", "zero-offload", "--steps", "6", "--lr", "1e-4"};
  const auto of = [&](const char* sequences, const char* count) {
    return document(adamw + Arguments{"--micro-batch-size", sequences,
                                      "--gradient-accumulation-steps", count})["results"][0];
  };
  const json whole = of("4", "1");
  const json parts = of("1", "4");
  EXPECT_EQ(parts["gradient_accumulation_steps"], 4);
  for (std::size_t i = 0; i < 6; ++i) {
    // fp32 sums in another order: the first loss differs in rounding alone, later ones by what
    // AdamW makes of that, which is a step of 1e-4 where a gradient is about 0.
    EXPECT_NEAR(parts["losses"][i].get<double>(), whole["losses"][i].get<double>(),
                i == 0 ? 1e-6 : 1e-4);
  }
  EXPECT_EQ(parts["pcie"]["d2h_bytes_per_step"], whole["pcie"]["d2h_bytes_per_step"]);
  EXPECT_EQ(parts["pcie"]["h2d_bytes_per_step"], whole["pcie"]["h2d_bytes_per_step"]);
  EXPECT_NEAR(parts["tokens_per_second"].get<double>() * parts["step_time_ms"].get<double>(), 32e3,
              1);
  // All gradients have a place of their own, not the largest group's alone.
  EXPECT_GE(parts["memory"]["gpu"]["gradients"].get<std::uint64_t>(),
            whole["memory"]["gpu"]["gradients"].get<std::uint64_t>() + 4 * 2000);
}

TEST_F(TrainResult, CheckpointingActivationsChangesNoBit) {
  for (const char* dtype : {"fp32", "bf16"}) {
    const Arguments flags = {
        "--steps", "9",  "--dtype",       dtype, "--gradient-accumulation-steps",
        "2",       "-f", "--save-weights"};
    const json kept = document(flags + Arguments{"kept.safetensors"})["results"][0];
    const json again = document(
        flags + Arguments{"again.safetensors", "--activation-checkpointing"})["results"][0];
    EXPECT_FALSE(kept["activation_checkpointing"]);
    EXPECT_TRUE(again["activation_checkpointing"]);
    EXPECT_EQ(again["losses"], kept["losses"]);
    EXPECT_EQ(content("again.safetensors"), content("kept.safetensors"));
  }
}

TEST_F(TrainResult, SaysWhetherItsMeansAreOfTheSteadyState) {
  const json few = document({"--steps", "11"})["results"][0]["steps"];
  EXPECT_EQ(few, (json{{"done", 11}, {"measured", 11}, {"steady", false}}));
  const json enough = document({"--steps", "14"})["results"][0]["steps"];
  EXPECT_EQ(enough, (json{{"done", 14}, {"measured", 4}, {"steady", true}}));
  EXPECT_THAT(run(basic() + Arguments{"--steps", "11"}).out,
              HasSubstr("(mean of 11, the first ones included)"));
  EXPECT_THAT(run(basic() + Arguments{"--steps", "14"}).out, HasSubstr("(mean of 4)"));
}

/// Whole windows from the first step on: design.md's published figures, in units of the model.
TEST_F(TrainResult, TrafficIsThePublishedOne) {
  const auto sizes = [&](const Arguments& flags) {
    return document(flags +
                    Arguments{"--steps", "12"})["results"][0]["pcie"]["model_sizes_per_step"]
        .get<double>();
  };
  EXPECT_EQ(sizes({"--schedule", "gpu-only"}), 0);
  EXPECT_DOUBLE_EQ(sizes({"--schedule", "zero-offload"}), 2);
  EXPECT_DOUBLE_EQ(sizes({"--schedule", "zero-offload-dpu"}), 2);
  // (1 - k)(1 + 1/S). Half of 16 or 24 columns is a whole number. The five norms of 16 are vectors:
  // with k > 0 they are updated on the device, with k = 0 they are deferred like everything else.
  EXPECT_DOUBLE_EQ(sizes({"--topk-ratio", "0", "--update-interval", "4"}), 1.25);
  const double matrices = 1 - 5 * 16.0 / 12176;
  EXPECT_DOUBLE_EQ(sizes({"--topk-ratio", "0.5", "--update-interval", "4"}), 0.5 * matrices * 1.25);
}

/// The same figures to the byte where the run has more than whole windows in steady state: a
/// warm-up, selections, an unfinished window, validations, checkpoints, and another process before.
TEST_F(TrainResult, TrafficIsThatOfWholeWindowsAfterTheWarmUp) {
  const Arguments flags = {"--topk-ratio",        "0.5", "--full-warm-up-rounds", "3",
                           "--evaluate-interval", "5",   "--checkpoint-interval", "7"};
  const std::uint64_t deferred = (12176 - 5 * 16) / 2;  // see above
  const auto expect = [&](const json& one, double down, double up) {
    EXPECT_EQ(one["pcie"]["d2h_bytes_per_step"], std::llround(down));
    EXPECT_EQ(one["pcie"]["h2d_bytes_per_step"], std::llround(up));
    EXPECT_DOUBLE_EQ(one["pcie"]["model_sizes_per_step"].get<double>(),
                     (down + up) / (4.0 * 12176));
  };
  const auto bytes = static_cast<double>(4 * deferred);
  const auto run_once = [&](const char* ck, const Arguments& more) {
    return document(flags + Arguments{"--checkpoint", ck} + more)["results"][0];
  };
  json one = run_once("a", {"--steps", "21", "--update-interval", "4", "--select-interval", "8"});
  EXPECT_EQ(one["steps"]["measured"], 8) << "windows 3 and 4: two steps are left over";
  expect(one, bytes, bytes / 4);
  EXPECT_GT(one["pcie"]["selection_bytes_per_step"], 0);
  one = run_once("a",
                 {"--steps", "47", "--update-interval", "4", "--select-interval", "8", "--resume"});
  EXPECT_EQ(one["steps"]["measured"], 20);  // 26 steps less 2 and 4 in the ramp
  expect(one, bytes, bytes / 4);
  one = run_once("b", {"--steps", "26", "--update-interval", "5", "--overlap-step", "false"});
  EXPECT_EQ(one["steps"]["measured"], 10);
  expect(one, bytes, bytes / 5);
  // Two bytes each in bf16, but sums stay fp32.
  one = run_once("c", {"--steps", "20", "--update-interval", "2", "--accumulate-on", "device",
                       "--dtype", "bf16"});
  EXPECT_EQ(one["pcie"]["d2h_bytes_per_step"], std::llround(bytes / 2));
  EXPECT_EQ(one["pcie"]["h2d_bytes_per_step"], std::llround(bytes / 4));
}

/// A document without what was measured by a clock.
json without_times(json document) {
  json& one = document["results"][0];
  for (const char* key : {"step_time_ms", "step_times_ms", "gpu_compute_ms", "gpu_stall_ms",
                          "gpu_utilization", "stall_by_cause_ms", "tokens_per_second"}) {
    EXPECT_EQ(one.erase(key), 1U) << key;
  }
  return document;
}

TEST_F(TrainResult, TwoRunsDifferInTimesAlone) {
  for (const char* schedule : kSchedules) {
    const Arguments flags = {"--steps",
                             "11",
                             "--schedule",
                             schedule,
                             "--evaluate-interval",
                             "3",
                             "--checkpoint-interval",
                             "4",
                             "-f"};
    const auto ck = [&](const char* name) {
      return Arguments{"--checkpoint", std::string(name) + schedule};
    };
    EXPECT_EQ(without_times(document(flags + ck("a"))), without_times(document(flags + ck("b"))));
    EXPECT_TRUE(content(std::string("a") + schedule + "/checkpoint-11") ==
                content(std::string("b") + schedule + "/checkpoint-11"));
  }
}

TEST_F(TrainResult, DoesNotDependOnThreads) {
  const Arguments flags = {"--steps", "10", "--select-interval", "4", "--topk-ratio", "0.3"};
  const json one = document(flags)["results"][0];
  const json many = result(with(with(basic(), "--threads", "3"), "--optimizer-threads", "3") +
                           flags + Arguments{"--sum-threads", "2"});
  EXPECT_EQ(one["losses"], many["losses"]);
  EXPECT_EQ(one["validations"], many["validations"]);
}

TEST_F(TrainResult, LearnsTheText) {
  const json one = document({"--steps", "120", "--lr", "0.01"})["results"][0];
  const double first = one["losses"][0];
  EXPECT_LT(one["final_loss"].get<double>(), first - 1);
  EXPECT_LT(one["validations"][0]["loss"].get<double>(), first - 1);
}

/// With so slow a link the update takes longer than the steps that hide it: where the time went
/// has to be said. The limit holds whatever the machine does: bytes cannot be faster.
TEST_F(TrainResult, ASlowLinkIsSeenInTheStall) {
  const json one = document(
      {"--steps", "4", "--schedule", "zero-offload", "--link-bandwidth", "10 MB/s"})["results"][0];
  const double bytes = one["pcie"]["d2h_bytes_per_step"];
  EXPECT_GT(one["step_time_ms"].get<double>(), bytes / 10e6 * 1e3);
  const json& stall = one["stall_by_cause_ms"];
  EXPECT_GT(stall["h2d"].get<double>() + stall["cpu_update"].get<double>() +
                stall["d2h"].get<double>() + stall["launch"].get<double>(),
            0);
}

// ---- trace ----

std::string unzipped(const std::filesystem::path& path) {
  gzFile file = ::gzopen(path.c_str(), "rb");
  std::string text;
  char buffer[4096];
  for (int n = 0; (n = ::gzread(file, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  ::gzclose(file);
  return text;
}

TEST_F(TrainResult, TheTraceIsValidAndItsSpansDoNotOverlap) {
  for (const char* schedule : kSchedules) {
    const json one = document(
        {"--steps", "9", "--schedule", schedule, "--trace", "t.json.gz", "-f"})["results"][0];
    const json trace = json::parse(unzipped(folder_ / "t.json.gz"));
    std::map<int, std::vector<std::pair<double, double>>> tracks;
    std::set<int> named;
    std::size_t spans = 0;
    std::map<std::string, std::uint64_t> copied;
    int steps = 0;
    for (const json& event : trace["traceEvents"]) {
      const std::string phase = event["ph"];
      if (phase == "M" && event["name"] == "thread_name") named.insert(event["tid"].get<int>());
      if (phase != "X") continue;
      EXPECT_GE(event["dur"].get<double>(), 0);
      tracks[event["tid"]].emplace_back(event["ts"], event["dur"]);
      const std::string category = event["cat"];
      if (category == "user_annotation") {
        ++steps;
        continue;
      }
      ++spans;
      if (category != "gpu_memcpy") continue;
      EXPECT_GT(event["args"]["bytes"].get<std::uint64_t>(), 0U) << event;
      copied[event["args"]["carries"]] += event["args"]["bytes"].get<std::uint64_t>();
    }
    EXPECT_EQ(steps, 9) << schedule;
    EXPECT_EQ(spans, one["trace"]["spans"]) << schedule;
    for (auto& [track, list] : tracks) {
      EXPECT_TRUE(named.count(track)) << track;
      std::sort(list.begin(), list.end());
      for (std::size_t i = 1; i < list.size(); ++i) {
        // Nanoseconds in microseconds with three decimals: sums are off by rounding alone.
        EXPECT_GE(list[i].first + 1e-6, list[i - 1].first + list[i - 1].second)
            << schedule << " track " << track;
      }
    }
    if (std::string(schedule) == "zero-offload") {
      EXPECT_EQ(copied.at("gradients down"), 9U * 48704U);
      EXPECT_EQ(copied.at("weights up"), 9U * 48704U);
    }
  }
}

// ---- importance ----

TEST_F(TrainResult, ImportanceHasARowPerMatrixAndStepWithShares) {
  (void)document({"--steps", "6", "--importance", "i.csv", "--topk-ratio", "0.25"});
  std::istringstream lines(content("i.csv"));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line,
            "step,parameter,columns,top_1_percent,top_5_percent,top_10_percent,same_as_before,"
            "selected");
  std::map<int, std::set<std::string>> matrices;
  while (std::getline(lines, line)) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
    ASSERT_EQ(cells.size(), 8U) << line;
    const int step = std::stoi(cells[0]);
    EXPECT_TRUE(matrices[step].insert(cells[1]).second) << line;
    const double columns = std::stod(cells[2]);
    const double top1 = std::stod(cells[3]);
    const double top5 = std::stod(cells[4]);
    const double top10 = std::stod(cells[5]);
    EXPECT_LE(top1, top5);
    EXPECT_LE(top5, top10);
    EXPECT_LE(top10, 1);
    EXPECT_GE(top1, 1 / columns - 5e-5) << "below the mean: " << line;  // four decimals
    EXPECT_EQ(cells[6].empty(), step == 0) << line;
    if (step > 0) {
      EXPECT_LE(std::stod(cells[6]), 1);
    }
    const double selected = std::stod(cells[7]);
    EXPECT_GE(selected, 0);
    EXPECT_LE(selected, 1.00005);
    // Selected by the first step's norms: no other quarter of the columns has more of them.
    if (step == 0) {
      EXPECT_GE(selected, 0.25 - 5e-5) << line;
    }
  }
  ASSERT_EQ(matrices.size(), 6U);
  // Embedding, head, and seven matrices in each of two layers.
  for (const auto& [step, names] : matrices) EXPECT_EQ(names.size(), 16U) << step;
}

// ---- GLUE ----

TEST_F(TrainResult, TrainsAGlueTaskEndToEnd) {
  const std::string toy = std::string(ZENFLOW_SOURCE_DIR) + "/script/toy-glue";
  const Outcome made =
      run_program({toy, (folder_ / "toy").string(), "--train", "60", "--dev", "20"},
                  {.folder = folder_.path(), .environment = {{"PATH", std::getenv("PATH")}}});
  ASSERT_EQ(made.code, 0) << made.err;
  const Arguments arguments = {"--model",
                               "llama.json",
                               "--data",
                               "toy",
                               "--task",
                               "sst-2",
                               "--sequence-length",
                               "24",
                               "--micro-batch-size",
                               "4",
                               "--threads",
                               "1",
                               "--optimizer-threads",
                               "1",
                               "--evaluate-interval",
                               "4"};
  const json whole = result(arguments + Arguments{"--steps", "10"});
  ASSERT_EQ(whole["validations"].size(), 3U);
  for (const json& validation : whole["validations"]) {
    const double correct = validation["accuracy"].get<double>() * 20;
    EXPECT_NEAR(correct, std::round(correct), 1e-9) << "20 examples";
    EXPECT_GE(correct, 0);
    EXPECT_LE(correct, 20);
  }
  const Outcome text = run(arguments + Arguments{"--steps", "10"});
  EXPECT_THAT(text.out, HasSubstr("accuracy 0."));
  EXPECT_THAT(text.err, HasSubstr("step 4: validation loss"));

  // Metrics before a stop are in the result after it.
  ASSERT_EQ(run(arguments + Arguments{"--steps", "6", "--checkpoint", "ck"}).code, 0);
  const json resumed =
      result(arguments + Arguments{"--steps", "10", "--checkpoint", "ck", "--resume"});
  EXPECT_EQ(resumed["losses"], whole["losses"]);
  EXPECT_EQ(resumed["validations"], whole["validations"]);

  folder_.write("toy/dev.tsv", "sentence\tlabel\nfine\t2\n");
  const Outcome refused = run(arguments + Arguments{"--steps", "1"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("toy/dev.tsv:2"));
}

// ---- what it says ----

/// Every step's loss and every validation, as in the result; what cannot be written is said at the
/// end.
TEST_F(TrainResult, LogsScalarsForTensorBoard) {
  const json whole = result(basic() + Arguments{"--steps", "5", "--evaluate-interval", "2",
                                                "--log-dir", "runs/first", "-q"});
  const std::filesystem::directory_iterator logs(folder_ / "runs/first");
  const EventsRead read = read_events(file_content(logs->path()));
  std::map<std::string, std::vector<std::pair<std::uint64_t, float>>> found;
  for (const auto& scalar : read.scalars) found[scalar.tag].emplace_back(scalar.step, scalar.value);
  ASSERT_EQ(found["train/loss"].size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(found["train/loss"][i].first, i + 1);
    EXPECT_EQ(found["train/loss"][i].second, whole["losses"][i].get<float>());
  }
  for (const char* tag : {"train/grad_norm", "train/learning_rate", "train/tokens_per_second",
                          "train/step_time_ms", "train/stall_ms", "train/update_interval"}) {
    EXPECT_EQ(found[tag].size(), 5U) << tag;
  }
  ASSERT_EQ(found["eval/loss"].size(), 3U);
  EXPECT_EQ(found["eval/loss"][2].first, 5U);
  EXPECT_EQ(found["eval/loss"][2].second, whole["validations"].back()["loss"].get<float>());
}

TEST_F(TrainResult, BeginsWithWhatWillBeTrainedAndSaysHowItGoes) {
  const std::string err = run(basic() + Arguments{"--steps", "3", "-v", "--lr", "0.25"}).err;
  EXPECT_THAT(
      err, AllOf(HasSubstr("model     llama: 12176 parameters, fp32, on "),
                 HasSubstr("of 8 tokens; 3 steps of 8 tokens: 24 tokens, 0.01 epochs"),
                 HasSubstr("KiB on the device, "), HasSubstr("schedule  zenflow, k = 0.1, S = 4")));
  EXPECT_THAT(err, ::testing::ContainsRegex(
                       "step 2/3  loss [0-9.]+  [0-9]+ tokens/s  [0-9:]+ left  lr 0.25  "
                       "gradient [0-9.e-]+  step [0-9.]+ ms  stall [0-9.]+ ms\n"));
}

}  // namespace
}  // namespace zenflow::testing
