// zenflow-validate as its user meets it. How well it predicts depends on the machine, so only what
// does not is held here: bytes, what was fitted, files, mistakes.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/file_content.h"
#include "tests/support/program.h"
#include "tests/support/small_scenario.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::testing {
namespace {

using ::testing::HasSubstr;

class ValidateProgram : public ::testing::Test {
 protected:
  ValidateProgram() { write_small_scenario(folder_); }
  [[nodiscard]] Outcome run(Arguments more) const {
    Arguments command = {ZENFLOW_VALIDATE, "small.yaml"};
    command.insert(command.end(), more.begin(), more.end());
    return run_program(command, {.folder = folder_.path()});
  }
  void refuses(const Arguments& more, int code, const std::string& what) const {
    const Outcome outcome = run(more);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(what));
    EXPECT_EQ(outcome.out, "");
  }

  TemporaryFolder folder_;
};

const Arguments kOnce = {"--live", "--rounds", "1", "--most-rounds", "1"};

TEST_F(ValidateProgram, FitsSomeSettingsAndPredictsTheOthersBytesExactly) {
  const Outcome outcome =
      run(kOnce + Arguments{"--calibrate", "zero-offload,zenflow:0.1:4", "--predict",
                            "gpu-only,zero-offload-dpu,zenflow:0.3:2,zenflow:0.05:2,zenflow:0.1:1,"
                            "zenflow:0.1:8,zenflow:0.2:4,zenflow:0.5:4,zenflow:0.1:4:device,"
                            "zenflow:0.1:1:device",
                            "--json", "--write-profile", "fitted.yaml", "--date", "2026-11-20"});
  // 1: too noisy, 4: outside the tolerance; a tiny model's steps are mostly thread switches.
  EXPECT_THAT(outcome.code, ::testing::AnyOf(0, 1, 4)) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(document["results"].size(), 12U);
  for (const auto& one : document["results"]) {
    EXPECT_TRUE(one["bytes_equal"]) << one;
    EXPECT_GT(one["measured"]["step_time_ms"], 0.0);
    EXPECT_GT(one["predicted"]["step_time_ms"], 0.0);
    // By the engine's own ledger, to the byte; gpu-only holds some, too.
    EXPECT_EQ(one["predicted"]["memory"]["host_peak_bytes"],
              one["measured"]["memory"]["host_peak_bytes"])
        << one;
    EXPECT_GT(one["measured"]["memory"]["host_peak_bytes"], 0.0);
    EXPECT_EQ(one["calibrated"],
              one["setting"] == "zero-offload" || one["setting"] == "zenflow k=0.1 S=4");
  }
  EXPECT_EQ(document["results"][2]["measured"]["d2h_bytes_per_step"], 0.0);  // gpu-only
  EXPECT_GT(document["results"][0]["measured"]["d2h_bytes_per_step"], 0.0);
  EXPECT_EQ(document["summary"]["predicted"], 10);
  const auto& sums = document["results"][10];
  EXPECT_EQ(sums["setting"], "zenflow k=0.1 S=4 sums on device");
  // 4 bytes of fp32 either way, once in four steps.
  EXPECT_EQ(4 * sums["measured"]["d2h_bytes_per_step"].get<double>(),
            document["results"][1]["measured"]["d2h_bytes_per_step"]);
  const auto device_bytes = [&](std::size_t which) {
    return document["results"][which]["measured"]["memory"]["gpu_peak_bytes"].get<double>();
  };
  EXPECT_EQ(device_bytes(10) - device_bytes(1),
            4 * sums["measured"]["d2h_bytes_per_step"].get<double>());
  int fitted = 0;
  for (const auto& number : document["numbers"]) fitted += number["fitted"].get<bool>() ? 1 : 0;
  EXPECT_GT(fitted, 3);

  // The profile is one that the simulator reads, and says where its numbers come from.
  const std::string profile = file_content(folder_.path() / "fitted.yaml");
  EXPECT_THAT(profile,
              HasSubstr("fitted to 2 live runs of small, zenflow-validate --live, 2026-11-20"));
  const Outcome simulated =
      run_program({ZENFLOW_SIM, "run", "small.yaml", "--profile", "./fitted.yaml", "-q", "--json"},
                  {.folder = folder_.path()});
  EXPECT_EQ(simulated.code, 0) << simulated.err;
}

