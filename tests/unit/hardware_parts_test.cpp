// A node by its parts: what follows from them, what overrides it, and what is refused.
#include "sim/config/hardware_parts.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/config/scenario.h"
#include "tests/support/scenario_files.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

GpuCatalogue shipped() {
  return GpuCatalogue({fs::path(ZENFLOW_SOURCE_DIR) / "profiles"});
}

constexpr const char* kNode = R"(gpu: a100_sxm_40g
gpus_per_node: 5
host: {sockets: 2, cores_per_socket: 24, memory: 1152 GiB, dram_channels_per_socket: 6, dram_rate: 2933 MT/s}
host_link: {pcie: 3, lanes: 16, gpus_per_switch: 2}
gpu_link: nvlink3
network: {rate: 400 Gb/s}
nvme: {drives: 2, read: 6.9 GB/s, write: 5.3 GB/s}
)";

HardwareProfile read(const std::string& text) {
  return read_hardware_profile(expand_parts(parse_yaml(text, "n.yaml"), shipped()));
}

/// The node with one piece of its text, which occurs once, replaced.
std::string with(const std::string& piece, const std::string& replacement) {
  std::string text = kNode;
  const std::size_t at = text.find(piece);
  EXPECT_NE(at, std::string::npos) << piece;
  return text.replace(at, piece.size(), replacement);
}

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(read(text));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "no error";
}

std::string source_of(const HardwareProfile& profile, const std::string& path) {
  for (const SourcedNumber& number : profile.numbers) {
    if (number.path == path) return number.source;
  }
  return "no such number";
}

constexpr double kGB = 1e9;

// 2 sockets x 6 channels x 2933 MT/s x 8 B = 281.568 GB/s in theory.
TEST(HardwareParts, HostFollowsFromItsSocketsAndChannels) {
  const HostProfile host = read(kNode).host;
  EXPECT_EQ(host.sockets, 2);
  EXPECT_EQ(host.cores, 48);
  EXPECT_EQ(host.memory, Bytes(1152 * 0x1p30));
  EXPECT_EQ(host.shared_memory, Bytes(576 * 0x1p30));
  EXPECT_THAT(host.dram_bandwidth.value() / kGB, DoubleNear(197.10, 0.01));         // 0.70
  EXPECT_THAT(host.adam_bandwidth.value() / kGB, DoubleNear(52.93, 0.01));          // 0.188
  EXPECT_THAT(host.worker_adam_bandwidth->value() / kGB, DoubleNear(119.7, 0.05));  // 0.425
  EXPECT_THAT(host.elementwise_bandwidth.value() / kGB, DoubleNear(157.7, 0.05));   // 0.8 of 197.1
  EXPECT_EQ(host.core_bandwidth, BytesPerSecond(12 * kGB));  // not above 2933 MT/s
  EXPECT_EQ(host.adam_half_cores, 12);                       // a quarter of 48
  EXPECT_EQ(host.unbound_efficiency, 0.78);
}

TEST(HardwareParts, OneSocketHasNoNumaToLoseBandwidthTo) {
  const HostProfile host =
      read(with("sockets: 2, cores_per_socket: 24", "sockets: 1, cores_per_socket: 24")).host;
  EXPECT_THAT(host.adam_bandwidth.value() / kGB, DoubleNear(59.83, 0.01));  // 0.425 of 140.784
  EXPECT_THAT(host.adam_half_cores, DoubleNear(2.49, 0.005));               // 59.83 / 12 / 2
  EXPECT_EQ(host.unbound_efficiency, 1);
}

TEST(HardwareParts, HostLinkFollowsFromItsSlot) {
  const HardwareProfile node = read(kNode);
  const HostLinkProfile& link = node.host_link;
  EXPECT_EQ(link.kind, "PCIe 3.0 x16");
  EXPECT_EQ(link.pinned.h2d, BytesPerSecond(12 * kGB));
  EXPECT_EQ(link.pinned.bidirectional, BytesPerSecond(18 * kGB));
  EXPECT_THAT(link.pageable_h2d.value() / kGB, DoubleNear(7.399, 0.001));  // 1/(1/12 + 1/19.3)
  ASSERT_EQ(link.switches.size(), 3U);  // five GPUs, two to a switch
  EXPECT_THAT(link.switches[1].gpus, ElementsAre(2, 3));
  EXPECT_THAT(link.switches[2].gpus, ElementsAre(4));
  EXPECT_EQ(link.switches[2].path.d2h, BytesPerSecond(12 * kGB));
}

