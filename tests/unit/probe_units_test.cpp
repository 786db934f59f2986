// What the probe says of a device whose rates are known: bytes, FLOPs and units, to the last digit.
// Its lanes are clocks that work advances; nothing is timed.
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/probe/probe.h"
#include "runtime/probe/probe_profile.h"
#include "sim/config/document.h"
#include "sim/config/hardware_profile.h"

namespace zenflow::runtime {
namespace {

constexpr double kUp = 20e9;  // bytes per second
constexpr double kDown = 10e9;
constexpr double kPageable = 3e9;
constexpr double kStream = 100e9;
constexpr double kFlops = 5e12;
constexpr double kKernel = 4e-6;  // seconds

class Mark final : public ProbeMark {
 public:
  explicit Mark(double at) : seconds(at) {}
  double seconds;
};

class KnownDevice final : public ProbeDevice {
 public:
  [[nodiscard]] std::string name() const override { return "known"; }
  [[nodiscard]] sim::DType product_type() const override { return sim::DType::kBf16; }
  [[nodiscard]] Buffer allocate(ProbeMemory where, std::size_t bytes) override {
    Buffer memory(std::malloc(bytes), bytes, [](void* held) { std::free(held); });
    const std::lock_guard lock(mutex_);
    if (where == ProbeMemory::kPageable) pageable_ = memory.data();
    return memory;
  }
  void fill(const Buffer&) override {}
  void copy(ProbeLane lane, void* to, const void* from, std::size_t bytes,
            CopyDirection direction) override {
    const bool up = direction == CopyDirection::kHostToDevice;
    const bool is_pageable = (up ? from : to) == pageable_;
    const double rate = is_pageable ? kPageable : up ? kUp : kDown;
    // The host would move pageable memory while the lane is busy with something else.
    EXPECT_FALSE(is_pageable && is_occupied_);
    advance(lane, static_cast<double>(bytes) / rate);
  }
  void update(ProbeLane lane, float*, const float*, std::size_t n) override {
    advance(lane, static_cast<double>(n) * 12 / kStream);
  }
  void pass(ProbeLane lane, float*, const float*, std::size_t n) override {
    advance(lane, static_cast<double>(n) * 8 / kStream);
  }
  void multiply(ProbeLane lane, const ProbeProduct& product, const void*, const void*,
                void*) override {
    const auto [m, n, k] = product.shape;
    advance(lane, 2 * static_cast<double>(product.batch * m * n * k) / kFlops);
  }
  void nothing(ProbeLane lane) override { advance(lane, kKernel); }
  void occupy(ProbeLane lane) override {
    advance(lane, 1);  // if it were measured it would show
    const std::lock_guard lock(mutex_);
    is_occupied_ = true;
  }
  [[nodiscard]] std::shared_ptr<ProbeMark> mark(ProbeLane lane) override {
    const std::lock_guard lock(mutex_);
    return std::make_shared<Mark>(lanes_.at(static_cast<std::size_t>(lane)));
  }
  [[nodiscard]] double seconds(const ProbeMark& earlier, const ProbeMark& later) override {
    return static_cast<const Mark&>(later).seconds - static_cast<const Mark&>(earlier).seconds;
  }
  void synchronize(ProbeLane) override {
    const std::lock_guard lock(mutex_);
    lanes_.fill(0);
    is_occupied_ = false;
  }

 private:
  void advance(ProbeLane lane, double seconds) {
    const std::lock_guard lock(mutex_);
    lanes_.at(static_cast<std::size_t>(lane)) += seconds;
  }

  std::mutex mutex_;  // guards the rest: work also comes from beside a measurement
  std::array<double, kProbeLanes> lanes_{};
  const void* pageable_ = nullptr;
  std::atomic<bool> is_occupied_ = false;  // also set from beside a measurement
};

class KnownRates : public ::testing::Test {
 protected:
  /// One sample of the experiment `id` of `group`.
  double sample(ExperimentGroup& group, const std::string& id) {
    for (const ProbeLane lane : {ProbeLane::kCompute, ProbeLane::kH2D, ProbeLane::kD2H}) {
      device_.synchronize(lane);
    }
    group.prepare();
    double value = 0;
    for (const Experiment& experiment : group.experiments()) {
      if (experiment.id == id) value = experiment.sample();
    }
    group.release();
    EXPECT_NE(value, 0) << id << " is not among the experiments";
    return value;
  }

