#include "sim/config/gpu_reader.h"

#include <array>
#include <utility>

namespace zenflow::sim {
namespace {

constexpr std::array kDTypes = {DType::kBf16, DType::kFp16, DType::kFp32};

std::map<DType, FlopsPerSecond> read_peak(MapReader map, NumberReader& numbers) {
  std::map<DType, FlopsPerSecond> peak;
  for (const DType dtype : kDTypes) {
    if (const auto entry = map.optional(to_string(dtype))) {
      peak.emplace(dtype, numbers.flops_rate(*entry));
    }
  }
  map.reject_unknown_keys();
  if (peak.empty()) fail_at(map.at(), map.path(), "expected at least one of bf16, fp16 and fp32");
  return peak;
}

}  // namespace

void read_gpu_numbers(MapReader& map, NumberReader& numbers, GpuProfile& gpu) {
  const auto stated = [&map](const char* key) { return map.node().find(key) != nullptr; };
  gpu.name = map.require("name").string();
  gpu.memory = numbers.capacity(map, "memory");
  gpu.context_memory = numbers.bytes(map, "context_memory");
  gpu.memory_bandwidth = numbers.bandwidth(map, "memory_bandwidth");
  gpu.peak = read_peak(map.require_map("peak"), numbers);
  gpu.gemm_efficiency = numbers.efficiency(map, "gemm_efficiency");
  if (stated("multi_gpu_gemm_share"))
    gpu.multi_gpu_gemm_share = numbers.efficiency(map, "multi_gpu_gemm_share");
  if (stated("gemm_half_size")) gpu.gemm_half_size = numbers.flops(map, "gemm_half_size");
  gpu.attention_efficiency = numbers.efficiency(map, "attention_efficiency");
  gpu.elementwise_efficiency = numbers.efficiency(map, "elementwise_efficiency");
  gpu.streaming_efficiency = numbers.efficiency(map, "streaming_efficiency");
  if (stated("column_efficiency")) {
    gpu.column_efficiency = numbers.efficiency(map, "column_efficiency");
  }
  gpu.kernel_launch = numbers.duration(map, "kernel_launch");
  if (stated("multiprocessors")) gpu.multiprocessors = numbers.count(map, "multiprocessors");
  if (stated("lanes")) gpu.lanes = numbers.count(map, "lanes");
  if (stated("clock")) gpu.clock = numbers.hertz(map, "clock");
  if (stated("host_cores")) gpu.host_cores = numbers.count(map, "host_cores");
}

GpuLinkProfile read_gpu_link(MapReader& map, NumberReader& numbers) {
  GpuLinkProfile link;
  link.kind = map.require("kind").string();
  link.bandwidth = numbers.bandwidth(map, "bandwidth");
  link.latency = numbers.duration(map, "latency");
  return link;
}

}  // namespace zenflow::sim
