/// Every operation of the Device interface on the CUDA device gives the host device's bits, over
/// streams that wait for each other and for a signal. Built for a GPU and for the emulator.
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/cuda/cuda_device.h"
#include "runtime/device/host_device.h"
#include "tests/support/mix.h"
#include "tests/support/on_device.h"

namespace zenflow::runtime {
namespace {

constexpr std::size_t kRows = 70;
constexpr std::size_t kColumns = 45;
constexpr std::size_t kSelected = 7;
constexpr std::size_t kElements = kRows * kColumns;

float value(std::uint64_t i) {
  return static_cast<float>(static_cast<std::int64_t>(zenflow::testing::mix(i) >> 40U) -
                            (1 << 23)) *
         0x1p-23F;
}

/// One pass over all operations; what came down is what two devices must agree on.
class Pass {
 public:
  Pass(Device& device, ElementType type) : device_(device), type_(type) {}

  std::vector<std::byte> run();

 private:
  Buffer up(const void* values, std::size_t bytes) {
    staged_.push_back(device_.allocate(MemoryKind::kPinnedHost, bytes, "inputs"));
    Buffer there = device_.allocate(MemoryKind::kDevice, bytes, "inputs");
    std::memcpy(staged_.back().data(), values, bytes);
    device_.copy(*h2d_, there.data(), staged_.back().data(), bytes, CopyDirection::kHostToDevice,
                 Traffic::kInitial, {});
    return there;
  }
  /// [n] in the element type; of bfloat16, two bytes each.
  Buffer values(std::size_t n, std::uint64_t seed) {
    std::vector<std::byte> bytes(n * bytes_per_element(type_));
    for (std::size_t i = 0; i < n; ++i) {
      const float one = value(seed * 1'000'003 + i);
      if (type_ == ElementType::kFloat32) {
        std::memcpy(&bytes[4 * i], &one, 4);
      } else {
        const kernels::Bf16 rounded = kernels::round_to_bf16(one);
        std::memcpy(&bytes[2 * i], &rounded, 2);
      }
    }
    return up(bytes.data(), bytes.size());
  }
  Buffer floats(std::size_t n, float scale, std::uint64_t seed) {
    std::vector<float> all(n);
    for (std::size_t i = 0; i < n; ++i) all[i] = scale * value(seed * 7919 + i);
    return up(all.data(), n * sizeof(float));
  }
  void down(const Buffer& from, std::vector<std::byte>& result) {
    const Buffer host = device_.allocate(MemoryKind::kPinnedHost, from.bytes(), "results");
    d2h_->wait(compute_->record(), WaitCause::kCompute);
    device_.copy(*d2h_, host.data(), from.data(), from.bytes(), CopyDirection::kDeviceToHost,
                 Traffic::kInitial, {});
    d2h_->record().wait();
    result.insert(result.end(), host.data(), host.data() + host.bytes());
  }

