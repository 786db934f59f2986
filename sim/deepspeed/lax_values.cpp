#include "sim/deepspeed/lax_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "sim/base/text.h"

namespace zenflow::sim {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Without blanks around it, a plus sign, and underscores between digits.
std::string plain_number(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  const std::size_t first = std::min(text.find_first_not_of(kBlanks), text.size());
  text.remove_prefix(first);
  text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
  if (text.starts_with('+') && !text.starts_with("+-") && !text.starts_with("++")) {
    text.remove_prefix(1);
  }
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool between =
        i > 0 && i + 1 < text.size() && is_digit(text[i - 1]) && is_digit(text[i + 1]);
    if (text[i] == '_' && between) continue;
    out += text[i];
  }
  return out;
}

/// Digits, a sign before and ".000" after them allowed: the digits with the sign; else nothing.
std::optional<std::string> whole_digits(std::string_view text) {
  const std::size_t sign = text.starts_with('-') ? 1 : 0;
  const std::size_t end = std::min(text.find_first_not_of("0123456789", sign), text.size());
  if (end == sign) return std::nullopt;
  const std::string_view rest = text.substr(end);
  const bool zeros =
      rest.size() > 1 && rest[0] == '.' && rest.find_first_not_of('0', 1) == std::string_view::npos;
  constexpr std::size_t kMostDigits = 4300;  // sys.int_info.default_max_str_digits
  if ((!rest.empty() && !zeros) || end - sign > kMostDigits) return std::nullopt;
  const std::size_t zero = std::min(text.find_first_not_of('0', sign), end - 1);
  return std::string(text.substr(0, sign)) + std::string(text.substr(zero, end - zero));
}

/// As Python's float(): also ".5", "5." and numbers too large, which become infinite.
std::optional<double> parse_double(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end || error == std::errc::invalid_argument) return std::nullopt;
  // Too large or too small: from_chars leaves the value alone.
  if (error == std::errc::result_out_of_range)
    return std::strtod(std::string(text).c_str(), nullptr);
  return value;
}

bool is_written_integer(const Node& node) {
  return node.scalar.find_first_of(".eE") == std::string::npos;
}

}  // namespace

bool is_boolean(const Node& node) {
  return node.is_scalar() && !node.quoted && (node.scalar == "true" || node.scalar == "false");
}

bool is_number(const Node& node) {
  return node.is_scalar() && !node.quoted && parse_double(node.scalar).has_value();
}

std::optional<double> lax_number(const Node& node) {
  if (!node.is_scalar()) return std::nullopt;
  if (is_boolean(node)) return node.scalar == "true" ? 1 : 0;
  const auto value = parse_double(node.quoted ? plain_number(node.scalar) : node.scalar);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

bool is_non_finite(const Node& node) {
  if (!node.is_scalar() || !node.quoted) return false;
  const auto value = parse_double(plain_number(node.scalar));
  return value && !std::isfinite(*value);
}

bool is_whole(const Node& node) {
  if (!node.is_scalar()) return false;
  if (node.quoted) return whole_digits(plain_number(node.scalar)).has_value();
  if (is_boolean(node)) return true;
  if (is_written_integer(node)) return whole_digits(node.scalar).has_value();
  constexpr double kLimit = 9223372036854775808.0;  // 2^63: what pydantic takes of a float
  const auto value = lax_number(node);
  return value && *value == std::floor(*value) && std::abs(*value) < kLimit;
}

bool is_hjson_integer(const Node& node) {
  constexpr double kLimit = 1e10;
  if (!is_number(node)) return false;
  if (is_written_integer(node)) return whole_digits(node.scalar).has_value();
  const auto value = lax_number(node);
  return value && *value == std::floor(*value) && std::abs(*value) < kLimit;
}

std::optional<std::int64_t> lax_integer(const Node& node) {
  if (!is_whole(node)) return std::nullopt;
  if (node.quoted || (is_number(node) && is_written_integer(node))) {
    const std::string digits = *whole_digits(plain_number(node.scalar));
    std::int64_t value = 0;
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, value);
    if (error != std::errc() || stop != end) return std::nullopt;
    return value;
  }
  return static_cast<std::int64_t>(*lax_number(node));
}

std::optional<bool> lax_boolean(const Node& node) {
  if (!node.is_scalar()) return std::nullopt;
  if (node.quoted) {
    static constexpr std::array<std::string_view, 6> kTrue = {"1", "on", "t", "true", "yes", "y"};
    static constexpr std::array<std::string_view, 6> kFalse = {"0", "off", "f", "false", "no", "n"};
    const std::string word = lower_case(node.scalar);
    if (std::find(kTrue.begin(), kTrue.end(), word) != kTrue.end()) return true;
    if (std::find(kFalse.begin(), kFalse.end(), word) != kFalse.end()) return false;
    return std::nullopt;
  }
  const std::optional<double> value = lax_number(node);
  if (!value || (*value != 0 && *value != 1)) return std::nullopt;
  return *value == 1;
}

bool is_true_in_python(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return false;
    case Node::Kind::kMap:
      return !node.entries.empty();
    case Node::Kind::kSequence:
      return !node.items.empty();
    case Node::Kind::kScalar:
      break;
  }
  return node.quoted ? !node.scalar.empty() : lax_number(node) != 0;
}

std::optional<std::string> number_as_json(const Node& node, bool integer) {
  if (is_boolean(node)) return node.scalar == "true" ? "1" : "0";
  if (integer) return whole_digits(plain_number(node.scalar));
  const auto value = lax_number(node);
  return value ? std::optional(fmt::format("{}", *value)) : std::nullopt;
}

}  // namespace zenflow::sim
