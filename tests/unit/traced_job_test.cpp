// What traces tell of a job beside times, and what zenflow-train writes into its own.
#include "sim/calibrate/trace/traced_job.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/trace/chrome_trace.h"
#include "tests/support/small_jobs.h"
#include "tests/support/traces.h"

namespace zenflow::sim {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using zenflow::testing::event;
using zenflow::testing::import_text;
using zenflow::testing::kernel;
using zenflow::testing::launch;

std::string document(const std::string& head, const std::string& events) {
  return "{\"schemaVersion\": 1, " + head + "\"traceEvents\": [" + events + "]}";
}

/// Fused attention over `batch` sequences of `tokens`, `times` times.
std::string attention(int batch, int tokens, int first, int times) {
  std::string text;
  for (int i = first; i < first + times; ++i) {
    const std::string at = std::to_string(100 * i + 1);
    text += (i == 0 ? "" : ",") +
            event("cpu_op", "aten::_scaled_dot_product_flash_attention", "100", "100", at, "20",
                  fmt::format(R"("Input Dims": [[{0}, 8, {1}, 64], [{0}, 8, {1}, 64]],)"
                              R"("Input type": ["c10::BFloat16", "c10::BFloat16"])",
                              batch, tokens)) +
            "," + launch("cudaLaunchKernel", std::to_string(100 * i + 5), "4", i + 1) + "," +
            kernel("flash_fwd_kernel", std::to_string(100 * i + 30), "40", i + 1);
  }
  return text;
}

TEST(TracedJob, ReadsBatchAndLengthFromShapesOfAttention) {
  const ImportedTrace trace = import_text(document("", attention(3, 512, 0, 4)));
  const TracedJob job = traced_job({&trace});
  ASSERT_TRUE(job.micro_batch && job.sequence_length);
  EXPECT_EQ(job.micro_batch->value, 3);
  EXPECT_EQ(job.sequence_length->value, 512);
  EXPECT_FALSE(job.lengths_differ);
  EXPECT_FALSE(job.ranks);
}

TEST(TracedJob, TakesTheMostFrequentOfSeveralLengths) {
  const ImportedTrace trace =
      import_text(document("", attention(2, 384, 0, 2) + attention(2, 512, 2, 3)));
  const TracedJob job = traced_job({&trace});
  EXPECT_EQ(job.sequence_length.value().value, 512);
  EXPECT_TRUE(job.lengths_differ);
}

TEST(TracedJob, KnowsRanksFromTheProfilerBeforeGroupsOfCollectives) {
  const std::string all_gather =
      event("kernel", "ncclDevKernel_AllGather_RING_LL", "0", "20", "1", "30",
            R"("device": 0, "stream": 20, "In msg nelems": 8, "dtype": "Half", "Group size": 4)");
  const ImportedTrace groups = import_text(document("", all_gather));
  EXPECT_EQ(traced_job({&groups}).ranks.value().value, 4);
  const ImportedTrace said = import_text(document(
      R"("distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 16}, )", all_gather));
  EXPECT_EQ(traced_job({&groups, &said}).ranks.value().value, 16);
}

TEST(TracedJob, KnowsTheMemoryOfTheSmallestGpuThatWorked) {
  const auto memory = [](const std::string& devices) {
    const ImportedTrace trace =
        import_text(document("\"deviceProperties\": [" + devices + "], ", attention(1, 64, 0, 1)));
    return traced_job({&trace}).device_memory;
  };
  EXPECT_EQ(memory(R"({"id": 0, "name": "A", "totalGlobalMem": 16945512448})"), 16945512448);
  EXPECT_EQ(memory(R"({"id": 0, "name": "A", "totalGlobalMem": 85899345920},)"
                   R"({"id": 1, "name": "idle", "totalGlobalMem": 1})"),
            85899345920);
  for (const char* nothing :
       {R"({"id": 0, "name": "A"})", R"({"id": 0, "name": "A", "totalGlobalMem": -5})",
        R"({"id": 0, "name": "A", "totalGlobalMem": 18446744073709551615})",
        R"({"id": 0, "name": "A", "totalGlobalMem": "much"})"}) {
    EXPECT_EQ(memory(nothing), std::nullopt) << nothing;
  }
}

TEST(TracedJob, CountsTheGpusThatASimulatedOneStandsFor) {
  ImportedTrace trace = import_text(document("", attention(1, 64, 0, 1)));
  trace.timeline.devices = {"GPU 0 H100-SXM5-80GB", "GPU 1"};
  EXPECT_FALSE(traced_job({&trace}).ranks);
  EXPECT_THAT(traced_job({&trace}).devices, ElementsAre("GPU 0 H100-SXM5-80GB"));
  trace.timeline.devices = {"GPU 0 H100 (one of 2 alike)", "GPU 2 H100 (one of 6 alike)"};
  EXPECT_EQ(traced_job({&trace}).ranks.value().value, 8);
}

TEST(TracedJob, SaysWhatAJobHasThatIsNotOfIt) {
  ImportedTrace trace = import_text(
      document(R"("distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 16}, )",
               attention(3, 512, 0, 4)));
  testing::JobOptions options;
  options.gpus = 4;
  options.training = {.micro_batch_size_per_gpu = 2, .sequence_length = 512};
  const Job job = testing::make_small_job(testing::round_node(4), testing::small_gpt2(), options);
  const auto said = [&] { return differences(traced_job({&trace}), job); };
  EXPECT_THAT(said(),
              ElementsAre("GPUs: 16 in the recording (the profiler's world_size), 4 in the job",
                          "sequences of a micro-batch: 3 in the recording (shapes of its "
                          "attention), 2 in the job"));
  trace.timers.emplace();
  trace.timers->printed["train_batch_size"] = 32;
  EXPECT_THAT(said(), Contains(HasSubstr("sequences of a batch: 32")));
  trace.timeline.devices = {"NVIDIA A100-SXM4-80GB"};
  EXPECT_THAT(differences(traced_job({&trace}), testing::round_node(4)),
              ElementsAre(AllOf(HasSubstr("\"NVIDIA A100-SXM4-80GB\""), HasSubstr("GPU is GPU"))));
  trace = import_text(document("", attention(2, 384, 0, 1)));
  EXPECT_THAT(said(), ElementsAre(HasSubstr("tokens of a sequence: 384")));
  trace = import_text(document("", attention(2, 384, 0, 2) + attention(2, 500, 2, 1)));
  EXPECT_THAT(said(), IsEmpty());
}

