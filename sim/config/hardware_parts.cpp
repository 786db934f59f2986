#include "sim/config/hardware_parts.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/config/number_reader.h"
#include "sim/config/part_block.h"
#include "sim/config/reader.h"

namespace zenflow::sim {
namespace {

constexpr std::int64_t kMostParts = 4096;
constexpr double kGiga = 1e9;
constexpr double kBytesPerTransfer = 8;

constexpr double kDramShare = 0.70;
constexpr double kAdamShare = 0.188;
constexpr double kWorkerAdamShare = 0.425;
constexpr double kAdamHalfCores = 12;
constexpr double kElementwiseShare = 0.8;
constexpr double kSlowCore = 12 * kGiga;
constexpr double kCore = 20 * kGiga;
constexpr double kSlowDramRate = 2933e6;
constexpr double kFullLanes = 16;
constexpr double kBothDirections = 1.5;
constexpr double kStaging = 19.3 * kGiga;
constexpr double kCollectiveShare = 0.8;
constexpr double kNetworkShare = 0.9;
constexpr double kBitsPerByte = 8;

constexpr const char* kKernelShare =
    "the kernel alone reaches 42.5 % on two Xeon 8168 (ZeRO-Offload, arXiv 2101.06840, table 4: "
    "109 of 256 GB/s)";

double read_dram_rate(const ValueReader& value) {
  static constexpr std::array<NamedUnit, 1> kUnits = {{{"MT/s", 1e6}}};
  return read_with_unit(value, "a transfer rate such as \"3200 MT/s\"", kUnits);
}

double read_line_rate(const ValueReader& value) {
  static constexpr std::array<NamedUnit, 3> kUnits = {
      {{"Mb/s", 1e6}, {"Gb/s", 1e9}, {"Tb/s", 1e12}}};
  return read_with_unit(value, "a line rate in bits such as \"400 Gb/s\"", kUnits);
}

struct Dram {
  double theoretical = 0;  ///< bytes per second of all sockets
  double rate = 0;         ///< transfers per second; 0: not stated
  std::string words;       ///< "2 x 6 channels x 2933 MT/s x 8 B = 281.6 GB/s"
};

/// From channels and rate; without them from the bandwidth that is stated. Puts dram_bandwidth.
Dram put_dram(PartBlock& host, std::int64_t sockets) {
  MapReader& from = host.from();
  Dram dram;
  const bool is_derived = host.states("dram_rate") && host.states("dram_channels_per_socket");
  if (host.states("dram_bandwidth") && !is_derived) {
    from.ignore("dram_channels_per_socket");
    if (const auto rate = from.optional("dram_rate")) dram.rate = read_dram_rate(*rate);
    host.stated("dram_bandwidth");
    dram.theoretical = host.bandwidth("dram_bandwidth") / kDramShare;
    dram.words = fmt::format("{}, dram_bandwidth over {}", rate_text(dram.theoretical), kDramShare);
    return dram;
  }
  const std::int64_t channels = from.require("dram_channels_per_socket").integer(1, kMostParts);
  const ValueReader rate = from.require("dram_rate");
  dram.rate = read_dram_rate(rate);
  dram.theoretical = static_cast<double>(sockets * channels) * dram.rate * kBytesPerTransfer;
  dram.words = fmt::format("{} x {} channels x {} x 8 B = {}", sockets, channels,
                           rate.node().scalar, rate_text(dram.theoretical));
  host.number("dram_bandwidth", rate_text(kDramShare * dram.theoretical),
              fmt::format("estimate: {} of {}; STREAM reaches 0.635 on two EPYC Rome (Azure HBv2), "
                          "0.81 to 0.85 on Milan (HBv3), 0.70 to 0.85 on Genoa (HBv4)",
                          kDramShare, dram.words));
  return dram;
}

void put_cpu_adam(PartBlock& host, const Dram& dram, std::int64_t sockets, std::int64_t cores) {
  const double achieved = host.bandwidth("dram_bandwidth");
  const bool one = sockets == 1;
  const double share = one ? kWorkerAdamShare : kAdamShare;
  const double most =
      std::min(achieved, static_cast<double>(cores) * host.bandwidth("core_bandwidth"));
  host.number(
      "adam_bandwidth", rate_text(std::min(most, share * dram.theoretical)),
      one ? fmt::format("estimate: {} of {}: one socket has no NUMA, and {}", share, dram.words,
                        kKernelShare)
          : fmt::format("estimate: {} of {}, the share of a whole DeepSpeed optimizer step on two "
                        "EPYC 7742 (profile dgx_a100_40g, fitted: 77 of 409.6 GB/s)",
                        share, dram.words));
  host.number("worker_adam_bandwidth",
              rate_text(std::min(most, kWorkerAdamShare * dram.theoretical)),
              fmt::format("estimate: {} of {}: {}", kWorkerAdamShare, dram.words, kKernelShare));
  const double quarter = static_cast<double>(cores) / 4;
  const double half =
      one ? std::min(host.bandwidth("adam_bandwidth") / host.bandwidth("core_bandwidth") / 2,
                     static_cast<double>(cores))
          : std::min(kAdamHalfCores, quarter);
  host.number("adam_half_cores", fmt::format("{:.3g}", half),
              one ? "estimate: half of adam_bandwidth divided by core_bandwidth"
                  : "estimate: 12 as profile zenflow_a100x4, where it is fitted, but at most a "
                    "quarter of the cores");
  if (!one) {
    host.number(
        "unbound_efficiency", "0.78",
        "as profile dgx_a100_40g, where it is fitted to the unbound ZeRO-Offload step of the "
        "DeepSpeed blog zenflow-corebinding");
  } else {
    host.optional("unbound_efficiency");
  }
}

/// Puts sockets, cores and the processor's name, and returns the numbers of the first two.
std::pair<std::int64_t, std::int64_t> put_processors(PartBlock& host) {
  host.stated("sockets");
  const std::int64_t sockets = host.value("sockets").integer(1, kMostParts);
  if (host.states("cores")) {
    host.from().ignore("cores_per_socket");
    host.stated("cores");
  } else {
    const ValueReader each = host.from().require("cores_per_socket");
    host.number("cores", std::to_string(sockets * each.integer(1, kMostParts)),
                fmt::format("{} sockets x {} cores, {}", sockets, each.node().scalar,
                            stated_in(each.node())));
  }
  const std::int64_t cores = host.value("cores").integer(1, kMostParts * kMostParts);
  host.text("name", fmt::format("{} sockets, {} cores", sockets, cores));
  return {sockets, cores};
}

Node host_block(const MapReader& parts) {
  PartBlock host(parts);
  const auto [sockets, cores] = put_processors(host);
  host.stated("memory");
  host.number("shared_memory", fmt::format("{:.0f} B", host.value("memory").bytes().value() / 2),
              "estimate: the Linux default for /dev/shm, half of the memory");
  host.optional("locked_memory_limit");
  const Dram dram = put_dram(host, sockets);
  const double achieved = host.bandwidth("dram_bandwidth");
  const double core = dram.rate > 0 && dram.rate <= kSlowDramRate ? kSlowCore : kCore;
  host.number("core_bandwidth", rate_text(std::min(core, achieved)),
              "estimate: 15 to 25 GB/s is usual for one server core, bound by latency; 12 up to "
              "DDR4-2933, as one Skylake server core");
  put_cpu_adam(host, dram, sockets, cores);
  host.optional("adam_launch");
  host.optional("step_gap");
  host.number("elementwise_bandwidth", rate_text(kElementwiseShare * achieved),
              "estimate: 80 % of dram_bandwidth; casts and accumulation stream with little "
              "arithmetic");
  return host.take();
}

/// What a slot of `lanes` lanes delivers from and to pinned memory, one direction.
double pcie_rate(std::int64_t generation, std::int64_t lanes) {
  constexpr std::array<double, 3> kRates = {12 * kGiga, 25 * kGiga, 53 * kGiga};  // from 3 on
  return kRates[static_cast<std::size_t>(generation - 3)] * static_cast<double>(lanes) / kFullLanes;
}

struct HostPort {
  double rate = 0;
  std::string kind;   ///< "PCIe 4.0 x16"
  std::string words;  ///< the same, and who says so
};

HostPort read_port(MapReader& from, const CatalogueGpu& gpu) {
  if (from.node().find("pcie") == nullptr && !gpu.pcie) {
    fail_at(from.at(), from.path() + ".pcie",
            fmt::format("required, because {} has no PCIe slot in the catalogue", gpu.key));
  }
  const PcieSlot card = gpu.pcie.value_or(PcieSlot{5, 16});
  constexpr std::int64_t kFirst = 3;
  constexpr std::int64_t kLast = 5;
  std::int64_t generation = from.integer_or("pcie", card.generation, kFirst, kLast);
  std::int64_t lanes = from.integer_or("lanes", card.lanes, 1, 16);
  const bool is_limited = generation > card.generation || lanes > card.lanes;
  generation = std::min(generation, card.generation);  // a card is no faster than its own slot
  lanes = std::min(lanes, card.lanes);
  const std::string kind = fmt::format("PCIe {}.0 x{}", generation, lanes);
  const bool stated = from.node().find("pcie") != nullptr && from.node().find("lanes") != nullptr;
  std::string words = kind;
  if (is_limited) {
    words += fmt::format(" (as much as {} has; the slot that is stated has more)", gpu.key);
  } else if (!stated) {
    words += fmt::format(" (the slot of {} where none is stated)", gpu.key);
  }
  return {pcie_rate(generation, lanes), kind, words};
}

Node path_source(const Location& at, double rate, const std::string& words, bool both) {
  const std::string source =
      both ? fmt::format(
                 "estimate: 1.5 times one direction of {}, as measured on A100 (github "
                 "NVIDIA/nvbandwidth issue 53)",
                 words)
           : fmt::format(
                 "estimate: {}, pinned: 12 GB/s of PCIe 3.0 x16 (ZeRO-Infinity figure 2b), "
                 "25 of 4.0 (github NVIDIA/nvbandwidth issue 53), 53 of 5.0 (issue 24), in "
                 "proportion to lanes",
                 words);
  return number_node(rate_text(both ? kBothDirections * rate : rate), source, at);
}

/// Each switch has the rates of one port.
Node switch_list(const PartBlock& link, const Location& at, std::int64_t gpus, std::int64_t each) {
  Node list;
  list.kind = Node::Kind::kSequence;
  list.at = at;
  for (std::int64_t first = 0; first < gpus; first += each) {
    Node one = map_node(at);
    Node members;
    members.kind = Node::Kind::kSequence;
    members.at = at;
    for (std::int64_t gpu = first; gpu < std::min(gpus, first + each); ++gpu) {
      Node number = text_node(std::to_string(gpu), at);
      number.quoted = false;
      members.items.push_back(std::move(number));
    }
    put_entry(one, "gpus", std::move(members));
    for (const char* key : {"h2d", "d2h", "bidirectional"}) {
      put_entry(one, key,
                number_node(rate_text(link.bandwidth(key)),
                            fmt::format("estimate: as host_link.{} of one GPU", key), at));
    }
    list.items.push_back(std::move(one));
  }
  return list;
}

void put_pcie(PartBlock& link, const CatalogueGpu& gpu, std::int64_t gpus) {
  MapReader& from = link.from();
  const HostPort port = read_port(from, gpu);
  link.text("kind", port.kind);
  for (const char* key : {"h2d", "d2h", "bidirectional"}) {
    link.number(key, path_source(from.at(), port.rate, port.words, key[0] == 'b'));
  }
  for (const auto& [key, pinned] : {std::pair{"pageable_h2d", "h2d"}, {"pageable_d2h", "d2h"}}) {
    const double rate = link.bandwidth(pinned);
    link.number(key, rate_text(1 / (1 / rate + 1 / kStaging)),
                "derived from profile dgx_a100_40g, where it is fitted: the driver's copy to its "
                "staging buffers, 19.3 GB/s, and the transfer follow each other");
  }
  if (const auto own = from.optional("switches")) {
    from.ignore("gpus_per_switch");
    link.raw("switches", own->node());
  } else if (const auto each = from.optional("gpus_per_switch")) {
    link.raw("switches", switch_list(link, from.at(), gpus, each->integer(1, kMostParts)));
  }
}

/// A card that reaches the host by a link of its own takes the catalogue's numbers.
void put_own_link(PartBlock& link, const std::string& gpu, MapReader own) {
  for (const char* key : {"lanes", "gpus_per_switch"}) {
    if (const auto slot = link.from().optional(key)) {
      slot->fail(fmt::format("expected pcie, too: {} reaches the host by {}", gpu,
                             own.require("kind").string()));
    }
  }
  link.text("kind", own.require("kind").string());
  for (const char* key : {"h2d", "d2h", "bidirectional", "pageable_h2d", "pageable_d2h"}) {
    link.number(key, own.require(key).node());
  }
}

struct HostLinkPart {
  Node block;
  double pinned = 0;  ///< bytes per second of one GPU, the slower direction
};

HostLinkPart host_link_block(const MapReader& parts, const CatalogueGpu& gpu, const Node& entry,
                             std::int64_t gpus) {
  PartBlock link(parts);
  const Node* own = entry.find("host_link");
  if (own != nullptr && !link.states("pcie")) {
    put_own_link(link, gpu.key, MapReader(*own, gpu.key + ".host_link"));
  } else {
    put_pcie(link, gpu, gpus);
  }
  link.number("latency", "10 us",
              "estimate: issuing an asynchronous copy and starting the copy engine");
  const double pinned = std::min(link.bandwidth("h2d"), link.bandwidth("d2h"));
  return {link.take(), pinned};
}

const CatalogueLink& find_link(const CatalogueGpu& gpu, const std::string& name, const Location& at,
                               const std::string& path) {
  std::vector<std::string> known = {"pcie"};
  for (const CatalogueLink& one : gpu.links) {
    if (one.name == name) return one;
    known.push_back(one.name);
  }
  fail_at(at, path,
          fmt::format("{} has no {}{}; known: {}", gpu.key, name, suggestion(name, known),
                      fmt::join(known, ", ")));
}

/// `pinned`: of one GPU, the slower direction. `parts` empty: the card's usual link.
Node gpu_link_block(const MapReader& parts, const CatalogueGpu& gpu, double pinned,
                    std::int64_t gpus) {
  PartBlock link(parts);
  MapReader& from = link.from();
  const auto stated = from.optional("name");
  if (!stated && !gpu.default_link && !link.states("bandwidth")) {
    fail_at(
        from.at(), from.path(),
        fmt::format("required, because gpus_per_node is {} and the catalogue knows no usual link "
                    "of {}",
                    gpus, gpu.key));
  }
  const std::string name = stated ? stated->string() : gpu.default_link.value_or("pcie");
  const std::string chosen =
      stated ? "" : fmt::format("; the usual link of {}, since gpu_link is not stated", gpu.key);
  if (name == "pcie") {
    link.text("kind", "PCIe");
    link.number(
        "bandwidth", rate_text(kCollectiveShare * pinned),
        "estimate: 80 % of the host link, as a ring of A100 that crosses PCIe 4.0 (github "
        "NVIDIA/nccl-tests issue 178: 20 of 25 GB/s); eight RTX 5090 reach 28 of 53 (github "
        "NVIDIA/nccl issue 1639)" +
            chosen);
    link.number("latency", "20 us", "estimate: twice that of NVLink");
    return link.take();
  }
  const Location& at = stated ? stated->node().at : from.at();
  const CatalogueLink& found = find_link(gpu, name, at, from.path());
  if (found.most_gpus && gpus > *found.most_gpus) {
    fail_at(at, from.path(),
            fmt::format("{} of {} joins {} GPUs, not {}: the others are reached over pcie", name,
                        gpu.key, *found.most_gpus, gpus));
  }
  link.text("kind", found.link.kind);
  const auto number = [&](const char* key, const std::string& value) {
    const std::string wanted = fmt::format("gpu_links.{}.{}", name, key);
    const auto source = std::find_if(gpu.numbers.begin(), gpu.numbers.end(),
                                     [&](const SourcedNumber& one) { return one.path == wanted; });
    const bool is_known = source != gpu.numbers.end();
    link.number(key, value, (is_known ? source->source : "the catalogue") + chosen);
  };
  number("bandwidth", rate_text(found.link.bandwidth.value()));
  number("latency", fmt::format("{:.4g} us", found.link.latency.value() * 1e6));
  return link.take();
}

Node network_block(const MapReader& parts) {
  PartBlock network(parts);
  if (network.states("bandwidth")) {
    if (const auto rate = network.from().optional("rate")) read_line_rate(*rate);
    network.stated("bandwidth");
  } else {
    const ValueReader rate = network.from().require("rate");
    network.number(
        "bandwidth", rate_text(kNetworkShare * read_line_rate(rate) / kBitsPerByte),
        fmt::format("estimate: 90 % of {}, {}", rate.node().scalar, stated_in(rate.node())));
  }
  network.number("latency", "14 us",
                 "NCCL 2.28, src/graph/tuning.cc: a hop between nodes, large messages");
  return network.take();
}

Node nvme_block(const MapReader& parts) {
  PartBlock nvme(parts);
  MapReader& from = nvme.from();
  const std::int64_t drives = from.integer_or("drives", 1, 1, kMostParts);
  for (const char* key : {"read", "write"}) {
    const ValueReader one = from.require(key);
    if (drives == 1 || !one.node().is_scalar()) {
      nvme.stated(key);
      continue;
    }
    nvme.raw(key, number_node(rate_text(static_cast<double>(drives) * one.bandwidth().value()),
                              fmt::format("{} drives x {}, {}", drives, one.node().scalar,
                                          stated_in(one.node())),
                              one.node().at));
  }
  nvme.optional("capacity");
  nvme.number("latency", "100 us", "estimate: a read of flash and the submission around it");
  return nvme.take();
}

/// The catalogue's gpu block with the count and what the user states of it.
Node gpu_block(MapReader map, const Node& entry, std::int64_t gpus, const std::string& counted) {
  Node block = entry;
  keep_profile_keys(block);
  put_entry(block, "count", number_node(std::to_string(gpus), counted, map.at()));
  for (const std::string& key : map.keys()) {
    const auto own = map.optional(key);
    if (key == "name" || !own) continue;
    if (key == "count") own->fail("expected it as hardware.gpus_per_node");
    if (key == "base") own->fail("expected the card as hardware.gpu");
    Node* known = block.find(key);
    if (key == "peak" && own->node().is_map()) {
      MapReader peak(own->node(), own->path());
      for (const std::string& dtype : peak.keys()) {
        erase_key(*known, dtype);
        put_entry(*known, dtype, stated_number(peak.require(dtype)));
      }
      continue;
    }
    erase_key(block, key);
    put_entry(block, key, stated_number(*own));
  }
  return block;
}

}  // namespace

bool is_by_parts(const Node& hardware) {
  if (!hardware.is_map()) return false;
  const Node* gpu = hardware.find("gpu");
  if (hardware.find("gpus_per_node") != nullptr || (gpu != nullptr && gpu->is_scalar()))
    return true;
  if (gpu == nullptr || gpu->find("count") != nullptr || gpu->find("base") != nullptr) return false;
  return hardware.find("description") == nullptr || gpu->find("peak") == nullptr;
}

void spread_parts(Node& hardware) {
  for (const char* key : {"gpu", "gpu_link"}) {
    Node* value = hardware.find(key);
    if (value == nullptr || !value->is_scalar()) continue;
    Node spread = map_node(value->at);
    put_entry(spread, "name", std::move(*value));
    *value = std::move(spread);
  }
}

Node expand_parts(const Node& hardware, const GpuCatalogue& catalogue) {
  Node spread = hardware;
  spread_parts(spread);
  MapReader parts(spread, "hardware");
  MapReader gpu_part = parts.require_map("gpu");
  const ValueReader gpu_name = gpu_part.require("name");
  const auto [key, entry] = catalogue.load(gpu_name.string(), gpu_name.node().at, gpu_name.path());
  const CatalogueGpu gpu = read_catalogue_gpu(entry, key);
  const auto count = parts.optional("gpus_per_node");
  const std::int64_t gpus = count ? count->integer(1, kMostParts) : 1;

  Node profile = map_node(spread.at);
  put_entry(profile, "name",
            text_node(parts.string_or("name", fmt::format("{}_x{}", key, gpus)), spread.at));
  put_entry(profile, "description",
            text_node(parts.string_or("description",
                                      fmt::format("{} x {}, by parts", gpus, gpu.gpu.name)),
                      spread.at));
  put_entry(
      profile, "gpu",
      gpu_block(gpu_part, entry, gpus,
                count ? stated_in(count->node()) : "one GPU where gpus_per_node is not stated"));
  put_entry(profile, "host", host_block(parts.require_map("host")));
  const Node nothing = map_node(spread.at);
  const auto block = [&](const char* name) {
    return parts.optional_map(name).value_or(MapReader(nothing, fmt::format("hardware.{}", name)));
  };
  HostLinkPart link = host_link_block(block("host_link"), gpu, entry, gpus);
  put_entry(profile, "host_link", std::move(link.block));
  const MapReader gpu_link = block("gpu_link");
  if (gpus > 1 || !gpu_link.node().entries.empty()) {
    put_entry(profile, "gpu_link", gpu_link_block(gpu_link, gpu, link.pinned, gpus));
  }
  if (const auto part = parts.optional_map("network")) {
    put_entry(profile, "network", network_block(*part));
  }
  if (const auto part = parts.optional_map("nvme")) put_entry(profile, "nvme", nvme_block(*part));
  parts.reject_unknown_keys();
  return profile;
}

}  // namespace zenflow::sim
