#include "sim/schedule/cluster.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/cost/transfer_cost.h"

namespace zenflow::sim {
namespace {

/// Bytes on each link per byte of one rank's transfer.
using Uses = std::vector<LinkUse>;

/// The node's links and how each rank's copies and CPU work use them.
class Links {
 public:
  explicit Links(const Scenario& scenario) : scenario_(scenario) {
    const HostProfile& host = scenario.hardware.host;
    for (std::int64_t socket = 0; socket < host.sockets; ++socket) {
      sockets_.push_back(add(fmt::format("dram{}", socket),
                             host.dram_bandwidth / static_cast<double>(host.sockets)));
    }
    for (std::size_t i = 0; i < scenario.hardware.host_link.switches.size(); ++i) {
      switches_.push_back(
          add_path(fmt::format("switch{}", i), scenario.hardware.host_link.switches[i].path));
      for (const std::int64_t gpu : scenario.hardware.host_link.switches[i].gpus) {
        above_.emplace(gpu, static_cast<int>(i));
      }
    }
    if (scenario.hardware.nvme) {
      nvme_read_ = add("nvme_read", scenario.hardware.nvme->read);
      nvme_write_ = add("nvme_write", scenario.hardware.nvme->write);
      // Reads and writes share the drive's time: read / R + write / W <= 1.
      nvme_both_ = add("nvme_both", scenario.hardware.nvme->read);
      written_byte_ = scenario.hardware.nvme->read / scenario.hardware.nvme->write;
    }
  }

  struct Path {
    LinkId h2d;
    LinkId d2h;
    LinkId both;
  };

  Path add_path(const std::string& name, const HostPath& path) {
    return {add(name + ".h2d", path.h2d), add(name + ".d2h", path.d2h),
            add(name + ".both", path.bidirectional)};
  }

  [[nodiscard]] const Path& switch_path(std::size_t index) const { return switches_[index]; }

  /// The switch above a GPU, or -1.
  [[nodiscard]] int switch_of(std::int64_t gpu) const {
    const auto found = above_.find(gpu);
    return found == above_.end() ? -1 : found->second;
  }

  /// Memory traffic of a rank: on its own socket if ranks divide evenly among the sockets,
  /// else spread over all of them.
  [[nodiscard]] Uses dram(std::int64_t rank) const {
    if (const int socket = socket_of(rank); socket >= 0) {
      return {{sockets_[static_cast<std::size_t>(socket)], 1.0}};
    }
    Uses uses;
    for (const LinkId socket : sockets_) {
      uses.push_back({socket, 1.0 / static_cast<double>(sockets_.size())});
    }
    return uses;
  }

  /// Equal for GPUs whose switches have equal capacities: the first such switch, or -1.
  [[nodiscard]] int path_kind_of(std::int64_t gpu) const {
    const auto& switches = scenario_.hardware.host_link.switches;
    const int above = switch_of(gpu);
    for (int i = 0; i < above; ++i) {
      const HostPath& a = switches[static_cast<std::size_t>(i)].path;
      const HostPath& b = switches[static_cast<std::size_t>(above)].path;
      if (a.h2d == b.h2d && a.d2h == b.d2h && a.bidirectional == b.bidirectional) return i;
    }
    return above;
  }

  /// The socket a rank is on, or -1 if it is spread over all.
  [[nodiscard]] int socket_of(std::int64_t rank) const {
    const auto sockets = static_cast<std::int64_t>(sockets_.size());
    return scenario_.gpus % sockets == 0 ? static_cast<int>(rank * sockets / scenario_.gpus) : -1;
  }

  /// A copy's use of everything but the GPU's own link.
  [[nodiscard]] Uses copy(std::int64_t rank, bool to_host) const {
    Uses uses = dram(rank);
    if (const int above = switch_of(rank); above >= 0) {
      const Path& path = switches_[static_cast<std::size_t>(above)];
      uses.push_back({to_host ? path.d2h : path.h2d, 1.0});
      uses.push_back({path.both, 1.0});
    }
    return uses;
  }

  [[nodiscard]] Uses nvme(std::int64_t rank, bool write) const {
    Uses uses = {{write ? nvme_write_ : nvme_read_, 1.0},
                 {nvme_both_, write ? written_byte_ : 1.0}};
    for (const LinkUse& use : dram(rank)) uses.push_back(use);
    return uses;
  }

