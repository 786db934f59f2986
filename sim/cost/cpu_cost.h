/// Time of CPU work on parameters and gradients, by bytes of memory traffic and cores.
///
/// Symbols: c cores at work, C cores of the node, A adam_bandwidth, h adam_half_cores,
/// a adam_launch, E elementwise_bandwidth, B core_bandwidth.
///
///   Adam             28 bytes a parameter (reads p, g, m, v; writes p, m, v; fp32)
///                    rate(c) = A * (c / (c + h)) / (C / (C + h)), and a for each call
///   other passes     rate(c) = min(E, c B)
///     scale          8 bytes   (unscaling and clipping, fp32 in place)
///     cast down      2 + 4     (fp32 to the 16-bit copy that is uploaded)
///     cast up        2 + 4     (16-bit gradient to fp32)
///     accumulate     2 + 4 + 4 (16-bit gradient into an fp32 sum)
///
/// rate(c) saturates: a memory-bound kernel gains little from the last cores. fp32 training has
/// no casts, and accumulates 4 + 4 + 4. The rates are a node's; ranks that share it get equal
/// shares. Source: Adam, Kingma & Ba 2015; traffic counted from the arrays touched. Adam writes
/// only what it read; the target of a cast is written without the read-for-ownership that
/// ordinary stores would add (2 bytes of 42).
#pragma once

#include <cstdint>

#include "sim/base/units.h"
#include "sim/config/hardware_profile.h"

namespace zenflow::sim {

inline constexpr double kAdamBytes = 28;
inline constexpr double kScaleBytes = 8;

/// Memory traffic of one parameter's update on the CPU and the time per parameter on `cores` of
/// the node's cores, all working.
struct CpuWork {
  double bytes = 0;  ///< of memory traffic per parameter
  Seconds time;      ///< per parameter
  Seconds launch;    ///< of a call, whatever it works on

  CpuWork& operator+=(const CpuWork& other) {
    bytes += other.bytes;
    time += other.time;
    launch += other.launch;
    return *this;
  }
  /// One call that works on so many parameters; on none there is no call.
  [[nodiscard]] Seconds call(double parameters) const {
    return parameters > 0 ? launch + parameters * time : Seconds(0);
  }
};

/// Memory traffic rate of CPU Adam on `cores` of the node. Precondition: 0 < cores.
[[nodiscard]] BytesPerSecond adam_rate(const HostProfile& host, double cores);
/// The same in a worker process whose threads are bound to its cores.
[[nodiscard]] BytesPerSecond worker_adam_rate(const HostProfile& host, double cores);
/// In training processes that run fewer threads than there are cores: as in the worker, since such
/// threads neither share cores nor wait for each other as many do, and at most adam_bandwidth,
/// which processes with a thread on every core reach.
[[nodiscard]] BytesPerSecond few_threads_adam_rate(const HostProfile& host, double threads);
/// Memory traffic rate of casts, scaling and accumulation.
[[nodiscard]] BytesPerSecond pass_rate(const HostProfile& host, double cores);

/// Unscale, clip, Adam, and the cast of the result for the upload; with `cast_gradient`
/// also the cast of a 16-bit gradient to fp32 first. `optimizer_bytes`: of another optimizer's
/// update, which is taken to run at Adam's rate.
[[nodiscard]] CpuWork update_work(const HostProfile& host, double cores, DType dtype,
                                  bool cast_gradient, double optimizer_bytes = kAdamBytes);
[[nodiscard]] CpuWork accumulate_work(const HostProfile& host, double cores, DType dtype);

}  // namespace zenflow::sim
