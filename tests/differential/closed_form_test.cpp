// Simulated runs against answers found another way: closed forms of traffic, of staleness and of
// whole steps; and shortened runs against runs of which every window is simulated.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/schedule/stage3_gathers.h"
#include "sim/schedule/step_plan.h"
#include "sim/simulate/simulation.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using testing::contended_node;
using testing::JobOptions;
using testing::make_small_job;
using testing::round_node;
using testing::small_gpt2;
using testing::tiny_llama;
using testing::tiny_opt;

constexpr double kRelative = 1e-9;

void expect_close(double found, double expected, const char* what) {
  EXPECT_NEAR(found, expected, kRelative * std::max(std::abs(expected), 1e-300)) << what;
}

ModelSpec model(int index) {
  if (index == 0) return tiny_llama();
  return index == 1 ? tiny_opt() : small_gpt2();
}

HardwareProfile node(int contended, std::int64_t gpus) {
  return contended != 0 ? contended_node(gpus) : round_node(gpus);
}

/// Every combination of the knobs that change the shape of a run.
std::vector<JobOptions> zenflow_options() {
  std::vector<JobOptions> all;
  for (const std::int64_t gpus : {1, 2, 4}) {
    for (const char* s : {"1", "2", "3", "4", "8", "12"}) {
      for (const double k : {0.05, 0.1, 0.5}) {
        for (const bool overlap : {false, true}) {
          for (const std::int64_t warm_up : {0, 3}) {
            for (const char* select : {"0", "5", "64"}) {
              JobOptions one;
              one.gpus = gpus;
              one.update_interval = s;
              one.topk_ratio = k;
              one.overlap_step = overlap;
              one.warm_up = warm_up;
              one.select_interval = select;
              one.reduce_bucket_size = 9000;
              all.push_back(one);
            }
          }
        }
      }
    }
  }
  return all;
}

std::string described(const JobOptions& one) {
  return fmt::format(
      "N={} S={} k={} overlap={} warm-up={} select={} stage={} accumulation={} on {}", one.gpus,
      one.update_interval, one.topk_ratio, one.overlap_step, one.warm_up, one.select_interval,
      one.stage, one.accumulation, accumulate_place(one.accumulate_on_device));
}

/// And with sums on the device, where the schedule knows them.
std::vector<JobOptions> with_sums_on_device(const Schedule& schedule,
                                            std::vector<JobOptions> cases) {
  if (schedule.name() != "live-zenflow") return cases;
  const std::size_t count = cases.size();
  for (std::size_t i = 0; i < count; ++i) {
    cases.push_back(cases[i]);
    cases.back().accumulate_on_device = true;
  }
  return cases;
}

// ---- a shortened run says what a whole run says ----

/// Averages of a run of which every window was simulated, over the same windows. Windows of equal
/// length are folded into one; of unequal ones every step stands for itself.
SimulationResult averaged(const FullRun& run) {
  const std::vector<WindowMetrics> windows = window_metrics(run.program, run.execution);
  SimulationResult result;
  const std::size_t length = windows[run.measured_begin].step_times.size();
  bool folds = true;
  double steps = 0;
  for (std::size_t i = run.measured_begin; i < run.measured_end; ++i) {
    folds = folds && windows[i].step_times.size() == length;
    steps += static_cast<double>(windows[i].step_times.size());
  }
  const auto count = static_cast<double>(run.measured_end - run.measured_begin);
  if (folds) result.step_times.assign(length, 0.0);
  for (std::size_t i = run.measured_begin; i < run.measured_end; ++i) {
    for (std::size_t step = 0; step < windows[i].step_times.size(); ++step) {
      const auto time = windows[i].step_times[step];
      if (folds) {
        result.step_times[step] += time / count;
      } else {
        result.step_times.push_back(time);
      }
    }
    result.compute += windows[i].compute;
    for (std::size_t cause = 0; cause < kStallCauses; ++cause) {
      result.stall_by_cause[cause] += windows[i].stall[cause];
    }
    result.d2h_bytes += windows[i].d2h_bytes;
    result.h2d_bytes += windows[i].h2d_bytes;
  }
  for (const double time : result.step_times) {
    result.step_time += time / static_cast<double>(result.step_times.size());
  }
  result.compute /= steps;
  for (double& stall : result.stall_by_cause) {
    stall /= steps;
    result.stall += stall;
  }
  result.d2h_bytes /= steps;
  result.h2d_bytes /= steps;
  return result;
}