TEST(HardwareParts, FewCoresLimitAdam) {
  const HostProfile host =
      read(with("sockets: 2, cores_per_socket: 24", "sockets: 2, cores_per_socket: 1")).host;
  EXPECT_EQ(host.adam_bandwidth, BytesPerSecond(24 * kGB));  // two cores at 12 GB/s
  EXPECT_EQ(host.worker_adam_bandwidth, BytesPerSecond(24 * kGB));
}

TEST(HardwareParts, SwitchHasTheRatesThatAreStatedOfThePort) {
  const HostLinkProfile link = read(with("pcie: 3,", "pcie: 3, h2d: 9 GB/s,")).host_link;
  EXPECT_EQ(link.switches[0].path.h2d, BytesPerSecond(9 * kGB));
  EXPECT_EQ(link.switches[0].path.d2h, BytesPerSecond(12 * kGB));
}

TEST(HardwareParts, CardIsNoFasterThanItsOwnSlot) {
  const HostLinkProfile five = read(with("pcie: 3, lanes: 16", "pcie: 5, lanes: 8")).host_link;
  EXPECT_EQ(five.kind, "PCIe 4.0 x8");  // an A100 is a PCIe 4.0 card
  EXPECT_EQ(five.pinned.h2d, BytesPerSecond(12.5 * kGB));
  EXPECT_THAT(five.pageable_d2h.value() / kGB, DoubleNear(7.586, 0.001));
  EXPECT_THAT(source_of(read(with("pcie: 3, lanes: 16", "pcie: 5, lanes: 8")), "host_link.h2d"),
              HasSubstr("as much as a100_sxm_40g has"));
}

TEST(HardwareParts, LinksNetworkAndDrivesFollow) {
  const HardwareProfile node = read(kNode);
  EXPECT_EQ(node.gpu_link->kind, "NVLink 3");
  EXPECT_EQ(node.gpu_link->bandwidth, BytesPerSecond(230 * kGB));
  EXPECT_EQ(node.network->bandwidth, BytesPerSecond(45 * kGB));  // 400 / 8 x 0.9
  EXPECT_EQ(node.nvme->read, BytesPerSecond(13.8 * kGB));
  EXPECT_EQ(node.nvme->write, BytesPerSecond(10.6 * kGB));
  const HardwareProfile pcie = read(with("gpu_link: nvlink3", "gpu_link: pcie"));
  EXPECT_EQ(pcie.gpu_link->bandwidth, BytesPerSecond(9.6 * kGB));  // 0.8 x 12
  EXPECT_EQ(pcie.gpu_link->latency, Seconds(20e-6));
}

TEST(HardwareParts, LinkThatIsNotStatedIsTheUsualOneOfTheCard) {
  const HardwareProfile modules = read(with("gpu_link: nvlink3\n", ""));
  EXPECT_EQ(modules.gpu_link->kind, "NVLink 3");
  EXPECT_THAT(source_of(modules, "gpu_link.bandwidth"),
              HasSubstr("the usual link of a100_sxm_40g, since gpu_link is not stated"));
  const std::string cards =
      "gpu: l40s\ngpus_per_node: 2\nhost: {sockets: 1, cores: 8, memory: 64 GiB, "
      "dram_bandwidth: 70 GB/s}\n";
  EXPECT_EQ(read(cards).gpu_link->kind, "PCIe");
  EXPECT_FALSE(read("gpu: l40s\n" + cards.substr(cards.find("host"))).gpu_link.has_value());
}