  [[nodiscard]] const std::vector<Link>& links() const { return links_; }

  LinkId add(std::string name, BytesPerSecond capacity) {
    links_.push_back({std::move(name), capacity});
    return static_cast<LinkId>(links_.size() - 1);
  }

 private:
  const Scenario& scenario_;
  std::vector<Link> links_;
  std::vector<LinkId> sockets_;
  std::vector<Path> switches_;
  std::unordered_map<std::int64_t, int> above_;  ///< by GPU: its switch
  LinkId nvme_read_ = 0;
  LinkId nvme_write_ = 0;
  LinkId nvme_both_ = 0;
  double written_byte_ = 1;  ///< in bytes read that take the drive as long
};

/// What a rank shares, as a value that is equal for ranks in like positions: how many ranks of
/// each colour are on its switch and on its socket.
using Position = std::pair<std::map<int, int>, std::map<int, int>>;

/// Colours ranks so that equal colours behave alike (colour refinement: start with the capacity of
/// the path above, split those whose neighbours differ, until nothing splits).
std::vector<int> colour_ranks(const Links& links, std::int64_t gpus) {
  const auto count = static_cast<std::size_t>(gpus);
  std::vector<int> colours(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    colours[rank] = links.path_kind_of(static_cast<std::int64_t>(rank));
  }
  for (std::size_t classes = 0;;) {
    std::map<int, std::map<int, int>> on_switch;
    std::map<int, std::map<int, int>> on_socket;
    for (std::size_t rank = 0; rank < count; ++rank) {
      const auto r = static_cast<std::int64_t>(rank);
      if (const int above = links.switch_of(r); above >= 0) ++on_switch[above][colours[rank]];
      ++on_socket[links.socket_of(r)][colours[rank]];
    }
    std::map<std::pair<int, Position>, int> known;
    std::vector<int> refined(count);
    for (std::size_t rank = 0; rank < count; ++rank) {
      const auto r = static_cast<std::int64_t>(rank);
      const int above = links.switch_of(r);
      const Position position{above >= 0 ? on_switch[above] : std::map<int, int>{},
                              on_socket[links.socket_of(r)]};
      refined[rank] = known.try_emplace({colours[rank], position}, static_cast<int>(known.size()))
                          .first->second;
    }
    colours = refined;
    if (known.size() == classes) return colours;
    classes = known.size();
  }
}

class ClusterBuilder {
 public:
  ClusterBuilder(const Scenario& scenario, const RankRates& rates, bool background_gather)
      : scenario_(scenario),
        rates_(rates),
        background_gather_(background_gather),
        links_(scenario) {}

  Cluster build() {
    const std::vector<int> colours = colour_ranks(links_, scenario_.gpus);
    for (std::size_t rank = 0; rank < colours.size(); ++rank) {
      const auto colour = static_cast<std::size_t>(colours[rank]);
      if (colour >= members_.size()) members_.resize(colour + 1);
      members_[colour].push_back(static_cast<std::int64_t>(rank));
    }
    cluster_.classes.resize(members_.size());
    for (std::size_t i = 0; i < members_.size(); ++i) add_class(i);
    if (scenario_.ranks() > 1) add_collectives();
    cluster_.machine.links = links_.links();
    prune_links();
    return std::move(cluster_);
  }

 private:
  /// Collectives of several streams pass over the same links between GPUs.
  void add_collectives() {
    BytesPerSecond rate =
        communicator(scenario_.hardware, scenario_.gpus, scenario_.nodes).bandwidth;
    // Where it shares GPUs' own links with copies it is counted as what one GPU of it moves.
    const bool over_network_cards = network_cards_by_gpus();
    if (over_network_cards) rate = rate / static_cast<double>(scenario_.gpus);
    Uses uses = {{links_.add("gpu_link", rate), 1.0}};
    if (over_host_links()) add_host_paths(uses, rate);
    if (over_network_cards) add_own_paths(uses, rate);
    const auto add = [&](LaneKind kind) {
      cluster_.machine.flows.push_back({rate, uses});
      return LaneUse{add_lane(kind, -1, ""),
                     static_cast<FlowId>(cluster_.machine.flows.size() - 1)};
    };
    cluster_.collective = add(LaneKind::kCollective);
    if (background_gather_) cluster_.gather = add(LaneKind::kGather);
  }

