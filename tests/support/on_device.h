/// Device memory and the fixture for tests of CUDA kernels. The same tests are built twice: against
/// CUDA, for a GPU, and against the emulator, for everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <cuda_runtime_api.h>

#include "kernels/cuda/cuda_check.h"
#if defined(ZENFLOW_CUDA_EMULATOR)
#include "tests/emulator/emulator.h"
#endif

namespace zenflow::kernels::testing {

struct DeviceFree {
  void operator()(void* memory) const noexcept { static_cast<void>(cudaFree(memory)); }
};

/// `values` on the device, `skip` elements behind an aligned address, and nothing behind them:
/// reads past the end are the emulator's to find. Filled with any bytes without `values`.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values, std::size_t skip = 0)
      : OnDevice(values.size(), skip) {
    cuda_check(cudaMemcpy(get(), values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice),
               "cudaMemcpy");
  }
  explicit OnDevice(std::size_t count, std::size_t skip = 0) : count_(count), skip_(skip) {
    void* memory = nullptr;
    cuda_check(cudaMalloc(&memory, (count_ + skip_) * sizeof(T)), "cudaMalloc");
    memory_.reset(memory);
  }
  [[nodiscard]] T* get() const {
    return count_ == 0 ? nullptr : static_cast<T*>(memory_.get()) + skip_;
  }
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> values(count_);
    cuda_check(cudaMemcpy(values.data(), get(), count_ * sizeof(T), cudaMemcpyDeviceToHost),
               "cudaMemcpy");
    return values;
  }

 private:
  std::size_t count_;
  std::size_t skip_;
  std::unique_ptr<void, DeviceFree> memory_;
};

inline void synchronize() {
  cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

/// Calls run() and waits for it; under the emulator twice, with the threads of a block in either
/// order, as a kernel that lacks a barrier gives different results. So run() starts from its inputs
/// and ends with what it expects.
template <class Run>
void in_every_order(const Run& run) {
#if defined(ZENFLOW_CUDA_EMULATOR)
  emulator::set_thread_order(emulator::ThreadOrder::kDescending);
  run();
  emulator::set_thread_order(emulator::ThreadOrder::kAscending);
#endif
  run();
}

/// Skips without a GPU, or fails if ZENFLOW_REQUIRE_GPU=1 says that there has to be one.
template <class Base>
class NeedsDevice : public Base {
 protected:
  void SetUp() override {
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    if (status == cudaSuccess && devices > 0) return;
    const char* why = status == cudaSuccess ? "no device" : cudaGetErrorString(status);
    const char* required = std::getenv("ZENFLOW_REQUIRE_GPU");
    if (required != nullptr && std::string_view(required) == "1") {
      FAIL() << "ZENFLOW_REQUIRE_GPU=1, but no usable GPU: " << why;
    }
    GTEST_SKIP() << "no usable GPU: " << why;
  }
};

}  // namespace zenflow::kernels::testing
