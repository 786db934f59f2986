/// What other programs use, from texts of /proc/stat.
#include "runtime/machine/core_use.h"

#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::TemporaryFolder;

constexpr double kHertz = 100;

// user nice system idle iowait irq softirq steal guest guest_nice: 40 of guest count in user.
TEST(CpuTicks, AreOfEachCpuThatIsOnline) {
  const std::string stat =
      "cpu  140 1 22 160 10 1 2 4 40 0\n"
      "cpu0 100 1 20 60 10 1 2 4 40 0\n"
      "cpu3 40 0 2 100 0 0 0 0 0 0\n"
      "intr 12345 0 9\nctxt 1\nbtime 2\n";
  EXPECT_THAT(cpu_ticks(stat),
              ElementsAre(Pair(0, CpuTicks{70, 198}), Pair(3, CpuTicks{100, 142})));
}

TEST(CpuTicks, LinesOfAnotherFormAreNone) {
  EXPECT_THAT(cpu_ticks(""), IsEmpty());
  EXPECT_THAT(cpu_ticks("cpu0 1 2 3 4\n"), IsEmpty()) << "no time of waiting for a disk";
  EXPECT_THAT(cpu_ticks("cpu0 1 2 x 4 5 6 7 8\n"), IsEmpty());
  EXPECT_THAT(cpu_ticks("cpu0 1 2 3 4 5 x 7 8\n"), IsEmpty());
  EXPECT_THAT(cpu_ticks("cpu0 1 2 3 -4 5 6 7 8\n"), IsEmpty());
  EXPECT_THAT(cpu_ticks("cpux 1 2 3 4 5 6 7 8\ncpu 1 2 3 4 5 6 7 8\ncpufreq 1 2 3 4 5\n"),
              IsEmpty());
  // As kernels before 2.6.11 wrote it; and without an end of line.
  EXPECT_THAT(cpu_ticks("cpu7 1 2 3 4 5 6 7"), ElementsAre(Pair(7, CpuTicks{9, 28})));
}

/// `count` CPUs that were idle for a part of `ticks` each.
CoreReading reading(int count, std::int64_t ticks, double idle_share, double own_seconds) {
  CoreReading one{.own_seconds = own_seconds,
                  .at_seconds = 7 + static_cast<double>(ticks) / kHertz};
  for (int cpu = 0; cpu < count; ++cpu) {
    one.cpus[cpu] = {5000 + std::llround(idle_share * static_cast<double>(ticks)), 9000 + ticks};
  }
  return one;
}

std::vector<int> first_cpus(int count) {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < count; ++cpu) cpus.push_back(cpu);
  return cpus;
}

// Two CPUs a quarter idle in two seconds: three seconds of work, of which two are our own.
TEST(OtherUse, IsWhatIsBusyBesideThisProcess) {
  const OtherUse use =
      other_use(reading(2, 0, 0, 40), reading(2, 200, 0.25, 42), first_cpus(2), kHertz);
  ASSERT_TRUE(use.cores) << use.problem;
  EXPECT_DOUBLE_EQ(*use.cores, 0.5);
}

TEST(OtherUse, IsOfTheCpusThatTheProcessMayRunOn) {
  const CoreReading begin = reading(100, 0, 0, 0);
  CoreReading end = reading(100, 1000, 1, 5);
  for (const int cpu : {4, 5, 60}) end.cpus[cpu].idle = begin.cpus.at(cpu).idle;  // always busy
  EXPECT_DOUBLE_EQ(*other_use(begin, end, first_cpus(100), kHertz).cores, 2.5);
  EXPECT_DOUBLE_EQ(*other_use(begin, end, {4, 5}, kHertz).cores, 1.5);
  EXPECT_DOUBLE_EQ(*other_use(begin, end, {4, 5, 6, 7}, kHertz).cores, 1.5);
}

TEST(OtherUse, LeavesOutCpusThatWereOffline) {
  CoreReading begin = reading(4, 0, 0, 0);
  CoreReading end = reading(4, 1000, 0, 10);
  begin.cpus.erase(2);
  end.cpus.erase(3);
  EXPECT_DOUBLE_EQ(*other_use(begin, end, first_cpus(4), kHertz).cores, 1);
}