TEST(HardwareParts, DramBandwidthAloneIsEnough) {
  const HostProfile host = read(
                               "gpu: rtx_4090\nhost: {sockets: 1, cores: 8, memory: 64 GiB, "
                               "dram_bandwidth: 70 GB/s}\n")
                               .host;
  EXPECT_EQ(host.dram_bandwidth, BytesPerSecond(70 * kGB));
  EXPECT_THAT(host.adam_bandwidth.value() / kGB, DoubleNear(42.5, 0.01));  // 0.425 x 70 / 0.70
  EXPECT_EQ(host.core_bandwidth, BytesPerSecond(20 * kGB));
}

TEST(HardwareParts, StatedValuesWinOverRules) {
  const HardwareProfile node = read(
      "gpu: {name: a100_sxm_40g, gemm_efficiency: 0.8, peak: {bf16: 300 TFLOPS}}\n"
      "host: {sockets: 2, cores_per_socket: 24, memory: {value: 1 TiB, source: free}, "
      "dram_channels_per_socket: 6, dram_rate: 2933 MT/s, "
      "adam_bandwidth: 40 GB/s, shared_memory: {value: 64 MiB, source: docker}}\n"
      "host_link: {h2d: 20 GB/s}\n");
  EXPECT_EQ(node.gpu.gemm_efficiency, 0.8);
  EXPECT_EQ(node.gpu.peak.at(DType::kBf16), FlopsPerSecond(300e12));
  EXPECT_EQ(node.gpu.peak.at(DType::kFp16), FlopsPerSecond(312e12));
  EXPECT_EQ(node.host.adam_bandwidth, BytesPerSecond(40 * kGB));
  EXPECT_EQ(node.host.shared_memory, Bytes(64 * 0x1p20));
  EXPECT_EQ(source_of(node, "host.shared_memory"), "docker");
  EXPECT_THAT(source_of(node, "host.adam_bandwidth"), StartsWith("stated in n.yaml:2:"));
  EXPECT_EQ(node.host_link.pinned.h2d, BytesPerSecond(20 * kGB));
  EXPECT_THAT(node.host_link.pageable_h2d.value() / kGB, DoubleNear(9.82, 0.01));   // of 20
  EXPECT_THAT(node.host_link.pageable_d2h.value() / kGB, DoubleNear(10.89, 0.01));  // of 25
}

TEST(HardwareParts, EveryNumberSaysItsRule) {
  const HardwareProfile node = read(kNode);
  EXPECT_THAT(
      source_of(node, "host.dram_bandwidth"),
      AllOf(StartsWith("estimate: "), HasSubstr("2 x 6 channels x 2933 MT/s x 8 B = 281.6 GB/s")));
  EXPECT_THAT(source_of(node, "gpu.count"), StartsWith("stated in n.yaml:2:"));
  for (const SourcedNumber& number : node.numbers) EXPECT_NE(number.source, "") << number.path;
}

