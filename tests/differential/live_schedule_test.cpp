// The live schedules against the runtime that they describe, and fits to runs that they simulate
// against the profile that was simulated.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/model_config/parameters.h"
#include "runtime/offload/traffic.h"
#include "sim/base/error.h"
#include "sim/calibrate/live_fit.h"
#include "sim/cost/cpu_cost.h"
#include "sim/cost/gpu_cost.h"
#include "sim/memory/trainer_activations.h"
#include "sim/schedule/live_layout.h"
#include "sim/schedule/live_work.h"
#include "sim/simulate/simulated_timeline.h"
#include "sim/simulate/simulation.h"
#include "sim/trace/recorded_run.h"
#include "tests/support/error_of.h"
#include "tests/support/scattered_run.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using namespace literals;
using testing::JobOptions;
using testing::make_small_job;

ModelSpec model(const std::string& name) {
  return load_model(fmt::format("{}/scenarios/{}", ZENFLOW_SOURCE_DIR, name));
}

const char* const kModels[] = {"training/llama_3m.json", "models/opt_125m.json",
                               "models/llama2_7b.json"};

TEST(LiveLayers, AreTheRuntimes) {
  for (const char* name : kModels) {
    const ModelSpec spec = model(name);
    const runtime::ParameterTable table = runtime::parameter_table(spec, {});
    for (const double k : {0.0, 0.003, 0.1, 0.3, 0.77, 1.0}) {
      const runtime::Layout layout = runtime::make_layout(table, k, k >= 1, 0, 1);
      const std::vector<LiveLayer> layers = live_layers(spec, k);
      ASSERT_EQ(layers.size(), layout.groups.size());
      for (std::size_t g = 0; g < layers.size(); ++g) {
        double selected = 0;
        double elements = 0;
        const runtime::GroupRange& range = layout.groups[g];
        ASSERT_EQ(layers[g].tensors.size(), range.slices);
        for (std::size_t s = 0; s < range.slices; ++s) {
          const runtime::Slice& slice = layout.slices[range.first_slice + s];
          EXPECT_EQ(layers[g].tensors[s].selectable(), slice.selectable);
          selected += static_cast<double>(slice.rows * slice.selected);
          elements += static_cast<double>(slice.elements());
        }
        EXPECT_EQ(layers[g].selected_elements(), selected) << name << " k=" << k << " group " << g;
        EXPECT_EQ(layers[g].elements(), elements);
      }
    }
  }
}

/// What windows look like.
struct Windows {
  double topk_ratio;
  std::int64_t interval;
  bool overlap;
  bool accumulate_on_device;
};

std::vector<Windows> all_windows() {
  std::vector<Windows> all;
  for (const double k : {0.03, 0.1, 0.5}) {
    for (const std::int64_t s : {1, 3, 4}) {
      for (const bool overlap : {false, true}) {
        for (const bool on_device : {false, true}) all.push_back({k, s, overlap, on_device});
      }
    }
  }
  return all;
}

JobOptions options_of(const Windows& windows) {
  JobOptions options;
  options.topk_ratio = windows.topk_ratio;
  options.update_interval = std::to_string(windows.interval);
  options.overlap_step = windows.overlap;
  options.accumulate_on_device = windows.accumulate_on_device;
  return options;
}

TEST(LiveSchedules, MoveTheRuntimesBytes) {
  const ModelSpec spec = model(kModels[0]);
  const runtime::ParameterTable table = runtime::parameter_table(spec, {});
  for (const auto& [type, dtype] : {std::pair(runtime::ElementType::kBfloat16, DType::kBf16),
                                    std::pair(runtime::ElementType::kFloat32, DType::kFp32)}) {
    for (const Windows& windows : all_windows()) {
      JobOptions options = options_of(windows);
      options.training.dtype = dtype;
      const Job job = make_small_job(testing::round_node(1), spec, options);
      const SimulationResult result = simulate_schedule(job, find_schedule("live-zenflow"));
      runtime::OffloadSettings settings;
      settings.topk_ratio = windows.topk_ratio;
      settings.update_interval = windows.interval;
      settings.overlap_step = windows.overlap;
      settings.accumulate_on_device = windows.accumulate_on_device;
      const runtime::LinkBytes bytes =
          window_traffic(runtime::make_layout(table, windows.topk_ratio, false, 0, 1), type,
                         settings, windows.interval);
      const auto s = static_cast<double>(windows.interval);
      EXPECT_DOUBLE_EQ(result.d2h_bytes * s, static_cast<double>(bytes.d2h));
      EXPECT_DOUBLE_EQ(result.h2d_bytes * s, static_cast<double>(bytes.h2d));
      EXPECT_EQ(result.staleness.max, windows.interval * (windows.overlap ? 2 : 1) - 1);
    }
  }
}

/// A run's tasks of one operation, by window, with their times.
class TasksOf {
 public:
  TasksOf(const FullRun& run, Operation operation) : run_(run), operation_(operation) {}

