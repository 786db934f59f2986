/// Decimal microseconds without rounding.
///
/// Traces write absolute times such as 1712195495505543.218, whose last digits a double does not
/// have: it is 125 ns off in the middle of 2024.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/base/units.h"

namespace zenflow::sim {

/// A time or duration: `nanoseconds` + `picoseconds`, the latter in [0, 999].
struct DecimalTime {
  std::int64_t nanoseconds = 0;
  std::int32_t picoseconds = 0;

  friend auto operator<=>(const DecimalTime&, const DecimalTime&) = default;
};

/// A JSON number that counts microseconds; quotes around it are allowed. Digits beyond picoseconds
/// round half up. Nothing if it is no finite number or beyond 292 years.
[[nodiscard]] std::optional<DecimalTime> parse_microseconds(std::string_view text);

/// A quarter of what Picoseconds can say, 26 days: no sum or difference of four such times
/// overflows.
inline constexpr Picoseconds kFarthest{std::numeric_limits<std::int64_t>::max() / 4};

/// `time` as picoseconds since `origin` nanoseconds; nothing if that is further than kFarthest.
[[nodiscard]] std::optional<Picoseconds> since(DecimalTime time, std::int64_t origin);

/// From where times like `starts` (nanoseconds) are to be counted: 0 if most are within 20 days of
/// it, else the one in their middle. Absolute times are far from 0, and those that are relative to
/// a moment weeks ago.
[[nodiscard]] std::int64_t origin_of(std::vector<std::int64_t> starts);

}  // namespace zenflow::sim
