/// Numbers of hardware files, each written `{value: 25 GB/s, source: "..."}`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.h"
#include "sim/config/reader.h"

namespace zenflow::sim {

inline constexpr std::int64_t kLargestCount = 1'000'000;  ///< of anything a profile counts

/// Where a number came from, for `list` and for reports.
struct SourcedNumber {
  std::string path;   ///< "host.dram_bandwidth"
  std::string value;  ///< as written
  std::string source;
};

/// A unit and how many base units it is.
struct NamedUnit {
  std::string_view name;
  double scale;
};

/// A number > 0 with one of `units`: "1.41 GHz". `expected`, "a clock such as \"1.41 GHz\"", is for
/// the error. Throws Error(kInput), located.
[[nodiscard]] double read_with_unit(const ValueReader& value, std::string_view expected,
                                    std::span<const NamedUnit> units);

/// Where an override put a value: "--set PATH=VALUE"; empty for what a file says.
[[nodiscard]] std::string_view override_source(const Node& node);

/// Reads numbers and remembers each with its source, in reading order. Throws Error(kInput),
/// located, for a missing unit or source and for what is out of range. A number that `--set` puts
/// in place of a file's may be plain: the override is its source.
class NumberReader {
 public:
  explicit NumberReader(std::vector<SourcedNumber>& numbers) : numbers_(&numbers) {}

  [[nodiscard]] std::int64_t count(MapReader& map, std::string_view key);
  [[nodiscard]] Bytes bytes(MapReader& map, std::string_view key);
  [[nodiscard]] Bytes capacity(MapReader& map, std::string_view key);  ///< > 0
  /// "unlimited" is infinite.
  [[nodiscard]] Bytes limit(MapReader& map, std::string_view key);
  [[nodiscard]] BytesPerSecond bandwidth(MapReader& map, std::string_view key);
  [[nodiscard]] FlopsPerSecond flops_rate(const ValueReader& entry);
  [[nodiscard]] Flops flops(MapReader& map, std::string_view key);  ///< work of one kernel
  [[nodiscard]] double hertz(MapReader& map, std::string_view key);
  [[nodiscard]] Seconds duration(MapReader& map, std::string_view key);
  [[nodiscard]] double efficiency(MapReader& map, std::string_view key);  ///< in (0, 1]
  [[nodiscard]] double cores(MapReader& map, std::string_view key);       ///< > 0

 private:
  [[nodiscard]] ValueReader value(MapReader& map, std::string_view key);
  [[nodiscard]] ValueReader value(const ValueReader& entry);

  std::vector<SourcedNumber>* numbers_;
};

}  // namespace zenflow::sim
