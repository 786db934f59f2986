/// A device as far as a model needs one: CUDA's memory, by calls that wait. On a GPU and under the
/// emulator alike. Its memory starts as NaNs.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/cuda/cuda_check.h"
#include "runtime/device/device.h"
#include "tests/support/on_device.h"

namespace zenflow::testing {

/// The null stream.
class PlainStream final : public runtime::Stream {
 public:
  class Finished final : public runtime::Event::State {
   public:
    void wait() override { kernels::testing::synchronize(); }
    [[nodiscard]] bool complete() const override { return true; }
  };
  [[nodiscard]] runtime::Event record() override {
    return runtime::Event(std::make_shared<Finished>());
  }
  void wait(const runtime::Event& event, WaitCause) override { event.wait(); }
};

class PlainDevice final : public runtime::Device {
 public:
  [[nodiscard]] std::string_view name() const override { return "plain"; }
  [[nodiscard]] runtime::Buffer allocate(runtime::MemoryKind kind, std::size_t bytes,
                                         std::string_view purpose) override {
    ++allocations;
    if (kind == runtime::MemoryKind::kPinnedHost) {
      return {::operator new(bytes), bytes, [](void* memory) { ::operator delete(memory); }};
    }
    held[std::string(purpose)] += bytes;
    void* memory = nullptr;
    kernels::cuda_check(cudaMalloc(&memory, bytes), "cudaMalloc");
    const std::vector<std::byte> nans(bytes, std::byte{0xFF});
    kernels::cuda_check(cudaMemcpy(memory, nans.data(), bytes, cudaMemcpyHostToDevice),
                        "cudaMemcpy");
    return {memory, bytes, [](void* m) { static_cast<void>(cudaFree(m)); }};
  }
  [[nodiscard]] std::unique_ptr<runtime::Stream> make_stream(std::string_view) override {
    return std::make_unique<PlainStream>();
  }
  [[nodiscard]] std::shared_ptr<runtime::Signal> make_signal() override { refuse(); }
  [[nodiscard]] runtime::TrafficCount traffic() const override { return {}; }
  [[nodiscard]] runtime::MemoryUse memory_use(runtime::MemoryKind) const override { return {}; }
  void expect(runtime::Stream&, std::size_t, std::size_t) override {}
  void expect_square_sums(runtime::Stream&, std::size_t, std::size_t) override {}
  void copy(runtime::Stream&, void* to, const void* from, std::size_t bytes,
            runtime::CopyDirection direction, runtime::Traffic, runtime::Label) override {
    kernels::testing::synchronize();
    const bool up = direction == runtime::CopyDirection::kHostToDevice;
    kernels::cuda_check(
        cudaMemcpy(to, from, bytes, up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  }

  void run(runtime::Stream&, runtime::Label, std::function<void()>) override { refuse(); }

  // The engine's kernels are not a model's.
  void square_sums(runtime::Stream&, runtime::ElementType, std::span<const runtime::SquareSum>,
                   runtime::Label) override {
    refuse();
  }
  void column_norms(runtime::Stream&, runtime::ElementType, const runtime::DeviceMatrix&,
                    runtime::NormKind, float*, runtime::Label) override {
    refuse();
  }
  void gather_columns(runtime::Stream&, runtime::ElementType, const runtime::DeviceMatrix&,
                      const std::uint32_t*, std::size_t, void*, runtime::Label) override {
    refuse();
  }
  void scatter_columns(runtime::Stream&, runtime::ElementType, const void*, const std::uint32_t*,
                       std::size_t, const runtime::DeviceMatrix&, runtime::Label) override {
    refuse();
  }
  void update_columns(runtime::Stream&, runtime::ElementType, const kernels::AdamWSettings&,
                      const kernels::ColumnCorrections&, float, const void*,
                      const runtime::SelectedColumns&, const runtime::DeviceMatrix&,
                      runtime::Label) override {
    refuse();
  }
  void clear(runtime::Stream&, void*, std::size_t, runtime::Label) override { refuse(); }
  void accumulate(runtime::Stream&, runtime::ElementType, const void*, float, std::size_t, bool,
                  float*, runtime::Label) override {
    refuse();
  }

  std::map<std::string, std::size_t> held;  ///< bytes of device memory, by purpose
  std::size_t allocations = 0;

 private:
  [[noreturn]] static void refuse() { throw std::logic_error("PlainDevice: not a model's"); }
};

/// The CUDA stream behind every PlainStream.
inline cudaStream_t null_stream(runtime::Stream&) {
  return nullptr;
}

}  // namespace zenflow::testing