  [[nodiscard]] std::vector<TaskId> in(std::size_t window) const {
    std::vector<TaskId> found;
    const TaskId end = run_.program.windows[window + 1].first;
    for (TaskId id = run_.program.windows[window].first; id < end; ++id) {
      if (run_.program.labels[id].operation == operation_) found.push_back(id);
    }
    return found;
  }

 private:
  const FullRun& run_;
  Operation operation_;
};

/// engine_step.cpp and engine_window.cpp, in the order in which they enqueue: nothing leaves before
/// a window's last compute; then the sums do, embedding first; an update waits for its layer's,
/// the next window's first sum for all.
TEST(LiveSchedules, SumsOnTheDeviceLeaveWhenTheirWindowIsOver) {
  const ModelSpec spec = model(kModels[0]);
  const std::size_t layers = static_cast<std::size_t>(spec.layers()) + 2;
  HardwareProfile node = testing::round_node(1);
  node.host_link.pinned.d2h = 0.2_GBps;  // so that the link is what is waited for
  bool has_waited = false;
  for (const Windows& windows : all_windows()) {
    if (!windows.accumulate_on_device || (windows.interval == 1 && !windows.overlap)) continue;
    SCOPED_TRACE(
        fmt::format("k={} S={} {}", windows.topk_ratio, windows.interval, windows.overlap));
    JobOptions options = options_of(windows);
    options.select_interval = "0";
    const Job job = make_small_job(node, spec, options);
    const FullRun run = simulate_fully(job, find_schedule("live-zenflow"));
    const std::vector<Span>& spans = run.execution.spans;
    const std::vector<LiveLayer> cut = live_layers(spec, windows.topk_ratio);
    std::vector<std::size_t> crossing;  // not the head, a norm whose matrix is the embedding's
    for (std::size_t l = 0; l < layers; ++l) {
      if (cut[l].deferred_elements() > 0) crossing.push_back(l);
    }
    ASSERT_EQ(crossing.size(), layers - 1);
    std::size_t seen = 0;
    for (std::size_t w = run.measured_begin; w + 1 < run.measured_end; ++w, ++seen) {
      EXPECT_TRUE(TasksOf(run, Operation::kAccumulate).in(w).empty());
      const std::vector<TaskId> sums = TasksOf(run, Operation::kGpuAccumulate).in(w);
      const std::vector<TaskId> copies = TasksOf(run, Operation::kGradientSumsDown).in(w);
      ASSERT_EQ(sums.size(), static_cast<std::size_t>(windows.interval));
      ASSERT_EQ(copies.size(), crossing.size());
      // The last compute of the step is the update of selected columns; then the sums are carried.
      TaskId last_compute = sums.back();
      for (const TaskId id : TasksOf(run, Operation::kUpdateSelected).in(w)) {
        last_compute = std::max(last_compute, id);
      }
      EXPECT_GT(last_compute, sums.back());
      for (std::size_t i = 0; i < crossing.size(); ++i) {
        const TaskLabel& label = run.program.labels[copies[i]];
        EXPECT_EQ(label.bytes, 4 * cut[crossing[i]].deferred_elements());
        EXPECT_EQ(label.index, static_cast<std::int32_t>(layers - 1 - crossing[i]));
        EXPECT_GE(spans[copies[i]].start, spans[last_compute].end);
      }
      // With overlap the window's update runs in the next one.
      const std::vector<TaskId> updates =
          TasksOf(run, Operation::kCpuUpdate).in(windows.overlap ? w + 1 : w);
      ASSERT_EQ(updates.size(), crossing.size());
      for (std::size_t i = 0; i < crossing.size(); ++i) {
        EXPECT_GE(spans[updates[i]].start, spans[copies[i]].end);
      }
      const TaskId next_sum = TasksOf(run, Operation::kGpuAccumulate).in(w + 1).front();
      EXPECT_GE(spans[next_sum].start, spans[copies.back()].end);
      has_waited = has_waited || spans[next_sum].start == spans[copies.back()].end;
    }
    EXPECT_GT(seen, 1U);
  }
  EXPECT_TRUE(has_waited);
}

/// The link carries a window's sums, then the device adds to them anew and updates what is
/// selected, and the next ones leave; all else is hidden.
TEST(LiveSchedules, StepsAreAsLongAsTheLinkNeedsForTheSumsOfTheDevice) {
  const ModelSpec spec = model(kModels[0]);
  HardwareProfile node = testing::round_node(1);
  node.host_link.pinned.d2h = 0.2_GBps;
  const Windows windows{0.1, 1, true, true};
  JobOptions options = options_of(windows);
  options.select_interval = "0";
  const Job job = make_small_job(node, spec, options);
  double down = 0;
  double deferred = 0;
  double selected = 0;
  double kernels = 0;
  double picked = 0;
  for (const LiveLayer& layer : live_layers(spec, windows.topk_ratio)) {
    if (layer.deferred_elements() > 0) down += 10e-6 + 4 * layer.deferred_elements() / 0.2e9;
    deferred += layer.deferred_elements();
    selected += layer.selected_elements();
    for (const LiveTensor& tensor : layer.tensors) {
      kernels += 1;
      const ColumnChoice choice{tensor.rows, tensor.columns, tensor.selected};
      picked += tensor.selectable() ? scatter_traffic(node.gpu, DType::kBf16, choice).value()
                                    : 2 * 2 * static_cast<double>(tensor.elements());
    }
  }
  const double streams = 0.8 * 1000e9;
  // The first sum of a window reads 2 bytes and writes 4. AdamW of selected columns reads 2 bytes
  // of gradient, reads and writes 12 of state, and writes the weights in their places.
  const double sum = 6 * deferred / streams + 5e-6;
  const double update = (26 * selected + picked) / streams + kernels * 5e-6;
  const SimulationResult result = simulate_schedule(job, find_schedule("live-zenflow"));
  EXPECT_NEAR(result.step_time * 1e-12, down + sum + update, 1e-9);
  const auto waits = result.stall_by_cause[static_cast<std::size_t>(WaitCause::kD2H)];
  EXPECT_GT(waits, 0.5 * result.step_time);
}

