// Host memory of DeepSpeed's optimizers, in bytes a parameter: counted by hand from the buffers
// that deepspeed_memory.h lists.
#include <ostream>

#include <gtest/gtest.h>

#include "sim/simulate/simulation.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using testing::JobOptions;

/// What a process takes besides: Python, CUDA, NCCL.
constexpr double kProcess = 4.0 * 1024 * 1024 * 1024;

struct Mode {
  const char* schedule;
  int stage;
  bool overlap;
  std::int64_t interval;  ///< update_interval, or gradient_accumulation_steps
  double bytes;           ///< a parameter
  double shared;          ///< of those in /dev/shm
};

std::ostream& operator<<(std::ostream& out, const Mode& mode) {
  return out << mode.schedule << ", stage " << mode.stage << ", overlap " << mode.overlap
             << ", every " << mode.interval;
}

Job job_of(const Mode& mode, std::int64_t ranks) {
  JobOptions options;
  options.gpus = ranks;
  options.stage = mode.stage;
  options.overlap_step = mode.overlap;
  options.warm_up = mode.interval;
  options.with_zenflow = std::string_view(mode.schedule) == "deepspeed-zenflow";
  options.update_interval = std::to_string(mode.interval);
  options.accumulation = options.with_zenflow ? 1 : mode.interval;
  return testing::make_small_job(testing::round_node(ranks), testing::small_gpt2(), options);
}

MemoryReport memory_of(const Job& job, const char* schedule) {
  return simulate_schedule(job, find_schedule(schedule)).memory;
}

class HostMemory : public ::testing::TestWithParam<std::tuple<Mode, std::int64_t>> {};

TEST_P(HostMemory, IsWhatTheBuffersAddUpTo) {
  const auto& [mode, ranks] = GetParam();
  SCOPED_TRACE(mode);
  const Job job = job_of(mode, ranks);
  const MemoryReport memory = memory_of(job, mode.schedule);
  const auto parameters = static_cast<double>(job.scenario.model.parameters());
  // All ranks of one node together hold the model once.
  EXPECT_NEAR(memory.host.total, mode.bytes * parameters, 1);
  EXPECT_NEAR(memory.limit(MemoryLimit::kShared).need, mode.shared * parameters, 1);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, HostMemory,
    ::testing::Combine(
        ::testing::Values(
            // master 4, gradients 4, moments 8, upload 2; running sum 2
            Mode{"deepspeed-zero-offload", 1, false, 1, 18, 0},
            Mode{"deepspeed-zero-offload", 2, false, 1, 18, 0},
            Mode{"deepspeed-zero-offload", 2, false, 4, 20, 0},
            Mode{"deepspeed-zenflow", 2, false, 1, 18, 0},
            Mode{"deepspeed-zenflow", 2, false, 4, 20, 0},
            // stage 3: master 4, gradients 4, moments 8, running sum 2
            Mode{"deepspeed-zero-offload", 3, false, 1, 18, 0},
            Mode{"deepspeed-zero-offload", 3, false, 4, 18, 0},
            Mode{"deepspeed-zenflow", 3, false, 4, 18, 0},
            // master 4, snapshot 4, gradients 2 x 4, moments 2 x 8, upload 2; running sum 2
            Mode{"deepspeed-zenflow", 2, true, 1, 34, 16},
            Mode{"deepspeed-zenflow", 1, true, 4, 36, 16},
            Mode{"deepspeed-zenflow", 2, true, 4, 36, 16},
            Mode{"deepspeed-zenflow", 3, true, 4, 34, 16}),
        ::testing::Values(1, 2, 4, 8)));

/// The next power of two by doubling.
double doubled_until(double bytes) {
  double block = 1;
  while (block < bytes) block *= 2;
  return block;
}

TEST(PinnedMemory, OfZeroOffloadIsThreeFlatBlocksARank) {
  const Mode mode{"deepspeed-zero-offload", 2, false, 1, 18, 0};
  const Job job = job_of(mode, 2);
  const double p = job.partition();
  const double locked = 2 * doubled_until(4 * p) + doubled_until(2 * p);
  const MemoryReport memory = memory_of(job, mode.schedule);
  EXPECT_NEAR(memory.limit(MemoryLimit::kLocked).need, locked, 1);
  EXPECT_NEAR(memory.host_framework, 2 * (locked - 10 * p + kProcess), 1);
}