RecordedRun some_run() {
  RecordedRun run;
  run.topk_ratio = 0.05;
  run.topk_range = RecordedRatios{0.01, 0.25};
  run.update_interval = 8;
  run.interval_is_auto = true;
  run.select_interval = 16;
  run.full_warm_up_rounds = 3;
  run.overlap_step = false;
  run.accumulate_on_device = true;
  run.micro_batch_size_per_gpu = 2;
  run.gradient_accumulation_steps = 4;
  run.activation_checkpointing = true;
  run.sequence_length = 64;
  run.threads = 3;
  run.optimizer_threads = 5;
  run.sum_threads = 7;
  run.gpu = 1;
  run.parameters = 12345;
  return run;
}

TEST(RecordedRun, ComesBackFromATraceFile) {
  Timeline timeline;
  timeline.name = "llama";
  timeline.devices = {"host"};
  timeline.tracks = {{"compute", TrackKind::kGpuKernels}, {"cpu optimizer", TrackKind::kHost}};
  timeline.spans.push_back({.track = 0, .name = timeline.names.intern("forward"), .end = {1000}});
  EXPECT_FALSE(recorded_run(timeline));
  write_recorded_run(timeline, some_run());
  const ImportedTrace trace = import_text(chrome_trace(timeline));
  EXPECT_EQ(recorded_run(trace.timeline), some_run());
  EXPECT_TRUE(is_of_zenflow_train(trace.timeline));
  EXPECT_THAT(trace.problems, IsEmpty());
}

TEST(RecordedRun, IsNothingIfAnythingOfItIsMissingOrOfAnotherType) {
  Timeline timeline;
  write_recorded_run(timeline, some_run());
  const std::string whole = timeline.metadata.front().second;
  const auto read = [&](const std::string& text) {
    timeline.metadata.front().second = text;
    return recorded_run(timeline);
  };
  EXPECT_TRUE(read(whole));
  for (const char* key : {"\"schedule\"", "\"topk_ratio\"", "\"update_interval\"", "\"threads\"",
                          "\"overlap_step\"", "\"dtype\""}) {
    std::string text = whole;
    text.replace(text.find(key) + 1, 1, "_");
    EXPECT_FALSE(read(text)) << text;
  }
  // A recording of before they existed says nothing of them.
  const std::string old = [&] {
    std::string text = whole;
    for (const char* part :
         {"\"gradient_accumulation_steps\":4,", "\"activation_checkpointing\":true,",
          "\"accumulate_on\":\"device\",", ",\"topk_range\":[0.01,0.25]", ",\"gpu\":1"}) {
      text.erase(text.find(part), std::string(part).size());
    }
    return text;
  }();
  RecordedRun expected = some_run();
  expected.gradient_accumulation_steps = 1;
  expected.activation_checkpointing = false;
  expected.accumulate_on_device = false;
  expected.topk_range.reset();
  expected.gpu.reset();
  EXPECT_EQ(read(old), expected);
  std::string before = whole;
  before.replace(before.find(",\"parameters\":12345"), 19, "");
  EXPECT_EQ(read(before).value().parameters, 0);
  std::string zero = whole;
  zero.replace(zero.find("\"update_interval\":8"), 19, "\"update_interval\":0");
  EXPECT_FALSE(read(zero));
  for (const char* range : {"[0.01]", "[0.01,0.25,1]", "[0.01,true]", "0.25"}) {
    std::string text = whole;
    EXPECT_FALSE(read(text.replace(text.find("[0.01,0.25]"), 11, range))) << text;
  }
  for (const char* place : {"\"gpu\"", "1", "true"}) {
    std::string text = whole;
    EXPECT_FALSE(read(text.replace(text.find("\"device\""), 8, place))) << text;
  }
  EXPECT_FALSE(read("[1, 2]"));
  EXPECT_FALSE(read("{"));
}

}  // namespace
}  // namespace zenflow::sim
