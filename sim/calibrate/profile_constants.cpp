#include "sim/calibrate/profile_constants.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace zenflow::sim {
namespace {

constexpr double kGiga = 1e9;
constexpr double kMicro = 1e-6;
/// Seconds; of a few threads, from a condition variable: what kernels take for it.
constexpr double kWakeUp = 10e-6;

class ConstantList {
 public:
  explicit ConstantList(const HardwareProfile& profile) : profile_(profile) {}

  /// `at` gives a reference to a quantity or a ratio.
  template <class At>
  void add(std::string path, std::string unit, double scale, At at, double unstated = 0) {
    ProfileConstant one{std::move(path), std::move(unit), scale,
                        [at](const HardwareProfile& p) { return number(at(p)); },
                        [at](HardwareProfile& p, double value) { assign(at(p), value); }};
    one.unstated = unstated;
    if (one.get(profile_) > 0 || unstated > 0) found_.push_back(std::move(one));
  }
  /// One constant for several switches, all with the value of the first. Both directions together
  /// carry at least what one does: a switch has no value that contradicts this.
  void capacity_of_switches(std::string path, std::vector<std::size_t> which,
                            BytesPerSecond HostPath::*rate, std::string isolated) {
    ProfileConstant one{std::move(path), "GB/s", kGiga,
                        [rate, first = which.front()](const HardwareProfile& p) {
                          return number(p.host_link.switches[first].path.*rate);
                        },
                        [rate, which](HardwareProfile& p, double value) {
                          for (const std::size_t i : which) {
                            HostPath& to = p.host_link.switches[i].path;
                            assign(to.*rate, value);
                            to.bidirectional = std::max({to.bidirectional, to.h2d, to.d2h});
                          }
                        }};
    one.is_capacity = true;
    one.isolated = std::move(isolated);
    if (one.get(profile_) > 0) found_.push_back(std::move(one));
  }
  template <class At>
  void rate(std::string path, At at) {
    add(std::move(path), "GB/s", kGiga, at);
  }
  /// A rate that others compete for, of which `isolated` is what one gets in isolation.
  template <class At>
  void shared_rate(std::string path, std::string isolated, At at) {
    const std::size_t before = found_.size();
    rate(std::move(path), at);
    if (found_.size() > before) found_.back().isolated = std::move(isolated);
  }
  template <class At>
  void time(std::string path, At at) {
    add(std::move(path), "us", kMicro, at);
  }
  template <class At>
  void ratio(std::string path, At at) {
    add(std::move(path), "", 1, at);
  }
  ProfileConstant& last() { return found_.back(); }
  std::vector<ProfileConstant> take() { return std::move(found_); }

 private:
  static double number(double value) { return value; }
  template <class Unit>
  static double number(Quantity<Unit> value) {
    return value.value();
  }
  static void assign(double& to, double value) { to = value; }
  template <class Unit>
  static void assign(Quantity<Unit>& to, double value) {
    to = Quantity<Unit>(value);
  }

