#include "sim/calibrate/profile_constants.h"

#include <fmt/format.h>

namespace zenflow::sim {
namespace {

constexpr double kGiga = 1e9;
constexpr double kMicro = 1e-6;

class ConstantList {
 public:
  explicit ConstantList(const HardwareProfile& profile) : profile_(profile) {}

  /// `at` gives a reference to a quantity or a ratio.
  template <class At>
  void add(std::string path, std::string unit, double scale, At at) {
    ProfileConstant one{std::move(path), std::move(unit), scale,
                        [at](const HardwareProfile& p) { return number(at(p)); },
                        [at](HardwareProfile& p, double value) { assign(at(p), value); }};
    if (one.get(profile_) > 0) found_.push_back(std::move(one));
  }
  template <class At>
  void rate(std::string path, At at) {
    add(std::move(path), "GB/s", kGiga, at);
  }
  template <class At>
  void time(std::string path, At at) {
    add(std::move(path), "us", kMicro, at);
  }
  template <class At>
  void ratio(std::string path, At at) {
    add(std::move(path), "", 1, at);
  }
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
  list.rate(
      "host.dram_bandwidth", [](auto& p) -> auto& { return p.host.dram_bandwidth; });
  list.time(
      "host.step_gap", [](auto& p) -> auto& { return p.host.step_gap; });
}

void add_links(ConstantList& list, const HardwareProfile& profile) {
  list.rate(
      "host_link.h2d", [](auto& p) -> auto& { return p.host_link.pinned.h2d; });
  list.rate(
      "host_link.d2h", [](auto& p) -> auto& { return p.host_link.pinned.d2h; });
  list.rate(
      "host_link.bidirectional", [](auto& p) -> auto& { return p.host_link.pinned.bidirectional; });
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
}

}  // namespace

std::vector<ProfileConstant> profile_constants(const HardwareProfile& profile) {
  ConstantList list(profile);
  add_gpu(list, profile);
  add_host(list, profile);
  add_links(list, profile);
  return list.take();
}

}  // namespace zenflow::sim