/// On the GPU 4 bytes of every deferred element where there are sums at all, and none elsewhere;
/// all else is held as without.
TEST(LiveSchedules, SumsOnTheDeviceTakeFourBytesOfEachElement) {
  const ModelSpec spec = model(kModels[0]);
  for (const Windows& windows : all_windows()) {
    if (windows.accumulate_on_device) continue;
    const auto memory = [&](bool on_device) {
      JobOptions options = options_of(windows);
      options.accumulate_on_device = on_device;
      return simulate_schedule(make_small_job(testing::round_node(1), spec, options),
                               find_schedule("live-zenflow"))
          .memory;
    };
    double deferred = 0;
    for (const LiveLayer& layer : live_layers(spec, windows.topk_ratio)) {
      deferred += layer.deferred_elements();
    }
    const bool has_sums = windows.interval > 1 || windows.overlap;
    EXPECT_EQ(memory(true).gpu.total - memory(false).gpu.total, has_sums ? 4 * deferred : 0);
    EXPECT_EQ(memory(true).host.total, memory(false).host.total);
  }
}

/// Passes of a step: forward of all layers, then backward of all.
TEST(LiveSchedules, AStepHasAllItsMicroBatches) {
  for (const char* name : {"live-gpu-only", "live-zero-offload", "live-zenflow"}) {
    JobOptions options;
    options.update_interval = "2";
    Job job = make_small_job(testing::round_node(1), model(kModels[0]), options);
    const FullRun once = simulate_fully(job, find_schedule(name));
    const SimulationResult one = simulate_schedule(job, find_schedule(name));
    job.deepspeed.gradient_accumulation_steps = 3;
    const FullRun thrice = simulate_fully(job, find_schedule(name));
    const SimulationResult three = simulate_schedule(job, find_schedule(name));
    const auto tasks = [](const FullRun& run, Operation phase) {
      return std::count_if(run.program.labels.begin(), run.program.labels.end(),
                           [&](const TaskLabel& label) { return label.operation == phase; });
    };
    EXPECT_EQ(thrice.program.step_markers.size(), once.program.step_markers.size());
    for (const Operation phase : {Operation::kForward, Operation::kBackward}) {
      EXPECT_EQ(tasks(thrice, phase), 3 * tasks(once, phase)) << name;
    }
    for (const Operation phase :
         {Operation::kGradientsDown, Operation::kWeightsUp, Operation::kPlaceWeights,
          Operation::kAccumulate, Operation::kCpuUpdate, Operation::kPackGradients,
          Operation::kUpdateSelected, Operation::kCarrySelected, Operation::kSelect}) {
      EXPECT_EQ(tasks(thrice, phase), tasks(once, phase)) << name << simulated_name(phase);
    }
    EXPECT_EQ(three.d2h_bytes, one.d2h_bytes);
    EXPECT_EQ(three.h2d_bytes, one.h2d_bytes);
    EXPECT_EQ(three.staleness.max, one.staleness.max);
    // Three times the tokens in a step's time.
    EXPECT_NEAR(three.tokens_per_second * three.step_time,
                3 * one.tokens_per_second * one.step_time, 1e-6 * one.step_time);
  }
}

/// Without gradients on their way: all of them, b P, where micro-batches add up.
TEST(LiveSchedules, AccumulationGivesEveryGradientAPlace) {
  Job job = make_small_job(testing::round_node(1), model(kModels[0]), JobOptions{});
  const auto gradients = [&job] {
    const FullRun run = simulate_fully(job, find_schedule("live-zero-offload"));
    const std::vector<double> largest = largest_sizes(run.program, run.execution);
    for (std::size_t i = 0; i < largest.size(); ++i) {
      if (run.program.buffers[i].name == "gradients") return largest[i];
    }
    return 0.0;
  };
  const auto all = static_cast<double>(job.scenario.model.parameters());
  EXPECT_LT(gradients(), 2 * all / 2);
  job.deepspeed.gradient_accumulation_steps = 2;
  EXPECT_EQ(gradients(), 2 * all);
}

