// The whole probe on the host device with tiny arrays: every loop runs, nothing is said about
// speed. The profile has to be one that the simulator runs with.
#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/probe/probe.h"
#include "runtime/probe/probe_profile.h"
#include "sim/config/document.h"
#include "sim/config/hardware_profile.h"
#include "tests/support/error_of.h"
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

class ProbeRehearsal : public ::testing::Test {
 protected:
  std::vector<Figure> rehearse() {
    const auto device = make_host_probe_device();
    const auto groups = make_experiments(*device, topology_, settings_);
    return run_experiments(
        groups, {.rounds = 2, .least_repetitions = 1, .most_repetitions = 2, .seconds = 0},
        {.now = [] {
          return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
        }});
  }
  [[nodiscard]] ProbedMachine machine() const {
    return {.profile_name = "rehearsed",
            .command = "zenflow-calibrate probe --device cpu",
            .date = "2026-11-20",
            .cpu_name = "A \"quoted\" CPU: #1",
            .device_name = "host device (CPU)",
            .link_kind = "memcpy",
            .device_memory = std::uint64_t{8} << 30,
            .device_memory_source = "a test",
            .context_memory = std::uint64_t{64} << 20,
            .context_memory_source = "a test",
            .host_memory = std::uint64_t{16} << 30,
            .host_memory_source = "a test",
            .shared_memory = std::uint64_t{64} << 30,
            .sockets = topology_.sockets(),
            .cores = static_cast<int>(topology_.cores().size())};
  }

  TemporaryFolder folder_;
  CpuTopology topology_;
  ProbeSettings settings_{.quick = false,
                          .largest_copy = std::size_t{256} << 10,
                          .array_bytes = std::size_t{1} << 20,
                          .largest_product = 4e7,
                          .device_array_bytes = std::size_t{1} << 20};
};

TEST_F(ProbeRehearsal, GivesAProfileThatTheSimulatorRunsWith) {
  const std::vector<Figure> figures = rehearse();
  const std::string text = probe_profile(machine(), figures, settings_);
  const std::filesystem::path file = folder_.write("rehearsed.yaml", text);
  const sim::HardwareProfile profile =
      sim::read_hardware_profile(parse_yaml(text, "rehearsed.yaml"));
  EXPECT_EQ(profile.name, "rehearsed");
  EXPECT_EQ(profile.host.name, "A \"quoted\" CPU: #1");
  EXPECT_EQ(profile.host.cores, static_cast<std::int64_t>(topology_.cores().size()));
  EXPECT_EQ(profile.host.shared_memory.value(), profile.host.memory.value());
  EXPECT_NEAR(profile.host_link.pinned.h2d.value() / 1e9,
              figure(figures, "copy.h2d.pinned.largest").value.median,
              1e-4 * profile.host_link.pinned.h2d.value() / 1e9);
  for (const sim::SourcedNumber& number : profile.numbers) {
    if (number.path.starts_with("host_link")) {
      EXPECT_THAT(number.source,
                  AllOf(HasSubstr("measured 2026-11-20 on A \"quoted\" CPU"), HasSubstr("probe"),
                        HasSubstr("median of 2"), HasSubstr("spread ")));
    }
  }

  const std::string scenario = ZENFLOW_SOURCE_DIR "/scenarios/opt_125m_this_host.yaml";
  const testing::Outcome outcome =
      testing::run_program({ZENFLOW_SIM, "run", scenario, "--profile", file.string(), "--json"},
                           {.folder = folder_.path()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("rehearsed"));
}

TEST_F(ProbeRehearsal, MeasuresADriveAndLeavesNoFile) {
  settings_.quick = true;
  settings_.nvme = folder_.path();
  std::vector<Figure> figures;
  try {
    figures = rehearse();
  } catch (const Error& error) {
    // tmpfs has no O_DIRECT on older kernels; what is wrong has to be said then.
    ASSERT_THAT(error.what(), HasSubstr("O_DIRECT"));
    GTEST_SKIP() << error.what();
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  ProbedMachine probed = machine();
  probed.nvme_bytes = std::uint64_t{1} << 40;
  const auto profile =
      sim::read_hardware_profile(parse_yaml(probe_profile(probed, figures, settings_), "p.yaml"));
  ASSERT_TRUE(profile.nvme.has_value());
  EXPECT_EQ(profile.nvme->capacity.value(), 0x1p40);
}

TEST_F(ProbeRehearsal, TellsEveryFigureWithItsSpread) {
  const std::vector<Figure> figures = rehearse();
  const std::string text = figures_json(machine(), figures, "1.2.3");
  const auto document = nlohmann::json::parse(text);
  EXPECT_EQ(document["date"], "2026-11-20");
  ASSERT_EQ(document["figures"].size(), figures.size());
  std::set<std::string> ids;
  for (const auto& one : document["figures"]) {
    EXPECT_LE(one["low"], one["median"]) << one;
    EXPECT_LE(one["median"], one["high"]) << one;
    EXPECT_EQ(one["repetitions"], 2) << one;
    EXPECT_TRUE(ids.insert(one["id"]).second) << one["id"] << " is there twice";
  }
  for (const char* id : {"copy.h2d.pinned.4KiB", "copy.d2h.pageable.largest", "copy.both",
                         "copy.h2d.beside_adam", "memory.update.beside_copies", "attention",
                         "latency.event", "adam.unbound", "cast_down.threads1"}) {
    EXPECT_TRUE(ids.contains(id)) << id;
  }
}

TEST_F(ProbeRehearsal, FailsOnAFolderThatCannotBeWritten) {
  settings_.nvme = folder_ / "missing";
  EXPECT_THAT(error_of([&] { return rehearse(); }).second, HasSubstr("No such file"));
}

}  // namespace
}  // namespace zenflow::runtime
