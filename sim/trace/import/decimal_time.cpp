#include "sim/trace/import/decimal_time.h"

#include <cstddef>
#include <utility>

#include "sim/base/median.h"

namespace zenflow::sim {
namespace {

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// A decimal number as written: digits and where the point stands.
struct Digits {
  bool is_negative = false;
  std::string_view before{};
  std::string_view after{};
  std::int64_t exponent = 0;
};

/// Reads digits from `text` and drops them there.
std::string_view take_digits(std::string_view& text) {
  std::size_t count = 0;
  while (count < text.size() && is_digit(text[count])) ++count;
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

std::optional<Digits> read(std::string_view text) {
  Digits digits;
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    digits.is_negative = text.front() == '-';
    text.remove_prefix(1);
  }
  digits.before = take_digits(text);
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    digits.after = take_digits(text);
  }
  if (digits.before.empty() && digits.after.empty()) return std::nullopt;
  if (!text.empty() && (text.front() == 'e' || text.front() == 'E')) {
    text.remove_prefix(1);
    const bool is_small = !text.empty() && text.front() == '-';
    if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
    const std::string_view power = take_digits(text);
    constexpr std::size_t kMostDigits = 4;
    if (power.empty() || power.size() > kMostDigits) return std::nullopt;
    for (const char c : power) digits.exponent = 10 * digits.exponent + (c - '0');
    if (is_small) digits.exponent = -digits.exponent;
  }
  if (!text.empty()) return std::nullopt;
  return digits;
}

}  // namespace

std::optional<DecimalTime> parse_microseconds(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n' || text.back() == '\r' ||
                           text.back() == '\t')) {
    text.remove_suffix(1);
  }
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  const std::optional<Digits> digits = read(text);
  if (!digits) return std::nullopt;

  // The digit at place p, counted from the point (0 is the units of microseconds), is worth 10^p;
  // nanoseconds end at place -3, picoseconds at -6.
  const auto before = static_cast<std::int64_t>(digits->before.size());
  const auto length = before + static_cast<std::int64_t>(digits->after.size());
  const auto digit = [&](std::int64_t place) -> int {
    const std::int64_t index = before - 1 - (place - digits->exponent);
    if (index < 0 || index >= length) return 0;
    const auto at = static_cast<std::size_t>(index);
    return (index < before ? digits->before[at]
                           : digits->after[at - static_cast<std::size_t>(before)]) -
           '0';
  };
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 10 - 1;
  DecimalTime time;
  for (std::int64_t place = before - 1 + digits->exponent; place >= -3; --place) {
    if (time.nanoseconds > kMost) return std::nullopt;
    time.nanoseconds = 10 * time.nanoseconds + digit(place);
  }
  for (std::int64_t place = -4; place >= -6; --place) {
    time.picoseconds = 10 * time.picoseconds + digit(place);
  }
  if (digit(-7) >= 5) ++time.picoseconds;
  if (digits->is_negative && time.picoseconds > 0) {
    time.nanoseconds = -time.nanoseconds - 1;
    time.picoseconds = 1000 - time.picoseconds;
  } else if (digits->is_negative) {
    time.nanoseconds = -time.nanoseconds;
  }
  if (time.picoseconds == 1000) {
    ++time.nanoseconds;
    time.picoseconds = 0;
  }
  return time;
}

std::optional<Picoseconds> since(DecimalTime time, std::int64_t origin) {
  constexpr std::int64_t kMost = kFarthest.count / 1000 - 1;
  std::int64_t difference = 0;
  if (__builtin_sub_overflow(time.nanoseconds, origin, &difference)) return std::nullopt;
  if (difference > kMost || difference < -kMost) return std::nullopt;
  return Picoseconds{1000 * difference + time.picoseconds};
}

std::int64_t origin_of(std::vector<std::int64_t> starts) {
  if (starts.empty()) return 0;
  constexpr std::int64_t kNear = std::int64_t{20} * 86'400 * 1'000'000'000;
  const std::int64_t middle = upper_median(std::move(starts));
  return middle > kNear || middle < -kNear ? middle : 0;
}

}  // namespace zenflow::sim
