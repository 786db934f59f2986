// What DeepSpeed's releases and launchers do differently, one test a row of the table in
// docs/model.md. Bytes and times are worked out from the rule, on machines whose links never bind.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/schedule/deepspeed_memory.h"
#include "sim/schedule/deepspeed_step.h"
#include "sim/simulate/simulation.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using ::testing::HasSubstr;
using testing::JobOptions;
using testing::make_small_job;
using testing::round_node;
using testing::small_gpt2;
using testing::tiny_llama;

constexpr const char* kZenFlow = "deepspeed-zenflow";

struct Launch {
  std::string version;
  std::string target = "deepspeed";
  bool bound = true;
};

Job launched(Job job, const Launch& launch) {
  job.version = parse_version(launch.version);
  job.target = parse_target(launch.target);
  job.scenario.bind_cores_to_rank = launch.bound;
  return job;
}

/// Two GPUs, 52.1 M parameters, windows of four steps, no reselection.
JobOptions options() {
  JobOptions one;
  one.gpus = 2;
  one.select_interval = "0";
  return one;
}

SimulationResult run(const JobOptions& options, const Launch& launch,
                     const char* schedule = kZenFlow) {
  const Job job = launched(make_small_job(round_node(options.gpus), small_gpt2(), options), launch);
  return simulate_schedule(job, find_schedule(schedule));
}