TEST(LiveSchedules, CheckpointingRunsAllBlocksButTheLastAgain) {
  Job job = make_small_job(testing::round_node(1), model(kModels[0]), JobOptions{});
  const SimulationResult kept = simulate_schedule(job, find_schedule("live-gpu-only"));
  job.scenario.training.activation_checkpointing = true;
  const SimulationResult again = simulate_schedule(job, find_schedule("live-gpu-only"));
  const ModelTime time =
      model_time(job.scenario.hardware.gpu, job.scenario.model, live_training(job));
  const auto blocks = static_cast<double>(job.scenario.model.layers() - 1);
  EXPECT_NEAR(again.compute - kept.compute,
              blocks * static_cast<double>(to_picoseconds(time.kinds[0].forward).count), blocks);
  const TrainerActivations bytes = trainer_activations(job.scenario.model, job.scenario.training);
  EXPECT_EQ(again.memory.gpu.by_category[static_cast<std::size_t>(MemoryCategory::kActivations)],
            bytes.kept.value() + bytes.work.value());
}

/// A machine on which compute, copies and the CPU's passes do not disturb each other.
HardwareProfile quiet_node() {
  HardwareProfile node = testing::round_node(1);
  node.gpu.memory_bandwidth = 1000.0_GBps;
  node.gpu.column_efficiency = 0.3;
  node.host_link.pinned = {20.0_GBps, 10.0_GBps, 30.0_GBps};
  node.host.core_bandwidth = 10.0_GBps;
  node.host.elementwise_bandwidth = 400.0_GBps;
  node.host.dram_bandwidth = 4000.0_GBps;
  return node;
}

struct Recorded {
  Job job;
  std::string schedule;
  Timeline timeline;
};

Recorded record(const HardwareProfile& machine, const std::string& schedule, JobOptions options) {
  options.training.sequence_length = 512;
  Job job = make_small_job(machine, model(kModels[1]), options);
  const FullRun run = simulate_fully(job, find_schedule(schedule));
  Timeline timeline = simulated_timeline(job, schedule, run);
  return {std::move(job), schedule, std::move(timeline)};
}

Recorded record(const HardwareProfile& machine, const std::string& schedule, double k,
                const std::string& s) {
  JobOptions options;
  options.topk_ratio = k;
  options.update_interval = s;
  return record(machine, schedule, options);
}

const FittedNumber& number(const LiveFit& fit, const std::string& path) {
  for (const FittedNumber& one : fit.numbers) {
    if (one.path == path) return one;
  }
  throw std::runtime_error("no number " + path);
}

TEST(LiveFit, RecoversTheProfileThatWasSimulated) {
  HardwareProfile truth = quiet_node();
  truth.host.adam_launch = 25.0_us;
  HardwareProfile base = truth;
  base.host.adam_launch = Seconds(0);
  base.gpu.gemm_efficiency = 0.9;
  base.gpu.attention_efficiency = 0.1;
  base.gpu.elementwise_efficiency = 0.2;
  base.gpu.streaming_efficiency = 0.3;
  base.gpu.column_efficiency = 0.9;
  base.gpu.kernel_launch = 1.0_us;
  base.host.adam_bandwidth = 50.0_GBps;
  base.host.core_bandwidth = 3.0_GBps;
  base.host_link.pinned = {5.0_GBps, 5.0_GBps, 10.0_GBps};
  base.host_link.latency = 100.0_us;

  std::vector<Recorded> runs;
  runs.push_back(record(truth, "live-zero-offload", 0.1, "4"));
  runs.push_back(record(truth, "live-zenflow", 0.1, "4"));
  std::vector<LiveRecording> recordings;
  for (Recorded& run : runs) {
    run.job.scenario.hardware = base;
    recordings.push_back({&run.job, run.schedule, &run.timeline, 8});
  }
  const LiveFit fit = fit_live(recordings);

  const auto near = [](double found, double expected) {
    return std::abs(found / expected - 1) < 0.01;
  };
  const auto check = [&](const char* path, double found, double expected) {
    const FittedNumber& one = number(fit, path);
    EXPECT_TRUE(!one.fitted || near(found, expected)) << path << " " << found << " " << expected;
    return one.fitted;
  };
  const GpuProfile& gpu = fit.profile.gpu;
  EXPECT_TRUE(check("gpu.streaming_efficiency", gpu.streaming_efficiency, 0.8));
  EXPECT_TRUE(check("gpu.column_efficiency", *gpu.column_efficiency, 0.3));
  EXPECT_TRUE(check("gpu.kernel_launch", gpu.kernel_launch.value(), 5e-6));
  EXPECT_TRUE(check("gpu.gemm_efficiency", gpu.gemm_efficiency, 0.5));
  EXPECT_TRUE(check("gpu.elementwise_efficiency", gpu.elementwise_efficiency, 0.5));
  EXPECT_TRUE(check("host_link.d2h", fit.profile.host_link.pinned.d2h.value(), 10e9));
  EXPECT_TRUE(check("host_link.h2d", fit.profile.host_link.pinned.h2d.value(), 20e9));
  EXPECT_TRUE(check("host_link.latency", fit.profile.host_link.latency.value(), 10e-6));
  EXPECT_TRUE(check("host.adam_bandwidth", fit.profile.host.adam_bandwidth.value(), 160e9));
  EXPECT_TRUE(check("host.adam_launch", fit.profile.host.adam_launch.value(), 25e-6));
  EXPECT_TRUE(check("host.core_bandwidth", fit.profile.host.core_bandwidth.value(), 10e9));
  // Bound by memory at this size, so this may stay as it was; if it is fitted, it is right.
  check("gpu.attention_efficiency", gpu.attention_efficiency, 0.25);
}

