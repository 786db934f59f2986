#include "runtime/probe/peer_experiments.h"

#include <fmt/format.h>

#include "runtime/probe/probe.h"

namespace zenflow::runtime {
namespace {

constexpr double kGiga = 1e9;

class Peers final : public ExperimentGroup {
 public:
  Peers(PeerDevices& devices, std::size_t bytes) : devices_(devices), bytes_(bytes) {}

  [[nodiscard]] std::string name() const override { return "copies between GPUs"; }
  void prepare() override { devices_.prepare(bytes_); }
  void release() override { devices_.release(); }

  [[nodiscard]] std::vector<Experiment> experiments() override {
    std::vector<Experiment> list;
    for (int one = 0; one < devices_.count(); ++one) {
      for (int other = one + 1; other < devices_.count(); ++other) {
        for (const auto& [from, to] : {std::pair{one, other}, std::pair{other, one}}) {
          list.push_back(
              {fmt::format("peer.{}-{}", from, to), "GB/s", described(from, to),
               [=, this, from = from, to = to] { return rate(1, devices_.copy(from, to)); }});
        }
        list.push_back({fmt::format("peer.{}-{}.both", one, other), "GB/s",
                        "sum of both directions at once, " + described(one, other),
                        [=, this] { return rate(2, devices_.copy_both_ways(one, other)); }});
      }
    }
    return list;
  }

 private:
  [[nodiscard]] std::string described(int from, int to) const {
    return fmt::format("copy of {} between GPUs, {}", size_name(bytes_),
                       devices_.is_direct(from, to) ? "direct" : "by way of host memory");
  }
  [[nodiscard]] double rate(int copies, double seconds) const {
    return copies * static_cast<double>(bytes_) / seconds / kGiga;
  }

  PeerDevices& devices_;
  std::size_t bytes_;
};

}  // namespace

std::unique_ptr<ExperimentGroup> peer_experiments(PeerDevices& devices, std::size_t bytes) {
  return std::make_unique<Peers>(devices, bytes);
}

}  // namespace zenflow::runtime