TEST_F(ValidateProgram, WhatDeepSpeedThinksOfALiveScheduleDoesNotMatter) {
  const auto simulate = [&](const std::string& schedule) {
    return run_program({ZENFLOW_SIM, "run", "small.yaml", "--schedule", schedule},
                       {.folder = folder_.path()});
  };
  EXPECT_EQ(simulate("live-zenflow").err, "");
  EXPECT_THAT(simulate("zenflow").err, HasSubstr("DeepSpeed"));
}

TEST_F(ValidateProgram, ProfilesAreFittedToRecordedFilesToo) {
  folder_.write("text.txt", std::string(3000, 'x'));
  const Arguments train = {ZENFLOW_TRAIN, "--model",      "small.json",  "--data",
                           "text.txt",    "--steps",      "24",          "--sequence-length",
                           "16",          "--threads",    "1",           "--optimizer-threads",
                           "1",           "--topk-ratio", "0.1",         "--update-interval",
                           "4",           "--trace",      "run.json.gz", "-q"};
  ASSERT_EQ(run_program(train, {.folder = folder_.path()}).code, 0);
  const auto fit = [&](const std::string& setting) {
    return run_program({ZENFLOW_CALIBRATE, "fit", "run.json.gz", "--scenario", "small.yaml",
                        "--setting", setting, "-o", "recorded.yaml", "-f"},
                       {.folder = folder_.path()});
  };
  const Outcome fitted = fit("zenflow:0.1:4");
  EXPECT_EQ(fitted.code, 0) << fitted.err;
  EXPECT_THAT(fitted.out, HasSubstr("host_link.d2h"));
  EXPECT_THAT(file_content(folder_.path() / "recorded.yaml"),
              HasSubstr("fitted to 1 recorded runs of small, zenflow-calibrate fit"));
  // A recording says how it ran.
  const auto validate = [&](const Arguments& more) {
    return run(Arguments{"--trace", "run.json.gz", "--setting"} + more);
  };
  EXPECT_THAT(validate({"zenflow:0.1:4", "-q"}).code, ::testing::AnyOf(0, 4));
  for (const auto& [more, what] :
       {std::pair(Arguments{"zenflow:0.4:4"}, "topk_ratio 0.1 was recorded, the setting has 0.4"),
        std::pair(Arguments{"zenflow:0.1:2"}, "update_interval 4 was recorded, the setting has 2"),
        std::pair(Arguments{"gpu-only"}, "schedule zenflow was recorded, the setting has gpu-only"),
        std::pair(Arguments{"zenflow:0.1:4", "--set", "training.sequence_length=32"},
                  "sequence_length 16 was recorded, the scenario has 32")}) {
    const Outcome wrong = validate(more);
    EXPECT_EQ(wrong.code, 2) << what;
    EXPECT_THAT(wrong.err, HasSubstr(what));
    EXPECT_EQ(wrong.out, "");
  }
  // What is cut off would count as nothing done.
  const std::string whole = file_content(folder_ / "run.json.gz");
  folder_.write("cut.json.gz", whole.substr(0, whole.size() / 2));
  const Outcome cut = run({"--trace", "cut.json.gz", "--setting", "zenflow:0.1:4"});
  EXPECT_EQ(cut.code, 2);
  EXPECT_THAT(cut.err, HasSubstr("--setting needs a whole recording"));

  const Outcome other = fit("zenflow:0.4:4");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("topk_ratio 0.1 was recorded, the setting has 0.4"));
}

TEST_F(ValidateProgram, RecordingsSayWhereSumsWere) {
  folder_.write("text.txt", std::string(3000, 'x'));
  const Arguments train = {ZENFLOW_TRAIN, "--model",
                           "small.json",  "--data",
                           "text.txt",    "--steps",
                           "24",          "--sequence-length",
                           "16",          "--threads",
                           "1",           "--optimizer-threads",
                           "1",           "--topk-ratio",
                           "0.1",         "--update-interval",
                           "4",           "--accumulate-on",
                           "device",      "--trace",
                           "run.json.gz", "-q"};
  ASSERT_EQ(run_program(train, {.folder = folder_.path()}).code, 0);
  const auto fit = [&](const Arguments& more) {
    return run_program(
        Arguments{ZENFLOW_CALIBRATE, "fit", "run.json.gz", "--scenario", "small.yaml"} + more,
        {.folder = folder_.path()});
  };
  // The setting says it, or the scenario.
  for (const Arguments& more :
       {Arguments{"--setting", "zenflow:0.1:4:device"},
        Arguments{"--setting", "zenflow:0.1:4", "--set", "accumulate_on=device"}}) {
    const Outcome fitted = fit(more);
    EXPECT_EQ(fitted.code, 0) << fitted.err;
    EXPECT_THAT(fitted.out, HasSubstr("host_link.d2h"));
    EXPECT_THAT(run(Arguments{"--trace", "run.json.gz", "-q"} + more).code, ::testing::AnyOf(0, 4));
  }
  for (const Arguments& more :
       {Arguments{"--setting", "zenflow:0.1:4"},
        Arguments{"--setting", "zenflow:0.1:4:host", "--set", "accumulate_on=device"}}) {
    for (const Outcome& wrong : {fit(more), run(Arguments{"--trace", "run.json.gz"} + more)}) {
      EXPECT_EQ(wrong.code, 2);
      EXPECT_THAT(wrong.err, HasSubstr("accumulate_on device was recorded, the setting has host"));
    }
  }
}

