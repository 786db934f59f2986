/// What the probe asks of a device: the same measuring loops run on a GPU and, rehearsed in every
/// test, on the host device. Work is enqueued in lanes and timed by marks in them, as CUDA's
/// streams and events do it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/device/device.h"
#include "runtime/model/gemm.h"
#include "sim/config/hardware_profile.h"

namespace zenflow::runtime {

/// What sums are scaled by where accumulation is measured. Small: repeated updates stay finite.
inline constexpr float kAccumulateScale = 1.0e-3F;

enum class ProbeMemory : std::uint8_t { kDevice, kPinned, kPageable };
enum class ProbeLane : std::uint8_t { kCompute, kH2D, kD2H };
inline constexpr std::size_t kProbeLanes = 3;

/// A place in a lane. Complete, and its time known, once the lane has come to it.
class ProbeMark {
 public:
  virtual ~ProbeMark() = default;
};

/// Row-major products, one after the other in memory: c[i] = a[i] b[i] or a[i] b[i]^T.
struct ProbeProduct {
  GemmShape shape;
  std::int64_t batch = 1;
  bool b_transposed = false;
};

class ProbeDevice {
 public:
  virtual ~ProbeDevice() = default;

  [[nodiscard]] virtual std::string name() const = 0;
  /// Element type of matrix products: what training uses on this device.
  [[nodiscard]] virtual sim::DType product_type() const = 0;

  /// Throws Error(kInfeasible) if there is not so much.
  [[nodiscard]] virtual Buffer allocate(ProbeMemory where, std::size_t bytes) = 0;

  /// Values between -1 and 1 of `product_type`: on zeros a GPU draws less power and clocks higher.
  virtual void fill(const Buffer& device_memory) = 0;

  virtual void copy(ProbeLane lane, void* to, const void* from, std::size_t bytes,
                    CopyDirection direction) = 0;
  /// y += s x: 12 bytes an element, n fp32 values. The fused streaming kernel of a profile.
  virtual void update(ProbeLane lane, float* y, const float* x, std::size_t n) = 0;
  /// y = s x: 8 bytes an element. A pass of a framework's element-wise chain.
  virtual void pass(ProbeLane lane, float* y, const float* x, std::size_t n) = 0;
  /// Arrays of `product_type`, as many elements as the product has.
  virtual void multiply(ProbeLane lane, const ProbeProduct& product, const void* a, const void* b,
                        void* c) = 0;
  /// The smallest kernel.
  virtual void nothing(ProbeLane lane) = 0;
  /// Keeps the lane busy for longer than the host takes to enqueue what follows: a mark behind it
  /// is passed when the work behind the mark is there, and not while it is on its way. For work
  /// that the host only enqueues; the host's own part would go on meanwhile, unmeasured.
  virtual void occupy(ProbeLane lane) = 0;

  [[nodiscard]] virtual std::shared_ptr<ProbeMark> mark(ProbeLane lane) = 0;
  /// Waits for both marks. Negative if `later` came first.
  [[nodiscard]] virtual double seconds(const ProbeMark& earlier, const ProbeMark& later) = 0;
  /// Waits for all work of the lane.
  virtual void synchronize(ProbeLane lane) = 0;
};

/// The next of a fixed series of values between -1 and 1.
[[nodiscard]] inline float next_fill(std::uint32_t& state) {
  state = state * 1664525U + 1013904223U;  // Numerical Recipes' linear congruential generator
  return static_cast<float>(state >> 8) * 0x1p-23F - 1.0F;
}

inline constexpr double kUpdateBytes = 12;
inline constexpr double kPassBytes = 8;

/// Host device: lanes are threads, memory is host memory, copies are memcpy, products are fp32.
[[nodiscard]] std::unique_ptr<ProbeDevice> make_host_probe_device();

}  // namespace zenflow::runtime