// One number of threads tells the rate at it; two tell how the rate grows with them.
TEST(LiveFit, TellsCpuAdamsThreadsApartOnceTheyDiffer) {
  HardwareProfile truth = quiet_node();
  truth.host.adam_half_cores = 5;
  HardwareProfile base = truth;
  base.host.adam_bandwidth = 50.0_GBps;
  base.host.adam_half_cores = 2;
  std::vector<Recorded> runs;
  for (const double reserved : {0.5, 0.75}) {
    JobOptions options;
    options.reserved = reserved;
    runs.push_back(record(truth, "live-zenflow", options));
    const auto cores = static_cast<double>(truth.host.cores);
    RecordedRun run;
    run.optimizer_threads = static_cast<int>(std::lround((1 - reserved) * cores));
    run.sum_threads = static_cast<int>(std::lround(reserved * cores));
    write_recorded_run(runs.back().timeline, run);
  }
  const auto fit_of = [&](std::size_t count) {
    std::vector<LiveRecording> recordings;
    for (std::size_t i = 0; i < count; ++i) {
      runs[i].job.scenario.hardware = base;
      recordings.push_back({&runs[i].job, runs[i].schedule, &runs[i].timeline, 8});
    }
    LiveFit fit = fit_live(recordings);
    add_unidentified(base, fit.numbers);
    return fit;
  };
  const LiveFit both = fit_of(2);
  EXPECT_NEAR(both.profile.host.adam_half_cores / 5, 1, 0.01);
  EXPECT_NEAR(both.profile.host.adam_bandwidth.value() / 160e9, 1, 0.01);
  EXPECT_TRUE(number(both, "host.adam_half_cores").fitted);
  const FittedNumber one = number(fit_of(1), "host.adam_half_cores");
  EXPECT_FALSE(one.fitted);
  EXPECT_NE(one.reason.find("one number of optimizer threads"), std::string::npos);
  EXPECT_FALSE(number(both, "host.dram_bandwidth").reason.empty());
}

// Twice the threads are twice as fast, or no faster: how far the limit is, or how near, is not
// told, but the rates on these threads are.
TEST(LiveFit, KnowsTheRatesOnThreadsThatDoNotTellTheirLimit) {
  for (const double half : {1e6, 1e-3}) {
    HardwareProfile truth = quiet_node();
    truth.host.adam_half_cores = half;
    HardwareProfile base = truth;
    base.host.adam_bandwidth = 50.0_GBps;
    base.host.adam_half_cores = 6;
    std::vector<Recorded> runs;
    std::vector<LiveRecording> recordings;
    for (const double reserved : {0.5, 0.75}) {
      JobOptions options;
      options.reserved = reserved;
      runs.push_back(record(truth, "live-zenflow", options));
    }
    for (Recorded& run : runs) {
      run.job.scenario.hardware = base;
      recordings.push_back({&run.job, run.schedule, &run.timeline, 8});
    }
    const LiveFit fit = fit_live(recordings);
    const FittedNumber found = number(fit, "host.adam_half_cores");
    EXPECT_TRUE(found.adjusted || found.fitted);
    EXPECT_TRUE(number(fit, "host.adam_bandwidth").fitted);
    for (const double cores : {8.0, 16.0}) {
      EXPECT_NEAR(adam_rate(fit.profile.host, cores) / adam_rate(truth.host, cores), 1, 0.01)
          << half << " " << cores;
    }
  }
}

/// Two cores, one of which computes: copies, sums and updates take from each other and from it.
HardwareProfile two_cores() {
  HardwareProfile node = quiet_node();
  node.gpu.host_cores = 1;
  node.host.cores = 2;
  node.host.adam_half_cores = 0.5;
  node.host.adam_bandwidth = 60.0_GBps;
  return node;
}

