#include "tools/this_machine.h"

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
