#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/machine/gather.h"
#include "runtime/machine/system_files.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::TemporaryFolder;

TEST(SystemFiles, ReadListsOfCpus) {
  EXPECT_THAT(parse_cpu_list("0-2,8\n"), ElementsAre(0, 1, 2, 8));
  EXPECT_THAT(parse_cpu_list("5"), ElementsAre(5));
  EXPECT_THAT(parse_cpu_list(""), IsEmpty());
  for (const char* damaged : {"0-", "3-1", "x", "0,,2", "-1", "0-99999999"}) {
    EXPECT_THAT(parse_cpu_list(damaged), IsEmpty()) << damaged;
  }
}

TEST(SystemFiles, ReadTheSoftLimitOfLockedMemory) {
  const std::string head = "Limit                     Soft Limit           Hard Limit  Units\n";
  EXPECT_EQ(lock_limit(head + "Max locked memory         8388608              unlimited   bytes\n")
                ->bytes,
            8388608U);
  EXPECT_EQ(lock_limit(head + "Max locked memory         unlimited            unlimited   bytes\n")
                ->bytes,
            std::nullopt);
  EXPECT_FALSE(lock_limit(head).has_value());
}

TEST(SystemFiles, ReadMemoryAndStolenTime) {
  EXPECT_EQ(meminfo_bytes("MemTotal:       24683160 kB\nMemFree: 1 kB\n", "MemTotal"),
            24683160ULL * 1024);
  EXPECT_EQ(meminfo_bytes("", "MemTotal"), std::nullopt);
  // 100 of user, nice, system, idle, iowait, irq, softirq and steal; 40 of guest count in user.
  EXPECT_DOUBLE_EQ(*stolen_share("cpu  40 0 10 45 0 0 0 5 40 0\ncpu0 1 1\n"), 0.05);
  EXPECT_EQ(stolen_share("cpu  1 2 3\n"), std::nullopt);
}

TEST(SystemFiles, TakeTheTightestLimitOfTheGroupsAboveVersion2) {
  const TemporaryFolder root;
  root.write("proc/self/cgroup", "0::/slice/job\n");
  root.write("sys/fs/cgroup/slice/cpu.max", "150000 100000\n");
  root.write("sys/fs/cgroup/slice/job/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/slice/memory.max", "max\n");
  root.write("sys/fs/cgroup/slice/job/memory.max", "4294967296\n");
  const ControlGroupLimits limits = control_group_limits(root.path());
  EXPECT_EQ(limits.cpus, 1.5);
  EXPECT_EQ(limits.memory, 4294967296U);
}

TEST(SystemFiles, TakeTheTightestLimitOfTheGroupsAboveVersion1) {
  const TemporaryFolder root;
  root.write("proc/self/cgroup", "4:memory:/a/b\n2:cpu,cpuacct:/a\n0::/\n");
  root.write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "200000\n");
  root.write("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  root.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000\n");
  root.write("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  const ControlGroupLimits limits = control_group_limits(root.path());
  EXPECT_EQ(limits.cpus, 2.0);
  EXPECT_EQ(limits.memory, 1000U);
}

TEST(SystemFiles, NameTheRootPort) {
  EXPECT_EQ(root_port("/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"), "0000:3a:00.0");
  EXPECT_EQ(
      root_port("/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:08.0/0000:3d:00.0"),
      "0000:3a:00.0");
  EXPECT_EQ(root_port("/sys/devices/pci0000:00/0000:00:05.0"), "");
  EXPECT_EQ(root_port("/sys/devices/virtual"), "");
}

/// A PCI device as sysfs shows it: a folder where it hangs and a link among all devices.
void add_device(const TemporaryFolder& root, const std::string& place, const std::string& vendor,
                const std::string& device_class) {
  const std::string folder = "sys/devices/" + place;
  root.write(folder + "/vendor", vendor + "\n");
  root.write(folder + "/class", device_class + "\n");
  root.write(folder + "/current_link_speed", "2.5 GT/s PCIe\n");
  root.write(folder + "/max_link_speed", "16.0 GT/s PCIe\n");
  root.write(folder + "/current_link_width", "8\n");
  root.write(folder + "/max_link_width", "16\n");
  root.write(folder + "/numa_node", "1\n");
  const fs::path devices = root / "sys/bus/pci/devices";
  fs::create_directories(devices);
  fs::create_directory_symlink(root / folder, devices / fs::path(place).filename());
}

TEST(SystemFiles, FindNvidiaGpusAmongPciDevices) {
  const TemporaryFolder root;
  const std::string below_switch = "pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:";
  add_device(root, below_switch + "00.0/0000:3d:00.0", "0x10de", "0x030200");
  add_device(root, below_switch + "01.0/0000:3e:00.0", "0x10de", "0x030000");
  add_device(root, below_switch + "01.0/0000:3e:00.1", "0x10de", "0x040300");  // its audio
  add_device(root, "pci0000:00/0000:00:02.0", "0x8086", "0x030000");
  const std::vector<GpuSlot> gpus = gpu_slots(root.path());
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].bus_id, "0000:3d:00.0");
  EXPECT_EQ(gpus[0].speed, 2.5);
  EXPECT_EQ(gpus[0].speed_max, 16);
  EXPECT_EQ(gpus[0].width, 8);
  EXPECT_EQ(gpus[0].width_max, 16);
  EXPECT_EQ(gpus[0].numa_node, 1);
  EXPECT_EQ(gpus[0].root_port, "0000:3a:00.0");
  EXPECT_EQ(gpus[1].root_port, gpus[0].root_port);
}