  /// GPUs without a link of their own reach each other over those to the host.
  [[nodiscard]] bool over_host_links() const {
    const auto& link = scenario_.hardware.gpu_link;
    return scenario_.gpus > 1 && link && link->kind.starts_with("PCIe");
  }

  /// Between nodes GPUs reach their network cards over the PCIe link that leads to the host, too,
  /// though not over the switch's way up to it: cards are below the same switches (GPUDirect RDMA),
  /// as in the DGX A100 and H100. Each GPU passes its part of what the node's network carries.
  [[nodiscard]] bool network_cards_by_gpus() const {
    return scenario_.nodes > 1 && !over_host_links() &&
           scenario_.hardware.host_link.kind.starts_with("PCIe");
  }

  /// In and out at the rate. Alone a collective has the rate that was measured, whatever the links
  /// are said to carry.
  static void add_path(Uses& uses, const Links::Path& path, const HostPath& capacity,
                       BytesPerSecond rate) {
    uses.push_back({path.h2d, std::min(1.0, capacity.h2d / rate)});
    uses.push_back({path.d2h, std::min(1.0, capacity.d2h / rate)});
    uses.push_back({path.both, std::min(2.0, capacity.bidirectional / rate)});
  }

  void add_own_paths(Uses& uses, BytesPerSecond rate) const {
    for (const Links::Path& own : own_paths_) {
      add_path(uses, own, scenario_.hardware.host_link.pinned, rate);
    }
  }

  /// A ring passes in and out of each GPU, and in and out of each switch once.
  void add_host_paths(Uses& uses, BytesPerSecond rate) const {
    add_own_paths(uses, rate);
    for (std::size_t i = 0; i < scenario_.hardware.host_link.switches.size(); ++i) {
      add_path(uses, links_.switch_path(i), scenario_.hardware.host_link.switches[i].path, rate);
    }
  }

  void add_class(std::size_t index) {
    RankClass& one = cluster_.classes[index];
    one.multiplicity = static_cast<std::int64_t>(members_[index].size());
    one.first_rank = members_[index].front();
    const std::string suffix = std::to_string(one.first_rank);
    const Links::Path own = links_.add_path("gpu" + suffix, scenario_.hardware.host_link.pinned);
    own_paths_.push_back(own);
    const auto add = [&](LaneKind kind, BytesPerSecond rate, Uses own_uses, auto shared_uses) {
      for (const std::int64_t member : members_[index])
        add_uses(own_uses, shared_uses(member), member == one.first_rank);
      cluster_.machine.flows.push_back({rate, std::move(own_uses)});
      return LaneUse{add_lane(kind, static_cast<int>(index), suffix),
                     static_cast<FlowId>(cluster_.machine.flows.size() - 1)};
    };
    const auto dram = [this](std::int64_t rank) { return links_.dram(rank); };
    one.compute = {add_lane(LaneKind::kCompute, static_cast<int>(index), suffix), kNoFlow};
    one.d2h = add(LaneKind::kD2H, rates_.d2h, {{own.d2h, 1}, {own.both, 1}},
                  [this](std::int64_t rank) { return links_.copy(rank, true); });
    one.h2d = add(LaneKind::kH2D, rates_.h2d, {{own.h2d, 1}, {own.both, 1}},
                  [this](std::int64_t rank) { return links_.copy(rank, false); });
    one.h2d_kernels = one.h2d;
    one.cpu_update = add(LaneKind::kCpuUpdate, rates_.cpu_update, {}, dram);
    one.cpu_accumulate = add(LaneKind::kCpuAccumulate, rates_.cpu_accumulate, {}, dram);
    if (rates_.optimizer_shares_cores) share_cores(one, suffix);
    if (!scenario_.hardware.nvme) return;
    one.nvme_read = add(LaneKind::kNvmeRead, scenario_.hardware.nvme->read, {},
                        [this](std::int64_t rank) { return links_.nvme(rank, false); });
    one.nvme_write = add(LaneKind::kNvmeWrite, scenario_.hardware.nvme->write, {},
                         [this](std::int64_t rank) { return links_.nvme(rank, true); });
  }