// Times of threads that share cores hold each other's slowdown, and a simulation slows them down
// itself.
TEST(LiveFit, FreesRatesOfAHostDeviceFromSharingItsCores) {
  const HardwareProfile truth = two_cores();
  HardwareProfile base = truth;
  base.host.adam_bandwidth = 30.0_GBps;
  base.host.core_bandwidth = 3.0_GBps;
  base.gpu.gemm_efficiency = 0.9;
  base.host_link.pinned = {5.0_GBps, 5.0_GBps, 10.0_GBps};
  JobOptions options;
  options.reserved = 0.5;
  std::vector<Recorded> runs;
  runs.push_back(record(truth, "live-zero-offload", options));
  options.update_interval = "1";
  runs.push_back(record(truth, "live-zenflow", options));
  std::vector<LiveRecording> recordings;
  for (Recorded& run : runs) {
    run.job.scenario.hardware = base;
    recordings.push_back({&run.job, run.schedule, &run.timeline, 8});
  }
  const LiveFit shared = fit_as_recorded(recordings);
  const LiveFit fit = fit_live(recordings);
  double shared_error = 0;
  double error = 0;
  for (const auto& [k, s] : {std::pair(0.3, "2"), std::pair(0.05, "8"), std::pair(0.5, "4")}) {
    options.topk_ratio = k;
    options.update_interval = s;
    const auto step = [&](const HardwareProfile& machine) {
      const Job job = make_small_job(machine, model(kModels[1]), options);
      return simulate_schedule(job, find_schedule("live-zenflow")).step_time;
    };
    shared_error += std::abs(step(shared.profile) / step(truth) - 1);
    error += std::abs(step(fit.profile) / step(truth) - 1);
  }
  EXPECT_GT(shared_error / 3, 0.05) << "else there is nothing to free";
  EXPECT_LT(error / 3, 0.005);
  EXPECT_LT(shared.profile.host.adam_bandwidth.value(), 0.98 * 60e9);
  EXPECT_NEAR(fit.profile.host.adam_bandwidth.value() / 60e9, 1, 0.01);
  // What it says is what the profile has.
  EXPECT_NEAR(number(fit, "host.adam_bandwidth").value,
              fit.profile.host.adam_bandwidth.value() / 1e9, 1e-9);
}

/// Copies, updates and sums that run at once get less than each alone: of DRAM, and of the link.
HardwareProfile contended_live_node() {
  HardwareProfile node = quiet_node();
  node.host.adam_launch = 25.0_us;
  node.host.adam_bandwidth = 120.0_GBps;
  node.host.core_bandwidth = 4.0_GBps;
  node.host.dram_bandwidth = 150.0_GBps;
  node.host.elementwise_bandwidth = 140.0_GBps;
  node.host_link.pinned = {20.0_GBps, 10.0_GBps, 22.0_GBps};
  return node;
}

/// Runs of zero-offload, whose updates run beside uploads, and of zenflow at two settings.
std::vector<Recorded> contended_runs(const HardwareProfile& truth) {
  std::vector<Recorded> runs;
  runs.push_back(record(truth, "live-zero-offload", 0.1, "4"));
  runs.push_back(record(truth, "live-zenflow", 0.1, "4"));
  runs.push_back(record(truth, "live-zenflow", 0.1, "2"));
  return runs;
}

HardwareProfile far_from(HardwareProfile truth, BytesPerSecond dram) {
  truth.host.adam_launch = Seconds(0);
  truth.host.adam_bandwidth = 50.0_GBps;
  truth.host.core_bandwidth = 3.0_GBps;
  truth.host.dram_bandwidth = dram;
  truth.host_link.pinned = {15.0_GBps, 15.0_GBps, 30.0_GBps};
  truth.host_link.latency = 30.0_us;
  return truth;
}

LiveFit fit_of(std::vector<Recorded>& runs, const HardwareProfile& base) {
  std::vector<LiveRecording> recordings;
  for (Recorded& run : runs) {
    run.job.scenario.hardware = base;
    recordings.push_back({&run.job, run.schedule, &run.timeline, 8});
  }
  return fit_live(recordings);
}

const std::map<std::string, double>& contended_numbers() {
  static const std::map<std::string, double> numbers = {
      {"host.adam_bandwidth", 120}, {"host.adam_launch", 25},       {"host.core_bandwidth", 4},
      {"host.dram_bandwidth", 150}, {"host_link.h2d", 20},          {"host_link.d2h", 10},
      {"host_link.latency", 10},    {"host_link.bidirectional", 22}};
  return numbers;
}

// Whatever the base says of DRAM: less than it carries, or so much that it bounds nothing.
TEST(LiveFit, TellsUpdatesAloneAndBesideCopies) {
  const HardwareProfile truth = contended_live_node();
  std::vector<Recorded> runs = contended_runs(truth);
  for (const BytesPerSecond dram : {140.0_GBps, 4000.0_GBps}) {
    const LiveFit fit = fit_of(runs, far_from(truth, dram));
    for (const auto& [path, expected] : contended_numbers()) {
      const FittedNumber one = number(fit, path);
      EXPECT_TRUE(one.fitted) << path << ": " << one.reason;
      EXPECT_NEAR(one.value / expected, 1, 0.01) << path;
      EXPECT_GE(one.samples, 3U) << path;
    }
  }
}

// Nothing is slowed: DRAM is not told, and stays.
TEST(LiveFit, KeepsDramThatBoundsNothing) {
  const HardwareProfile truth = quiet_node();
  std::vector<Recorded> runs = contended_runs(truth);
  const HardwareProfile base = far_from(truth, 3000.0_GBps);
  const LiveFit fit = fit_of(runs, base);
  EXPECT_FALSE(number(fit, "host.dram_bandwidth").fitted);
  EXPECT_FALSE(number(fit, "host.dram_bandwidth").reason.empty());
  EXPECT_EQ(fit.profile.host.dram_bandwidth, base.host.dram_bandwidth);
  EXPECT_NEAR(fit.profile.host.adam_bandwidth.value() / 160e9, 1, 0.01);
}

