#include "sim/cost/cpu_cost.h"

#include <algorithm>

namespace zenflow::sim {
namespace {

CpuWork work(double bytes, BytesPerSecond rate) {
  return {bytes, Bytes(bytes) / rate, Seconds(0)};
}

double width(DType dtype) {
  return static_cast<double>(bytes_per_element(dtype));
}

/// The share of the rate on all cores that `cores` of them reach.
double share_of_adam(const HostProfile& host, double cores) {
  const double all = static_cast<double>(host.cores);
  const double half = host.adam_half_cores;
  return (cores / (cores + half)) / (all / (all + half));
}

}  // namespace

BytesPerSecond adam_rate(const HostProfile& host, double cores) {
  return share_of_adam(host, cores) * host.adam_bandwidth;
}

BytesPerSecond worker_adam_rate(const HostProfile& host, double cores) {
  return share_of_adam(host, cores) * host.worker_adam_bandwidth.value_or(host.adam_bandwidth);
}

BytesPerSecond few_threads_adam_rate(const HostProfile& host, double threads) {
  if (!host.worker_adam_bandwidth) return adam_rate(host, threads);
  return std::min(host.adam_bandwidth, worker_adam_rate(host, threads));
}

BytesPerSecond pass_rate(const HostProfile& host, double cores) {
  return std::min(host.elementwise_bandwidth, cores * host.core_bandwidth);
}

CpuWork update_work(const HostProfile& host, double cores, DType dtype, bool cast_gradient,
                    double optimizer_bytes) {
  CpuWork total = work(optimizer_bytes, adam_rate(host, cores));
  total.launch = host.adam_launch;
  total += work(kScaleBytes, pass_rate(host, cores));
  // With fp32 training there is nothing to cast: the upload reads the master copy.
  if (dtype != DType::kFp32) {
    const CpuWork cast = work(4 + width(dtype), pass_rate(host, cores));
    total += cast;
    if (cast_gradient) total += cast;
  }
  return total;
}

CpuWork accumulate_work(const HostProfile& host, double cores, DType dtype) {
  return work(width(dtype) + 8, pass_rate(host, cores));
}

}  // namespace zenflow::sim