TEST(OtherUse, IsNoneWhereTicksDoNotTellIt) {
  const auto used = [](std::int64_t ticks, double others) {
    const double seconds = static_cast<double>(ticks) / kHertz;
    return *other_use(reading(2, 0, 0, 0), reading(2, ticks, 0.5, (1 - others) * seconds),
                      first_cpus(2), kHertz)
                .cores;
  };
  EXPECT_EQ(used(1000, 0), 0);
  EXPECT_EQ(used(1000, -0.2), 0) << "more of our own than was busy: rounding";
  EXPECT_EQ(used(1000, 0.029), 0);
  EXPECT_NEAR(used(1000, 0.031), 0.031, 1e-9);
  // Two standard errors of two CPUs' ticks: 2 * 0.01 s * sqrt(2 / 3) = 16.3 ms, of 80 ms.
  EXPECT_EQ(used(8, 0.20), 0);
  EXPECT_NEAR(used(8, 0.21), 0.21, 1e-9);
}

// In a second half of the time of which nobody is to know, others had everything.
TEST(OtherUse, LeavesOutWhatItIsTold) {
  const CoreReading begin = reading(2, 0, 0, 40);
  const CoreReading suspended = reading(2, 100, 0.25, 41);
  CoreReading resumed = suspended;
  CoreReading end = reading(2, 200, 0.25, 42);
  for (CoreReading* later : {&resumed, &end}) {
    later->at_seconds += 50;
    for (auto& [cpu, ticks] : later->cpus) ticks.all += 5000;
  }
  EXPECT_NEAR(*other_use(begin, end, first_cpus(2), kHertz).cores, (100 + 0.5 * 2) / 52, 1e-9);
  CoreReading moved = begin;
  moved.leave_out(suspended, resumed);
  EXPECT_DOUBLE_EQ(*other_use(moved, end, first_cpus(2), kHertz).cores, 0.5);
  resumed.cpus.erase(1);
  moved.leave_out(suspended, resumed);
  EXPECT_THAT(moved.cpus, ElementsAre(Pair(0, CpuTicks{5000, 19000})));
}

TEST(OtherUse, SaysWhyItIsNotKnown) {
  const CoreReading begin = reading(2, 0, 0, 0);
  const auto why = [&](const CoreReading& end, const std::vector<int>& cpus) {
    const OtherUse use = other_use(begin, end, cpus, kHertz);
    EXPECT_FALSE(use.cores);
    return use.problem;
  };
  EXPECT_THAT(why(reading(2, 100, 0, 0), {}), HasSubstr("no line for a CPU"));
  EXPECT_THAT(why(reading(2, 100, 0, 0), {2, 3}), HasSubstr("no line for a CPU"));
  EXPECT_THAT(why({.at_seconds = 8}, {0, 1}), HasSubstr("no line for a CPU"));
  EXPECT_THAT(why(reading(2, 3, 0, 0), {0, 1}), HasSubstr("0.030 s are too short"));
  // A container that shows zeros, or a CPU that was offline for a while.
  CoreReading still = begin;
  still.at_seconds += 0.04;
  EXPECT_THAT(why(still, {0, 1}), HasSubstr("counts 0 ticks in 0.040 s of 2 CPUs, not 8"));
  still.at_seconds += 10;
  EXPECT_THAT(why(still, {0, 1}), HasSubstr("counts 0 ticks"));
}

TEST(OtherUse, IsReadFromTheSystemsFiles) {
  const TemporaryFolder root;
  EXPECT_THAT(read_cores(root.path()).cpus, IsEmpty());
  EXPECT_THAT(allowed_cpus(root.path(), {}), IsEmpty());
  root.write("proc/stat", "cpu 0 0 0 0 0 0 0 0\ncpu1 1 0 0 2 3 0 0 0\n");
  root.write("proc/self/status", "Name:\tx\nCpus_allowed_list:\t1,4-5\n");
  EXPECT_THAT(read_cores(root.path()).cpus, ElementsAre(Pair(1, CpuTicks{5, 6})));
  EXPECT_THAT(allowed_cpus(root.path(), {}), ElementsAre(1, 4, 5));
  EXPECT_THAT(allowed_cpus(root.path(), {7, 4}), ElementsAre(1, 4, 5, 7));
}

TEST(OtherUse, OwnTimeIsThisProcesss) {
  const CoreReading begin = read_cores("/");
  double sum = 0;
  while (read_cores("/").own_seconds - begin.own_seconds < 0.01) {
    for (int i = 1; i < 1000; ++i) sum += 1.0 / i;
  }
  const CoreReading end = read_cores("/");
  EXPECT_GT(sum, 0);
  // One thread works no longer than time passes; 1 ms for clocks that are read one after the other.
  EXPECT_LE(end.own_seconds - begin.own_seconds, end.at_seconds - begin.at_seconds + 1e-3);
  EXPECT_GT(ticks_a_second(), 0);
}

}  // namespace
}  // namespace zenflow::runtime
