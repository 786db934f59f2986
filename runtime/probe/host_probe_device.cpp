#include <algorithm>
#include <array>
#include <chrono>

#include "kernels/accumulate/accumulate.h"
#include "runtime/device/host_device.h"
#include "runtime/probe/probe_device.h"

namespace zenflow::runtime {
namespace {

/// Set by the lane's thread when it comes to the mark.
class HostMark final : public ProbeMark {
 public:
  Clock::time_point time;  // read after `passed` has completed
  Event passed;
};

const HostMark& host(const ProbeMark& mark) {
  return static_cast<const HostMark&>(mark);
}

constexpr Label kLabel{Operation::kProbe, -1};

class HostProbeDevice final : public ProbeDevice {
 public:
  HostProbeDevice() {
    static constexpr std::array<const char*, kProbeLanes> kNames = {"compute", "h2d", "d2h"};
    for (std::size_t i = 0; i < kProbeLanes; ++i) lanes_[i] = device_.make_stream(kNames[i]);
  }

  [[nodiscard]] std::string name() const override { return "host device (CPU)"; }
  [[nodiscard]] sim::DType product_type() const override { return sim::DType::kFp32; }

  [[nodiscard]] Buffer allocate(ProbeMemory where, std::size_t bytes) override {
    const auto kind = where == ProbeMemory::kDevice ? MemoryKind::kDevice : MemoryKind::kPinnedHost;
    return device_.allocate(kind, bytes, "probe");
  }

  void fill(const Buffer& memory) override {
    std::uint32_t state = 1;
    std::generate_n(memory.as<float>(), memory.bytes() / sizeof(float),
                    [&state] { return next_fill(state); });
  }

  void copy(ProbeLane lane, void* to, const void* from, std::size_t bytes,
            CopyDirection direction) override {
    device_.copy(stream(lane), to, from, bytes, direction, Traffic::kControl, kLabel);
  }
  void update(ProbeLane lane, float* y, const float* x, std::size_t n) override {
    run(lane, [=] { kernels::accumulate(y, x, kAccumulateScale, n); });
  }
  void pass(ProbeLane lane, float* y, const float* x, std::size_t n) override {
    run(lane, [=] { kernels::accumulate_first(y, x, kAccumulateScale, n); });
  }
  void multiply(ProbeLane lane, const ProbeProduct& product, const void* a, const void* b,
                void* c) override {
    run(lane, [=] {
      const auto [m, n, k] = product.shape;
      const auto transposed = product.b_transposed ? Transposed::kYes : Transposed::kNo;
      for (std::int64_t i = 0; i < product.batch; ++i) {
        gemm(product.shape, {static_cast<const float*>(a) + i * m * k, k},
             {static_cast<const float*>(b) + i * k * n, product.b_transposed ? k : n, transposed},
             {static_cast<float*>(c) + i * m * n, n}, false);
      }
    });
  }
  void nothing(ProbeLane lane) override {
    run(lane, [] {});
  }
  void occupy(ProbeLane lane) override {
    run(lane, [] {
      constexpr std::chrono::microseconds kTime{20};
      for (const auto begin = Clock::now(); Clock::now() - begin < kTime;) {
      }
    });
  }

  [[nodiscard]] std::shared_ptr<ProbeMark> mark(ProbeLane lane) override {
    const auto made = std::make_shared<HostMark>();
    run(lane, [made] { made->time = Clock::now(); });
    made->passed = stream(lane).record();
    return made;
  }
  [[nodiscard]] double seconds(const ProbeMark& earlier, const ProbeMark& later) override {
    host(earlier).passed.wait();
    host(later).passed.wait();
    return std::chrono::duration<double>(host(later).time - host(earlier).time).count();
  }
  void synchronize(ProbeLane lane) override { stream(lane).record().wait(); }

 private:
  Stream& stream(ProbeLane lane) { return *lanes_[static_cast<std::size_t>(lane)]; }
  template <class Work>
  void run(ProbeLane lane, Work work) {
    static_cast<HostStream&>(stream(lane)).run(kLabel, std::move(work));
  }

  Recorder recorder_{false};
  HostDevice device_{{}, recorder_};
  std::array<std::unique_ptr<Stream>, kProbeLanes> lanes_;
};

}  // namespace

std::unique_ptr<ProbeDevice> make_host_probe_device() {
  return std::make_unique<HostProbeDevice>();
}

}  // namespace zenflow::runtime
