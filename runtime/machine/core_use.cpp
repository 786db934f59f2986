#include "runtime/machine/core_use.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <ctime>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

#include "runtime/machine/system_files.h"

namespace zenflow::runtime {
namespace {

constexpr double kLeastCores = 0.03;
constexpr double kStandardErrors = 2;
// Idle and disk-waiting time are each cut to whole ticks at both readings: two differences of
// uniform errors have a variance of 2 / 6.
constexpr double kVarianceOfTicks = 2.0 / 6;
// A CPU's ticks may differ from the time by two, one of each reading, and by what interrupts keep
// from its counters.
constexpr double kTicksOff = 2;
constexpr double kShareOff = 0.25;
constexpr double kLeastTicks = 4;

/// "cpu12" is 12; nothing for "cpu" and others.
std::optional<int> cpu_of(const std::string& name) {
  if (!name.starts_with("cpu")) return std::nullopt;
  int cpu = 0;
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + 3, last, cpu);
  if (error != std::errc() || end != last) return std::nullopt;
  return cpu;
}

/// user nice system idle iowait irq softirq steal; kernels before 2.6.11 lack the last.
std::optional<CpuTicks> ticks_of(std::istringstream& columns) {
  constexpr int kIdle = 3;
  constexpr int kDisk = 4;
  constexpr int kColumns = 8;
  CpuTicks ticks;
  int column = 0;
  for (std::int64_t value = 0; column < kColumns && columns >> value; ++column) {
    if (value < 0) return std::nullopt;
    ticks.all += value;
    if (column == kIdle || column == kDisk) ticks.idle += value;
  }
  if (column <= kDisk || (column < kColumns && !columns.eof())) return std::nullopt;
  return ticks;
}

OtherUse unknown(std::string problem) {
  return {std::nullopt, std::move(problem)};
}

}  // namespace

std::map<int, CpuTicks> cpu_ticks(const std::string& stat) {
  std::map<int, CpuTicks> cpus;
  std::istringstream lines(stat);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream columns(line);
    std::string name;
    columns >> name;
    const std::optional<int> cpu = cpu_of(name);
    if (!cpu) continue;
    if (const auto ticks = ticks_of(columns)) cpus[*cpu] = *ticks;
  }
  return cpus;
}

OtherUse other_use(const CoreReading& begin, const CoreReading& end, const std::vector<int>& cpus,
                   double ticks_a_second) {
  double count = 0;
  double all = 0;
  double idle = 0;
  for (const int cpu : cpus) {
    const auto before = begin.cpus.find(cpu);
    const auto after = end.cpus.find(cpu);
    if (before == begin.cpus.end() || after == end.cpus.end()) continue;
    ++count;
    all += static_cast<double>(after->second.all - before->second.all);
    idle += static_cast<double>(after->second.idle - before->second.idle);
  }
  if (count == 0) return unknown("/proc/stat has no line for a CPU that this process may run on");
  const double elapsed = end.at_seconds - begin.at_seconds;
  if (!(elapsed * ticks_a_second >= kLeastTicks)) {
    return unknown(
        fmt::format("{:.3f} s are too short for ticks of {:g} s", elapsed, 1 / ticks_a_second));
  }
  const double expected = count * elapsed * ticks_a_second;
  if (std::abs(all - expected) > kTicksOff * count + kShareOff * expected) {
    return unknown(
        fmt::format("/proc/stat counts {:.0f} ticks in {:.3f} s of {:.0f} CPUs, not {:.0f}", all,
                    elapsed, count, expected));
  }
  const double busy = count - idle / ticks_a_second / elapsed;
  const double own = (end.own_seconds - begin.own_seconds) / elapsed;
  const double error = std::sqrt(kVarianceOfTicks * count) / ticks_a_second / elapsed;
  const double cores = busy - own;
  return {cores < std::max(kLeastCores, kStandardErrors * error) ? 0 : cores, {}};
}

void CoreReading::leave_out(const CoreReading& begin, const CoreReading& end) {
  // A CPU that one of the readings does not have is compared with nothing any longer.
  std::erase_if(cpus, [&](const auto& one) {
    return !begin.cpus.contains(one.first) || !end.cpus.contains(one.first);
  });
  for (auto& [cpu, ticks] : cpus) {
    ticks.idle += end.cpus.at(cpu).idle - begin.cpus.at(cpu).idle;
    ticks.all += end.cpus.at(cpu).all - begin.cpus.at(cpu).all;
  }
  own_seconds += end.own_seconds - begin.own_seconds;
  at_seconds += end.at_seconds - begin.at_seconds;
}

CoreReading read_cores(const std::filesystem::path& root) {
  CoreReading reading{.cpus = cpu_ticks(text_of(root / "proc/stat"))};
  timespec own{};
  if (::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own) != 0) reading.cpus.clear();
  reading.own_seconds = static_cast<double>(own.tv_sec) + 1e-9 * static_cast<double>(own.tv_nsec);
  reading.at_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  return reading;
}

double ticks_a_second() {
  return static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::vector<int> allowed_cpus(const std::filesystem::path& root, const std::vector<int>& more) {
  const std::string status = text_of(root / "proc/self/status");
  std::vector<int> cpus = parse_cpu_list(keyed_value(status, "Cpus_allowed_list").value_or(""));
  cpus.insert(cpus.end(), more.begin(), more.end());
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

}  // namespace zenflow::runtime
