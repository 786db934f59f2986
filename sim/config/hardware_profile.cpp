#include "sim/config/hardware_profile.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "sim/config/reader.h"

namespace zenflow::sim {
namespace {

constexpr std::int64_t kMaxCount = 1'000'000;
constexpr std::array kDTypes = {DType::kBf16, DType::kFp16, DType::kFp32};

/// FLOPs of one kernel: "1.6 GFLOP". Only profiles hold this quantity, so it is parsed here
/// and not in ValueReader.
Flops parse_flops(const ValueReader& value) {
  struct Unit {
    std::string_view name;
    double scale;
  };
  static constexpr std::array<Unit, 4> kUnits = {
      {{"FLOP", 1.0}, {"MFLOP", 1e6}, {"GFLOP", 1e9}, {"TFLOP", 1e12}}};

  const std::string& text = value.node().scalar;  // empty if it is no scalar
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  const auto known = std::find_if(kUnits.begin(), kUnits.end(),
                                  [unit](const Unit& candidate) { return candidate.name == unit; });
  if (error != std::errc() || known == kUnits.end() || !std::isfinite(number) || number <= 0) {
    value.fail(fmt::format(
        "expected an amount of work > 0 with a unit such as \"1.6 GFLOP\", found \"{}\" "
        "(units: FLOP, MFLOP, GFLOP, TFLOP)",
        text));
  }
  return Flops(number * known->scale);
}

/// Reads `{value, source}` maps and remembers each number with its source, in reading order.
class NumberReader {
 public:
  explicit NumberReader(std::vector<SourcedNumber>& numbers) : numbers_(&numbers) {}

  [[nodiscard]] std::int64_t count(MapReader& map, std::string_view key) {
    return value(map, key).integer(1, kMaxCount);
  }
  [[nodiscard]] Bytes bytes(MapReader& map, std::string_view key) {
    return value(map, key).bytes();
  }
  [[nodiscard]] Bytes capacity(MapReader& map, std::string_view key) {
    const ValueReader number = value(map, key);
    const Bytes size = number.bytes();
    require_above_zero(number, size.value(), "a size > 0");
    return size;
  }
  /// "unlimited" is infinite.
  [[nodiscard]] Bytes limit(MapReader& map, std::string_view key) {
    const ValueReader number = value(map, key);
    if (number.node().scalar == "unlimited") {
      return Bytes(std::numeric_limits<double>::infinity());
    }
    const std::string& text = number.node().scalar;
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) == 0) {
      number.fail(
          fmt::format("expected a size such as \"64 GiB\" or \"unlimited\", found \"{}\"", text));
    }
    return number.bytes();
  }
  [[nodiscard]] BytesPerSecond bandwidth(MapReader& map, std::string_view key) {
    return value(map, key).bandwidth();
  }
  [[nodiscard]] FlopsPerSecond flops_rate(const ValueReader& entry) {
    return value(entry).flops_rate();
  }
  [[nodiscard]] Flops flops(MapReader& map, std::string_view key) {
    return parse_flops(value(map, key));
  }
  [[nodiscard]] Seconds duration(MapReader& map, std::string_view key) {
    return value(map, key).duration();
  }
  [[nodiscard]] double efficiency(MapReader& map, std::string_view key) {
    const ValueReader number = value(map, key);
    const double share = number.number(std::numeric_limits<double>::lowest(), 1.0);
    require_above_zero(number, share, "a number > 0 and <= 1");
    return share;
  }
  [[nodiscard]] double cores(MapReader& map, std::string_view key) {
    const ValueReader number = value(map, key);
    const double result = number.number(std::numeric_limits<double>::lowest(), kMaxCount);
    require_above_zero(number, result, "a number > 0");
    return result;
  }

 private:
  static void require_above_zero(const ValueReader& number, double value, std::string_view what) {
    if (value > 0) return;
    number.fail(fmt::format("expected {}, found \"{}\"", what, number.node().scalar));
  }

  [[nodiscard]] ValueReader value(MapReader& map, std::string_view key) {
    return value(map.require(key));
  }

  [[nodiscard]] ValueReader value(const ValueReader& entry) {
    if (entry.node().is_scalar()) {
      entry.fail(fmt::format("expected {{value: ..., source: \"...\"}}, found \"{}\"",
                             entry.node().scalar));
    }
    MapReader pair(entry.node(), entry.path());
    const ValueReader number = pair.require("value");
    const ValueReader source = pair.require("source");
    const std::string origin = source.string();
    if (origin.find_first_not_of(" \t\n") == std::string::npos) {
      source.fail("expected where the number comes from, found only spaces");
    }
    // What it is known to, of a fit; for whoever asks how sure a result is.
    if (const auto error = pair.optional("relative_error")) static_cast<void>(error->number(0, 1));
    pair.reject_unknown_keys();
    numbers_->push_back({entry.path(), number.node().scalar, origin});
    return number;
  }

  std::vector<SourcedNumber>* numbers_;
};

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

GpuProfile read_gpu(MapReader map, NumberReader& numbers) {
  GpuProfile gpu;
  gpu.name = map.require("name").string();
  gpu.count = numbers.count(map, "count");
  gpu.memory = numbers.capacity(map, "memory");
  gpu.context_memory = numbers.bytes(map, "context_memory");
  gpu.memory_bandwidth = numbers.bandwidth(map, "memory_bandwidth");
  gpu.peak = read_peak(map.require_map("peak"), numbers);
  gpu.gemm_efficiency = numbers.efficiency(map, "gemm_efficiency");
  gpu.gemm_half_size = numbers.flops(map, "gemm_half_size");
  gpu.attention_efficiency = numbers.efficiency(map, "attention_efficiency");
  gpu.elementwise_efficiency = numbers.efficiency(map, "elementwise_efficiency");
  gpu.streaming_efficiency = numbers.efficiency(map, "streaming_efficiency");
  if (map.node().find("column_efficiency") != nullptr) {
    gpu.column_efficiency = numbers.efficiency(map, "column_efficiency");
  }
  gpu.kernel_launch = numbers.duration(map, "kernel_launch");
  if (map.node().find("host_cores") != nullptr) gpu.host_cores = numbers.count(map, "host_cores");
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
    const std::int64_t gpu = item.integer(0, kMaxCount);
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

GpuLinkProfile read_gpu_link(MapReader map, NumberReader& numbers) {
  GpuLinkProfile link;
  link.kind = map.require("kind").string();
  link.bandwidth = numbers.bandwidth(map, "bandwidth");
  link.latency = numbers.duration(map, "latency");
  map.reject_unknown_keys();
  return link;
}

NvmeProfile read_nvme(MapReader map, NumberReader& numbers) {
  NvmeProfile nvme;
  nvme.read = numbers.bandwidth(map, "read");
  nvme.write = numbers.bandwidth(map, "write");
  nvme.capacity = numbers.capacity(map, "capacity");
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
  if (auto link = map.optional_map("gpu_link")) profile.gpu_link = read_gpu_link(*link, numbers);
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