// overlap_step: the upload buffer, the running sum tensor by tensor, and the two blocks of 4 p that
// moved to /dev/shm and stay with PyTorch's allocator.
TEST(PinnedMemory, OfOverlappedZenFlowKeepsBlocksThatMoved) {
  const Mode mode{"deepspeed-zenflow", 2, true, 4, 36, 16};
  const Job job = job_of(mode, 1);
  const double p = job.partition();
  double sums = 0;
  const ModelSpec& model = job.scenario.model;
  const auto add = [&](const Layer& layer, std::int64_t times) {
    for (const Tensor& tensor : layer.tensors) {
      const auto elements = static_cast<double>(tensor.parameters());
      sums += static_cast<double>(times) * doubled_until(2 * elements);
    }
  };
  add(model.embedding, 1);
  add(model.layer(0), model.layers());
  add(model.head, 1);
  const MemoryReport memory = memory_of(job, mode.schedule);
  const double locked = 2 * doubled_until(4 * p) + doubled_until(2 * p) + sums;
  EXPECT_NEAR(memory.limit(MemoryLimit::kLocked).need, locked, 1);
  // Besides what rounds up and stays, a copy that casts makes a temporary of 2 p.
  EXPECT_NEAR(memory.host_framework, locked - 4 * p + 2 * p + kProcess, 1);
}

TEST(PinnedMemory, IsNoneWithoutPinning) {
  Job job = job_of({"deepspeed-zero-offload", 2, false, 4, 20, 0}, 2);
  job.deepspeed.pin_memory = false;
  const MemoryReport memory = memory_of(job, "deepspeed-zero-offload");
  EXPECT_EQ(memory.limit(MemoryLimit::kLocked).need, 0);
  EXPECT_EQ(memory.host_framework, 2 * kProcess);
  EXPECT_NEAR(memory.host.total, 20.0 * static_cast<double>(job.scenario.model.parameters()), 1);
}

// zenflow.offload: stages 1 and 2 keep all selected columns' moments on every rank.
TEST(SelectedState, GoesToTheHostOnceARank) {
  Job job = job_of({"deepspeed-zenflow", 2, false, 4, 20, 0}, 4);
  const MemoryReport on_gpu = memory_of(job, "deepspeed-zenflow");
  job.deepspeed.zenflow->offload = true;
  const MemoryReport on_host = memory_of(job, "deepspeed-zenflow");
  // A tenth of each matrix's columns, rounded down, and all vectors.
  const ModelSpec& model = job.scenario.model;
  std::int64_t selected = 0;
  const auto add = [&selected](const Layer& layer, std::int64_t times) {
    for (const Tensor& tensor : layer.tensors) {
      selected += times * (tensor.is_matrix() ? tensor.rows() * (tensor.columns() / 10)
                                              : tensor.parameters());
    }
  };
  add(model.embedding, 1);
  add(model.layer(0), model.layers());
  add(model.head, 1);
  EXPECT_NEAR(on_host.host.total - on_gpu.host.total, 4 * 2 * 2 * static_cast<double>(selected), 1);
}

/// Elements of each of a rank's tensors, in model order.
std::vector<double> tensors_of(const Job& job) {
  std::vector<double> all;
  const ModelSpec& model = job.scenario.model;
  const auto add = [&](const Layer& layer) {
    for (const Tensor& tensor : layer.tensors) {
      all.push_back(static_cast<double>(tensor.parameters()) /
                    static_cast<double>(job.scenario.ranks()));
    }
  };
  add(model.embedding);
  for (std::int64_t block = 0; block < model.layers(); ++block) add(model.layer(0));
  add(model.head);
  return all;
}

Job stage3_job(const char* optimizer, const char* parameters) {
  JobOptions options;
  options.gpus = 2;
  options.stage = 3;
  options.with_zenflow = false;
  options.optimizer_device = optimizer;
  options.parameter_device = parameters;
  return testing::make_small_job(testing::contended_node(2), testing::small_gpt2(), options);
}

