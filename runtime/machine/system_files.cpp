#include "runtime/machine/system_files.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "sim/base/text.h"

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSpaces = " \t\r\n";

/// The number that `text` begins with, and nothing but a unit after a space behind it.
template <class Number>
std::optional<Number> leading_number(std::string_view text) {
  text = trimmed(text);
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = end == text.data() + text.size() || kSpaces.find(*end) != kSpaces.npos;
  if (error != std::errc() || !whole) return std::nullopt;
  return number;
}

template <class Number>
std::optional<Number> number_in(const fs::path& file) {
  return leading_number<Number>(text_of(file));
}

template <class Value>
void keep_least(std::optional<Value>& least, std::optional<Value> other) {
  if (other && (!least || *other < *least)) least = other;
}

/// "max 100000" or "200000 100000": microseconds of CPU time and of the period.
std::optional<double> quota_of(const std::string& cpu_max) {
  std::istringstream words(cpu_max);
  double quota = 0;
  double period = 0;
  if (!(words >> quota >> period) || period <= 0) return std::nullopt;
  return quota / period;
}

std::optional<double> quota_of_version_1(const fs::path& group) {
  const auto quota = number_in<double>(group / "cpu.cfs_quota_us");
  const auto period = number_in<double>(group / "cpu.cfs_period_us");
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

/// Calls look(folder) for the group at `path` below `mounted` and for those above it.
template <class Look>
void for_group_and_above(const fs::path& mounted, const std::string& path, Look look) {
  fs::path group = fs::path(path).relative_path();
  for (; !group.empty(); group = group.parent_path()) look(mounted / group);
  look(mounted);
}

/// Names of what a group's memory controller says, by version.
struct MemoryFiles {
  const char* limit;
  const char* use;
  const char* inactive_file;  ///< a line of memory.stat, with the groups below
};
constexpr MemoryFiles kMemoryVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                                      "total_inactive_file"};
constexpr MemoryFiles kMemoryVersion2{"memory.max", "memory.current", "inactive_file"};

/// The number in the line "KEY NUMBER"; 0 without one.
std::uint64_t number_of_line(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  std::string name;
  for (std::uint64_t number = 0; lines >> name >> number;) {
    if (name == key) return number;
  }
  return 0;
}

void take_memory(const fs::path& group, const MemoryFiles& files, ControlGroupLimits& limits) {
  const auto limit = number_in<std::uint64_t>(group / files.limit);
  if (!limit) return;
  keep_least(limits.memory, limit);
  const auto use = number_in<std::uint64_t>(group / files.use);
  if (!use) return;
  const std::uint64_t reclaimable =
      number_of_line(text_of(group / "memory.stat"), files.inactive_file);
  const std::uint64_t held = *use - std::min(*use, reclaimable);
  keep_least(limits.memory_left, std::optional(*limit - std::min(*limit, held)));
}

/// Controllers of a line of /proc/self/cgroup, "4:memory:/a/b", and the path.
struct GroupLine {
  std::string controllers;
  std::string path;
};

std::vector<GroupLine> group_lines(const std::string& text) {
  std::vector<GroupLine> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    lines.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return lines;
}

bool names_controller(const std::string& controllers, std::string_view name) {
  std::istringstream stream(controllers);
  for (std::string one; std::getline(stream, one, ',');) {
    if (one == name) return true;
  }
  return false;
}

/// "16.0 GT/s PCIe".
std::optional<double> link_speed(const fs::path& file) {
  return leading_number<double>(text_of(file));
}

/// sysfs reports a width of 0 or 255 where it knows none.
std::optional<int> link_width(const fs::path& file) {
  const auto width = number_in<int>(file);
  constexpr int kUnknown = 255;
  if (!width || *width <= 0 || *width >= kUnknown) return std::nullopt;
  return width;
}

bool is_nvidia_gpu(const fs::path& device) {
  // Display controllers (class 0x03....); the same card's audio function has another class.
  return trimmed(text_of(device / "vendor")) == "0x10de" &&
         trimmed(text_of(device / "class")).starts_with("0x03");
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::string text_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  std::istringstream ranges{std::string(trimmed(text))};
  for (std::string range; std::getline(ranges, range, ',');) {
    const std::size_t dash = range.find('-');
    const auto first = leading_number<int>(range.substr(0, dash));
    const auto last = dash == range.npos ? first : leading_number<int>(range.substr(dash + 1));
    constexpr int kMost = 1 << 20;  // a damaged file is no reason to fill memory
    if (!first || !last || *first < 0 || *last < *first || *last > kMost) return {};
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

std::optional<std::string> keyed_value(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon != line.npos && trimmed(std::string_view(line).substr(0, colon)) == key) {
      return std::string(trimmed(std::string_view(line).substr(colon + 1)));
    }
  }
  return std::nullopt;
}