TEST(HardwareParts, RefusesWhatCannotBe) {
  EXPECT_THAT(error_of(with("gpu: a100_sxm_40g", "gpu: a100_smx_40g")),
              AllOf(StartsWith("n.yaml:1:6: hardware.gpu.name: no GPU named \"a100_smx_40g\""),
                    HasSubstr("did you mean \"a100_sxm_40g\"?"), HasSubstr("known: a10, ")));
  EXPECT_THAT(error_of(with("gpus_per_node: 5", "gpus_per_node: 0")),
              StartsWith("n.yaml:2:16: hardware.gpus_per_node: expected a whole number from 1"));
  EXPECT_THAT(error_of(with("gpu_link: nvlink3", "gpu_link: nvlink4")),
              AllOf(StartsWith("n.yaml:5:11: hardware.gpu_link: a100_sxm_40g has no nvlink4"),
                    HasSubstr("known: pcie, nvlink3")));
  EXPECT_THAT(error_of(with("gpu: a100_sxm_40g", "gpu: a100_pcie_40g")),
              HasSubstr("nvlink3 of a100_pcie_40g joins 2 GPUs, not 5"));
  EXPECT_THAT(error_of(with("memory: 1152 GiB", "memry: 1152 GiB")),
              HasSubstr("hardware.host.memry: unknown key (did you mean \"memory\"?)"));
  EXPECT_THAT(error_of(with("dram_rate: 2933 MT/s", "dram_rate: 2933")),
              HasSubstr("expected a transfer rate such as \"3200 MT/s\", found \"2933\""));
  EXPECT_THAT(error_of(with("pcie: 3", "pcie: 7")), HasSubstr("from 3 to 5"));
  EXPECT_THAT(error_of(with("network", "netwerk")), HasSubstr("hardware.netwerk: unknown key"));
  EXPECT_THAT(error_of(with("gpu: a100_sxm_40g", "gpu: {name: t4, count: 2}")),
              HasSubstr("hardware.gpu.count: expected it as hardware.gpus_per_node"));
  EXPECT_THAT(error_of(with("gpu: a100_sxm_40g", "gpu: {name: a100_sxm_40g, gemm_eficiency: 0.5}")),
              HasSubstr("gpu.gemm_eficiency: unknown key (did you mean \"gemm_efficiency\"?)"));
  EXPECT_THAT(error_of(with("sockets: 2", "sockets: [2]")), HasSubstr("hardware.host.sockets: "));
  EXPECT_THAT(error_of(with("gpu: a100_sxm_40g", "gpu: [a100_sxm_40g]")),
              HasSubstr("hardware.gpu: expected a map, found a sequence"));
  EXPECT_THAT(error_of("gpu: gh200\nhost: {sockets: 1, cores: 72, memory: 480 GB, "
                       "dram_bandwidth: 368 GB/s}\nhost_link: {lanes: 8}\n"),
              HasSubstr("lanes: expected pcie, too: gh200 reaches the host by NVLink-C2C"));
  EXPECT_THAT(error_of(with("rate: 400 Gb/s", "rate: 7 parsecs, bandwidth: 3 GB/s")),
              HasSubstr("expected a line rate"));
  EXPECT_THAT(
      error_of("gpu: gh200\ngpus_per_node: 4\nhost: {sockets: 1, cores: 72, memory: 480 GB, "
               "dram_bandwidth: 368 GB/s}\n"),
      HasSubstr("hardware.gpu_link: required, because gpus_per_node is 4"));
}

TEST(HardwareParts, LinkOfItsOwnTakesThePlaceOfPcie) {
  const HardwareProfile node =
      read("gpu: gh200\nhost: {sockets: 1, cores: 72, memory: 480 GB, dram_bandwidth: 368 GB/s}\n");
  EXPECT_EQ(node.host_link.kind, "NVLink-C2C");
  EXPECT_EQ(node.host_link.pinned.h2d, BytesPerSecond(346 * kGB));
}

TEST(HardwareParts, AreToldFromCompleteProfiles) {
  const auto by_parts = [](const std::string& text) { return is_by_parts(parse_yaml(text, "n")); };
  EXPECT_TRUE(by_parts("{gpu: t4}"));
  EXPECT_TRUE(by_parts("{gpu: {name: t4}}"));
  EXPECT_TRUE(by_parts("{gpus_per_node: 2}"));
  EXPECT_TRUE(by_parts("{description: d, gpu: {name: t4, memory: 12 GiB}}"));
  EXPECT_FALSE(by_parts("{gpu: {base: t4, count: {value: 1, source: s}}}"));
  EXPECT_FALSE(by_parts(zenflow::testing::kProfile));
}

// ---- the catalogue ----

