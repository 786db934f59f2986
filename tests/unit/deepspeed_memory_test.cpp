// Host memory of DeepSpeed's optimizers, in bytes a parameter: counted by hand from the buffers
// that deepspeed_memory.h lists.
#include <ostream>

#include <gtest/gtest.h>

#include "sim/simulate/simulation.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using testing::JobOptions;

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
  EXPECT_NEAR(memory.host_framework, 2 * (locked - 10 * p), 1);
}

// overlap_step: the upload buffer, the running sum tensor by tensor, and the two blocks of 4 p that
// moved to /dev/shm and stay with PyTorch's allocator.
TEST(PinnedMemory, OfOverlappedZenFlowKeepsBlocksThatMoved) {
  const Mode mode{"deepspeed-zenflow", 2, true, 4, 36, 16};
  const Job job = job_of(mode, 1);
  const double p = job.partition();
  double sums = 0;
  const ModelSpec& model = job.scenario.model;
  const auto add = [&](const std::vector<Tensor>& tensors, std::int64_t times) {
    for (const Tensor& tensor : tensors) {
      const auto elements = static_cast<double>(tensor.parameters());
      sums += static_cast<double>(times) * doubled_until(2 * elements);
    }
  };
  add(model.embedding, 1);
  add(model.block, model.layers);
  add(model.head, 1);
  const MemoryReport memory = memory_of(job, mode.schedule);
  const double locked = 2 * doubled_until(4 * p) + doubled_until(2 * p) + sums;
  EXPECT_NEAR(memory.limit(MemoryLimit::kLocked).need, locked, 1);
  // Besides what rounds up and stays, a copy that casts makes a temporary of 2 p.
  EXPECT_NEAR(memory.host_framework, locked - 4 * p + 2 * p, 1);
}

TEST(PinnedMemory, IsNoneWithoutPinning) {
  Job job = job_of({"deepspeed-zero-offload", 2, false, 4, 20, 0}, 2);
  job.deepspeed.pin_memory = false;
  const MemoryReport memory = memory_of(job, "deepspeed-zero-offload");
  EXPECT_EQ(memory.limit(MemoryLimit::kLocked).need, 0);
  EXPECT_EQ(memory.host_framework, 0);
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
  const auto add = [&selected](const std::vector<Tensor>& tensors, std::int64_t times) {
    for (const Tensor& tensor : tensors) {
      selected +=
          times * (tensor.is_matrix ? tensor.rows * (tensor.columns / 10) : tensor.parameters());
    }
  };
  add(model.embedding, 1);
  add(model.block, model.layers);
  add(model.head, 1);
  EXPECT_NEAR(on_host.host.total - on_gpu.host.total, 4 * 2 * 2 * static_cast<double>(selected), 1);
}

// Stage 3 on NVMe: 12 bytes of state and 4 of gradients a parameter; RAM has buffer_count blocks of
// a sub-group, one sub-group's fp32 gradients and the 16-bit running sum.
TEST(Nvme, HoldsStateAndGradients) {
  JobOptions options;
  options.gpus = 2;
  options.stage = 3;
  options.with_zenflow = false;
  options.optimizer_device = "nvme";
  Job job = testing::make_small_job(testing::contended_node(2), testing::small_gpt2(), options);
  job.deepspeed.sub_group_size = 10'000'000;
  const MemoryReport memory = memory_of(job, "deepspeed-zero-infinity");
  const auto all = static_cast<double>(job.scenario.model.parameters());
  EXPECT_NEAR(memory.limit(MemoryLimit::kNvme).need, 16 * all, 1);
  EXPECT_NEAR(memory.host.total, 2 * (4 * 4e7 + 4e7) + 2 * all, 1);
}

}  // namespace
}  // namespace zenflow::sim