TEST(SystemFiles, ALinkIsNoFasterThanItsSlot) {
  const TemporaryFolder root;
  add_device(root, "pci0000:3a/0000:3a:00.0/0000:3b:00.0", "0x10de", "0x030200");
  root.write("sys/devices/pci0000:3a/0000:3a:00.0/max_link_speed", "8.0 GT/s PCIe\n");
  EXPECT_EQ(gpu_slots(root.path()).at(0).speed_max, 8);
  root.write("sys/devices/pci0000:3a/0000:3a:00.0/max_link_speed", "32.0 GT/s PCIe\n");
  EXPECT_EQ(gpu_slots(root.path()).at(0).speed_max, 16);
}

TEST(MachineFacts, NvmlSaysWhatSysfsDoesNot) {
  MachineFacts facts;
  facts.gpus = {{.bus_id = "0000:3b:00.0", .speed_max = 16, .width = 8},
                {.bus_id = "0000:3c:00.0"}};
  facts.driver.release = "580.65.06";
  add_nvml(facts,
           {{.bus_id = "0000:3c:00.0",
             .link_generation = 1,
             .link_generation_max = 5,
             .link_width = 4,
             .link_width_max = 16},
            {.bus_id = "0000:3b:00.0", .link_generation_max = 6, .link_width = 16},
            {.bus_id = "0000:5e:00.0", .link_generation = 0, .link_generation_max = 99}},
           "535.1");
  ASSERT_EQ(facts.gpus.size(), 3U);
  EXPECT_EQ(facts.gpus[0].speed_max, 16) << "sysfs knows";
  EXPECT_EQ(facts.gpus[0].width, 8);
  EXPECT_EQ(facts.gpus[0].speed, std::nullopt);
  EXPECT_EQ(facts.gpus[1].speed, 2.5);
  EXPECT_EQ(facts.gpus[1].speed_max, 32);
  EXPECT_EQ(facts.gpus[1].width, 4);
  EXPECT_EQ(facts.gpus[1].width_max, 16);
  EXPECT_EQ(facts.gpus[2].bus_id, "0000:5e:00.0");
  EXPECT_EQ(facts.gpus[2].speed, std::nullopt);
  EXPECT_EQ(facts.gpus[2].speed_max, std::nullopt);
  EXPECT_EQ(facts.driver.release, "580.65.06");
  MachineFacts unsaid;
  add_nvml(unsaid, {}, "535.1");
  EXPECT_EQ(unsaid.driver.release, "535.1");
}

TEST(MachineFacts, ComeFromTheFilesOfTheRoot) {
  const TemporaryFolder root;
  root.write("proc/self/status", "Name: x\nTracerPid:\t17\nCpus_allowed_list:\t0-1\n");
  root.write("proc/self/limits", "Max locked memory         65536   65536   bytes\n");
  root.write("proc/meminfo", "MemTotal: 1024 kB\nMemAvailable: 512 kB\n");
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/memory.max", "9223372036854771712\n");
  root.write("proc/cpuinfo", "processor : 0\nmodel name\t: Some CPU\n");
  root.write("proc/loadavg", "3.25 1 1 9/151 12010\n");
  root.write("proc/driver/nvidia/params", "Mobile: 1\nRmProfilingAdminOnly: 1\n");
  root.write("sys/devices/system/cpu/online", "0-3\n");
  root.write("sys/devices/system/node/node0/cpulist", "0-1\n");
  root.write("sys/devices/system/node/node1/cpulist", "2-3\n");
  root.write("sys/devices/system/node/possible", "0-1\n");
  root.write("cuda/stubs/libcuda.so", "");
  const MachineFacts facts = gather_host_facts(
      {.root = root.path(),
       .environment = {{"LD_LIBRARY_PATH", (root / "cuda/stubs/").string() + ":/lib"},
                       {"NSYS_PROFILING_SESSION_ID", "4"}}});
  EXPECT_THAT(facts.allowed_cpus, ElementsAre(0, 1));
  EXPECT_THAT(facts.online_cpus, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(facts.lock_limit->bytes, 65536U);
  EXPECT_EQ(facts.memory, 1024U * 1024);
  EXPECT_EQ(facts.memory_available, 512U * 1024);
  EXPECT_EQ(facts.memory_limit, std::nullopt);  // what version 1 calls none
  EXPECT_EQ(facts.cpu_name, "Some CPU");
  EXPECT_EQ(facts.load, 3.25);
  EXPECT_EQ(facts.counters_for_root_only, true);
  EXPECT_EQ(facts.numa_cpus.size(), 2U);
  EXPECT_THAT(facts.stub_folders, ElementsAre((root / "cuda/stubs").string()));
  EXPECT_THAT(facts.tracing_tools,
              ElementsAre("NSYS_PROFILING_SESSION_ID=4", "process 17 debugs this one"));
  EXPECT_EQ(facts.shared_memory, std::nullopt);
  EXPECT_EQ(facts.steal, std::nullopt);
}

}  // namespace
}  // namespace zenflow::runtime