TEST(GpuCatalogueFiles, AreReadAndSayWhereEachNumberIsFrom) {
  const GpuCatalogue catalogue = shipped();
  EXPECT_GE(catalogue.keys().size(), 25U);
  for (const std::string& key : catalogue.keys()) {
    const CatalogueGpu gpu = read_catalogue_gpu(catalogue.load(key, {}, "").second, key);
    EXPECT_GT(gpu.gpu.multiprocessors, 0) << key;
    EXPECT_TRUE(gpu.gpu.lanes == 64 || gpu.gpu.lanes == 128) << key;
    EXPECT_TRUE(gpu.pcie || key == "gh200") << key;
    for (const SourcedNumber& number : gpu.numbers) {
      EXPECT_NE(number.source, "") << key << " " << number.path;
    }
    // Two operations a lane and cycle are the fp32 peak: a slip in one of the four shows.
    const double lanes = 2.0 * static_cast<double>(gpu.gpu.multiprocessors * gpu.gpu.lanes);
    EXPECT_NEAR(lanes * gpu.gpu.clock / gpu.gpu.peak.at(DType::kFp32).value(), 1, 0.02) << key;
  }
}

TEST(GpuCatalogueFiles, AreFoundByTheNamesOfDriversAndProfiles) {
  const GpuCatalogue catalogue = shipped();
  EXPECT_EQ(catalogue.find("NVIDIA A100-SXM4-80GB"), "a100_sxm_80g");
  EXPECT_EQ(catalogue.find("A100-SXM4-80GB"), "a100_sxm_80g");
  EXPECT_EQ(catalogue.find("nvidia h100 80gb hbm3"), "h100_sxm");
  EXPECT_EQ(catalogue.find("H100-SXM5-80GB"), "h100_sxm");
  EXPECT_EQ(catalogue.find("V100-SXM3-32GB"), "v100_sxm_32g");
  EXPECT_EQ(catalogue.find("NVIDIA GeForce RTX 3090"), "rtx_3090");
  EXPECT_EQ(catalogue.find("rtx_3090_ti"), "rtx_3090_ti");
  EXPECT_EQ(catalogue.find("RTX3090Ti"), "rtx_3090_ti");
  EXPECT_EQ(catalogue.find("a100 sxm 80g"), "a100_sxm_80g");
  EXPECT_EQ(catalogue.find("--"), std::nullopt);
  EXPECT_EQ(catalogue.find("GPU"), std::nullopt);
  EXPECT_EQ(catalogue.find("../dgx_h100"), std::nullopt);
  EXPECT_EQ(GpuCatalogue().find("rtx_3090"), std::nullopt);
}

TEST(GpuCatalogueFiles, HaveOneMeaningForEachName) {
  const GpuCatalogue catalogue = shipped();
  for (const std::string& key : catalogue.keys()) {
    const CatalogueGpu gpu = read_catalogue_gpu(catalogue.load(key, {}, "").second, key);
    EXPECT_EQ(catalogue.find(gpu.gpu.name), key);
    for (const std::string& other : gpu.also_known_as) EXPECT_EQ(catalogue.find(other), key);
  }
}

// ---- in a scenario ----

class PartsInAScenario : public ::testing::Test {
 protected:
  PartsInAScenario() {
    static_cast<void>(zenflow::testing::write_scenario(folder_));
    options_.profile_directories = {folder_ / "profiles",
                                    fs::path(ZENFLOW_SOURCE_DIR) / "profiles"};
  }
  /// The scenario of the test files with another hardware.
  [[nodiscard]] HardwareProfile hardware(const std::string& block,
                                         std::vector<Override> overrides = {}) {
    std::string text = zenflow::testing::kScenario;
    const std::string name = "hardware: node";
    text.replace(text.find(name), name.size(), block);
    options_.overrides = std::move(overrides);
    Scenario scenario = load_scenario(folder_.write("scenarios/parts.yaml", text), options_);
    notes_ = scenario.notes;
    return scenario.hardware;
  }

  zenflow::testing::TemporaryFolder folder_;
  LoadOptions options_;
  std::vector<std::string> notes_;  ///< of the scenario read last
};

constexpr const char* kInScenario =
    "hardware:\n  gpu: a100_sxm_40g\n  gpus_per_node: 2\n"
    "  host: {sockets: 2, cores_per_socket: 24, memory: 1152 GiB, dram_channels_per_socket: 6, "
    "dram_rate: 2933 MT/s}\n  gpu_link: nvlink3";