/// Steps that repeat within a window left out, too. Returns whether there were any.
bool expect_fewest_steps_say_the_same(const Job& job, const Schedule& schedule,
                                      const SimulationResult& all) {
  const SimulationResult few = simulate_schedule(job, schedule, SimulationDetail::kNoCriticalPath);
  EXPECT_EQ(few.step_times, all.step_times);
  EXPECT_EQ(few.step_time, all.step_time);
  EXPECT_EQ(few.is_boundary, all.is_boundary);
  EXPECT_EQ(simulate_step_time(job, schedule), all.step_time);
  // The same sums in another order.
  expect_close(few.compute, all.compute, "compute");
  for (std::size_t cause = 0; cause < kStallCauses; ++cause) {
    EXPECT_NEAR(few.stall_by_cause[cause], all.stall_by_cause[cause], kRelative * all.step_time);
  }
  expect_close(few.d2h_bytes, all.d2h_bytes, "d2h");
  expect_close(few.h2d_bytes, all.h2d_bytes, "h2d");
  expect_close(few.memory.gpu.total, all.memory.gpu.total, "GPU memory");
  expect_close(few.memory.host.total, all.memory.host.total, "host memory");
  return few.simulated_steps < all.simulated_steps;
}

struct Left {
  bool windows = false;  ///< fewer were simulated than the run has
  bool steps = false;    ///< of those windows
};

Left expect_shortened_run_equals_whole_run(const Job& given, const Schedule& schedule) {
  const Job job = testing::suited_to(schedule, given);
  const SimulationResult shortened = simulate_schedule(job, schedule);
  const FullRun whole = simulate_fully(job, schedule);
  const SimulationResult expected = averaged(whole);
  EXPECT_EQ(shortened.step_times, expected.step_times);
  EXPECT_EQ(shortened.step_time, expected.step_time);
  EXPECT_EQ(shortened.compute, expected.compute);
  EXPECT_EQ(shortened.stall, expected.stall);
  EXPECT_EQ(shortened.stall_by_cause, expected.stall_by_cause);
  EXPECT_EQ(shortened.d2h_bytes, expected.d2h_bytes);
  EXPECT_EQ(shortened.h2d_bytes, expected.h2d_bytes);
  EXPECT_EQ(shortened.measured_windows,
            static_cast<std::int64_t>(whole.measured_end - whole.measured_begin));
  for (const MemoryPlace place : {MemoryPlace::kGpu, MemoryPlace::kHost}) {
    const MemoryPeak peak = memory_peak(whole.program, whole.execution, place);
    const MemoryPeak& found =
        place == MemoryPlace::kGpu ? shortened.memory.gpu : shortened.memory.host;
    // Sums of changes that cancel exactly in theory and to rounding in floating point.
    EXPECT_NEAR(found.total, peak.total, kRelative * peak.total);
  }
  const bool steps = expect_fewest_steps_say_the_same(job, schedule, shortened);
  return {static_cast<std::size_t>(shortened.simulated_windows) < whole.program.windows.size(),
          steps};
}

/// Index: node (2) x model (2) x schedule.
class ShortenedRunOf : public ::testing::TestWithParam<int> {};

TEST_P(ShortenedRunOf, EveryShapeEqualsTheWholeRunExactly) {
  const int contended = GetParam() % 2;
  const int which_model = GetParam() / 2 % 2;
  const Schedule& schedule = *schedules()[static_cast<std::size_t>(GetParam() / 4)];
  const bool is_zenflow = schedule.name().ends_with("zenflow");
  std::vector<JobOptions> cases;
  for (const JobOptions& one : zenflow_options()) {
    if (is_zenflow && one.topk_ratio == 0.1) cases.push_back(one);
    const bool plain = one.update_interval == "1" && one.topk_ratio == 0.1 && one.overlap_step &&
                       one.warm_up == 0 && one.select_interval == "64";
    if (is_zenflow || !plain) continue;
    for (const std::int64_t accumulation : {1, 2, 5, 12}) {
      cases.push_back(one);
      cases.back().accumulation = accumulation;
    }
  }
  int skipped_windows = 0;
  int skipped_steps = 0;
  for (JobOptions one : with_sums_on_device(schedule, cases)) {
    for (const int stage : {0, 1, 2, 3}) {
      if (stage < 2 && schedule.name() != "gpu-only") continue;
      one.stage = stage;
      one.run = {.warmup_steps = 7, .steps = 90};
      SCOPED_TRACE(std::string(schedule.name()) + " " + described(one));
      const Job job = make_small_job(node(contended, one.gpus), model(which_model), one);
      const Left left = expect_shortened_run_equals_whole_run(job, schedule);
      skipped_windows += left.windows ? 1 : 0;
      skipped_steps += left.steps ? 1 : 0;
      if (HasFailure()) return;  // one report is enough
    }
  }
  EXPECT_GT(skipped_windows, 0) << "no run was shortened, so nothing was shown";
  if (is_zenflow) {
    EXPECT_GT(skipped_steps, 0) << "no window was shortened";
  }
}
INSTANTIATE_TEST_SUITE_P(AllSchedules, ShortenedRunOf,
                         ::testing::Range(0, 4 * static_cast<int>(schedules().size())));