  /// A link that bears the optimizer at full speed and compute at half of its own: flows rise
  /// together until the optimizer has its solo rate, and then the link is full.
  void share_cores(RankClass& one, const std::string& suffix) {
    Machine& machine = cluster_.machine;
    const BytesPerSecond optimizer = rates_.cpu_update;
    const LinkId cores = links_.add("cores" + suffix, 2 * optimizer);
    machine.flows[one.cpu_update.flow].uses.push_back({cores, 1.0});
    machine.flows.push_back({2 * optimizer, {{cores, 1.0}}});
    one.compute.flow = static_cast<FlowId>(machine.flows.size() - 1);
  }

  LaneId add_lane(LaneKind kind, int rank_class, const std::string& suffix) {
    cluster_.machine.lanes.push_back(std::string(simulated_name(kind)) + suffix);
    cluster_.lanes.push_back({kind, rank_class});
    return static_cast<LaneId>(cluster_.lanes.size() - 1);
  }

  /// Adds a member's load to the links that the representative uses too. Links that only
  /// other members use (their switch, their socket) carry the same load as its own.
  static void add_uses(Uses& total, const Uses& member, bool is_representative) {
    for (const LinkUse& use : member) {
      const auto same = std::find_if(total.begin(), total.end(),
                                     [&](const LinkUse& one) { return one.link == use.link; });
      if (same != total.end()) {
        same->coefficient += use.coefficient;
      } else if (is_representative) {
        total.push_back(use);
      }
    }
  }

  /// Every flow has its own lane, so at most all flows run at once. A link that bears even
  /// that is no constraint; a flow without constraints is no flow.
  void prune_links() {
    Machine& machine = cluster_.machine;
    std::vector<double> demand(machine.links.size(), 0.0);
    for (const Flow& flow : machine.flows) {
      for (const LinkUse& use : flow.uses) {
        demand[use.link] += use.coefficient * flow.solo_rate.value();
      }
    }
    std::vector<LinkId> renumbered(machine.links.size(), 0);
    std::vector<Link> kept;
    std::vector<bool> binding(machine.links.size(), false);
    for (std::size_t i = 0; i < machine.links.size(); ++i) {
      binding[i] = demand[i] > machine.links[i].capacity.value();
      if (!binding[i]) continue;
      renumbered[i] = static_cast<LinkId>(kept.size());
      kept.push_back(machine.links[i]);
    }
    for (Flow& flow : machine.flows) {
      std::erase_if(flow.uses, [&](const LinkUse& use) { return !binding[use.link]; });
      for (LinkUse& use : flow.uses) use.link = renumbered[use.link];
    }
    machine.links = std::move(kept);
    const auto forget_if_free = [&machine](LaneUse& use) {
      if (use.flow != kNoFlow && machine.flows[use.flow].uses.empty()) use.flow = kNoFlow;
    };
    forget_if_free(cluster_.collective);
    forget_if_free(cluster_.gather);
    for (RankClass& one : cluster_.classes) {
      for (LaneUse* use : {&one.compute, &one.d2h, &one.h2d, &one.h2d_kernels, &one.cpu_update,
                           &one.cpu_accumulate, &one.nvme_read, &one.nvme_write}) {
        forget_if_free(*use);
      }
    }
  }

  const Scenario& scenario_;
  const RankRates& rates_;
  bool background_gather_;
  Links links_;
  std::vector<std::vector<std::int64_t>> members_;  ///< ranks of each class
  std::vector<Links::Path> own_paths_;              ///< of each class's first
  Cluster cluster_;
};

}  // namespace

void add_training_lanes(Cluster& cluster) {
  for (std::size_t i = 0; i < cluster.classes.size(); ++i) {
    RankClass& one = cluster.classes[i];
    one.training = {static_cast<LaneId>(cluster.lanes.size()), kNoFlow};
    cluster.machine.lanes.push_back(
        fmt::format("{}{}", simulated_name(LaneKind::kTraining), one.first_rank));
    cluster.lanes.push_back({LaneKind::kTraining, static_cast<int>(i)});
  }
}

double copying_cores(const HostProfile& host, BytesPerSecond rate) {
  constexpr double kTraffic = 3;
  return std::min(1.0, kTraffic * (rate / host.core_bandwidth));
}

namespace {

/// Competitors for a link of cores: `threads` of them, the last one a part of a thread.
void add_other_threads(Machine& machine, LinkId cores, double threads) {
  const double whole = std::floor(threads);
  const auto add = [&](double wanted, std::size_t times) {
    if (wanted <= 0 || times == 0) return;
    machine.flows.push_back({BytesPerSecond(wanted), {{cores, 1.0}}});
    machine.background.insert(machine.background.end(), times,
                              static_cast<FlowId>(machine.flows.size() - 1));
  };
  add(1, static_cast<std::size_t>(whole));
  add(threads - whole, 1);
}

class HostDeviceCluster {
 public:
  HostDeviceCluster(const Scenario& scenario, const RankRates& rates, const HostDeviceCores& cores)
      : scenario_(scenario), rates_(rates), cores_(cores) {}