  const HardwareProfile& profile_;
  std::vector<ProfileConstant> found_;
};

void add_gpu(ConstantList& list, const HardwareProfile& profile) {
  list.ratio(
      "gpu.gemm_efficiency", [](auto& p) -> auto& { return p.gpu.gemm_efficiency; });
  list.add(
      "gpu.gemm_half_size", "GFLOP", kGiga, [](auto& p) -> auto& { return p.gpu.gemm_half_size; });
  list.ratio(
      "gpu.attention_efficiency", [](auto& p) -> auto& { return p.gpu.attention_efficiency; });
  list.ratio(
      "gpu.elementwise_efficiency", [](auto& p) -> auto& { return p.gpu.elementwise_efficiency; });
  list.ratio(
      "gpu.streaming_efficiency", [](auto& p) -> auto& { return p.gpu.streaming_efficiency; });
  if (profile.gpu.column_efficiency) {
    list.ratio(
        "gpu.column_efficiency", [](auto& p) -> auto& { return *p.gpu.column_efficiency; });
  }
  list.time(
      "gpu.kernel_launch", [](auto& p) -> auto& { return p.gpu.kernel_launch; });
}

void add_host(ConstantList& list, const HardwareProfile& profile) {
  list.rate(
      "host.adam_bandwidth", [](auto& p) -> auto& { return p.host.adam_bandwidth; });
  list.ratio(
      "host.adam_half_cores", [](auto& p) -> auto& { return p.host.adam_half_cores; });
  if (profile.host.worker_adam_bandwidth) {
    list.rate(
        "host.worker_adam_bandwidth",
        [](auto& p) -> auto& { return *p.host.worker_adam_bandwidth; });
  }
  list.rate(
      "host.elementwise_bandwidth", [](auto& p) -> auto& { return p.host.elementwise_bandwidth; });
  list.rate(
      "host.core_bandwidth", [](auto& p) -> auto& { return p.host.core_bandwidth; });
  list.shared_rate(
      "host.dram_bandwidth", "host.adam_bandwidth",
      [](auto& p) -> auto& { return p.host.dram_bandwidth; });
  list.last().may_be_idle = true;
  list.time(
      "host.step_gap", [](auto& p) -> auto& { return p.host.step_gap; });
}

void add_links(ConstantList& list, const HardwareProfile& profile) {
  list.rate(
      "host_link.h2d", [](auto& p) -> auto& { return p.host_link.pinned.h2d; });
  list.rate(
      "host_link.d2h", [](auto& p) -> auto& { return p.host_link.pinned.d2h; });
  list.shared_rate(
      "host_link.bidirectional", "host_link.h2d",
      [](auto& p) -> auto& { return p.host_link.pinned.bidirectional; });
  list.rate(
      "host_link.pageable_h2d", [](auto& p) -> auto& { return p.host_link.pageable_h2d; });
  list.rate(
      "host_link.pageable_d2h", [](auto& p) -> auto& { return p.host_link.pageable_d2h; });
  list.time(
      "host_link.latency", [](auto& p) -> auto& { return p.host_link.latency; });
  if (profile.gpu_link) {
    list.rate(
        "gpu_link.bandwidth", [](auto& p) -> auto& { return p.gpu_link->bandwidth; });
    list.time(
        "gpu_link.latency", [](auto& p) -> auto& { return p.gpu_link->latency; });
  }
  if (profile.nvme) {
    list.rate(
        "nvme.read", [](auto& p) -> auto& { return p.nvme->read; });
    list.rate(
        "nvme.write", [](auto& p) -> auto& { return p.nvme->write; });
    list.time(
        "nvme.latency", [](auto& p) -> auto& { return p.nvme->latency; });
  }
  if (profile.network) {
    list.rate(
        "network.bandwidth", [](auto& p) -> auto& { return p.network->bandwidth; });
    list.time(
        "network.latency", [](auto& p) -> auto& { return p.network->latency; });
  }
  for (const SwitchGroup& group : switch_groups(profile.host_link)) {
    const auto add = [&](const char* name, BytesPerSecond HostPath::*rate) {
      list.capacity_of_switches(group.path + name, group.members, rate,
                                std::string("host_link") + name);
    };
    add(".h2d", &HostPath::h2d);
    add(".d2h", &HostPath::d2h);
    add(".bidirectional", &HostPath::bidirectional);
  }
}

}  // namespace

std::vector<ProfileConstant> profile_constants(const HardwareProfile& profile) {
  ConstantList list(profile);
  add_gpu(list, profile);
  add_host(list, profile);
  add_links(list, profile);
  list.add(
      "host.adam_launch", "us", kMicro, [](auto& p) -> auto& { return p.host.adam_launch; },
      kWakeUp);
  return list.take();
}

}  // namespace zenflow::sim