  KnownDevice device_;
  CpuTopology topology_;
  ProbeSettings settings_{.largest_copy = std::size_t{4} << 20,
                          .array_bytes = std::size_t{1} << 20,
                          .largest_product = 4e7,
                          .attention = {.heads = 3, .length = 32, .head_dim = 16},
                          .device_array_bytes = std::size_t{1} << 20};
};

constexpr double kRelative = 1e-7;  // of a lane that has come to a second
void expect_about(double value, double expected) {
  EXPECT_NEAR(value, expected, kRelative * expected);
}

TEST_F(KnownRates, OfCopies) {
  const auto group = copy_experiments(device_, topology_, settings_);
  for (const char* size : {"4KiB", "64KiB", "1MiB", "largest"}) {
    expect_about(sample(*group, std::string("copy.h2d.pinned.") + size), 20);
    expect_about(sample(*group, std::string("copy.d2h.pinned.") + size), 10);
    expect_about(sample(*group, std::string("copy.h2d.pageable.") + size), 3);
    expect_about(sample(*group, std::string("copy.d2h.pageable.") + size), 3);
  }
  expect_about(sample(*group, "copy.h2d.beside_adam"), 20);
  expect_about(sample(*group, "copy.d2h.beside_adam"), 10);
  // Both begin together; the slower one takes twice as long, so two copies in its time.
  expect_about(sample(*group, "copy.both"), 20);
}

TEST_F(KnownRates, OfDeviceMemory) {
  const auto group = memory_experiments(device_, settings_);
  expect_about(sample(*group, "memory.update"), 100);
  expect_about(sample(*group, "memory.pass"), 100);
  expect_about(sample(*group, "memory.update.beside_copies"), 100);
  expect_about(sample(*group, "copy.h2d.beside_kernels"), 20);
}

TEST_F(KnownRates, OfProducts) {
  const auto group = product_experiments(device_, settings_);
  for (const NamedProduct& product : probe_products(settings_.largest_product, false)) {
    expect_about(sample(*group, "product." + product.name), 5000);
  }
  // The causal half of what the two products compute.
  expect_about(sample(*group, "attention"), 2500);
}

TEST_F(KnownRates, OfKernels) {
  const auto group = latency_experiments(device_);
  expect_about(sample(*group, "latency.kernel"), 4);
}

/// Every figure has a value of its own, so that each key of a profile tells where it is from.
std::vector<Figure> distinct_figures(const ExperimentGroups& groups) {
  std::vector<Figure> figures;
  for (const auto& group : groups) {
    for (const Experiment& experiment : group->experiments()) {
      const double median = 1000 + static_cast<double>(figures.size());
      figures.push_back(
          {experiment.id, experiment.unit, experiment.what, {median, median / 2, 2 * median, 9}});
    }
  }
  return figures;
}

TEST_F(KnownRates, StandInTheProfileUnderTheirKeys) {
  settings_.nvme = "unused";
  const auto groups = make_experiments(device_, topology_, settings_);
  std::vector<Figure> figures = distinct_figures(groups);
  const auto set = [&](const std::string& id, double median) {
    for (Figure& one : figures) {
      if (one.id == id) one.value = {median, median, median, 9};
    }
  };
  const int cores = static_cast<int>(topology_.cores().size());
  const std::string all = ".threads" + std::to_string(cores);
  // 6, 6 and 10 bytes an element in 2, 3 and 5 units of time.
  set("cast_down" + all, 3);
  set("cast_up" + all, 2);
  set("accumulate" + all, 2);
  // 12 us a call, and then 1000 GB/s.
  const auto set_call = [&](const std::string& id, std::size_t parameters) {
    const double bytes = 28.0 * static_cast<double>(parameters);
    set(id, bytes / (12e-6 + bytes / 1000e9) / 1e9);
  };
  const std::size_t most = settings_.array_bytes / sizeof(float);
  ASSERT_GE(adam_call_sizes(most, settings_.quick).size(), 2U);
  for (const std::size_t n : adam_call_sizes(most, settings_.quick)) set_call(adam_call_id(n), n);
  set_call("adam" + all, most);
  set("memory.update", 800);
  set("memory.pass", 600);
  set("attention", 500);
  set("copy.both", 1700);
  const ProbedMachine machine{.profile_name = "p",
                              .command = "probe",
                              .date = "2026-11-20",
                              .cpu_name = "CPU",
                              .device_name = "GPU",
                              .link_kind = "PCIe 5.0 x16",
                              .product_type = sim::DType::kBf16,
                              .device_memory = std::uint64_t{80} << 30,
                              .device_memory_source = "a test",
                              .context_memory = std::uint64_t{1} << 30,
                              .context_memory_source = "a test",
                              .device_bandwidth = 1000e9,
                              .host_memory = std::uint64_t{512} << 30,
                              .host_memory_source = "a test",
                              .shared_memory = std::uint64_t{64} << 30,
                              .sockets = 2,
                              .cores = cores,
                              .nvme_bytes = std::uint64_t{1} << 40};
  const sim::HardwareProfile profile = sim::read_hardware_profile(
      parse_yaml(probe_profile(machine, figures, settings_), "known.yaml"));
  const auto median = [&](const std::string& id) { return figure(figures, id).value.median; };
  constexpr double kGiga = 1e9;
  constexpr double kMicro = 1e-6;

  const sim::HostLinkProfile& link = profile.host_link;
  EXPECT_EQ(link.kind, "PCIe 5.0 x16");
  expect_about(link.pinned.h2d.value(), median("copy.h2d.pinned.largest") * kGiga);
  expect_about(link.pinned.d2h.value(), median("copy.d2h.pinned.largest") * kGiga);
  expect_about(link.pinned.bidirectional.value(), 1700 * kGiga);
  expect_about(link.pageable_h2d.value(), median("copy.h2d.pageable.largest") * kGiga);
  expect_about(link.pageable_d2h.value(), median("copy.d2h.pageable.largest") * kGiga);
  expect_about(link.latency.value(), median("latency.copy") * kMicro);

  const sim::GpuProfile& gpu = profile.gpu;
  EXPECT_EQ(gpu.memory.value(), 0x1p30 * 80);
  EXPECT_EQ(gpu.context_memory.value(), 0x1p30);
  expect_about(gpu.memory_bandwidth.value(), 1000e9);
  expect_about(gpu.streaming_efficiency, 0.8);
  expect_about(gpu.elementwise_efficiency, 0.6);
  expect_about(gpu.kernel_launch.value(), median("latency.kernel") * kMicro);
  ASSERT_TRUE(gpu.peak.contains(sim::DType::kBf16));
  EXPECT_FALSE(gpu.peak.contains(sim::DType::kFp32)) << "a GPU's fp32 was not measured";
  const double peak = gpu.peak.at(sim::DType::kBf16).value() / kGiga;
  EXPECT_GE(peak, 1000);
  EXPECT_NEAR(gpu.attention_efficiency, 500 / peak, 1e-4);

  const sim::HostProfile& host = profile.host;
  EXPECT_EQ(host.sockets, 2);
  EXPECT_EQ(host.shared_memory.value(), 0x1p30 * 64);
  EXPECT_NEAR(host.adam_bandwidth.value() / (median("adam" + all) * kGiga), 1, 1e-4);
  EXPECT_NEAR(host.adam_launch.value(), 12e-6, 1e-8);
  EXPECT_NEAR(host.elementwise_bandwidth.value(), 2.2 * kGiga, 1e-4 * kGiga);
  EXPECT_GE(host.dram_bandwidth.value(), host.core_bandwidth.value());

  ASSERT_TRUE(profile.nvme.has_value());
  expect_about(profile.nvme->read.value(), median("nvme.read") * kGiga);
  expect_about(profile.nvme->write.value(), median("nvme.write") * kGiga);
  expect_about(profile.nvme->latency.value(), median("nvme.latency") * kMicro);
  EXPECT_EQ(profile.nvme->capacity.value(), 0x1p40);
}

}  // namespace
}  // namespace zenflow::runtime
