// What a hardware profile says, what it may not say, and that the shipped ones say it well.
#include "sim/config/hardware_profile.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/config/scenario.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;

// Two GPUs behind one switch; every value differs, so that a swapped pair shows.
constexpr std::string_view kTwoGpus = R"(name: node
description: a node for tests
gpu:
  name: GPU
  count: {value: 2, source: s}
  memory: {value: 80 GiB, source: s}
  context_memory: {value: 1 GiB, source: s}
  memory_bandwidth: {value: 2000 GB/s, source: s}
  peak: {bf16: {value: 300 TFLOPS, source: s}, fp32: {value: 20 TFLOPS, source: s}}
  gemm_efficiency: {value: 0.8, source: s}
  gemm_half_size: {value: 1.5 GFLOP, source: s}
  attention_efficiency: {value: 0.4, source: s}
  elementwise_efficiency: {value: 0.25, source: s}
  streaming_efficiency: {value: 1, source: s}
  kernel_launch: {value: 4 us, source: s}
host:
  name: CPU
  sockets: {value: 2, source: s}
  cores: {value: 64, source: s}
  memory: {value: 1 TiB, source: s}
  shared_memory: {value: 0 B, source: s}
  dram_bandwidth: {value: 300 GB/s, source: "vendor, page 3"}
  core_bandwidth: {value: 20 GB/s, source: s}
  adam_bandwidth: {value: 100 GB/s, source: s}
  adam_half_cores: {value: 2.5, source: s}
  elementwise_bandwidth: {value: 240 GB/s, source: s}
host_link:
  kind: PCIe 4.0 x16
  h2d: {value: 25 GB/s, source: s}
  d2h: {value: 24 GB/s, source: s}
  bidirectional: {value: 37 GB/s, source: s}
  pageable_h2d: {value: 4 GB/s, source: s}
  pageable_d2h: {value: 3 GB/s, source: s}
  latency: {value: 10 us, source: s}
  switches:
    - gpus: [0, 1]
      h2d: {value: 26 GB/s, source: s}
      d2h: {value: 27 GB/s, source: s}
      bidirectional: {value: 38 GB/s, source: s}
gpu_link:
  kind: NVLink
  bandwidth: {value: 200 GB/s, source: s}
  latency: {value: 9 us, source: s}
nvme:
  read: {value: 10 GB/s, source: s}
  write: {value: 5 GB/s, source: s}
  capacity: {value: 15 TB, source: s}
  latency: {value: 100 us, source: s}
network:
  bandwidth: {value: 180 GB/s, source: s}
  latency: {value: 5 us, source: s}
)";

HardwareProfile read(std::string_view text) {
  return read_hardware_profile(parse_yaml(text, "p.yaml"));
}