std::optional<LockLimit> lock_limit(const std::string& limits) {
  static constexpr std::string_view kName = "Max locked memory";
  std::istringstream lines(limits);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(kName)) continue;
    const std::string_view rest = trimmed(std::string_view(line).substr(kName.size()));
    if (rest.starts_with("unlimited")) return LockLimit{};
    if (const auto bytes = leading_number<std::uint64_t>(rest)) return LockLimit{bytes};
  }
  return std::nullopt;
}

std::optional<std::uint64_t> meminfo_bytes(const std::string& meminfo, std::string_view key) {
  const auto value = keyed_value(meminfo, key);
  const auto kib = value ? leading_number<std::uint64_t>(*value) : std::nullopt;
  if (!kib) return std::nullopt;
  return *kib * 1024;
}

std::optional<double> stolen_share(const std::string& stat) {
  std::istringstream line(stat.substr(0, stat.find('\n')));
  std::string name;
  line >> name;
  if (name != "cpu") return std::nullopt;
  // user nice system idle iowait irq softirq steal; guest time is already in user and nice.
  constexpr std::size_t kSteal = 7;
  double total = 0;
  double stolen = 0;
  std::size_t column = 0;
  for (double ticks = 0; column <= kSteal && line >> ticks; ++column) {
    total += ticks;
    if (column == kSteal) stolen = ticks;
  }
  if (column <= kSteal || total <= 0) return std::nullopt;
  return stolen / total;
}

ControlGroupLimits control_group_limits(const fs::path& root) {
  ControlGroupLimits limits;
  const fs::path mounted = root / "sys/fs/cgroup";
  for (const GroupLine& line : group_lines(text_of(root / "proc/self/cgroup"))) {
    if (line.controllers.empty()) {  // version 2
      for_group_and_above(mounted, line.path, [&](const fs::path& group) {
        keep_least(limits.cpus, quota_of(text_of(group / "cpu.max")));
        take_memory(group, kMemoryVersion2, limits);
      });
    }
    if (names_controller(line.controllers, "cpu")) {
      for_group_and_above(mounted / "cpu", line.path, [&](const fs::path& group) {
        keep_least(limits.cpus, quota_of_version_1(group));
      });
    }
    if (names_controller(line.controllers, "memory")) {
      for_group_and_above(mounted / "memory", line.path, [&](const fs::path& group) {
        take_memory(group, kMemoryVersion1, limits);
      });
    }
  }
  return limits;
}

std::string root_port(const fs::path& device) {
  auto part = device.begin();
  while (part != device.end() && !part->string().starts_with("pci")) ++part;
  if (part == device.end() || ++part == device.end()) return {};
  const std::string port = part->string();
  return ++part == device.end() ? "" : port;
}

std::vector<GpuSlot> gpu_slots(const fs::path& root) {
  std::vector<GpuSlot> slots;
  for (const fs::path& device : entries(root / "sys/bus/pci/devices")) {
    if (!is_nvidia_gpu(device)) continue;
    std::error_code unreadable;
    const fs::path real = fs::canonical(device, unreadable);
    const auto node = number_in<int>(device / "numa_node");
    // A GPU states what it can do itself; the port that it is plugged into may do less.
    std::optional<double> speed_max = link_speed(device / "max_link_speed");
    if (speed_max) keep_least(speed_max, link_speed(real.parent_path() / "max_link_speed"));
    slots.push_back({.bus_id = device.filename().string(),
                     .speed = link_speed(device / "current_link_speed"),
                     .speed_max = speed_max,
                     .width = link_width(device / "current_link_width"),
                     .width_max = link_width(device / "max_link_width"),
                     .numa_node = node && *node >= 0 ? node : std::nullopt,
                     .root_port = root_port(real)});
  }
  return slots;
}

std::map<int, std::vector<int>> numa_cpus(const fs::path& root) {
  std::map<int, std::vector<int>> nodes;
  for (const fs::path& folder : entries(root / "sys/devices/system/node")) {
    const std::string name = folder.filename().string();
    if (!name.starts_with("node")) continue;
    const auto node = leading_number<int>(name.substr(4));
    if (node) nodes[*node] = parse_cpu_list(text_of(folder / "cpulist"));
  }
  return nodes;
}

}  // namespace zenflow::runtime