// Whole tensors until there are enough: a rank of two has 13.3 M elements of the embedding, which
// alone are more than 10 M; then 0.13 M of positions and the blocks' 1.6 M each, until 10 M.
TEST(SubGroups, AreWholeTensors) {
  Job job = stage3_job("cpu", "none");
  job.deepspeed.sub_group_size = 10'000'000;
  const std::vector<double> groups = sub_group_elements(job);
  ASSERT_GE(groups.size(), 2U);
  EXPECT_EQ(groups[0], 52000 * 512 / 2);
  double open = 0;
  double sum = groups[0];
  const std::vector<double> tensors = tensors_of(job);
  for (std::size_t i = 1; open < 10e6; ++i) open += tensors[i];
  EXPECT_EQ(groups[1], open);
  for (std::size_t i = 1; i < groups.size(); ++i) sum += groups[i];
  EXPECT_NEAR(sum, job.partition(), 1e-3);
  job.deepspeed.sub_group_size = 1'000'000'000;
  EXPECT_EQ(sub_group_elements(job), std::vector<double>{job.partition()});
}

// Stage 3 on NVMe: 12 bytes of state and 4 of gradients a parameter; RAM has buffer_count blocks of
// the largest sub-group, the embedding's 13.3 M elements, its fp32 gradients and the running sum.
TEST(Nvme, HoldsStateAndGradients) {
  Job job = stage3_job("nvme", "none");
  job.deepspeed.sub_group_size = 10'000'000;
  const MemoryReport memory = memory_of(job, "deepspeed-zero-infinity");
  const auto all = static_cast<double>(job.scenario.model.parameters());
  const double largest = 52000 * 512 / 2;
  EXPECT_NEAR(memory.limit(MemoryLimit::kNvme).need, 16 * all, 1);
  EXPECT_NEAR(memory.host.total, 2 * (4 * 4 * largest + 4 * largest) + 2 * all, 1);
  // DeepSpeed 0.19.4 locks swap buffers at their size; before, PyTorch rounded them up.
  const double sum = doubled_until(all) - all;  // of 2 bytes of half of the parameters
  EXPECT_NEAR(memory.host_framework, 2 * (kProcess + sum), 1);
  job.version = {0, 19, 3};
  EXPECT_NEAR(memory_of(job, "deepspeed-zero-infinity").host_framework,
              2 * (kProcess + sum + 4 * (doubled_until(4 * largest) - 4 * largest)), 1);
}

// ratio does not keep sub-groups that are swapped on the GPU.
TEST(Nvme, TakesAllSubGroupsWhateverRatioSays) {
  Job job = stage3_job("nvme", "none");
  job.deepspeed.sub_group_size = 10'000'000;
  const MemoryReport whole = memory_of(job, "deepspeed-zero-infinity");
  job.deepspeed.offload_ratio = 0.3;
  const MemoryReport part = memory_of(job, "deepspeed-zero-infinity");
  EXPECT_EQ(part.limit(MemoryLimit::kNvme).need, whole.limit(MemoryLimit::kNvme).need);
  EXPECT_EQ(part.gpu.total, whole.gpu.total);
}

// Besides the 18 bytes of stage 3 the host has the weights, 2; the GPU no longer has its part.
TEST(ParametersOnTheHost, LeaveTheGpu) {
  const Job with = stage3_job("cpu", "cpu");
  const Job without = stage3_job("cpu", "none");
  const MemoryReport on_host = memory_of(with, "deepspeed-zero-offload");
  const MemoryReport on_gpu = memory_of(without, "deepspeed-zero-offload");
  const auto all = static_cast<double>(with.scenario.model.parameters());
  EXPECT_NEAR(on_host.host.total, 20 * all, 1);
  EXPECT_NEAR(on_gpu.gpu.total - on_host.gpu.total, 2 * with.partition(), 1);
}

// Pinned besides what it asks for: fp32 gradients, running sum and weights rounded up, and the
// blocks that the tensors' parts had before they were put together, but for two that serve again.
TEST(ParametersOnTheHost, LeaveFreedBlocksWithTheAllocator) {
  const Job job = stage3_job("cpu", "cpu");
  const double p = job.partition();
  double freed = 0;
  for (const double elements : tensors_of(job)) freed += doubled_until(2 * elements);
  // Their largest, of 2 x 13.3 M bytes, is smaller than any of the three flat blocks.
  const double blocks = doubled_until(4 * p) + 2 * doubled_until(2 * p) - 8 * p;
  const MemoryReport memory = memory_of(job, "deepspeed-zero-offload");
  EXPECT_NEAR(memory.host_framework, 2 * (kProcess + freed + blocks), 1);
  Job exact = job;
  exact.scenario.native_pinning = true;
  EXPECT_NEAR(memory_of(exact, "deepspeed-zero-offload").host_framework, 2 * kProcess, 1);
  Job unpinned = job;
  unpinned.deepspeed.param_pin_memory = false;
  EXPECT_NEAR(memory_of(unpinned, "deepspeed-zero-offload").host_framework, 2 * (kProcess + blocks),
              1);
}