/// The two-GPU profile with one piece of its text replaced. The piece must occur once.
std::string with(std::string_view piece, std::string_view replacement) {
  std::string text(kTwoGpus);
  const std::size_t at = text.find(piece);
  EXPECT_NE(at, std::string::npos) << piece;
  EXPECT_EQ(text.find(piece, at + 1), std::string::npos) << piece << " is there twice";
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

TEST(HardwareProfile, ReadsGpuAndHostInBaseUnits) {
  const HardwareProfile profile = read(kTwoGpus);
  EXPECT_EQ(profile.name, "node");
  EXPECT_EQ(profile.description, "a node for tests");
  EXPECT_EQ(profile.gpu.name, "GPU");
  EXPECT_EQ(profile.gpu.count, 2);
  EXPECT_EQ(profile.gpu.memory, Bytes(80 * 0x1p30));
  EXPECT_EQ(profile.gpu.context_memory, Bytes(0x1p30));
  EXPECT_EQ(profile.gpu.memory_bandwidth, BytesPerSecond(2000e9));
  const std::map<DType, FlopsPerSecond> peak = {{DType::kBf16, FlopsPerSecond(300e12)},
                                                {DType::kFp32, FlopsPerSecond(20e12)}};
  EXPECT_EQ(profile.gpu.peak, peak);
  EXPECT_EQ(profile.gpu.gemm_efficiency, 0.8);
  EXPECT_EQ(profile.gpu.gemm_half_size, Flops(1.5e9));
  EXPECT_EQ(profile.gpu.attention_efficiency, 0.4);
  EXPECT_EQ(profile.gpu.elementwise_efficiency, 0.25);
  EXPECT_EQ(profile.gpu.streaming_efficiency, 1.0);
  EXPECT_EQ(profile.gpu.kernel_launch, Seconds(4e-6));
  EXPECT_EQ(profile.host.name, "CPU");
  EXPECT_EQ(profile.host.sockets, 2);
  EXPECT_EQ(profile.host.cores, 64);
  EXPECT_EQ(profile.host.memory, Bytes(0x1p40));
  EXPECT_EQ(profile.host.shared_memory, Bytes(0));
  EXPECT_EQ(profile.host.dram_bandwidth, BytesPerSecond(300e9));
  EXPECT_EQ(profile.host.core_bandwidth, BytesPerSecond(20e9));
  EXPECT_EQ(profile.host.adam_bandwidth, BytesPerSecond(100e9));
  EXPECT_EQ(profile.host.adam_half_cores, 2.5);
  EXPECT_EQ(profile.host.elementwise_bandwidth, BytesPerSecond(240e9));
}

TEST(HardwareProfile, StatesWhatACallOfAdamTakesOrDoesNot) {
  EXPECT_EQ(read(kTwoGpus).host.adam_launch, Seconds(0));
  const HardwareProfile profile = read(
      with("  adam_half_cores", "  adam_launch: {value: 35 us, source: s}\n  adam_half_cores"));
  EXPECT_EQ(profile.host.adam_launch, Seconds(35e-6));
  EXPECT_EQ(profile.host.adam_bandwidth, BytesPerSecond(100e9));
}

TEST(HardwareProfile, ReadsLinksDrivesAndNetwork) {
  const HardwareProfile profile = read(kTwoGpus);
  EXPECT_EQ(profile.host_link.kind, "PCIe 4.0 x16");
  EXPECT_EQ(profile.host_link.pinned.h2d, BytesPerSecond(25e9));
  EXPECT_EQ(profile.host_link.pinned.d2h, BytesPerSecond(24e9));
  EXPECT_EQ(profile.host_link.pinned.bidirectional, BytesPerSecond(37e9));
  EXPECT_EQ(profile.host_link.pageable_h2d, BytesPerSecond(4e9));
  EXPECT_EQ(profile.host_link.pageable_d2h, BytesPerSecond(3e9));
  EXPECT_EQ(profile.host_link.latency, Seconds(1e-5));
  ASSERT_EQ(profile.host_link.switches.size(), 1U);
  EXPECT_EQ(profile.host_link.switches[0].gpus, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(profile.host_link.switches[0].path.h2d, BytesPerSecond(26e9));
  EXPECT_EQ(profile.host_link.switches[0].path.d2h, BytesPerSecond(27e9));
  EXPECT_EQ(profile.host_link.switches[0].path.bidirectional, BytesPerSecond(38e9));
  ASSERT_TRUE(profile.gpu_link.has_value());
  EXPECT_EQ(profile.gpu_link->bandwidth, BytesPerSecond(200e9));
  EXPECT_EQ(profile.gpu_link->latency, Seconds(9e-6));
  ASSERT_TRUE(profile.nvme.has_value());
  EXPECT_EQ(profile.nvme->read, BytesPerSecond(10e9));
  EXPECT_EQ(profile.nvme->write, BytesPerSecond(5e9));
  EXPECT_EQ(profile.nvme->capacity, Bytes(15e12));
  EXPECT_EQ(profile.nvme->latency, Seconds(1e-4));
  ASSERT_TRUE(profile.network.has_value());
  EXPECT_EQ(profile.network->bandwidth, BytesPerSecond(180e9));
  EXPECT_EQ(profile.network->latency, Seconds(5e-6));
}

TEST(HardwareProfile, KeepsEveryNumberWithItsSource) {
  const HardwareProfile profile = read(kTwoGpus);
  EXPECT_EQ(profile.numbers.size(), 38U);
  std::set<std::string> paths;
  for (const SourcedNumber& number : profile.numbers) paths.insert(number.path);
  EXPECT_EQ(paths.size(), profile.numbers.size());
  EXPECT_TRUE(paths.contains("gpu.peak.bf16"));
  EXPECT_TRUE(paths.contains("host_link.switches[0].d2h"));
  const auto dram =
      std::find_if(profile.numbers.begin(), profile.numbers.end(),
                   [](const SourcedNumber& n) { return n.path == "host.dram_bandwidth"; });
  ASSERT_NE(dram, profile.numbers.end());
  EXPECT_EQ(dram->value, "300 GB/s");
  EXPECT_EQ(dram->source, "vendor, page 3");
}

TEST(HardwareProfile, ReadsWorkInEveryUnit) {
  const auto half_size = [](std::string_view text) {
    return read(with("1.5 GFLOP", text)).gpu.gemm_half_size.value();
  };
  EXPECT_EQ(half_size("800 FLOP"), 800);
  EXPECT_EQ(half_size("8 MFLOP"), 8e6);
  EXPECT_EQ(half_size("8GFLOP"), 8e9);
  EXPECT_EQ(half_size("2 TFLOP"), 2e12);
}

TEST(HardwareProfile, MayStateHowMuchAProcessMayLock) {
  const auto limit = [](const std::string& text) {
    return read(with("  dram_bandwidth:", text + "  dram_bandwidth:")).host.locked_memory_limit;
  };
  EXPECT_FALSE(limit(""));
  EXPECT_EQ(limit("  locked_memory_limit: {value: 8 MiB, source: ulimit -l}\n"), Bytes(8 << 20));
  const auto unlimited = limit("  locked_memory_limit: {value: unlimited, source: ulimit -l}\n");
  ASSERT_TRUE(unlimited);
  EXPECT_TRUE(std::isinf(unlimited->value()));
  const std::string message =
      error_of(with("  dram_bandwidth:",
                    "  locked_memory_limit: {value: infinite, source: s}\n  dram_bandwidth:"));
  EXPECT_NE(message.find("host.locked_memory_limit"), std::string::npos) << message;
  EXPECT_NE(message.find("\"unlimited\""), std::string::npos) << message;
}

TEST(HardwareProfile, OptionalBlocksMayBeAbsent) {
  const std::string text(kTwoGpus);
  const HardwareProfile profile = read(text.substr(0, text.find("nvme:")));
  EXPECT_FALSE(profile.nvme.has_value());
  EXPECT_FALSE(profile.network.has_value());
}

TEST(HardwareProfile, OneGpuNeedsNoGpuLink) {
  std::string text = with("count: {value: 2,", "count: {value: 1,");
  text.erase(text.find("  switches:"));
  EXPECT_FALSE(read(text).gpu_link.has_value());
}

struct BadProfile {
  std::string name;
  std::string piece;
  std::string replacement;
  std::string message;
};

/// What gtest prints of a failed case.
void PrintTo(const BadProfile& bad, std::ostream* out) {
  *out << bad.name;
}

std::string case_name(const testing::TestParamInfo<BadProfile>& parameter) {
  return parameter.param.name;
}

class HardwareProfileError : public testing::TestWithParam<BadProfile> {};

TEST_P(HardwareProfileError, IsLocatedAndSaysWhatWasExpected) {
  EXPECT_EQ(error_of(with(GetParam().piece, GetParam().replacement)), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Numbers, HardwareProfileError,
    testing::Values(
        BadProfile{"BareNumber", "{value: 80 GiB, source: s}", "80 GiB",
                   "p.yaml:6:11: gpu.memory: expected {value: ..., source: \"...\"}, found "
                   "\"80 GiB\""},
        BadProfile{"WithoutSource", "{value: 80 GiB, source: s}", "{value: 80 GiB}",
                   "p.yaml:6:11: gpu.memory.source: required, but missing"},
        BadProfile{"EmptySource", "{value: 80 GiB, source: s}", "{value: 80 GiB, source: \"\"}",
                   "p.yaml:6:35: gpu.memory.source: expected a non-empty string, found \"\""},
        BadProfile{"BlankSource", "{value: 80 GiB, source: s}", "{value: 80 GiB, source: \"  \"}",
                   "p.yaml:6:35: gpu.memory.source: expected where the number comes from, found "
                   "only spaces"},
        BadProfile{"WithoutValue", "{value: 80 GiB, source: s}", "{source: s}",
                   "p.yaml:6:11: gpu.memory.value: required, but missing"},
        BadProfile{"ThirdKey", "{value: 80 GiB, source: s}", "{value: 80 GiB, source: s, unit: B}",
                   "p.yaml:6:38: gpu.memory.unit: unknown key"},
        BadProfile{"SizeWithoutUnit", "80 GiB", "80",
                   "p.yaml:6:19: gpu.memory.value: expected a size with a unit such as \"80 GiB\", "
                   "found \"80\" (units: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)"},
        BadProfile{"NoMemory", "80 GiB", "0 GiB",
                   "p.yaml:6:19: gpu.memory.value: expected a size > 0, found \"0 GiB\""},
        BadProfile{"ZeroRate", "300 GB/s", "0 GB/s",
                   "p.yaml:22:27: host.dram_bandwidth.value: expected a bandwidth > 0, found "
                   "\"0 GB/s\""},
        BadProfile{"NegativeRate", "300 TFLOPS", "-300 TFLOPS",
                   "p.yaml:9:24: gpu.peak.bf16.value: expected a compute rate > 0, found "
                   "\"-300 TFLOPS\", which is negative"},
        BadProfile{"NegativeTime", "4 us", "-4 us",
                   "p.yaml:15:26: gpu.kernel_launch.value: expected a time >= 0, found \"-4 us\", "
                   "which is negative"},
        BadProfile{"ZeroEfficiency", "value: 0.8", "value: 0",
                   "p.yaml:10:28: gpu.gemm_efficiency.value: expected a number > 0 and <= 1, found "
                   "\"0\""},
        BadProfile{
            "NegativeEfficiency", "value: 0.25", "value: -0.25",
            "p.yaml:13:35: gpu.elementwise_efficiency.value: expected a number > 0 and <= 1, "
            "found \"-0.25\""},
        BadProfile{"EfficiencyAboveOne", "value: 0.8", "value: 1.01",
                   "p.yaml:10:28: gpu.gemm_efficiency.value: expected a number <= 1, found "
                   "\"1.01\""},
        BadProfile{"WorkWithoutUnit", "1.5 GFLOP", "1.5",
                   "p.yaml:11:27: gpu.gemm_half_size.value: expected an amount of work > 0 with a "
                   "unit such as \"1.6 GFLOP\", found \"1.5\" (units: FLOP, MFLOP, GFLOP, TFLOP)"},
        BadProfile{"WorkAsRate", "1.5 GFLOP", "1.5 GFLOPS",
                   "p.yaml:11:27: gpu.gemm_half_size.value: expected an amount of work > 0 with a "
                   "unit such as \"1.6 GFLOP\", found \"1.5 GFLOPS\" (units: FLOP, MFLOP, GFLOP, "
                   "TFLOP)"},
        BadProfile{"ZeroHalfCores", "value: 2.5", "value: 0",
                   "p.yaml:25:28: host.adam_half_cores.value: expected a number > 0, found "
                   "\"0\""},
        BadProfile{"HalfACore", "cores: {value: 64,", "cores: {value: 0.5,",
                   "p.yaml:19:18: host.cores.value: expected a whole number from 1 to 1000000, "
                   "found \"0.5\""}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Structure, HardwareProfileError,
    testing::Values(
        BadProfile{"UnknownKey", "  memory: {value: 80 GiB, source: s}\n",
                   "  memory: {value: 80 GiB, source: s}\n  memry: {value: 1 B, source: s}\n",
                   "p.yaml:7:3: gpu.memry: unknown key (did you mean \"memory\"?)"},
        BadProfile{"MissingKey", "  latency: {value: 10 us, source: s}\n", "",
                   "p.yaml:28:3: host_link.latency: required, but missing"},
        BadProfile{"UnknownBlock", "network:\n", "netwerk:\n",
                   "p.yaml:49:1: netwerk: unknown key (did you mean \"network\"?)"},
        BadProfile{"UnknownPeak", "peak: {bf16:", "peak: {bf61:",
                   "p.yaml:9:10: gpu.peak.bf61: unknown key (did you mean \"bf16\"?)"},
        BadProfile{"NoPeak",
                   "{bf16: {value: 300 TFLOPS, source: s}, fp32: {value: 20 TFLOPS, source: s}}",
                   "{}", "p.yaml:9:9: gpu.peak: expected at least one of bf16, fp16 and fp32"},
        BadProfile{"NoGpuLink",
                   "gpu_link:\n  kind: NVLink\n  bandwidth: {value: 200 GB/s, source: s}\n"
                   "  latency: {value: 9 us, source: s}\n",
                   "", "p.yaml:1:1: gpu_link: required, because gpu.count is 2, but missing"},
        BadProfile{"GpuTwiceInASwitch", "[0, 1]", "[0, 0]",
                   "p.yaml:36:17: host_link.switches[0].gpus[1]: GPU 0 is already named by "
                   "host_link.switches[0].gpus[0]"},
        BadProfile{"GpuInTwoSwitches", "bidirectional: {value: 38 GB/s, source: s}\n",
                   "bidirectional: {value: 38 GB/s, source: s}\n    - gpus: [1]\n",
                   "p.yaml:40:14: host_link.switches[1].gpus[0]: GPU 1 is already named by "
                   "host_link.switches[0].gpus[1]"},
        BadProfile{"NoSuchGpu", "[0, 1]", "[0, 2]",
                   "p.yaml:36:17: host_link.switches[0].gpus[1]: no such GPU: gpu.count is 2, "
                   "found 2"},
        BadProfile{"NegativeGpu", "[0, 1]", "[0, -1]",
                   "p.yaml:36:17: host_link.switches[0].gpus[1]: expected a whole number from 0 to "
                   "1000000, found \"-1\""},
        BadProfile{"SwitchWithoutGpus", "[0, 1]", "[]",
                   "p.yaml:36:13: host_link.switches[0].gpus: expected at least one GPU"},
        BadProfile{"AdamAboveDram", "value: 100 GB/s", "value: 300.5 GB/s",
                   "p.yaml:24:27: host.adam_bandwidth.value: expected at most host.dram_bandwidth, "
                   "300 GB/s, found 300.5 GB/s"},
        BadProfile{"WorkerAdamAboveDram", "  adam_half_cores",
                   "  worker_adam_bandwidth: {value: 301 GB/s, source: s}\n  adam_half_cores",
                   "p.yaml:25:34: host.worker_adam_bandwidth.value: expected at most "
                   "host.dram_bandwidth, 300 GB/s, found 301 GB/s"},
        BadProfile{
            "LaunchWithoutUnit", "  adam_half_cores",
            "  adam_launch: {value: 35, source: s}\n  adam_half_cores",
            "p.yaml:25:24: host.adam_launch.value: expected a time with a unit such as \"10 us\", "
            "found \"35\" (units: ps, ns, us, ms, s, min)"},
        BadProfile{"ElementwiseAboveDram", "value: 240 GB/s", "value: 1 TB/s",
                   "p.yaml:26:34: host.elementwise_bandwidth.value: expected at most "
                   "host.dram_bandwidth, 300 GB/s, found 1000 GB/s"}),
    case_name);

TEST(HardwareProfile, IsAMap) {
  EXPECT_EQ(error_of("- 1\n"), "p.yaml:1:1: expected a map, found a sequence");
}

TEST(HardwareProfile, NamesDTypesAsDeepSpeedDoes) {
  EXPECT_EQ(to_string(DType::kBf16), "bf16");
  EXPECT_EQ(to_string(DType::kFp16), "fp16");
  EXPECT_EQ(to_string(DType::kFp32), "fp32");
  EXPECT_EQ(bytes_per_element(DType::kBf16), 2);
  EXPECT_EQ(bytes_per_element(DType::kFp16), 2);
  EXPECT_EQ(bytes_per_element(DType::kFp32), 4);
}

std::vector<fs::path> shipped_profiles() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(fs::path(ZENFLOW_SOURCE_DIR) / "profiles")) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class ShippedProfile : public testing::TestWithParam<fs::path> {};

TEST_P(ShippedProfile, LoadsAndIsNamedLikeItsFile) {
  const HardwareProfile profile = read_hardware_profile(load_hardware(GetParam()));
  EXPECT_EQ(profile.name, GetParam().stem().string());
  for (const SourcedNumber& number : profile.numbers) {
    EXPECT_EQ(number.source.find('\n'), std::string::npos) << number.path;
  }
}

// Two directions slower together than one alone, pageable copies faster than pinned ones:
// slips of the pen, not machines.
TEST_P(ShippedProfile, HoldsTogether) {
  const HardwareProfile profile = read_hardware_profile(load_hardware(GetParam()));
  const auto plausible = [](const HostPath& path) {
    return path.bidirectional >= std::max(path.h2d, path.d2h) &&
           path.bidirectional <= path.h2d + path.d2h;
  };
  EXPECT_TRUE(plausible(profile.host_link.pinned));
  for (const HostSwitch& host_switch : profile.host_link.switches) {
    EXPECT_TRUE(plausible(host_switch.path));
  }
  EXPECT_LE(profile.host_link.pageable_h2d, profile.host_link.pinned.h2d);
  EXPECT_LE(profile.host_link.pageable_d2h, profile.host_link.pinned.d2h);
  EXPECT_LT(profile.gpu.context_memory, profile.gpu.memory);
  EXPECT_LE(profile.host.shared_memory, profile.host.memory);
  EXPECT_LE(profile.host.core_bandwidth, profile.host.dram_bandwidth);
  EXPECT_LE(profile.host.adam_half_cores, static_cast<double>(profile.host.cores));
}

INSTANTIATE_TEST_SUITE_P(All, ShippedProfile, testing::ValuesIn(shipped_profiles()),
                         [](const testing::TestParamInfo<fs::path>& parameter) {
                           return parameter.param.stem().string();
                         });

TEST(ShippedProfiles, AreAtLeastTen) {
  EXPECT_GE(shipped_profiles().size(), 10U);
}

}  // namespace
}  // namespace zenflow::sim