// The CPU falls behind or keeps up, copies hide or not: the regimes of a larger model.
TEST(ShortenedRun, EqualsTheWholeRunInEveryRegime) {
  for (const auto& schedule : schedules()) {
    for (const double cpu : {0.05, 1.0, 10.0}) {
      for (const double link : {0.1, 1.0, 4.0}) {
        for (const std::int64_t gpus : {1, 4}) {
          for (const char* s : {"2", "4", "7", "16"}) {
            JobOptions one;
            one.gpus = gpus;
            one.reduce_bucket_size = 5'000'000;
            one.update_interval = s;
            one.select_interval = "9";
            one.warm_up = 2;
            one.run = {.warmup_steps = 5, .steps = 60};
            one.training = {.micro_batch_size_per_gpu = 4, .sequence_length = 256};
            HardwareProfile hardware = contended_node(gpus);
            hardware.host.adam_bandwidth = cpu * hardware.host.adam_bandwidth;
            hardware.host.elementwise_bandwidth = cpu * hardware.host.elementwise_bandwidth;
            hardware.host_link.pinned.h2d = link * hardware.host_link.pinned.h2d;
            hardware.host_link.pinned.d2h = link * hardware.host_link.pinned.d2h;
            for (const JobOptions& same : with_sums_on_device(*schedule, {one})) {
              SCOPED_TRACE(fmt::format("{} cpu x{} link x{} {}", schedule->name(), cpu, link,
                                       described(same)));
              expect_shortened_run_equals_whole_run(make_small_job(hardware, small_gpt2(), same),
                                                    *schedule);
              if (HasFailure()) return;
            }
            if (!schedule->name().ends_with("zenflow")) break;
          }
        }
      }
    }
  }
}

TEST(ShortenedRun, EqualsTheWholeRunWithClassesThatDiffer) {
  for (const auto& schedule : schedules()) {
    JobOptions one;
    one.gpus = 3;
    one.reduce_bucket_size = 9000;
    one.run = {.warmup_steps = 6, .steps = 40};
    HardwareProfile hardware = contended_node(3);
    hardware.host_link.switches[0].gpus = {0, 1};
    SCOPED_TRACE(schedule->name());
    expect_shortened_run_equals_whole_run(make_small_job(hardware, tiny_llama(), one), *schedule);
  }
}

// `explain` and traces show them.
TEST(Programs, OfEveryScheduleHaveOnlyNamedOperations) {
  for (const auto& schedule : schedules()) {
    JobOptions options;
    options.gpus = 2;
    options.run = {.warmup_steps = 2, .steps = 4};
    for (const JobOptions& same : with_sums_on_device(*schedule, {options})) {
      const Job job = make_small_job(contended_node(2), tiny_llama(), same);
      for (const WindowShape& shape : schedule->windows(job, 4)) {
        const Program program = schedule->build(job, std::span(&shape, 1));
        for (const TaskLabel& label : program.labels) {
          EXPECT_NE(simulated_name(label.operation), "") << schedule->name();
        }
      }
    }
  }
}

TEST(ShortenedRun, EqualsTheWholeRunFromNvme) {
  const Schedule& schedule = find_schedule("zero-infinity");
  for (const char* optimizer : {"cpu", "nvme"}) {
    for (const char* parameters : {"cpu", "nvme"}) {
      for (const std::int64_t gpus : {1, 2}) {
        JobOptions one;
        one.gpus = gpus;
        one.stage = 3;
        one.optimizer_device = optimizer;
        one.parameter_device = parameters;
        one.reduce_bucket_size = 9000;
        one.run = {.warmup_steps = 6, .steps = 40};
        SCOPED_TRACE(fmt::format("optimizer {} parameters {} N={}", optimizer, parameters, gpus));
        expect_shortened_run_equals_whole_run(make_small_job(contended_node(gpus), tiny_opt(), one),
                                              schedule);
      }
    }
  }
}

TEST(ShortenedRun, EqualsTheWholeRunOfDeepSpeedFromTheHostAndNvme) {
  for (const char* name : {"deepspeed-zero-offload", "deepspeed-zero-infinity"}) {
    for (const char* parameters : {"cpu", "nvme"}) {
      for (const std::int64_t gpus : {1, 2}) {
        JobOptions one;
        one.gpus = gpus;
        one.stage = 3;
        one.optimizer_device = "nvme";
        one.parameter_device = parameters;
        one.reduce_bucket_size = 9000;
        one.run = {.warmup_steps = 6, .steps = 40};
        SCOPED_TRACE(fmt::format("{} parameters {} N={}", name, parameters, gpus));
        Job job = make_small_job(contended_node(gpus), tiny_opt(), one);
        job.deepspeed.max_in_cpu = 1000;
        job.deepspeed.persistence_threshold = 32;  // or the small tensors would all stay
        ASSERT_GT(stage3_gathers(job).in_a_step(), 0);
        job.deepspeed.sub_group_size = 9000;
        job.deepspeed.pipeline_read = gpus == 2;
        job.deepspeed.pipeline_write = gpus == 2;
        expect_shortened_run_equals_whole_run(job, find_schedule(name));
      }
    }
  }
}