std::string refusal(const JobOptions& options, const Launch& launch) {
  try {
    (void)run(options, launch);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

double partition(const JobOptions& options) {
  return make_small_job(round_node(options.gpus), small_gpt2(), options).partition();
}

Job read(const std::string& deepspeed, const std::string& version) {
  Scenario scenario;
  scenario.model = tiny_llama();
  scenario.hardware = round_node();
  scenario.deepspeed = parse_json(deepspeed, "ds.json");
  scenario.deepspeed_version = WrittenText{version, {}};
  return make_job(std::move(scenario));
}

std::string zero(const std::string& offload) {
  return R"({"zero_optimization": {"stage": 2, "offload_optimizer": )" + offload + "}}";
}

TEST(Release, PinsByDefaultSince0195) {
  const std::string open = zero(R"({"device": "cpu"})");
  EXPECT_FALSE(read(open, "0.19.4").deepspeed.pin_memory);
  EXPECT_TRUE(read(open, "0.19.5").deepspeed.pin_memory);
  EXPECT_TRUE(
      read(zero(R"({"device": "cpu", "pin_memory": true})"), "0.19.4").deepspeed.pin_memory);
  EXPECT_FALSE(
      read(zero(R"({"device": "cpu", "pin_memory": false})"), "0.19.5").deepspeed.pin_memory);
}

/// All of it in a row on one GPU: 4 bytes a parameter down at 4 instead of 10 GB/s, 2 up at 5
/// instead of 20.
TEST(Release, PageableDefaultSlowsZeroOffloadByItsCopies) {
  JobOptions one = options();
  one.gpus = 1;
  one.with_zenflow = false;
  const double pinned = run(one, {"0.19.5"}, "deepspeed-zero-offload").step_time;
  one.pin_memory = false;
  const double pageable = run(one, {"0.19.5"}, "deepspeed-zero-offload").step_time;
  const double p = partition(one);
  const double expected = 4 * p * (1 / 4e9 - 1 / 10e9) + 2 * p * (1 / 5e9 - 1 / 20e9);
  EXPECT_NEAR((pageable - pinned) * 1e-12, expected, 1e-6 * expected);
}

TEST(Release, ClipsByDefaultSince0193) {
  EXPECT_EQ(read("{}", "0.19.2").deepspeed.gradient_clipping, 0.0);
  EXPECT_EQ(read("{}", "0.19.3").deepspeed.gradient_clipping, 1.0);
  EXPECT_EQ(read(R"({"gradient_clipping": 0.5})", "0.19.2").deepspeed.gradient_clipping, 0.5);
}

/// With S = 4 a window brings the sum down four times and up three times (2 bytes a parameter),
/// fp32 gradients down once (4), and the weights up once: 4 bytes before 0.19.3, 2 since.
TEST(Release, UploadsFp32BeforeTheNativeWorker) {
  const double p = partition(options());
  const SimulationResult before = run(options(), {"0.19.2"});
  EXPECT_NEAR(before.d2h_bytes, 3 * p, 1);
  EXPECT_NEAR(before.h2d_bytes, (2 * 3 + 4) / 4.0 * p, 1);
  const SimulationResult since = run(options(), {"0.19.3"});
  EXPECT_NEAR(since.d2h_bytes, 3 * p, 1);
  EXPECT_NEAR(since.h2d_bytes, (2 * 3 + 2) / 4.0 * p, 1);
  // Stage 3 brings the sum up four times, and has always cast on the host.
  for (const char* version : {"0.19.2", "0.19.3"}) {
    JobOptions blocking = options();
    blocking.overlap_step = false;
    EXPECT_NEAR(run(blocking, {version}).h2d_bytes, 2 * p, 1) << version;
    JobOptions three = options();
    three.stage = 3;
    EXPECT_NEAR(run(three, {version}).h2d_bytes, (2 * 4 + 2) / 4.0 * p, 1) << version;
  }
}

/// ZeRO-Offload, one rank: every tensor's fp32 gradient is a copy of its own, with the link's 10
/// us.
TEST(DeepSpeedCopies, PayTheLatencyOncePerTensor) {
  JobOptions one = options();
  one.gpus = 1;
  const Job job = make_small_job(round_node(), small_gpt2(), one);
  const ModelSpec& model = job.scenario.model;
  const Schedule& schedule = find_schedule("deepspeed-zero-offload");
  const std::vector<WindowShape> windows = schedule.windows(job, 1);
  const Program program = schedule.build(job, windows);
  double seconds = 0;
  double bytes = 0;
  for (std::size_t i = 0; i < program.labels.size(); ++i) {
    if (program.labels[i].operation != Operation::kD2H) continue;
    seconds += to_seconds(program.graph.tasks()[i].duration).value();
    bytes += program.labels[i].bytes;
  }
  ASSERT_EQ(job.deepspeed.gradient_accumulation_steps, 1);
  EXPECT_NEAR(bytes, 4 * static_cast<double>(model.parameters()), 1);
  const auto tensors = static_cast<double>(model.trained_tensors());
  const HostLinkProfile& link = job.scenario.hardware.host_link;
  EXPECT_NEAR(seconds, bytes / link.pinned.d2h.value() + tensors * 10e-6, 1e-9);
}

double fp32_weights_on_gpu(const char* version) {
  const Job job = launched(make_small_job(round_node(2), small_gpt2(), options()), {version});
  const Schedule& schedule = find_schedule(kZenFlow);
  const Program program = schedule.build(job, schedule.windows(job, 16));
  double largest = 0;
  for (const MemoryChange& change : program.memory) {
    if (program.buffers[change.buffer].name != "fp32 weights, to be cast") continue;
    largest = std::max(largest, change.bytes);
  }
  return largest;
}

TEST(Release, HoldsFp32WeightsOnTheGpuBeforeTheNativeWorker) {
  EXPECT_EQ(fp32_weights_on_gpu("0.19.2"), 4 * partition(options()));
  EXPECT_EQ(fp32_weights_on_gpu("0.19.3"), 0);
}

/// Bound ranks and a worker with cores of its own: the GPU computes undisturbed, as without a
/// worker. In 0.17.5 the worker has all cores.
TEST(Release, WorkerHasCoresOfItsOwnSince0176) {
  const auto cpu_stall = [](const Launch& launch) {
    const SimulationResult result = run(options(), launch);
    return result.stall_by_cause[static_cast<std::size_t>(WaitCause::kCpuUpdate)];
  };
  const double apart = cpu_stall({"0.17.6"});
  EXPECT_GT(cpu_stall({"0.17.5"}), apart);
  EXPECT_GT(cpu_stall({.version = "0.17.6", .bound = false}), apart);
}

/// accelerate with one micro step a window, update_interval 4: 4 bytes of gradients, and before
/// 0.19.0 the sum (2) that nothing is added to.
TEST(Release, SumsOfSingleStepsAreCopiedBefore0190) {
  const double p = partition(options());
  EXPECT_NEAR(run(options(), {"0.18.2", "accelerate"}).d2h_bytes, 6 * p, 1);
  EXPECT_NEAR(run(options(), {"0.19.2", "accelerate"}).d2h_bytes, 4 * p, 1);
}

/// Buckets of a million elements: before 0.19.5 backward waits for each one's fp32 copy. ZenFlow
/// waits in every release.
TEST(Release, Stage3StopsBackwardForGradientsBefore0195) {
  JobOptions three = options();
  three.stage = 3;
  three.reduce_bucket_size = 1'000'000;
  const auto step = [&](const char* version, const char* schedule) {
    return run(three, {version}, schedule).step_time;
  };
  EXPECT_GT(step("0.19.4", "deepspeed-zero-offload"), step("0.19.5", "deepspeed-zero-offload"));
  EXPECT_EQ(step("0.19.4", kZenFlow), step("0.19.5", kZenFlow));
}

/// k = 0.01 of 32 or 64 columns is none; a floor of one selects one column of each matrix: 256 +
/// 256 rows of the embeddings and 2 x 256 of the blocks, beside 160 elements of vectors.
TEST(Release, SelectsAtLeastOneColumnSince0196) {
  JobOptions narrow = options();
  narrow.gpus = 1;
  narrow.topk_ratio = 0.01;
  const auto moments = [&](const char* version, int stage) {
    narrow.stage = stage;
    const Job job = launched(make_small_job(round_node(), tiny_llama(), narrow), {version});
    const Schedule& schedule = find_schedule(kZenFlow);
    double bytes = 0;
    for (const MemoryBuffer& buffer : schedule.build(job, schedule.windows(job, 8)).buffers) {
      if (buffer.category == MemoryCategory::kSelectedState) bytes += buffer.resident;
    }
    return bytes;
  };
  EXPECT_EQ(moments("0.19.5", 2), 2 * 2 * 160);
  EXPECT_EQ(moments("0.19.6", 2), 2 * 2 * (160 + 4 * 256));
  EXPECT_EQ(moments("0.19.5", 3), 2 * 2 * (160 + 4 * 256))
      << "stage 3 had the floor from the start";
}

TEST(Release, RefusesWhatCannotRun) {
  EXPECT_EQ(refusal(options(), {"0.18.2"}), "");
  EXPECT_THAT(refusal(options(), {"0.18.3"}), HasSubstr("cannot run in DeepSpeed 0.18.3"));
  EXPECT_THAT(refusal(options(), {"0.19.1"}), HasSubstr("#7759"));
  EXPECT_EQ(refusal(options(), {"0.19.2"}), "");
  JobOptions three = options();
  three.stage = 3;
  EXPECT_THAT(refusal(three, {"0.18.0"}), HasSubstr("stage 3 came with 0.18.1"));
  EXPECT_EQ(refusal(three, {"0.18.1"}), "");
  three.parameter_device = "cpu";
  EXPECT_THAT(refusal(three, {"0.18.2"}), HasSubstr("#8042"));
  EXPECT_EQ(refusal(three, {"0.19.2"}), "");
  JobOptions automatic = options();
  automatic.update_interval = R"("auto")";
  EXPECT_THAT(refusal(automatic, {"0.18.2"}), HasSubstr("depends on the gradients"));
  EXPECT_THAT(refusal(automatic, {"0.19.8"}), HasSubstr("0 accumulation steps"));
}

/// G = 2 and S = 4: the launchers' boundaries come every second step. Down 2 bytes a step and 4
/// each second; up the sum and the weights each second. Neither warm-up nor reselection adds
/// boundaries.
TEST(Release, OtherLaunchersSetTheBoundaries) {
  JobOptions two = options();
  two.accumulation = 2;
  two.select_interval = "3";
  two.warm_up = 1;
  const double p = partition(two);
  const std::string newest = to_string(newest_version());
  for (const char* target : {"hf", "accelerate"}) {
    const Job job = launched(make_small_job(round_node(2), small_gpt2(), two), {newest, target});
    for (const WindowShape& shape : find_schedule(kZenFlow).windows(job, 40)) {
      EXPECT_EQ(shape.steps, 2) << target;
    }
    JobOptions once = two;
    once.select_interval = "0";
    const SimulationResult result = run(once, {newest, target});
    EXPECT_NEAR(result.d2h_bytes, (2 + 4 / 2.0) * p, 1) << target;
    EXPECT_NEAR(result.h2d_bytes, (2 / 2.0 + 2 / 2.0) * p, 1) << target;
    EXPECT_EQ(result.update_interval, 2) << target;
    EXPECT_EQ(result.target, target);
  }
  EXPECT_EQ(run(options(), {newest}).update_interval, 4);
}

/// Every release and launcher that runs ZenFlow moves what its formula says.
TEST(Release, TrafficFollowsTheClosedFormEverywhere) {
  const Schedule& schedule = find_schedule(kZenFlow);
  for (const Version& version : known_versions()) {
    for (const char* target : {"deepspeed", "hf"}) {
      for (const int stage : {1, 2, 3}) {
        for (const char* interval : {"1", "4"}) {
          for (const bool overlap : {false, true}) {
            JobOptions one = options();
            one.stage = stage;
            one.update_interval = interval;
            one.overlap_step = overlap;
            const Job job = launched(make_small_job(round_node(2), tiny_llama(), one),
                                     {to_string(version), target});
            try {
              schedule.check(job);
            } catch (const Error&) {
              continue;
            }
            const SimulationResult result = simulate_schedule(job, schedule);
            const ClosedForm expected = schedule.closed_form(job);
            const std::string where =
                fmt::format("{} {} stage {} S {} overlap {}", to_string(version), target, stage,
                            interval, overlap);
            EXPECT_NEAR(result.d2h_bytes, expected.d2h_bytes_per_step, 1e-6) << where;
            EXPECT_NEAR(result.h2d_bytes, expected.h2d_bytes_per_step, 1e-6) << where;
          }
        }
      }
    }
  }
}

constexpr const char* kZeroOffload = "deepspeed-zero-offload";

/// ZeRO-Offload without ZenFlow, on so many GPUs.
JobOptions plain(std::int64_t gpus, int stage, std::int64_t accumulation = 1) {
  JobOptions one = options();
  one.gpus = gpus;
  one.stage = stage;
  one.accumulation = accumulation;
  one.with_zenflow = false;
  return one;
}

/// What a rank's buffers hold at most of `name`.
double held_of(const std::string& name, const JobOptions& options, const char* version) {
  const Job job =
      launched(make_small_job(round_node(options.gpus), small_gpt2(), options), {version});
  const Schedule& schedule = find_schedule(kZeroOffload);
  const Program program = schedule.build(job, schedule.windows(job, 16));
  double largest = 0;
  for (const MemoryBuffer& buffer : program.buffers) {
    if (buffer.name == name) largest = buffer.resident;
  }
  for (const MemoryChange& change : program.memory) {
    if (program.buffers[change.buffer].name == name) largest = std::max(largest, change.bytes);
  }
  return largest;
}

/// The weights that go up after an update: 2 bytes a parameter, but 4 from 0.14.1 to 0.16.9, which
/// stand on the GPU then. On the host they are in a temporary before, in a buffer since.
TEST(Release, SendsFp32WeightsUpFrom0141To0169) {
  const JobOptions two = plain(2, 2);
  const double p = partition(two);
  const std::vector<std::pair<const char*, double>> wide = {
      {"0.14.0", 0}, {"0.14.1", 4}, {"0.16.9", 4}, {"0.17.0", 0}};
  for (const auto& [version, bytes] : wide) {
    EXPECT_NEAR(run(two, {version}, kZeroOffload).h2d_bytes, (bytes > 0 ? bytes : 2) * p, 1)
        << version;
    EXPECT_EQ(held_of("fp32 weights, to be cast", two, version), bytes * p) << version;
  }
  EXPECT_EQ(held_of("temporary of a casting copy", two, "0.14.0"), 2 * 2 * p);
  EXPECT_EQ(held_of("16-bit weights to upload", two, "0.14.0"), 0);
  EXPECT_EQ(held_of("temporary of a casting copy", two, "0.14.1"), 0);
  EXPECT_EQ(held_of("16-bit weights to upload", two, "0.16.9"), 0);
  EXPECT_EQ(held_of("16-bit weights to upload", two, "0.17.0"), 2 * 2 * p);
}

/// Before 0.14.1 they go up from ordinary memory, at 5 instead of 20 GB/s.
TEST(Release, WeightsGoUpFromOrdinaryMemoryBefore0141) {
  const JobOptions one = plain(1, 2);
  const double p = partition(one);
  const double before = run(one, {"0.14.0"}, kZeroOffload).step_time;
  const double since = run(one, {"0.17.0"}, kZeroOffload).step_time;
  EXPECT_NEAR((before - since) * 1e-12, 2 * p * (1 / 5e9 - 1 / 20e9), 1e-6);
}

/// Windows of four steps. Down 4 bytes at the end, and the sum of 2: three times until 0.15.1, once
/// until 0.17.4. Up the sum three times, and 2 (0.15: 4) of weights.
TEST(Release, LeavesOnlyTheFirstSumFrom0152) {
  const JobOptions four = plain(2, 2, 4);
  const double p = partition(four);
  const SimulationResult before = run(four, {"0.15.1"}, kZeroOffload);
  EXPECT_NEAR(before.d2h_bytes, (3 * 2 + 4) / 4.0 * p, 1);
  EXPECT_NEAR(before.h2d_bytes, (3 * 2 + 4) / 4.0 * p, 1);
  const SimulationResult since = run(four, {"0.15.2"}, kZeroOffload);
  EXPECT_NEAR(since.d2h_bytes, (2 + 4) / 4.0 * p, 1);
  EXPECT_NEAR(since.h2d_bytes, (3 * 2 + 4) / 4.0 * p, 1);
  EXPECT_NEAR(run(four, {"0.17.4"}, kZeroOffload).h2d_bytes, (3 * 2 + 2) / 4.0 * p, 1);
}

/// Stage 3, one GPU, all in a row. Besides the sum (2 down and up): until 0.15.3 2 bytes at the
/// pageable rate, the embedding (53 MB, the only tensor above 32 MiB) into fresh memory at 2 us a
/// page, and 6 of host memory to cast them; until 0.16.2 4 pinned and 8 of host memory;
/// since then 4 pinned alone.
TEST(Release, Stage3GradientsCameByWayOfTheHostBefore0163) {
  const JobOptions three = plain(1, 3);
  const double p = partition(three);
  const auto result = [&](const char* version) { return run(three, {version}, kZeroOffload); };
  EXPECT_NEAR(result("0.15.3").d2h_bytes, (2 + 2) * p, 1);
  EXPECT_NEAR(result("0.15.4").d2h_bytes, (2 + 4) * p, 1);
  EXPECT_NEAR(result("0.16.3").d2h_bytes, (2 + 4) * p, 1);
  const double direct = result("0.16.3").step_time;
  constexpr double kPass = 200e9;  // host.elementwise_bandwidth
  EXPECT_NEAR((result("0.16.2").step_time - direct) * 1e-12, 8 * p / kPass, 1e-6);
  constexpr double kEmbedding = 52000.0 * 512;
  EXPECT_NEAR((result("0.15.3").step_time - direct) * 1e-12,
              2 * p / 4e9 + 2 * kEmbedding / 4096 * 2e-6 + 6 * p / kPass - 4 * p / 10e9, 1e-6);
}

/// What stage 3 casts on the GPU has 4 bytes there; the norm of 64 bits alone has 8 of as many.
TEST(Release, Stage3CastsGradientsOnTheGpuSince0154) {
  const JobOptions three = plain(2, 3);
  EXPECT_GT(held_of("largest gradient in fp64 (norm)", three, "0.15.3"), 0);
  EXPECT_EQ(held_of("largest gradient in fp64 (norm), fp32", three, "0.15.3"), 0);
  EXPECT_GT(held_of("largest gradient in fp64 (norm), fp32", three, "0.15.4"), 0);
  // Half of the 52,000 x 512 of the embedding, of either rank.
  const double part = 52000.0 * 512;
  EXPECT_EQ(held_of("gradient, to be cast", three, "0.15.3"), 2 * part);
  EXPECT_EQ(held_of("buffer of a gradient", three, "0.15.4"), 4 * part);
  EXPECT_EQ(held_of("buffer of a gradient", three, "0.16.3"), 0);
}

/// One GPU, all in a row. Through its memory goes an fp32 copy (2 + 4 bytes) and its sum (4) until
/// 0.13.2; then that copy, x != x (4 + 1), |x| (4 + 4) and its comparison (4 + 1), either (3), that
/// in fp32 (1 + 4) and the maximum (4), of which 11 bytes an element are there at once; since
/// 0.19.6 the largest and the smallest element (2 + 2).
TEST(Release, ChecksGradientsElementByElementFrom0133To0195) {
  const JobOptions one = plain(1, 2);
  const double p = partition(one);
  const GpuProfile gpu = round_node(1).gpu;
  const double rate = gpu.streaming_efficiency * gpu.memory_bandwidth.value();
  const auto seconds = [&](const char* version) {
    return run(one, {version}, kZeroOffload).step_time * 1e-12;
  };
  EXPECT_NEAR(seconds("0.13.3") - seconds("0.13.2"), (36 - 10) * p / rate, 1e-9);
  EXPECT_NEAR(seconds("0.19.5") - seconds("0.19.6"), (36 - 4) * p / rate, 1e-9);
  const double largest = 52000.0 * 512;
  const std::string norm = "largest gradient in fp64 (norm)";
  EXPECT_EQ(held_of(norm, one, "0.13.2"), 8 * largest);
  EXPECT_EQ(held_of(norm + ", checked", one, "0.13.3"), 11 * largest);
  EXPECT_EQ(held_of(norm + ", checked", one, "0.19.5"), 11 * largest);
  EXPECT_EQ(held_of(norm, one, "0.19.6"), 8 * largest);
}

/// Buckets of a million elements, whose sums are copied beside backward: it waits since 0.14.3.
TEST(Release, ReductionsHoldBackwardSince0143) {
  JobOptions four = plain(2, 2, 4);
  four.reduce_bucket_size = 1'000'000;
  const auto step = [&](const char* version) {
    Job job = launched(make_small_job(round_node(2), small_gpt2(), four), {version});
    job.deepspeed.overlap_comm = true;
    return simulate_schedule(job, find_schedule(kZeroOffload)).step_time;
  };
  EXPECT_GT(step("0.14.3"), step("0.14.2"));
}

TEST(Release, Stage1IgnoresOverlapCommBefore0130) {
  JobOptions one = plain(2, 1);
  one.reduce_bucket_size = 1'000'000;
  const auto job = [&](const char* version, bool overlap) {
    Job made = launched(make_small_job(round_node(2), small_gpt2(), one), {version});
    made.deepspeed.overlap_comm = overlap;
    return made;
  };
  const auto step = [&](const char* version, bool overlap) {
    return simulate_schedule(job(version, overlap), find_schedule("deepspeed-zero")).step_time;
  };
  EXPECT_EQ(step("0.12.6", true), step("0.12.6", false));
  EXPECT_LT(step("0.13.0", true), step("0.13.0", false));
  EXPECT_EQ(bucket_memory(job("0.12.6", true)), 0);
  EXPECT_EQ(bucket_memory(job("0.13.0", true)), 2 * 2 * 1e6);
}

/// Sub-groups of a ninth of the parameters or more, half of them on the CPU: it has the first
/// int(n / 2) until 0.17.6, all but int(n / 2) since.
TEST(Release, TwinFlowKeptTheLastSubGroupsOnTheGpuBefore0180) {
  Job job = launched(make_small_job(round_node(), small_gpt2(), plain(1, 3)), {"0.17.4"});
  job.deepspeed.sub_group_size = static_cast<std::int64_t>(job.partition() / 3);
  job.deepspeed.offload_ratio = 0.5;
  const SubGroups before = sub_groups(job);
  ASSERT_EQ(before.elements.size() % 2, 1U);
  EXPECT_FALSE(before.is_on_gpu(0));
  EXPECT_TRUE(before.is_on_gpu(before.elements.size() - 1));
  EXPECT_EQ(before.on_gpu, before.elements.size() / 2 + 1);
  job.version = parse_version("0.18.0");
  const SubGroups since = sub_groups(job);
  EXPECT_TRUE(since.is_on_gpu(0));
  EXPECT_EQ(since.on_gpu, since.elements.size() / 2);
  EXPECT_EQ(before.gpu_elements() + before.cpu_elements(), job.partition());
}

/// Until 0.17.4 buckets are there when the head's backward, with the logits, begins.
TEST(Release, BackwardBeginsWithItsBucketsBefore0175) {
  const auto peak = [](const char* version) {
    JobOptions long_rows = plain(1, 2);
    long_rows.training.micro_batch_size_per_gpu = 8;
    long_rows.training.sequence_length = 512;
    return run(long_rows, {version}, kZeroOffload).memory.gpu.total;
  };
  EXPECT_NEAR(peak("0.17.4") - peak("0.17.5"), 2 * 500e6, 1);
}

/// Every release moves what its formula says, and has fewer bytes to move than it took.
TEST(Release, ZeroOffloadFollowsTheClosedFormEverywhere) {
  for (const Version& version : known_versions()) {
    for (const int stage : {1, 2, 3}) {
      for (const std::int64_t accumulation : {1, 2, 5}) {
        const JobOptions one = plain(2, stage, accumulation);
        const Job job =
            launched(make_small_job(round_node(2), tiny_llama(), one), {to_string(version)});
        for (const char* name : {kZeroOffload, "deepspeed-twin-flow"}) {
          const Schedule& schedule = find_schedule(name);
          if (stage < 3 && std::string(name) != kZeroOffload) continue;
          const SimulationResult result = simulate_schedule(job, schedule);
          const ClosedForm expected = schedule.closed_form(job);
          const std::string where =
              fmt::format("{} {} stage {} G {}", to_string(version), name, stage, accumulation);
          EXPECT_NEAR(result.d2h_bytes, expected.d2h_bytes_per_step, 1e-6) << where;
          EXPECT_NEAR(result.h2d_bytes, expected.h2d_bytes_per_step, 1e-6) << where;
        }
      }
    }
  }
}

TEST(Release, NamesTheReleaseThatHasWhatItLacks) {
  EXPECT_THAT(refusal(options(), {"0.17.4"}), HasSubstr("ZenFlow is in it from 0.17.5"));
  const Job job = launched(make_small_job(round_node(), small_gpt2(), plain(1, 3)), {"0.17.6"});
  EXPECT_THAT([&] { find_schedule("deepspeed-super-offload").check(job); },
              ::testing::Throws<Error>(::testing::Property(
                  &Error::what, HasSubstr("SuperOffload is in DeepSpeed from 0.18.0"))));
}

TEST(Release, UnknownOnesAreLocatedAndTheKnownListed) {
  Scenario scenario;
  scenario.model = tiny_llama();
  scenario.hardware = round_node();
  scenario.deepspeed = parse_json("{}", "ds.json");
  Scenario released = scenario;
  released.deepspeed_version = WrittenText{"0.12.5", scenario.deepspeed.at};
  EXPECT_THAT([&] { (void)make_job(released); },
              ::testing::Throws<Error>(::testing::Property(
                  &Error::what, ::testing::AllOf(HasSubstr("ds.json:1:1: launch.deepspeed_version"),
                                                 HasSubstr("known: 0.12.6, 0.13.0 to 0.13.5, ")))));
  scenario.target = WrittenText{"acelerate", scenario.deepspeed.at};
  EXPECT_THAT([&] { (void)make_job(scenario); },
              ::testing::Throws<Error>(
                  ::testing::Property(&Error::what, HasSubstr("did you mean \"accelerate\"?"))));
}

}  // namespace
}  // namespace zenflow::sim