/// The complete profile of the test files, of a card that the catalogue knows.
std::string old_profile(const std::string& more = "") {
  std::string text = zenflow::testing::kProfile;
  const std::string name = "name: GPU\n";
  return text.replace(text.find(name), name.size(), "name: A100-SXM4-40GB\n" + more);
}

TEST_F(PartsInAScenario, OverridesReachPartsAndWhatFollows) {
  EXPECT_EQ(hardware(kInScenario).name, "a100_sxm_40g_x2");
  const HardwareProfile changed =
      hardware(kInScenario, {{"hardware.host.adam_bandwidth", "40 GB/s"},
                             {"hardware.gpu.gemm_efficiency", "0.5"},
                             {"hardware.host_link.pageable_h2d.value", "5 GB/s"},
                             {"hardware.gpu_link.bandwidth", "100 GB/s"}});
  EXPECT_EQ(changed.host.adam_bandwidth, BytesPerSecond(40 * kGB));
  EXPECT_EQ(source_of(changed, "host.adam_bandwidth"),
            "--set hardware.host.adam_bandwidth=40 GB/s");
  EXPECT_EQ(changed.gpu.gemm_efficiency, 0.5);
  EXPECT_EQ(changed.host_link.pageable_h2d, BytesPerSecond(5 * kGB));
  EXPECT_EQ(changed.gpu_link->bandwidth, BytesPerSecond(100 * kGB));
  EXPECT_EQ(hardware(kInScenario, {{"hardware.gpu", "a100_sxm_80g"}}).gpu.memory,
            Bytes(79.15 * 0x1p30));
  EXPECT_EQ(hardware(kInScenario, {{"hardware.host.cores", "64"}}).host.cores, 64);
}

TEST_F(PartsInAScenario, AreStillPartsWhenACapacityIsOverridden) {
  const std::string one =
      "hardware:\n  gpu: a10\n  host: {sockets: 1, cores: 8, memory: 64 GiB, dram_bandwidth: 70 "
      "GB/s}";
  const HardwareProfile node = hardware(one, {{"gpus", "1"},
                                              {"hardware.gpu.memory", "12 GiB"},
                                              {"hardware.description", "a smaller card"}});
  EXPECT_EQ(node.gpu.memory, Bytes(12 * 0x1p30));
  EXPECT_EQ(node.description, "a smaller card");
}

TEST_F(PartsInAScenario, CompleteProfileTakesNoCardsName) {
  EXPECT_THAT(
      [this] {
        (void)hardware("hardware: node", {{"hardware.gpu", "h100_sxm"}});
      },
      ::testing::ThrowsMessage<Error>(HasSubstr("hardware.gpu: expected a map")));
}

TEST_F(PartsInAScenario, OldProfilesOfKnownGpusTakeTheShareOfSeveralFromTheCatalogue) {
  const std::string old = old_profile();
  const auto share_of = [&](const std::string& gpu, const std::string& more = "") {
    const std::string name = "A100-SXM4-40GB\n";
    std::string text = old;
    text.replace(text.find(name), name.size(), gpu + "\n" + more);
    folder_.write("profiles/own.yaml", text);
    return hardware("hardware: own").gpu.multi_gpu_gemm_share;
  };
  EXPECT_EQ(share_of("H100-SXM5-80GB"), 0.645);
  EXPECT_EQ(share_of("A100-SXM4-40GB"), kMultiGpuGemmShare);
  // It belongs to the catalogue's rate of products.
  EXPECT_EQ(share_of("H100-SXM5-80GB", "  multiprocessors: {value: 132, source: s}\n"),
            kMultiGpuGemmShare);
}

TEST_F(PartsInAScenario, StatedMultiprocessorsKeepAnOldProfilesOwnNumbers) {
  folder_.write("profiles/old.yaml", old_profile());
  const HardwareProfile taken = hardware("hardware: old");
  const HardwareProfile own = hardware("hardware: old", {{"hardware.gpu.multiprocessors", "100"}});
  EXPECT_EQ(own.gpu.multiprocessors, 100);
  EXPECT_NE(own.gpu.gemm_efficiency, taken.gpu.gemm_efficiency);
  EXPECT_TRUE(notes_.empty());
  // What lists and calibrates a profile reads what is simulated.
  EXPECT_EQ(read_hardware_profile(
                load_hardware(folder_ / "profiles/old.yaml", options_.profile_directories))
                .gpu.gemm_efficiency,
            taken.gpu.gemm_efficiency);
}