TEST_F(ValidateProgram, KeepsItsResultAndWritesThePage) {
  folder_.write("page/page.yaml",
                "title: T\nintroduction: I\nscenarios: .\nprofiles: .\n"
                "sections: [{title: S, blocks: [{results: ours}]}]\n");
  // However busy the machine is: a single round says nothing of noise, so the result is kept.
  const Arguments arguments =
      kOnce + Arguments{"--predict", "gpu-only",         "--write", "page.md",    "--name", "ours",
                        "--machine", "a test's machine", "--date",  "2026-11-20", "-q"};
  const Outcome first = run(arguments + Arguments{"--remark", "It was loud."});
  EXPECT_THAT(first.code, ::testing::AnyOf(0, 4)) << first.err;
  const auto kept = nlohmann::json::parse(file_content(folder_.path() / "page/ours.json"));
  EXPECT_EQ(kept["machine"], "a test's machine");
  EXPECT_EQ(kept["remarks"][0], "It was loud.");
  EXPECT_TRUE(kept["results"][0]["measured"]["memory"].contains("gpu_peak_bytes"));
  EXPECT_EQ(kept["results"][1]["measured"]["step_times_ms"].size(), 4U);
  const std::string page = file_content(folder_.path() / "page.md");
  EXPECT_THAT(page, HasSubstr("2026-11-20, a test's machine."));
  EXPECT_THAT(page, HasSubstr("\nIt was loud.\n"));
  EXPECT_THAT(page, HasSubstr("| phase: forward |"));
  EXPECT_THAT(page, HasSubstr("| single steps of a window |"));

  // What has been measured is not replaced without being asked to.
  const Outcome again = run(arguments);
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("page.md"));
  std::filesystem::remove(folder_ / "page.md");
  EXPECT_THAT(run(arguments).err, HasSubstr("ours.json"));
  EXPECT_EQ(nlohmann::json::parse(file_content(folder_ / "page/ours.json")), kept);

  // A remark belongs to its measurement.
  const Outcome second = run(arguments + Arguments{"-f"});
  EXPECT_THAT(second.err,
              HasSubstr("a remark of the result before is not in this one: It was loud."));
  EXPECT_THAT(file_content(folder_.path() / "page.md"), ::testing::Not(HasSubstr("loud")));

  // A page that somebody has written is not replaced.
  folder_.write("page.md", "# Mine\n");
  const auto render = [&](const Arguments& more) {
    return run_program(Arguments{ZENFLOW_VALIDATE, "--write", "page.md"} + more,
                       {.folder = folder_.path()});
  };
  EXPECT_EQ(render({}).code, 2);
  EXPECT_EQ(file_content(folder_.path() / "page.md"), "# Mine\n");
  EXPECT_EQ(render({"-f"}).code, 0);
  EXPECT_THAT(file_content(folder_.path() / "page.md"), HasSubstr("a test's machine"));
}

TEST_F(ValidateProgram, CudaIsRefusedWithFive) {
  // Whatever the build and the machine: no GPU is visible.
  const Outcome outcome =
      run_program({ZENFLOW_VALIDATE, "small.yaml", "--live", "--device", "cuda", "--profile",
                   "h200_x1", "--write-profile", "fitted.yaml"},
                  {.folder = folder_.path(), .environment = {{"CUDA_VISIBLE_DEVICES", ""}}});
  EXPECT_EQ(outcome.code, 5) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, ::testing::AllOf(HasSubstr("zenflow-validate: --device cuda: found "),
                                            HasSubstr("required: ")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "fitted.yaml"));
}

/// zenflow-validate --published, with rows of the user's own if they are named.
class PublishedRuns : public ValidateProgram {
 protected:
  [[nodiscard]] Outcome published(const Arguments& more) const {
    return run_program(Arguments{ZENFLOW_VALIDATE, "--published"} + more,
                       {.folder = folder_.path()});
  }
};