  Cluster build(const std::vector<AlikeRanks>& classes) {
    for (const AlikeRanks& one : classes) add_class(one);
    if (scenario_.ranks() > 1) add_collectives();
    const double threads = scenario_.other_threads / static_cast<double>(scenario_.ranks());
    for (LinkId link = 0; link < cluster_.machine.links.size(); ++link) {
      add_other_threads(cluster_.machine, link, threads);
    }
    cluster_.compute_keeps_its_time = false;
    return std::move(cluster_);
  }

 private:
  LaneUse add_flow(LaneId lane, double wanted, LinkId cores) {
    cluster_.machine.flows.push_back({BytesPerSecond(wanted), {{cores, 1.0}}});
    return {lane, static_cast<FlowId>(cluster_.machine.flows.size() - 1)};
  }
  LaneId add_lane(LaneKind kind, int rank_class, const std::string& suffix) {
    cluster_.machine.lanes.push_back(std::string(simulated_name(kind)) + suffix);
    cluster_.lanes.push_back({kind, rank_class});
    return static_cast<LaneId>(cluster_.lanes.size() - 1);
  }

  /// Core-seconds a second take the place of bytes a second.
  void add_class(const AlikeRanks& ranks) {
    const HostProfile& host = scenario_.hardware.host;
    const auto number = static_cast<int>(cluster_.classes.size());
    const std::string suffix = std::to_string(ranks.first_rank);
    const auto link = static_cast<LinkId>(cluster_.machine.links.size());
    cluster_.machine.links.push_back(
        {scenario_.ranks() > 1 ? "cores" + suffix : "cores",
         BytesPerSecond(static_cast<double>(host.cores) / static_cast<double>(scenario_.ranks()))});
    const auto add = [&](LaneKind kind, double wanted) {
      return add_flow(add_lane(kind, number, suffix), wanted, link);
    };
    RankClass one;
    one.multiplicity = ranks.count;
    one.first_rank = ranks.first_rank;
    one.compute = add(LaneKind::kCompute, static_cast<double>(scenario_.hardware.gpu.host_cores));
    one.d2h = add(LaneKind::kD2H, copying_cores(host, rates_.d2h));
    one.h2d = add(LaneKind::kH2D, copying_cores(host, rates_.h2d));
    one.h2d_kernels = add_flow(one.h2d.lane, 1, link);
    one.cpu_update = add(LaneKind::kCpuUpdate, cores_.cpu_update);
    one.cpu_accumulate = add(LaneKind::kCpuAccumulate, cores_.cpu_accumulate);
    cluster_.classes.push_back(one);
  }

  void add_collectives() {
    Uses uses;
    for (LinkId link = 0; link < cluster_.machine.links.size(); ++link) uses.push_back({link, 1.0});
    cluster_.machine.flows.push_back({BytesPerSecond(1), std::move(uses)});
    cluster_.collective = {add_lane(LaneKind::kCollective, -1, ""),
                           static_cast<FlowId>(cluster_.machine.flows.size() - 1)};
  }

  const Scenario& scenario_;
  const RankRates& rates_;
  const HostDeviceCores& cores_;
  Cluster cluster_;
};

}  // namespace

Cluster make_host_device_cluster(const Scenario& scenario, const RankRates& rates,
                                 const HostDeviceCores& cores,
                                 const std::vector<AlikeRanks>& classes) {
  return HostDeviceCluster(scenario, rates, cores).build(classes);
}

Cluster make_cluster(const Scenario& scenario, const RankRates& rates, bool background_gather) {
  if (scenario.hardware.gpu.runs_on_host() && scenario.gpus > 1) {
    throw Error(ErrorKind::kInput,
                fmt::format("profile {}: expected one GPU, found {}: several ranks share a host's "
                            "cores under the live-* schedules alone",
                            scenario.hardware.name, scenario.gpus));
  }
  return ClusterBuilder(scenario, rates, background_gather).build();
}

}  // namespace zenflow::sim