Timeline scattered(const Job& job, const std::string& schedule, double noise, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, noise);
  const FullRun run = testing::scattered(simulate_fully(job, find_schedule(schedule)),
                                         [&](TaskId) { return std::exp(normal(random)); });
  return simulated_timeline(job, schedule, run);
}

// Within two standard errors in about 95 of 100 cases.
TEST(LiveFit, StandardErrorsSayHowFarOffItIs) {
  const HardwareProfile truth = contended_live_node();
  std::map<std::string, int> within;
  constexpr int kCases = 60;
  for (int i = 0; i < kCases; ++i) {
    std::vector<Recorded> runs = contended_runs(truth);
    for (std::size_t r = 0; r < runs.size(); ++r) {
      runs[r].timeline = scattered(runs[r].job, runs[r].schedule, 0.05,
                                   static_cast<std::uint64_t>(i) * runs.size() + r);
    }
    const LiveFit fit = fit_of(runs, far_from(truth, 4000.0_GBps));
    for (const auto& [path, expected] : contended_numbers()) {
      const FittedNumber one = number(fit, path);
      ASSERT_TRUE(one.fitted) << path << ": " << one.reason;
      within[path] += std::abs(one.value - expected) < 2 * one.standard_error ? 1 : 0;
    }
  }
  for (const auto& [path, count] : within) {
    EXPECT_GE(count, kCases * 85 / 100) << path;
  }
}

// Rates above the base profile's peak and bandwidth: shares move with them, fitted or not.
TEST(LiveFit, WritesTheProfileThatItFound) {
  const std::string file = std::string(ZENFLOW_SOURCE_DIR) + "/profiles/this_host.yaml";
  Node base = load_document(file);
  set_path(base, "gpu.peak.fp32.value", "20 GFLOPS");
  set_path(base, "gpu.memory_bandwidth.value", "2 GB/s");
  const HardwareProfile slow = read_hardware_profile(base);
  HardwareProfile truth = read_hardware_profile(load_document(file));
  truth.host_link.pinned.h2d = 20.0_GBps;
  Recorded run = record(truth, "live-zenflow", 0.1, "4");
  run.job.scenario.hardware = slow;
  const LiveFit fit = fit_live({{&run.job, run.schedule, &run.timeline, 8}});
  const std::string text = fitted_profile_text(base, fit, "null", "a test");
  const HardwareProfile read = read_hardware_profile(parse_yaml(text, "fitted.yaml"));
  EXPECT_EQ(read.name, "null");
  run.job.scenario.hardware = fit.profile;
  const SimulationResult found = simulate_schedule(run.job, find_schedule("live-zenflow"));
  run.job.scenario.hardware = read;
  const SimulationResult written = simulate_schedule(run.job, find_schedule("live-zenflow"));
  EXPECT_NEAR(written.step_time / found.step_time, 1, 1e-4);  // six digits are written
  EXPECT_NEAR(
      read.gpu.attention_efficiency * read.gpu.peak.at(DType::kFp32).value() /
          (fit.profile.gpu.attention_efficiency * fit.profile.gpu.peak.at(DType::kFp32).value()),
      1, 1e-4);
  EXPECT_NEAR(read.host_link.pinned.bidirectional.value() /
                  fit.profile.host_link.pinned.bidirectional.value(),
              1, 1e-4);
}

TEST(LiveFit, RecoversTheProfileWithSumsOnTheDevice) {
  const HardwareProfile truth = quiet_node();
  for (const bool overlap : {false, true}) {
    JobOptions options;
    options.overlap_step = overlap;
    options.accumulate_on_device = true;
    Recorded run = record(truth, "live-zenflow", options);
    HardwareProfile& base = run.job.scenario.hardware;
    base.gpu.streaming_efficiency = 0.3;
    base.gpu.kernel_launch = 1.0_us;
    base.host.adam_bandwidth = 50.0_GBps;
    base.host_link.pinned = {5.0_GBps, 5.0_GBps, 10.0_GBps};
    const LiveFit fit = fit_live({{&run.job, run.schedule, &run.timeline, 8}});
    EXPECT_NEAR(fit.profile.gpu.streaming_efficiency, 0.8, 0.008);
    EXPECT_NEAR(fit.profile.gpu.kernel_launch.value() / 5e-6, 1, 0.01);
    EXPECT_NEAR(fit.profile.host.adam_bandwidth.value() / 160e9, 1, 0.01);
    EXPECT_NEAR(fit.profile.host_link.pinned.d2h.value() / 10e9, 1, 0.01);
    EXPECT_NEAR(fit.profile.host_link.pinned.h2d.value() / 20e9, 1, 0.01);
    // There are no sums on the CPU that could tell how fast those would be.
    EXPECT_FALSE(number(fit, "host.core_bandwidth").fitted);
  }
}