TEST_F(PublishedRuns, ThoseThatShipAreFoundFromAnywhere) {
  const Outcome outcome = published({"--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  EXPECT_FALSE(document["rows"].empty());
  EXPECT_GT(document["summary"]["judged"], 0);
  EXPECT_THAT(published({}).out, HasSubstr("Records, not simulated:"));
}

TEST_F(PublishedRuns, HaveAPage) {
  const Outcome outcome = published({"--report", "page.html", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string page = file_content(folder_ / "page.html");
  EXPECT_THAT(page, HasSubstr("\"kind\":\"published\""));
  const auto row = nlohmann::json::parse(outcome.out)["rows"][0];
  EXPECT_THAT(page, HasSubstr(row["id"].get<std::string>()));
  EXPECT_EQ(published({"--report", "page.html"}).code, 2) << "it is there already";
  EXPECT_EQ(published({"--report", "page.html", "-f", "-q"}).err, "");
}

TEST_F(PublishedRuns, OwnRowsAreJudgedByTheLimitsThatAreGiven) {
  // Far longer than any step of so small a model, so that the error is nearly -100 %.
  folder_.write("mine/models/tiny.json",
                R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2,
"n_positions": 64, "vocab_size": 100, "activation_function": "gelu_new"})");
  folder_.write("mine/rows.yaml", R"(- id: mine
  node: dgx_a100_40g
  model: tiny
  gpus: 1
  nodes: 1
  micro_batch: 1
  seq: 64
  ga: 1
  dtype: bf16
  activation_checkpointing: false
  bind_cores: false
  deepspeed_version: 0.17.5
  schedule: gpu-only
  deepspeed: {optimizer: {type: AdamW, params: {lr: 1e-5}}}
  quantity: optimizer step
  value: 10
  unit: s
  source: our own
  how_read: log
  uncertainty: 1 %
  judged: true
  simulated: true
)");
  const Outcome outcome = published({"mine/rows.yaml"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1 row judged, 1 of them predicted"));
  EXPECT_EQ(published({"mine/rows.yaml", "--tolerance", "101", "--worst", "101"}).code, 0);
  EXPECT_EQ(published({"mine/rows.yaml", "--tolerance", "50"}).code, 4);
  EXPECT_EQ(published({"mine/rows.yaml", "--worst", "50"}).code, 4);
}

TEST_F(PublishedRuns, RefusesWhatItDoesNotRead) {
  EXPECT_THAT(published({"missing.yaml"}).err, HasSubstr("missing.yaml: cannot read"));
  EXPECT_EQ(published({"missing.yaml"}).code, 2);
  for (const Arguments& more :
       {Arguments{"--live"}, {"--write", "page.md"}, {"--profile", "h200_x1"}, {"--set", "a=1"}}) {
    EXPECT_EQ(published(more).code, 2) << more[0];
    EXPECT_THAT(published(more).err, HasSubstr("--published")) << more[0];
  }
}

TEST_F(ValidateProgram, RefusesWhatCannotBeMeant) {
  refuses({}, 2, "--live");
  refuses({"--live", "--device", "cuda"}, 2, "expected a profile of a GPU");
  refuses({"--live", "--device", "cuda", "--profile", "h200_x1", "--link-bandwidth", "1 GB/s"}, 2,
          "--link-bandwidth");
  refuses({"--device", "cuda", "--trace", "a.json", "--setting", "gpu-only"}, 2, "--live");
  refuses({"--live", "--predict", "zenflow:0.1"}, 2, "zenflow:K:S");
  refuses({"--live", "--calibrate", "zero-offload", "--predict", "zero-offload"}, 2, "given twice");
  refuses({"--live", "--profile", "h200_x1"}, 2, "gpu.host_cores");
  refuses({"--live", "--link-bandwidth", "fast"}, 2, "--link-bandwidth");
  refuses({"--live", "--bytes-tolerance", "some"}, 2, "--bytes-tolerance");
  refuses({"--live", "--set", "nonsense"}, 2, "PATH=VALUE");
  refuses({"--live", "--write", "page.md"}, 2, "page.yaml");
  refuses({"--live", "--write", "page.txt"}, 2, "*.md");
  refuses({"--live", "--setting", "gpu-only"}, 2, "--trace");
  folder_.write("there.yaml", "kept");
  refuses(kOnce + Arguments{"--write-profile", "there.yaml"}, 2, "there.yaml");
  EXPECT_EQ(file_content(folder_.path() / "there.yaml"), "kept");
}

}  // namespace
}  // namespace zenflow::testing