TEST(ParametersOnNvme, LeaveWhatIsBelowMaxInCpu) {
  Job job = stage3_job("cpu", "nvme");
  job.deepspeed.max_in_cpu = 6'000'000;
  job.deepspeed.param_buffer_size = 1'000'000;
  const MemoryReport memory = memory_of(job, "deepspeed-zero-offload");
  const auto all = static_cast<double>(job.scenario.model.parameters());
  EXPECT_NEAR(memory.limit(MemoryLimit::kNvme).need, 2 * (all - 2 * 6e6), 1);
  EXPECT_NEAR(memory.host.total, 18 * all + 2 * 2 * (6e6 + 5e6), 1);
}

// stage3_gather_16bit_weights_on_model_save: one process has the whole model while it is saved.
TEST(Saving, GathersTheWeightsOnce) {
  Job job = stage3_job("cpu", "none");
  const double before = memory_of(job, "deepspeed-zero-offload").host_framework;
  job.deepspeed.gathers_on_save = true;
  EXPECT_NEAR(memory_of(job, "deepspeed-zero-offload").host_framework - before,
              2 * static_cast<double>(job.scenario.model.parameters()), 1);
}

/// Bytes of host memory a parameter, of two ranks, with a change to the configuration.
template <class Change>
double host_bytes(int stage, std::int64_t accumulation, Change change) {
  Job job = job_of({"deepspeed-zero-offload", stage, false, accumulation, 0, 0}, 2);
  change(job.deepspeed);
  return memory_of(job, "deepspeed-zero-offload").host.total /
         static_cast<double>(job.scenario.model.parameters());
}

// 16-bit master 2, gradients 2, in which micro steps add up, moments 2 x 2 or 2 x 4, the upload 2;
// stage 3: its flat running sum of 2 in place of the upload.
TEST(HostMemoryOf, SixteenBitMastersIsTenBytes) {
  const auto narrow = [](DeepSpeedConfig& config) {
    config.optimizer.narrow_master = config.optimizer.narrow_states = true;
  };
  EXPECT_NEAR(host_bytes(2, 1, narrow), 10, 1e-6);
  EXPECT_NEAR(host_bytes(2, 8, narrow), 10, 1e-6);
  EXPECT_NEAR(host_bytes(3, 8, narrow), 10, 1e-6);
  EXPECT_NEAR(
      host_bytes(2, 8, [](DeepSpeedConfig& config) { config.optimizer.narrow_master = true; }), 14,
      1e-6);
}

// Adam's 18 have two states of 4; Lion allocates two as well, Adagrad and SGD with momentum one.
TEST(HostMemoryOf, OtherOptimizersHasTheirStates) {
  const auto bytes = [](Optimizer kind, bool momentum) {
    return host_bytes(2, 1, [&](DeepSpeedConfig& config) {
      config.optimizer = {.kind = kind, .has_momentum = momentum};
    });
  };
  EXPECT_NEAR(bytes(Optimizer::kLion, false), 18, 1e-6);
  EXPECT_NEAR(bytes(Optimizer::kAdagrad, false), 14, 1e-6);
  EXPECT_NEAR(bytes(Optimizer::kSgd, true), 14, 1e-6);
  EXPECT_NEAR(bytes(Optimizer::kSgd, false), 10, 1e-6);
}

// In fp32 stages 1 and 2 sum on the GPU, so that the host has no running sum; stage 3's has 4
// bytes.
TEST(Fp32Sums, AreOnTheGpuBelowStage3) {
  const auto wide = [](DeepSpeedConfig& config) { config.fp32_gradient_sums = true; };
  EXPECT_NEAR(host_bytes(2, 4, wide), 18, 1e-6);
  EXPECT_NEAR(host_bytes(3, 4, wide), 20, 1e-6);
  Job job = job_of({"deepspeed-zero-offload", 2, false, 4, 0, 0}, 2);
  const double before = memory_of(job, "deepspeed-zero-offload").gpu.total;
  wide(job.deepspeed);
  EXPECT_NEAR(memory_of(job, "deepspeed-zero-offload").gpu.total - before, 4 * job.partition(), 1);
  job.version = {0, 19, 7};
  EXPECT_NEAR(memory_of(job, "deepspeed-zero-offload").gpu.total - before, 0, 1);
}

}  // namespace
}  // namespace zenflow::sim
