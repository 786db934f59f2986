// Recordings of ranks that trained together, on pictures small enough to work out by hand.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/paths.h"
#include "sim/calibrate/rank_collectives.h"
#include "sim/cost/transfer_cost.h"
#include "sim/trace/analysis/trace_analysis.h"
#include "sim/trace/merge_ranks.h"
#include "sim/trace/recorded_run.h"
#include "tests/support/error_of.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::make_small_job;
using zenflow::testing::error_of;

constexpr std::int64_t kNanosecond = 1000;

/// With one collective of so many nanoseconds on its compute stream.
RankRecording recording(std::int64_t rank, std::int64_t ranks, std::int64_t start,
                        std::int64_t length) {
  RankRecording made{"t.rank-" + std::to_string(rank) + ".json", {}};
  Timeline& timeline = made.timeline;
  timeline.devices = {"host"};
  timeline.tracks = {{"compute", TrackKind::kGpuKernels}};
  timeline.spans.push_back({.track = 0,
                            .name = timeline.names.intern("reduce gradients"),
                            .start = {start * kNanosecond},
                            .end = {(start + length) * kNanosecond},
                            .kind = SpanKind::kCollective,
                            .operation = Operation::kReduceScatter});
  timeline.steps = {{0, {0}, {(start + length) * kNanosecond}}};
  RecordedRun run;
  run.among = {.rank = rank, .ranks = ranks};
  write_recorded_run(timeline, run);
  return made;
}

RankRecording with_clock(RankRecording made, std::int64_t origin, double offset) {
  RecordedRun run = *recorded_run(made.timeline);
  run.among.clock_offset_ns = offset;
  run.among.clock_uncertainty_ns = 50;
  made.timeline.metadata.clear();
  write_recorded_run(made.timeline, run);
  made.timeline.origin_nanoseconds = origin;
  return made;
}

std::vector<std::int64_t> starts(const Timeline& timeline) {
  std::vector<std::int64_t> list;
  for (const TimelineSpan& span : timeline.spans) list.push_back(span.start.count / kNanosecond);
  return list;
}

