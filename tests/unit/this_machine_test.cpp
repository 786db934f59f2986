#include "tools/this_machine.h"

#include <filesystem>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::tools {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;
using ::testing::UnorderedElementsAre;

/// Two sockets of two cores with two threads each.
void write_host(const TemporaryFolder& root) {
  root.write("sys/devices/system/cpu/online", "0-7\n");
  for (int cpu = 0; cpu < 8; ++cpu) {
    const std::string topology = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    root.write(topology + "physical_package_id", std::to_string(cpu % 4 / 2) + "\n");
    root.write(topology + "core_id", std::to_string(cpu % 2) + "\n");
  }
  root.write("proc/meminfo", "MemTotal:       131072000 kB\n");
}

void write_gpu(const TemporaryFolder& root, const std::string& bus, const std::string& name) {
  root.write("proc/driver/nvidia/gpus/" + bus + "/information",
             "Model: \t\t " + name + "\nIRQ:   \t\t 84\n");
}

/// As sysfs has it, at a port that does no less.
void write_slot(const TemporaryFolder& root, const std::string& bus, const std::string& speed,
                const std::string& width) {
  const std::string device = "sys/bus/pci/devices/" + bus + "/";
  root.write(device + "vendor", "0x10de\n");
  root.write(device + "class", "0x030200\n");
  root.write(device + "max_link_speed", speed + "\n");
  root.write(device + "current_link_width", width + "\n");
}

TEST(ThisMachine, FillsInWhatFlagsLeaveOpen) {
  const TemporaryFolder root;
  write_host(root);
  write_gpu(root, "0000:3b:00.0", "NVIDIA A100-SXM4-80GB");
  write_gpu(root, "0000:af:00.0", "NVIDIA A100-SXM4-80GB");
  sim::JobInputs inputs;
  look_at_this_machine(root.path(), inputs);
  EXPECT_EQ(inputs.gpu, "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(inputs.gpus, 2);
  EXPECT_EQ(inputs.ram, "125.0 GiB");
  EXPECT_EQ(inputs.sockets, 2);
  EXPECT_EQ(inputs.cores, 4);
  EXPECT_THAT(inputs.found,
              UnorderedElementsAre("--gpu", "--gpus", "--ram", "--sockets", "--cores"));
  sim::JobInputs said;
  said.gpu = "RTX 4090";
  said.ram = "64GB";
  said.cores = 16;
  look_at_this_machine(root.path(), said);
  EXPECT_EQ(said.gpu, "RTX 4090");
  EXPECT_EQ(said.ram, "64GB");
  EXPECT_EQ(said.cores, 16);
  EXPECT_FALSE(said.gpus || said.sockets);
  EXPECT_TRUE(said.found.empty());
}

TEST(ThisMachine, TakesTheLimitsOfItsControlGroup) {
  const TemporaryFolder root;
  write_host(root);
  root.write("proc/self/cgroup", "0::/job\n");
  root.write("sys/fs/cgroup/job/cpu.max", "300000 100000\n");
  root.write("sys/fs/cgroup/job/memory.max", "34359738368\n");
  sim::JobInputs inputs;
  inputs.gpu = "RTX 4090";
  look_at_this_machine(root.path(), inputs);
  EXPECT_EQ(inputs.ram, "32.0 GiB");
  EXPECT_EQ(inputs.cores, 3);
  EXPECT_EQ(inputs.sockets, 1);
}

TEST(ThisMachine, TakesTheSlotThatAllGpusHave) {
  const auto slot_with = [](const std::string& speed, const std::string& width) {
    const TemporaryFolder root;
    write_host(root);
    for (const char* bus : {"0000:3b:00.0", "0000:af:00.0"}) {
      write_gpu(root, bus, "NVIDIA GeForce RTX 4090");
      write_slot(root, bus, bus[5] == '3' ? "16.0 GT/s PCIe" : speed, width);
    }
    sim::JobInputs inputs;
    look_at_this_machine(root.path(), inputs);
    return inputs.slot;
  };
  const auto slot = slot_with("16.0 GT/s PCIe", "8");
  ASSERT_TRUE(slot);
  EXPECT_EQ(slot->generation, 4);
  EXPECT_EQ(slot->lanes, 8);
  EXPECT_FALSE(slot_with("8.0 GT/s PCIe", "8"));  // another one
  EXPECT_FALSE(slot_with("Unknown", "8"));
  EXPECT_FALSE(slot_with("16.0 GT/s PCIe", "0"));
}

TEST(ThisMachine, IsWhereTheJobsFactsAreFrom) {
  const TemporaryFolder root;
  write_host(root);
  write_gpu(root, "0000:3b:00.0", "NVIDIA GeForce RTX 4090");
  write_slot(root, "0000:3b:00.0", "16.0 GT/s PCIe", "8");
  sim::JobInputs inputs;
  inputs.model = "Qwen/Qwen2.5-0.5B";
  look_at_this_machine(root.path(), inputs);
  const std::filesystem::path source = ZENFLOW_SOURCE_DIR;
  const sim::JobScenario job =
      sim::job_scenario(inputs, {.profile_directories = {source / "profiles"},
                                 .model_directories = {source / "scenarios" / "models"}});
  const std::pair<const char*, const char*> facts[] = {
      {"hardware.gpu", "rtx_4090"},           {"gpus", "1"},
      {"hardware.host_link.pcie", "4"},       {"hardware.host_link.lanes", "8"},
      {"hardware.host.memory", "125.0 GiB"},  {"hardware.host.sockets", "2"},
      {"hardware.host.cores_per_socket", "2"}};
  for (const auto& [path, value] : facts) {
    const sim::JobFact* const fact = job.facts.find(path);
    ASSERT_NE(fact, nullptr) << path;
    EXPECT_EQ(fact->value, value) << path;
    EXPECT_EQ(fact->source.text(), "--host this") << path;
    EXPECT_FALSE(fact->is_estimate);
  }
}

std::string refusal(const TemporaryFolder& root) {
  sim::JobInputs inputs;
  try {
    look_at_this_machine(root.path(), inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ThisMachine, SaysWhichCardItCannotTake) {
  const TemporaryFolder root;
  write_host(root);
  EXPECT_THAT(refusal(root), HasSubstr("no NVIDIA GPU is here"));
  write_gpu(root, "0000:3b:00.0", "NVIDIA A100-SXM4-80GB");
  write_gpu(root, "0000:af:00.0", "Tesla V100-SXM2-16GB");
  EXPECT_THAT(refusal(root), HasSubstr("GPUs differ here"));
}

}  // namespace
}  // namespace zenflow::tools