  Device& device_;
  ElementType type_;
  std::unique_ptr<Stream> compute_ = device_.make_stream("compute");
  std::unique_ptr<Stream> d2h_ = device_.make_stream("d2h");
  std::unique_ptr<Stream> h2d_ = device_.make_stream("h2d");
  std::vector<Buffer> staged_;
};

std::vector<std::byte> Pass::run() {
  const std::vector<std::uint32_t> chosen = {2, 3, 11, 12, 30, 43, 44};
  std::vector<float> corrections(kSelected, 0.25F);
  device_.expect(*compute_, kRows, kColumns);
  const Buffer matrix = values(kElements, 1);
  const Buffer gradient = values(kRows * kSelected, 2);
  const Buffer columns = up(chosen.data(), kSelected * sizeof(std::uint32_t));
  const Buffer sizes = up(corrections.data(), kSelected * sizeof(float));
  const Buffer master = floats(kRows * kSelected, 1, 3);
  const Buffer first = floats(kRows * kSelected, 0.1F, 4);
  const Buffer second = floats(kRows * kSelected, 0, 5);
  const Buffer sums = floats(kElements, 1, 6);
  const Buffer norms = floats(2 * kColumns, 0, 7);
  const Buffer gathered = values(kRows * kSelected, 8);
  const Buffer whole = values(kElements, 9);
  const Buffer square = device_.allocate(MemoryKind::kDevice, sizeof(double), "square");
  const DeviceMatrix m{matrix.data(), kRows, kColumns};
  const auto* column = columns.as<std::uint32_t>();

  const auto signal = device_.make_signal();
  compute_->wait(h2d_->record(), WaitCause::kH2D);
  compute_->wait(signal->event(), WaitCause::kCpuUpdate);
  const SquareSum of_all{m.values, kElements, square.as<double>()};
  device_.square_sums(*compute_, type_, {&of_all, 1}, {});
  device_.column_norms(*compute_, type_, m, NormKind::kL1, norms.as<float>(), {});
  device_.column_norms(*compute_, type_, m, NormKind::kL2, norms.as<float>() + kColumns, {});
  device_.gather_columns(*compute_, type_, m, column, kSelected, gathered.data(), {});
  device_.gather_columns(*compute_, type_, m, nullptr, kColumns, whole.data(), {});
  device_.accumulate(*compute_, type_, m.values, 0.5F, kElements, true, sums.as<float>(), {});
  device_.accumulate(*compute_, type_, m.values, 0.3F, kElements, false, sums.as<float>(), {});
  device_.update_columns(
      *compute_, type_, {1e-2F, 0.9F, 0.999F, 1e-8F, 0.1F}, {sizes.as<float>(), sizes.as<float>()},
      0.7F, gradient.data(),
      {column, kSelected, {master.as<float>(), first.as<float>(), second.as<float>()}}, m, {});
  device_.scatter_columns(*compute_, type_, gathered.data(), column, kSelected,
                          {whole.data(), kRows, kColumns}, {});
  EXPECT_FALSE(compute_->record().complete());  // the signal is not set
  std::thread([&] { signal->set(); }).join();
  std::vector<std::byte> result;
  for (const Buffer* one :
       {&matrix, &master, &first, &second, &sums, &norms, &gathered, &whole, &square}) {
    down(*one, result);
  }
  return result;
}

class CudaDeviceOperations : public kernels::testing::NeedsDevice<::testing::Test> {};

/// A kernel that is loaded at its first launch waits until the GPU is idle: in this test for a
/// signal that is only set after the launch. Training sets signals on other threads.
const bool kLoadsKernelsAtOnce = ::setenv("CUDA_MODULE_LOADING", "EAGER", 1) == 0;

TEST_F(CudaDeviceOperations, GiveTheHostsBits) {
  ASSERT_TRUE(kLoadsKernelsAtOnce);
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    Recorder recorder(false);
    HostDevice host({}, recorder);
    const std::unique_ptr<Device> gpu = make_cuda_device({}, recorder);
    const auto expected = Pass(host, type).run();
    const auto found = Pass(*gpu, type).run();
    ASSERT_EQ(expected.size(), found.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(expected[i], found[i]) << "byte " << i << " of type " << static_cast<int>(type);
    }
    const TrafficCount one = host.traffic();
    const TrafficCount other = gpu->traffic();
    EXPECT_EQ(one.h2d, other.h2d);
    EXPECT_EQ(one.d2h, other.d2h);
  }
}

/// Control up to kMappedBytes goes by a kernel, and what is larger or something else does not.
TEST_F(CudaDeviceOperations, BringControlUpAndDownWhole) {
  Recorder recorder(false);
  const std::unique_ptr<Device> gpu = make_cuda_device({}, recorder);
  const auto stream = gpu->make_stream("compute");
  constexpr std::size_t kMost = kMappedBytes + 8;
  const Buffer host = gpu->allocate(MemoryKind::kPinnedHost, 2 * kMost + 64, "both ways");
  const Buffer there = gpu->allocate(MemoryKind::kDevice, kMost + 64, "there");
  const auto copy = [&](std::byte* to, const std::byte* from, std::size_t bytes,
                        CopyDirection direction) {
    gpu->copy(*stream, to, from, bytes, direction, Traffic::kControl, {});
  };
  for (const std::size_t bytes : {1UL, 3UL, 4UL, 8UL, 12UL, 1000UL, 2049UL, kMappedBytes, kMost}) {
    for (const std::size_t offset : {0UL, 1UL, 4UL}) {
      std::byte* source = host.data() + offset;
      std::byte* target = host.data() + kMost + 32 + offset;
      for (std::size_t i = 0; i < bytes; ++i) {
        source[i] = static_cast<std::byte>(zenflow::testing::mix(i + bytes));
      }
      std::memset(host.data() + kMost + 32, 0, kMost + 32);
      copy(there.data() + offset, source, bytes, CopyDirection::kHostToDevice);
      copy(target, there.data() + offset, bytes, CopyDirection::kDeviceToHost);
      stream->record().wait();
      EXPECT_EQ(std::memcmp(source, target, bytes), 0) << bytes << " bytes at " << offset;
      EXPECT_EQ(target[bytes], std::byte{0}) << bytes << " bytes at " << offset;
    }
  }
}

}  // namespace
}  // namespace zenflow::runtime
