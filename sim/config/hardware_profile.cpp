#include "sim/config/hardware_profile.h"

#include <utility>

#include <fmt/format.h>

#include "sim/config/gpu_reader.h"
#include "sim/config/reader.h"

namespace zenflow::sim {
namespace {

GpuProfile read_gpu(MapReader map, NumberReader& numbers) {
  GpuProfile gpu;
  gpu.count = numbers.count(map, "count");
  read_gpu_numbers(map, numbers, gpu);
  map.reject_unknown_keys();
  return gpu;
}

/// Traffic of a CPU loop cannot exceed what DRAM delivers; a profile that says so would make
/// the loop run at DRAM speed whatever its own number is.
void check_below_dram(MapReader& map, std::string_view key, BytesPerSecond rate,
                      BytesPerSecond dram) {
  if (rate <= dram) return;
  const MapReader pair = map.require_map(key);
  pair.fail("value", fmt::format("expected at most host.dram_bandwidth, {:g} GB/s, found {:g} GB/s",
                                 dram.value() / 1e9, rate.value() / 1e9));
}

HostProfile read_host(MapReader map, NumberReader& numbers) {
  HostProfile host;
  host.name = map.require("name").string();
  host.sockets = numbers.count(map, "sockets");
  host.cores = numbers.count(map, "cores");
  host.memory = numbers.capacity(map, "memory");
  host.shared_memory = numbers.bytes(map, "shared_memory");
  if (map.node().find("locked_memory_limit") != nullptr) {
    host.locked_memory_limit = numbers.limit(map, "locked_memory_limit");
  }
  host.dram_bandwidth = numbers.bandwidth(map, "dram_bandwidth");
  host.core_bandwidth = numbers.bandwidth(map, "core_bandwidth");
  host.adam_bandwidth = numbers.bandwidth(map, "adam_bandwidth");
  host.adam_half_cores = numbers.cores(map, "adam_half_cores");
  host.elementwise_bandwidth = numbers.bandwidth(map, "elementwise_bandwidth");
  if (map.node().find("adam_launch") != nullptr) {
    host.adam_launch = numbers.duration(map, "adam_launch");
  }
  if (map.node().find("step_gap") != nullptr) host.step_gap = numbers.duration(map, "step_gap");
  if (map.node().find("unbound_efficiency") != nullptr) {
    host.unbound_efficiency = numbers.efficiency(map, "unbound_efficiency");
  }
  if (map.node().find("worker_adam_bandwidth") != nullptr) {
    host.worker_adam_bandwidth = numbers.bandwidth(map, "worker_adam_bandwidth");
  }
  map.reject_unknown_keys();
  check_below_dram(map, "adam_bandwidth", host.adam_bandwidth, host.dram_bandwidth);
  if (host.worker_adam_bandwidth) {
    check_below_dram(map, "worker_adam_bandwidth", *host.worker_adam_bandwidth,
                     host.dram_bandwidth);
  }
  check_below_dram(map, "elementwise_bandwidth", host.elementwise_bandwidth, host.dram_bandwidth);
  return host;
}

HostPath read_path(MapReader& map, NumberReader& numbers) {
  return {numbers.bandwidth(map, "h2d"), numbers.bandwidth(map, "d2h"),
          numbers.bandwidth(map, "bidirectional")};
}

/// A GPU has one upstream port, so it may stand in one switch only.
void read_switch_gpus(const ValueReader& list, std::int64_t gpu_count,
                      std::map<std::int64_t, std::string>& seen, HostSwitch& into) {
  for (const ValueReader& item : list.items()) {
    const std::int64_t gpu = item.integer(0, kLargestCount);
    if (gpu >= gpu_count) {
      item.fail(fmt::format("no such GPU: gpu.count is {}, found {}", gpu_count, gpu));
    }
    const auto [earlier, is_new] = seen.emplace(gpu, item.path());
    if (!is_new) item.fail(fmt::format("GPU {} is already named by {}", gpu, earlier->second));
    into.gpus.push_back(gpu);
  }
  if (into.gpus.empty()) list.fail("expected at least one GPU");
}

HostLinkProfile read_host_link(MapReader map, std::int64_t gpu_count, NumberReader& numbers) {
  HostLinkProfile link;
  link.kind = map.require("kind").string();
  link.pinned = read_path(map, numbers);
  link.pageable_h2d = numbers.bandwidth(map, "pageable_h2d");
  link.pageable_d2h = numbers.bandwidth(map, "pageable_d2h");
  link.latency = numbers.duration(map, "latency");
  if (const auto list = map.optional("switches")) {
    std::map<std::int64_t, std::string> seen;
    for (const ValueReader& item : list->items()) {
      MapReader entry(item.node(), item.path());
      HostSwitch host_switch;
      read_switch_gpus(entry.require("gpus"), gpu_count, seen, host_switch);
      host_switch.path = read_path(entry, numbers);
      entry.reject_unknown_keys();
      link.switches.push_back(std::move(host_switch));
    }
  }
  map.reject_unknown_keys();
  return link;
}

NvmeProfile read_nvme(MapReader map, NumberReader& numbers) {
  NvmeProfile nvme;
  nvme.read = numbers.bandwidth(map, "read");
  nvme.write = numbers.bandwidth(map, "write");
  if (map.node().find("capacity") != nullptr) nvme.capacity = numbers.capacity(map, "capacity");
  nvme.latency = numbers.duration(map, "latency");
  map.reject_unknown_keys();
  return nvme;
}

NetworkProfile read_network(MapReader map, NumberReader& numbers) {
  NetworkProfile network;
  network.bandwidth = numbers.bandwidth(map, "bandwidth");
  network.latency = numbers.duration(map, "latency");
  map.reject_unknown_keys();
  return network;
}

}  // namespace

HardwareProfile read_hardware_profile(const Node& root) {
  MapReader map(root, "");
  HardwareProfile profile;
  NumberReader numbers(profile.numbers);
  profile.name = map.require("name").string();
  profile.description = map.require("description").string();
  profile.gpu = read_gpu(map.require_map("gpu"), numbers);
  profile.host = read_host(map.require_map("host"), numbers);
  profile.host_link = read_host_link(map.require_map("host_link"), profile.gpu.count, numbers);
  if (auto link = map.optional_map("gpu_link")) {
    profile.gpu_link = read_gpu_link(*link, numbers);
    link->reject_unknown_keys();
  }
  if (auto nvme = map.optional_map("nvme")) profile.nvme = read_nvme(*nvme, numbers);
  if (auto network = map.optional_map("network")) profile.network = read_network(*network, numbers);
  map.reject_unknown_keys();
  if (profile.gpu.count > 1 && !profile.gpu_link) {
    fail_at(map.at(), "gpu_link",
            fmt::format("required, because gpu.count is {}, but missing", profile.gpu.count));
  }
  return profile;
}

}  // namespace zenflow::sim