/// Where the device is the host one of its cores adds up, as it would on the other side of the
/// link.
TEST(LiveFit, RecoversTheCoresRateFromSumsOnTheHostDevice) {
  HardwareProfile truth = quiet_node();
  truth.gpu.host_cores = 1;
  JobOptions options;
  options.accumulate_on_device = true;
  Recorded run = record(truth, "live-zenflow", options);
  run.job.scenario.hardware.host.core_bandwidth = 3.0_GBps;
  const LiveFit fit = fit_live({{&run.job, run.schedule, &run.timeline, 8}});
  EXPECT_TRUE(number(fit, "host.core_bandwidth").fitted);
  EXPECT_NEAR(fit.profile.host.core_bandwidth.value() / 10e9, 1, 0.01);
}

/// In fp32 the copies of a step and of a window's sums are equally large.
TEST(LiveFit, RefusesARecordingWithSumsElsewhere) {
  for (const DType dtype : {DType::kBf16, DType::kFp32}) {
    for (const bool on_device : {false, true}) {
      JobOptions options;
      options.accumulate_on_device = on_device;
      options.training.dtype = dtype;
      Recorded run = record(quiet_node(), "live-zenflow", options);
      run.job.scenario.offload.accumulate_on_device = !on_device;
      const std::string why = zenflow::testing::error_of([&] {
                                (void)fit_live({{&run.job, run.schedule, &run.timeline, 8}});
                              }).second;
      EXPECT_THAT(why,
                  ::testing::AnyOf(::testing::HasSubstr(on_device ? "expected sums on the host"
                                                                  : "expected sums on the device"),
                                   ::testing::HasSubstr(on_device ? "expected gradients down"
                                                                  : "expected gradient sums down"),
                                   ::testing::HasSubstr("is this the setting that was recorded?")));
    }
  }
}

/// Backward then has the forward that runs again in it, and a step has several passes.
TEST(LiveFit, RecoversTheProfileOfCheckpointingAndMicroBatches) {
  JobOptions options;
  options.training.sequence_length = 512;
  options.training.activation_checkpointing = true;
  Job job = make_small_job(quiet_node(), model(kModels[1]), options);
  job.deepspeed.gradient_accumulation_steps = 2;
  const Timeline timeline =
      simulated_timeline(job, "live-zenflow", simulate_fully(job, find_schedule("live-zenflow")));
  HardwareProfile& base = job.scenario.hardware;
  base.gpu.gemm_efficiency = 0.9;
  base.gpu.elementwise_efficiency = 0.2;
  base.host_link.pinned.d2h = 5.0_GBps;
  const LiveFit fit = fit_live({{&job, "live-zenflow", &timeline, 8}});
  EXPECT_NEAR(fit.profile.gpu.gemm_efficiency, 0.5, 0.005);
  EXPECT_NEAR(fit.profile.gpu.elementwise_efficiency, 0.5, 0.005);
  EXPECT_NEAR(fit.profile.host_link.pinned.d2h.value() / 10e9, 1, 0.01);
}

/// Forward is a fifth faster here than the formula has it beside backward: passes of one shape,
/// which do not tell products from attention, seem to.
TEST(LiveFit, PredictsAnotherShapeWithTheBaseOfAFasterMachine) {
  HardwareProfile truth = quiet_node();
  truth.gpu.attention_efficiency = 0.2;
  Recorded run = record(truth, "live-zenflow", 0.1, "4");
  for (TimelineSpan& span : run.timeline.spans) {
    if (span.operation != Operation::kForward) continue;
    span.end = span.start + to_picoseconds(0.8 * to_seconds(span.end - span.start));
  }
  HardwareProfile base = truth;
  for (auto& [dtype, rate] : base.gpu.peak) rate = 2.5 * rate;
  base.gpu.elementwise_efficiency = std::min(1.0, 2.5 * truth.gpu.elementwise_efficiency);
  run.job.scenario.hardware = base;
  const LiveFit fit = fit_live({{&run.job, run.schedule, &run.timeline, 8}});
  JobOptions other;
  other.training.sequence_length = 4096;
  const auto step = [&](const HardwareProfile& machine) {
    const Job job = make_small_job(machine, model(kModels[1]), other);
    return simulate_schedule(job, find_schedule("live-gpu-only")).step_time;
  };
  // A third of a pass is forward, so that 0.93 of the formula's time is the machine's.
  EXPECT_NEAR(step(fit.profile) / step(truth), 0.93, 0.1);
}

TEST(LiveFit, RefusesToFitToNothing) {
  EXPECT_THROW((void)fit_live({}), Error);
}

TEST(LiveFit, RefusesARecordingOfAnotherK) {
  Recorded run = record(quiet_node(), "live-zenflow", 0.1, "4");
  run.job.deepspeed.zenflow->topk_ratio = 0.2;
  EXPECT_THROW((void)fit_live({{&run.job, run.schedule, &run.timeline, 8}}), Error);
}

TEST(LiveFit, RefusesARecordingOfAnotherModel) {
  Recorded run = record(quiet_node(), "live-zenflow", 0.1, "4");
  run.job.scenario.model = model(kModels[0]);
  EXPECT_THROW((void)fit_live({{&run.job, run.schedule, &run.timeline, 8}}), Error);
  EXPECT_THROW((void)fit_live({{&run.job, "zenflow", &run.timeline, 8}}), Error);
}

}  // namespace
}  // namespace zenflow::sim