// ---- traffic and staleness ----

class TrafficOn : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(TrafficOn, ZenFlowFollowsTheClosedForm) {
  const Schedule& schedule = find_schedule("zenflow");
  for (JobOptions one : zenflow_options()) {
    if (one.gpus != GetParam()) continue;
    for (const int which_model : {0, 1}) {
      const auto s = static_cast<double>(std::stoi(one.update_interval));
      one.run = {.warmup_steps = one.warm_up + 2 * std::stoi(one.update_interval), .steps = 8};
      SCOPED_TRACE(described(one));
      const Job job = make_small_job(node(1, one.gpus), model(which_model), one);
      const SimulationResult result = simulate_schedule(job, schedule);
      const ClosedForm closed = schedule.closed_form(job);
      const double bytes = 2.0 * static_cast<double>(job.scenario.model.parameters()) /
                           static_cast<double>(one.gpus);
      expect_close(result.d2h_bytes, closed.d2h_bytes_per_step, "d2h");
      expect_close(result.h2d_bytes, closed.h2d_bytes_per_step, "h2d");
      expect_close(closed.d2h_bytes_per_step, (1 - one.topk_ratio) * bytes, "d2h by hand");
      expect_close(closed.h2d_bytes_per_step, (1 - one.topk_ratio) * bytes / s, "h2d by hand");
      expect_close(result.model_sizes, (1 - one.topk_ratio) * (1 + 1 / s), "model sizes");
      const auto delay = static_cast<std::int64_t>(one.overlap_step ? s : 0);
      EXPECT_EQ(result.staleness.min, delay);
      EXPECT_EQ(result.staleness.max, delay + static_cast<std::int64_t>(s) - 1);
      if (HasFailure()) return;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, TrafficOn, ::testing::Values(1, 2, 4));

/// Elements outside int(k C) columns, at least one, of every matrix, and outside all vectors.
double deferred_by_hand(const ModelSpec& model, double k) {
  const auto of = [&](const Layer& layer) {
    double sum = 0;
    for (const Tensor& tensor : layer.tensors) {
      if (!tensor.is_matrix()) continue;
      const auto columns = static_cast<double>(tensor.columns());
      const double selected = std::max(1.0, std::floor(k * columns + 1e-9));
      sum += static_cast<double>(tensor.rows()) * (columns - selected);
    }
    return sum;
  };
  return of(model.embedding) + static_cast<double>(model.layers()) * of(model.layer(0)) +
         of(model.head);
}

TEST(Traffic, OfLiveZenFlowFollowsTheClosedFormWhereverSumsAre) {
  const Schedule& schedule = find_schedule("live-zenflow");
  for (JobOptions one : with_sums_on_device(schedule, zenflow_options())) {
    if (one.gpus != 1) continue;
    for (const int which_model : {0, 1}) {
      const std::int64_t steps = std::stoi(one.update_interval);
      one.run = {.warmup_steps = one.warm_up + 2 * steps, .steps = 24};
      SCOPED_TRACE(described(one));
      const Job job = make_small_job(node(1, 1), model(which_model), one);
      const SimulationResult result = simulate_schedule(job, schedule);
      const ClosedForm closed = schedule.closed_form(job);
      const double deferred = deferred_by_hand(job.scenario.model, one.topk_ratio);
      const auto s = static_cast<double>(steps);
      const bool comes_down_once = one.accumulate_on_device && (steps > 1 || one.overlap_step);
      expect_close(closed.d2h_bytes_per_step, comes_down_once ? 4 * deferred / s : 2 * deferred,
                   "d2h by hand");
      expect_close(closed.h2d_bytes_per_step, 2 * deferred / s, "h2d by hand");
      expect_close(result.d2h_bytes, closed.d2h_bytes_per_step, "d2h");
      expect_close(result.h2d_bytes, closed.h2d_bytes_per_step, "h2d");
      const std::int64_t delay = one.overlap_step ? steps : 0;
      EXPECT_EQ(result.staleness.min, delay);
      EXPECT_EQ(result.staleness.max, delay + steps - 1);
      if (HasFailure()) return;
    }
  }
}

// However few steps are left out before averaging: the first windows after the full warm-up have
// nothing to upload yet, so they are no sample of the steady run.
TEST(Traffic, OfZenFlowFollowsTheClosedFormRightAfterTheWarmUp) {
  const Schedule& schedule = find_schedule("zenflow");
  for (const std::int64_t warm_up : {0, 3, 16}) {
    for (const std::int64_t skipped : {0, 2, 16}) {
      for (const bool overlap : {false, true}) {
        JobOptions one;
        one.warm_up = warm_up;
        one.overlap_step = overlap;
        one.run = {.warmup_steps = skipped, .steps = 16};
        SCOPED_TRACE(fmt::format("{} run.warmup_steps={}", described(one), skipped));
        const Job job = make_small_job(round_node(), tiny_llama(), one);
        expect_close(simulate_schedule(job, schedule).model_sizes, 1.125, "model sizes");
      }
    }
  }
}

TEST(TrafficOfTheOthers, FollowsTheClosedForm) {
  for (const auto& schedule : schedules()) {
    if (schedule->name().ends_with("zenflow")) continue;
    for (const std::int64_t gpus : {1, 2, 4}) {
      for (const std::int64_t accumulation : {1, 2, 3}) {
        for (const int stage : {2, 3}) {
          for (const int which_model : {0, 1}) {
            JobOptions one;
            one.gpus = gpus;
            one.stage = stage;
            one.accumulation = accumulation;
            one.reduce_bucket_size = 9000;
            SCOPED_TRACE(std::string(schedule->name()) + " " + described(one));
            const Job job = testing::suited_to(
                *schedule, make_small_job(contended_node(gpus), model(which_model), one));
            const SimulationResult result = simulate_schedule(job, *schedule);
            const ClosedForm closed = schedule->closed_form(job);
            expect_close(result.d2h_bytes, closed.d2h_bytes_per_step, "d2h");
            expect_close(result.h2d_bytes, closed.h2d_bytes_per_step, "h2d");
            EXPECT_EQ(result.staleness.min, closed.staleness_steps.min);
            EXPECT_EQ(result.staleness.max, closed.staleness_steps.max);
          }
        }
      }
    }
  }
}

// What a rank's part of every layer takes is counted from the model: tensors above the threshold,
// twice, but for layers that stay from forward to backward.
TEST(TrafficOfStage3, WithParametersOnTheHostFetchesThemForwardAndBackward) {
  for (const char* name : {"deepspeed-zero-offload", "deepspeed-twin-flow",
                           "deepspeed-zero-infinity", "deepspeed-super-offload"}) {
    const Schedule& schedule = find_schedule(name);
    for (const char* device : {"cpu", "nvme"}) {
      for (const std::int64_t gpus : {1, 2, 4}) {
        for (const std::int64_t accumulation : {1, 3}) {
          JobOptions one;
          one.gpus = gpus;
          one.stage = 3;
          one.accumulation = accumulation;
          one.parameter_device = device;
          one.with_zenflow = false;
          one.reduce_bucket_size = 9000;
          SCOPED_TRACE(fmt::format("{} {} {}", name, device, described(one)));
          Job job = make_small_job(contended_node(gpus), tiny_llama(), one);
          job.deepspeed.persistence_threshold = 32;  // the norms' vectors stay: 5 of 32
          job.deepspeed.max_reuse_distance = 1;      // the head alone stays: 8,192
          job.deepspeed.max_in_cpu = 1000;
          const auto g = static_cast<double>(accumulation);
          const double parameters = 34976;
          const double gathered = 2 * (parameters - 5 * 32) - 8192;
          // A micro step adds to the 16-bit running sum, and the optimizer step takes fp32
          // gradients.
          const SimulationResult result = simulate_schedule(job, schedule);
          const ClosedForm closed = schedule.closed_form(job);
          const double ranks = static_cast<double>(gpus);
          expect_close(closed.d2h_bytes_per_step, (2 + 4 / g) * parameters / ranks, "d2h by hand");
          expect_close(closed.h2d_bytes_per_step, 2 * (parameters + gathered) / ranks,
                       "h2d by hand");
          expect_close(result.d2h_bytes, closed.d2h_bytes_per_step, "d2h");
          expect_close(result.h2d_bytes, closed.h2d_bytes_per_step, "h2d");
        }
      }
    }
  }
}

TEST(TrafficOfStage3, OfZenFlowWithParametersOnTheHostFetchesThemToo) {
  const Schedule& schedule = find_schedule("deepspeed-zenflow");
  for (const bool overlap : {false, true}) {
    for (const std::int64_t gpus : {1, 2}) {
      JobOptions one;
      one.gpus = gpus;
      one.stage = 3;
      one.parameter_device = "cpu";
      one.overlap_step = overlap;
      one.warm_up = 4;
      one.select_interval = "0";
      one.run = {.warmup_steps = 8, .steps = 16};
      SCOPED_TRACE(described(one));
      Job job = make_small_job(contended_node(gpus), tiny_llama(), one);
      job.deepspeed.persistence_threshold = 32;  // the norms' vectors stay: 5 of 32
      const SimulationResult result = simulate_schedule(job, schedule);
      const ClosedForm closed = schedule.closed_form(job);
      expect_close(result.d2h_bytes, closed.d2h_bytes_per_step, "d2h");
      expect_close(result.h2d_bytes, closed.h2d_bytes_per_step, "h2d");
      // Fetched once in each step, since all that is fetched stays until backward; and an update,
      // every fourth step, sends none up: the fetches take its place.
      job.deepspeed.offload_param = OffloadDevice::kNone;
      const double fetched = (2.0 * (34976 - 5 * 32) - 2.0 * 34976 / 4) / static_cast<double>(gpus);
      expect_close(result.h2d_bytes - simulate_schedule(job, schedule).h2d_bytes, fetched,
                   "fetched by hand");
    }
  }
}

// Reads and writes share the drive, here a hundredth of the usual one: a parameter's update reads
// 16 bytes at 60 MB/s and writes 12 at 30, and backward has written 4. What is left, the passes and
// the CPU, is within 3 % of that.
TEST(DeepSpeedInfinityStep, TakesTheDriveItsReadsAndWrites) {
  JobOptions options;
  options.stage = 3;
  options.optimizer_device = "nvme";
  options.with_zenflow = false;
  options.reduce_bucket_size = 3'000'000;
  HardwareProfile hardware = contended_node(1);
  hardware.nvme->read = 0.01 * hardware.nvme->read;  // the drive decides
  hardware.nvme->write = 0.01 * hardware.nvme->write;
  hardware.nvme->latency = Seconds(0);
  Job job = make_small_job(hardware, small_gpt2(), options);
  job.deepspeed.sub_group_size = 2'000'000;
  const auto parameters = static_cast<double>(job.scenario.model.parameters());
  const Schedule& schedule = find_schedule("deepspeed-zero-infinity");
  const double drive = parameters * (4 / 0.03e9 + 16 / 0.06e9 + 12 / 0.03e9) * 1e12;
  for (const bool pipelined : {false, true}) {
    job.deepspeed.pipeline_read = pipelined;
    job.deepspeed.pipeline_write = pipelined;
    const double step = simulate_schedule(job, schedule).step_time;
    EXPECT_GE(step, drive * (1 - 1e-9));
    EXPECT_LT(step, 1.03 * drive) << pipelined;
  }
}

TEST(TrafficOfTheOthers, IsInModelSizesWhatThePapersSay) {
  const auto model_sizes = [](const char* name, std::int64_t gpus, int stage) {
    JobOptions one;
    one.gpus = gpus;
    one.stage = stage;
    const Job job = make_small_job(contended_node(gpus), tiny_llama(), one);
    return simulate_schedule(job, find_schedule(name)).model_sizes;
  };
  for (const std::int64_t gpus : {1, 2, 4}) {
    EXPECT_EQ(model_sizes("gpu-only", gpus, 2), 0.0);
    expect_close(model_sizes("zero-offload", gpus, 2), 2.0, "zero-offload");
    expect_close(model_sizes("zero-offload-dpu", gpus, 2), 2.0, "zero-offload-dpu");
    expect_close(model_sizes("zero-infinity", gpus, 3), 3.0, "zero-infinity");
    expect_close(model_sizes("zenflow", gpus, 2), 1.125, "zenflow, k = 0.1, S = 4");
  }
}

// ---- whole steps ----

/// Pieces of a step of a plan on one GPU of round_node, computed here from the formulas of
/// docs and headers, in seconds.
struct Pieces {
  double compute = 0;            ///< forward and backward
  double last_backward = 0;      ///< backward of the layers below the head
  std::vector<double> elements;  ///< of buckets
};

Pieces pieces(const Job& job) {
  const StepPlan plan = plan_step(job);
  Pieces one;
  for (const PlannedLayer& layer : plan.layers) {
    one.compute += to_seconds(layer.forward + layer.backward).value();
  }
  for (const GradientBucket& bucket : plan.buckets) one.elements.push_back(bucket.elements);
  return one;
}

// Seconds per parameter on round_node, all 32 cores, bf16, gradient cast first:
//   Adam 28 B at 160 GB/s; scale 8 B, two casts of 6 B at min(200, 32 x 10) = 200 GB/s.
constexpr double kUpdateWithCast = 28 / 160e9 + (8 + 6 + 6) / 200e9;

TEST(ZeroOffloadStep, IsTheSumOfItsPartsWithOneBucket) {
  // One bucket: nothing can be copied before the backward pass is over, and nothing overlaps.
  for (const int which_model : {0, 1, 2}) {
    const Job job = make_small_job(round_node(), model(which_model), JobOptions{});
    const Pieces one = pieces(job);
    ASSERT_EQ(one.elements.size(), 1U);
    const double parameters = static_cast<double>(job.scenario.model.parameters());
    ASSERT_EQ(one.elements[0], parameters);
    const double down = 10e-6 + 2 * parameters / 10e9;
    const double up = 10e-6 + 2 * parameters / 20e9;
    const double expected = one.compute + down + parameters * kUpdateWithCast + up;
    const SimulationResult result = simulate_schedule(job, find_schedule("zero-offload"));
    // Each of the few tasks is rounded to a picosecond.
    EXPECT_NEAR(result.step_time, expected * 1e12, 20.0);
    EXPECT_NEAR(result.compute, one.compute * 1e12, 20.0);
    using enum WaitCause;
    const auto stall = [&](WaitCause cause) {
      return result.stall_by_cause[static_cast<std::size_t>(cause)];
    };
    EXPECT_NEAR(stall(kD2H), down * 1e12, 2.0);
    EXPECT_NEAR(stall(kCpuUpdate), parameters * kUpdateWithCast * 1e12, 2.0);
    EXPECT_NEAR(stall(kH2D), up * 1e12, 2.0);
    EXPECT_EQ(stall(kLaunch), 0.0);
  }
}

TEST(ZeroOffloadStep, ExposesOnlyTheCopiesThatBackwardDoesNotHide) {
  // Several buckets: a bucket's copy starts when its last layer's backward has ended and the
  // copy before it has. The update starts when all are down, the upload when all are updated.
  JobOptions options;
  options.reduce_bucket_size = 3'000'000;
  const Job job = make_small_job(round_node(), small_gpt2(), options);
  const StepPlan plan = plan_step(job);
  ASSERT_GT(plan.buckets.size(), 5U);
  double now = 0;
  for (const PlannedLayer& layer : plan.layers) now += to_seconds(layer.forward).value();
  std::vector<double> backward_end(plan.layers.size());
  for (std::size_t layer = plan.layers.size(); layer-- > 0;) {
    now += to_seconds(plan.layers[layer].backward).value();
    backward_end[layer] = now;
  }
  double down = 0;
  double update = 0;
  double up = 0;
  for (const GradientBucket& bucket : plan.buckets) {
    down = std::max(down, backward_end[static_cast<std::size_t>(bucket.ready_layer)]) + 10e-6 +
           2 * bucket.elements / 10e9;
    update += bucket.elements * kUpdateWithCast;
    up += 10e-6 + 2 * bucket.elements / 20e9;
  }
  const SimulationResult result = simulate_schedule(job, find_schedule("zero-offload"));
  EXPECT_NEAR(result.step_time, (down + update + up) * 1e12, 100.0);
  EXPECT_NEAR(result.stall, (down - now + update + up) * 1e12, 100.0);
}

// A call a bucket; all of them are exposed.
TEST(ZeroOffloadStep, HasALaunchForEachBucketsUpdate) {
  JobOptions options;
  options.reduce_bucket_size = 3'000'000;
  Job job = make_small_job(round_node(), small_gpt2(), options);
  const double without = simulate_schedule(job, find_schedule("zero-offload")).step_time;
  job.scenario.hardware.host.adam_launch = Seconds(70e-6);
  const double with = simulate_schedule(job, find_schedule("zero-offload")).step_time;
  const auto buckets = static_cast<double>(plan_step(job).buckets.size());
  EXPECT_NEAR(with - without, buckets * 70e6, 100.0);
}

// DeepSpeed hands its optimizer the whole partition.
TEST(DeepSpeedZeroOffloadStep, HasOneLaunch) {
  JobOptions options;
  options.reduce_bucket_size = 3'000'000;
  Job job = make_small_job(round_node(), small_gpt2(), options);
  const Schedule& schedule = find_schedule("deepspeed-zero-offload");
  const double without = simulate_schedule(job, schedule).step_time;
  job.scenario.hardware.host.adam_launch = Seconds(70e-6);
  EXPECT_NEAR(simulate_schedule(job, schedule).step_time - without, 70e6, 100.0);
}

TEST(GpuOnlyStep, IsComputeAloneOnOneGpu) {
  const Job job = make_small_job(round_node(), small_gpt2(), JobOptions{});
  const double parameters = static_cast<double>(job.scenario.model.parameters());
  // Adam reads and writes fp32 weight and moments (24 B), reads the gradient and writes the
  // weight (2 + 2 B), at 0.8 x 1000 GB/s, in one kernel of 5 us.
  const double update = parameters * 28 / 800e9 + 5e-6;
  const SimulationResult result = simulate_schedule(job, find_schedule("gpu-only"));
  EXPECT_NEAR(result.step_time, (pieces(job).compute + update) * 1e12, 20.0);
  EXPECT_EQ(result.stall, 0.0);
}

/// GPU time that ZenFlow adds to a step: the selected update; k P parameters of 28 B.
double selected_update(const Job& job, double k) {
  return k * static_cast<double>(job.scenario.model.parameters()) * 28 / 800e9 + 5e-6;
}

TEST(ZenFlowWindow, IsComputeAloneWhenTheCpuKeepsUp) {
  JobOptions options;
  options.select_interval = "0";
  options.training = {.micro_batch_size_per_gpu = 8, .sequence_length = 512};
  HardwareProfile hardware = round_node();
  hardware.host.adam_bandwidth = 100 * hardware.host.adam_bandwidth;
  hardware.host.elementwise_bandwidth = 100 * hardware.host.elementwise_bandwidth;
  hardware.host.core_bandwidth = 100 * hardware.host.core_bandwidth;
  hardware.host.dram_bandwidth = 100 * hardware.host.dram_bandwidth;
  hardware.host_link.pinned.d2h = 10 * hardware.host_link.pinned.d2h;
  hardware.host_link.pinned.h2d = 10 * hardware.host_link.pinned.h2d;
  hardware.host_link.pinned.bidirectional = 10 * hardware.host_link.pinned.bidirectional;
  const Job job = make_small_job(hardware, small_gpt2(), options);
  const SimulationResult result = simulate_schedule(job, find_schedule("zenflow"));
  const double gpu = pieces(job).compute + selected_update(job, 0.1);
  EXPECT_NEAR(result.compute, gpu * 1e12, 20.0);
  // The selected columns' gradients and sums need not come down before the next step.
  EXPECT_NEAR(result.step_time, gpu * 1e12, 0.01 * gpu * 1e12);
  EXPECT_EQ(result.stall_by_cause[static_cast<std::size_t>(WaitCause::kCpuUpdate)], 0.0);
}

TEST(ZenFlowWindow, IsUpdateAndUploadWhenTheCpuIsTheBottleneck) {
  // The window before this one's sums: handed over at the boundary, updated bucket by bucket, then
  // uploaded; the swap ends the window. Nothing else is on that path, so a window lasts
  //   (1-k) P (28 B / Adam rate + (8 + 6) B / pass rate) + upload.
  // 16 of 32 cores: Adam 160 x (16/24) / (32/40) = 133.33 GB/s; passes min(200, 16 x 10) = 160.
  for (const char* s : {"2", "4", "8"}) {
    for (const double k : {0.05, 0.5}) {
      JobOptions options;
      options.update_interval = s;
      options.topk_ratio = k;
      options.select_interval = "0";
      options.run = {.warmup_steps = 32, .steps = 32};
      HardwareProfile hardware = round_node();
      constexpr double kSlow = 0.01;
      hardware.host.adam_bandwidth = kSlow * hardware.host.adam_bandwidth;
      const Job job = make_small_job(hardware, small_gpt2(), options);
      const double parameters = (1 - k) * static_cast<double>(job.scenario.model.parameters());
      const double update =
          parameters * (28 / (kSlow * 160e9 * (16.0 / 24) / (32.0 / 40)) + 14 / 160e9);
      const double upload = 10e-6 + 2 * parameters / 20e9;
      const SimulationResult result = simulate_schedule(job, find_schedule("zenflow"));
      const double steps = std::stod(s);
      EXPECT_NEAR(result.step_time, (update + upload) / steps * 1e12,
                  1e-6 * update / steps * 1e12 + 20.0)
          << "S=" << s << " k=" << k;
    }
  }
}

TEST(ZenFlowWindow, WithoutOverlapWaitsForTheUpdateAtItsEnd) {
  // S steps of compute, the last one's copy and sum exposed, then update and upload, all cores.
  JobOptions options;
  options.overlap_step = false;
  options.select_interval = "0";
  const Job job = make_small_job(round_node(), small_gpt2(), options);
  const double k = options.topk_ratio;
  const double parameters = (1 - k) * static_cast<double>(job.scenario.model.parameters());
  const double down = 10e-6 + 2 * parameters / 10e9;
  const double sum = parameters * 10 / 200e9;
  const double update = parameters * (28 / 160e9 + 14 / 200e9);
  const double upload = 10e-6 + 2 * parameters / 20e9;
  const double gpu = pieces(job).compute;
  const double selected = selected_update(job, k);
  // The copy of a step is far longer than its compute here, and the next copy waits for the
  // sum that reads the staging buffer. The last step's selected update runs beside its copy.
  const double chain = down + sum;
  ASSERT_GT(chain, gpu + selected);
  const double window = gpu + 4 * chain + update + upload;
  const SimulationResult result = simulate_schedule(job, find_schedule("zenflow"));
  EXPECT_NEAR(4 * result.step_time, window * 1e12, 100.0);
}

}  // namespace
}  // namespace zenflow::sim