TEST(MergeRanks, PutsEachOnTheClockOfTheFirst) {
  // Rank 1 began 700 ns after rank 0, by a clock that is 500 ns ahead: 200 ns after.
  const Timeline merged = merge_ranks({with_clock(recording(1, 2, 100, 10), 10'700, 500),
                                       with_clock(recording(0, 2, 100, 30), 10'000, 0)});
  EXPECT_THAT(starts(merged), ElementsAre(100, 300));
  EXPECT_THAT(merged.devices, ElementsAre("rank 0: host", "rank 1: host"));
  EXPECT_EQ(merged.tracks.at(merged.spans.at(1).track).device, 1);
  EXPECT_EQ(merged.origin_nanoseconds, 10'000);
  EXPECT_EQ(merged.steps.size(), 1U);
  EXPECT_EQ(merged.metadata.back().first, "zenflow_ranks");
  EXPECT_THAT(merged.metadata.back().second, HasSubstr("\"clock_offset_ns\":500.0,"
                                                       "\"clock_uncertainty_ns\":50.0"));
}

TEST(MergeRanks, BeginsWithTheEarliest) {
  const Timeline merged = merge_ranks(
      {with_clock(recording(0, 2, 5, 1), 10'000, 0), with_clock(recording(1, 2, 5, 1), 9'000, 0)});
  EXPECT_THAT(starts(merged), ElementsAre(1'005, 5));
  EXPECT_EQ(merged.origin_nanoseconds, 9'000);
}

TEST(MergeRanks, WantsEachRankOfOneRunOnce) {
  const auto error = [](std::vector<RankRecording> recordings) {
    return error_of([&] { static_cast<void>(merge_ranks(std::move(recordings))); }).second;
  };
  EXPECT_THAT(error({recording(0, 3, 0, 1), recording(2, 3, 0, 1)}),
              HasSubstr("of 3 ranks, but that of rank 1 is not among the 2 files"));
  EXPECT_THAT(error({recording(0, 2, 0, 1), recording(0, 2, 0, 1)}),
              HasSubstr("t.rank-0.json and t.rank-0.json are both of rank 0"));
  EXPECT_THAT(error({recording(0, 1, 0, 1)}), HasSubstr("one of several ranks"));
  RankRecording other = recording(1, 2, 0, 1);
  other.timeline.metadata.clear();
  EXPECT_THAT(error({recording(0, 2, 0, 1), other}), HasSubstr("t.rank-1.json: expected"));
  RecordedRun run;
  run.update_interval += 1;
  run.among = {.rank = 1, .ranks = 2};
  write_recorded_run(other.timeline, run);
  EXPECT_THAT(error({recording(0, 2, 0, 1), other}), HasSubstr("other settings"));
  RankRecording later = recording(1, 2, 0, 1);
  run = *recorded_run(later.timeline);
  run.among.run = 7;
  later.timeline.metadata.clear();
  write_recorded_run(later.timeline, run);
  EXPECT_THAT(error({recording(0, 2, 0, 1), later}), HasSubstr("are of two runs"));
  EXPECT_THAT(error({}), HasSubstr("no recordings"));
}

TEST(MergeRanks, RefusesTimesThatCannotBeOfOneRun) {
  constexpr std::int64_t kExtremes[] = {INT64_MIN, INT64_MIN + 1, -1, INT64_MAX - 1, INT64_MAX};
  for (const std::int64_t extreme : kExtremes) {
    RankRecording far = with_clock(recording(1, 2, 0, 1), extreme, -1e18);
    EXPECT_THAT(error_of([&] {
                  static_cast<void>(merge_ranks({recording(0, 2, 0, 1), std::move(far)}));
                }).second,
                HasSubstr("t.rank-1.json"))
        << extreme;
  }
  RankRecording late = recording(1, 2, 0, 1);
  late.timeline.spans[0].end = {INT64_MAX};
  EXPECT_THAT(error_of([&] {
                static_cast<void>(merge_ranks({recording(0, 2, 0, 1), std::move(late)}));
              }).second,
              HasSubstr("t.rank-1.json: it lasts more than 11 days"));
}

TEST(RecordedRanks, AreRefusedOutOfTheirRange) {
  for (
      const char* among :
      {R"({"run":5,"ranks":2,"rank":2,"clock_offset_ns":0,"clock_uncertainty_ns":0})",
       R"({"run":5,"ranks":0,"rank":0,"clock_offset_ns":0,"clock_uncertainty_ns":0})",
       R"({"run":5,"ranks":9223372036854775807,"rank":0,"clock_offset_ns":0,"clock_uncertainty_ns":0})",
       R"({"run":5,"ranks":2,"rank":-1,"clock_offset_ns":0,"clock_uncertainty_ns":0})",
       R"({"run":5,"ranks":2,"rank":1,"clock_offset_ns":1e300,"clock_uncertainty_ns":0})",
       R"({"run":5,"ranks":2,"rank":1,"clock_offset_ns":0,"clock_uncertainty_ns":-1})",
       R"({"run":5,"ranks":2,"rank":1,"clock_offset_ns":0})",
       R"({"ranks":2,"rank":1,"clock_offset_ns":0,"clock_uncertainty_ns":0})", R"("2")", "2"}) {
    Timeline timeline;
    write_recorded_run(timeline, RecordedRun{});
    std::string& text = timeline.metadata.front().second;
    text.insert(text.size() - 1, std::string(",\"among\":") + among);
    EXPECT_THAT(error_of([&] { check_recorded_run(timeline, "t.json"); }).second,
                HasSubstr("t.json: zenflow_train.among: expected"))
        << among;
    EXPECT_FALSE(recorded_run(timeline).has_value()) << among;
  }
}

// Rank 1 sends and leaves before rank 0, the owner, has added up: it was there first all the same.
TEST(RankWaits, AreOnOneClockUntilTheLastHasCome) {
  ImportedTrace trace;
  trace.timeline = merge_ranks({recording(0, 2, 160, 90), recording(1, 2, 100, 70)});
  const TraceAnalysis analysis = analyze(trace, default_rules());
  ASSERT_EQ(analysis.rank_waits.size(), 2U);
  EXPECT_EQ(analysis.rank_waits[0].waited.count, 0);
  EXPECT_EQ(analysis.rank_waits[1].waited.count, 60 * kNanosecond);
  EXPECT_EQ(analysis.rank_waits[0].came_last, 1U);
}

TEST(RankWaits, AreElsewhereWhatACollectiveTakesLongerThanWhereItIsShortest) {
  ImportedTrace trace;
  trace.timeline =
      merge_ranks({recording(0, 3, 100, 70), recording(1, 3, 150, 20), recording(2, 3, 160, 10)});
  trace.timeline.metadata.clear();  // as another program's
  const TraceAnalysis analysis = analyze(trace, default_rules());
  ASSERT_EQ(analysis.rank_waits.size(), 3U);
  std::vector<std::int64_t> waited;
  std::vector<std::uint64_t> last;
  for (const RankWait& one : analysis.rank_waits) {
    waited.push_back(one.waited.count / kNanosecond);
    last.push_back(one.came_last);
  }
  EXPECT_THAT(waited, ElementsAre(60, 10, 0));
  EXPECT_THAT(last, ElementsAre(0U, 0U, 1U));
}

TEST(RankWaits, AreOfCollectivesThatAllTookPartIn) {
  RankRecording more = recording(1, 2, 0, 5);
  more.timeline.spans.push_back(more.timeline.spans.front());
  ImportedTrace trace;
  trace.timeline = merge_ranks({recording(0, 2, 0, 5), std::move(more)});
  EXPECT_THAT(analyze(trace, default_rules()).rank_waits, IsEmpty());
}

TEST(PathOfRank, IsNamedAfterTheFirstOnes) {
  EXPECT_EQ(path_of_rank("out/run.json", 0), "out/run.json");
  EXPECT_EQ(path_of_rank("out/run.json", 12), "out/run.rank-12.json");
  EXPECT_EQ(path_of_rank("run.v2.json.gz", 1), "run.v2.rank-1.json.gz");
  EXPECT_EQ(path_of_rank("trace", 1), "trace.rank-1");
}

/// A rank's spans of a step: each waits so long for the other rank, or comes so much later, and
/// then lasts as `seconds` says of the group's bytes and tensors.
Timeline rank_timeline(const Job& job, std::int64_t rank, double wait, double late, double ahead,
                       const std::function<double(Operation, double, std::int64_t)>& seconds) {
  Timeline timeline = with_clock(recording(rank, 2, 0, 1), 0, 1e9 * ahead).timeline;
  timeline.spans.clear();
  timeline.steps = {{3, {0}, to_picoseconds(Seconds(100))}};
  std::vector<LiveLayer> layers = live_layers(job.scenario.model, 0);
  double at = ahead;
  const auto add = [&](Operation operation) {
    for (const LiveLayer& layer : layers) {
      at += late;
      const double end =
          at + wait +
          seconds(operation, 4 * layer.elements(), static_cast<std::int64_t>(layer.tensors.size()));
      timeline.spans.push_back({.start = to_picoseconds(Seconds(at)),
                                .end = to_picoseconds(Seconds(end)),
                                .operation = operation});
      at = end;
    }
  };
  add(Operation::kAllGather);
  std::reverse(layers.begin(), layers.end());
  add(Operation::kReduceScatter);
  return timeline;
}

TEST(CollectiveSamples, AreAsLongAsFromTheLastOnesComingToTheLastOnesLeaving) {
  testing::JobOptions options;
  options.training.dtype = DType::kFp32;
  const Job job = make_small_job(testing::round_node(2), testing::tiny_llama(), options);
  const Communicator group{2, BytesPerSecond(3e9), Seconds(5e-6)};
  const auto seconds = [&](Operation operation, double bytes, std::int64_t tensors) {
    return (operation == Operation::kAllGather
                ? broadcast_time(group, Bytes(bytes), tensors)
                : reduce_to_owner_time(group, job.scenario.hardware.host, Bytes(bytes), tensors))
        .value();
  };
  // Rank 1 comes 0.1 s after rank 0, and its clock is 0.5 s ahead.
  const Timeline first = rank_timeline(job, 0, 0.1, 0, 0, seconds);
  const Timeline second = rank_timeline(job, 1, 0, 0.1, 0.5, seconds);
  const auto recorded = [&](const Timeline& timeline, int rank) {
    return LiveRecording{&job, "live-zenflow", &timeline, 2, 0, {rank, 2}};
  };
  const auto samples = collective_samples({recorded(first, 0), recorded(second, 1)});
  EXPECT_EQ(samples.size(), 2U * 4U);  // embedding, two blocks, head
  for (const CollectiveSample& one : samples) {
    EXPECT_NEAR(one.seconds, seconds(one.operation, one.bytes, one.tensors), 1e-11);
  }
  EXPECT_THAT(error_of([&] { static_cast<void>(collective_samples({recorded(first, 0)})); }).second,
              HasSubstr("the traces of 1 of its 2 ranks were given"));
}

/// Layers of which each pass lasts 10 ms, on rank 0 in every other step 11 and on rank 1 13, where
/// rank 1 always takes 2 longer.
TEST(RankJitter, IsByHowMuchTheSlowestIsLateBeyondWhatARankAlwaysIs) {
  testing::JobOptions options;
  options.training.dtype = DType::kFp32;
  const Job job = make_small_job(testing::round_node(2), testing::tiny_llama(), options);
  std::vector<Timeline> timelines;
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    Timeline timeline = recording(rank, 2, 0, 1).timeline;
    timeline.spans.clear();
    timeline.steps.clear();
    constexpr double kStep = 1;
    for (std::int32_t step = 0; step < 8; ++step) {
      const Picoseconds start = to_picoseconds(Seconds(kStep * step));
      timeline.steps.push_back({step, start, start + to_picoseconds(Seconds(kStep))});
      // Later by a millisecond in steps that are odd, or even.
      const double seconds =
          0.01 + 0.002 * static_cast<double>(rank) + ((step + rank) % 2 == 1 ? 0.001 : 0);
      for (const Operation operation : {Operation::kForward, Operation::kBackward}) {
        for (int layer = 0; layer < 4; ++layer) {
          timeline.spans.push_back({.start = start,
                                    .end = start + to_picoseconds(Seconds(seconds)),
                                    .operation = operation});
        }
      }
    }
    timelines.push_back(std::move(timeline));
  }
  const auto recorded = [&](int rank) {
    return LiveRecording{&job, "live-zenflow", &timelines.at(static_cast<std::size_t>(rank)), 2,
                         0,    {rank, 2}};
  };
  const auto jitter = rank_jitter({recorded(0), recorded(1)});
  ASSERT_TRUE(jitter.has_value());
  // Always one is 0.5 ms above its mean and the other below, of 11.5 ms; 0.564 standard deviations.
  EXPECT_NEAR(*jitter, 0.0005 / 0.0115 / 0.56419, 1e-6);
  EXPECT_FALSE(rank_jitter({}).has_value());
}

TEST(ExpectedLargest, OfNormalNumbersIsAsTablesOfOrderStatisticsSay) {
  EXPECT_EQ(expected_largest(1), 0);
  EXPECT_NEAR(expected_largest(2), 0.56419, 1e-5);
  EXPECT_NEAR(expected_largest(3), 0.84628, 1e-5);
  EXPECT_NEAR(expected_largest(10), 1.53875, 1e-5);
  EXPECT_NEAR(expected_largest(100), 2.50759, 1e-5);
}

}  // namespace
}  // namespace zenflow::sim