TEST_F(PartsInAScenario, PlainOverridesReachCompleteProfilesToo) {
  const HardwareProfile node =
      hardware("hardware: node", {{"hardware.host.adam_bandwidth", "120 GB/s"}});
  EXPECT_EQ(node.host.adam_bandwidth, BytesPerSecond(120 * kGB));
  EXPECT_EQ(source_of(node, "host.adam_bandwidth"), "--set hardware.host.adam_bandwidth=120 GB/s");
}

TEST_F(PartsInAScenario, OldProfileOfAKnownCardTakesTheCataloguesEfficiencies) {
  folder_.write("profiles/old.yaml", old_profile());
  const HardwareProfile node = hardware("hardware: old");
  EXPECT_EQ(node.gpu.multiprocessors, 108);
  EXPECT_EQ(node.gpu.lanes, 64);
  EXPECT_EQ(node.gpu.clock, 1.41e9);
  EXPECT_EQ(node.gpu.gemm_efficiency, 0.9);
  EXPECT_EQ(node.gpu.elementwise_efficiency, 0.85);
  EXPECT_EQ(node.gpu.gemm_half_size, Flops(0));
  EXPECT_EQ(node.gpu.memory, Bytes(80 * 0x1p30));  // as the profile states it
  EXPECT_THAT(notes_,
              ElementsAre(AllOf(HasSubstr("gpu.gemm_efficiency 0.5"), HasSubstr("a100_sxm_40g"),
                                HasSubstr("State gpu.multiprocessors"))));
  EXPECT_EQ(hardware("hardware: old", {{"hardware.gpu.gemm_efficiency.value", "0.6"}})
                .gpu.gemm_efficiency,
            0.6);
}

TEST_F(PartsInAScenario, OwnMultiprocessorsOrAMeasurementKeepAProfileAsItIs) {
  folder_.write("profiles/own.yaml", old_profile("  multiprocessors: {value: 108, source: s}\n"));
  const HardwareProfile own = hardware("hardware: own");
  EXPECT_EQ(own.gpu.gemm_efficiency, 0.5);
  EXPECT_EQ(own.gpu.clock, 0);
  EXPECT_TRUE(notes_.empty());

  std::string measured = old_profile();
  const std::string guess = "gemm_efficiency: {value: 0.5, source: s}";
  measured.replace(measured.find(guess), guess.size(),
                   "gemm_efficiency: {value: 0.5, source: \"measured 2026-11-20 here\"}");
  folder_.write("profiles/measured.yaml", measured);
  EXPECT_EQ(hardware("hardware: measured").gpu.gemm_efficiency, 0.5);

  options_.profile_directories = {folder_ / "profiles"};  // and no catalogue
  folder_.write("profiles/old.yaml", old_profile());
  EXPECT_EQ(hardware("hardware: old").gpu.gemm_efficiency, 0.5);
}

TEST_F(PartsInAScenario, ProfileMayNameItsCard) {
  std::string text = zenflow::testing::kProfile;
  const std::size_t from = text.find("  memory: {value: 80 GiB");
  text.replace(from, text.find("  gemm_efficiency") - from, "  base: h20\n");
  folder_.write("profiles/based.yaml", text);
  const HardwareProfile node = hardware("hardware: based");
  EXPECT_EQ(node.gpu.name, "GPU");                 // its own
  EXPECT_EQ(node.gpu.gemm_efficiency, 0.5);        // its own
  EXPECT_EQ(node.gpu.memory, Bytes(95 * 0x1p30));  // the catalogue's
  EXPECT_EQ(node.gpu.multiprocessors, 78);
  EXPECT_TRUE(notes_.empty());
}

}  // namespace
}  // namespace zenflow::sim
