#include "sim/config/reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <system_error>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow {
namespace {

constexpr std::size_t kMaxShown = 60;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::size_t digits_at(std::string_view text, std::size_t from) {
  std::size_t end = from;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - from;
}

/// A decimal number as written; the parts refer to the text.
struct Decimal {
  bool negative = false;
  std::string_view whole;     ///< digits before the point
  std::string_view fraction;  ///< digits after it
  std::string_view exponent;  ///< sign and digits after the e
  std::size_t length = 0;     ///< of all of it
};

/// The number that `text` starts with. Hexadecimal, nan, inf and "007" (octal to some
/// YAML readers, decimal to others) are not numbers.
std::optional<Decimal> scan_decimal(std::string_view text) {
  Decimal number;
  std::size_t at = 0;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    number.negative = text[0] == '-';
    at = 1;
  }
  number.whole = text.substr(at, digits_at(text, at));
  at += number.whole.size();
  if (at < text.size() && text[at] == '.') {
    number.fraction = text.substr(at + 1, digits_at(text, at + 1));
    at += 1 + number.fraction.size();
  }
  if (number.whole.empty() && number.fraction.empty()) return std::nullopt;
  if (number.whole.size() > 1 && number.whole[0] == '0') return std::nullopt;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    const std::size_t sign =
        at + 1 < text.size() && (text[at + 1] == '-' || text[at + 1] == '+') ? 1 : 0;
    const std::size_t digits = digits_at(text, at + 1 + sign);
    if (digits > 0) {
      number.exponent = text.substr(at + 1, sign + digits);
      at += 1 + sign + digits;
    }
  }
  number.length = at;
  return number;
}

/// The nearest double, or nothing if it is beyond double's range. Independent of the locale.
std::optional<double> to_double(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

enum class Whole { kYes, kFraction, kTooLarge };

/// Exact, also where a double is not: 5e8, 1.5e1, 9223372036854775807.
Whole to_integer(const Decimal& number, std::int64_t& value) {
  std::string digits(number.whole);
  digits += number.fraction;
  const std::size_t last = digits.find_last_not_of('0');
  if (last == std::string::npos) {
    value = 0;
    return Whole::kYes;
  }
  int exponent = 0;
  if (!number.exponent.empty()) {
    std::string_view text = number.exponent;
    if (text[0] == '+') text.remove_prefix(1);
    const auto error = std::from_chars(text.data(), text.data() + text.size(), exponent).ec;
    if (error != std::errc()) return text[0] == '-' ? Whole::kFraction : Whole::kTooLarge;
  }
  const std::size_t trailing_zeros = digits.size() - 1 - last;
  digits.resize(last + 1);
  digits.erase(0, digits.find_first_not_of('0'));
  const std::int64_t shift = std::int64_t{exponent} -
                             static_cast<std::int64_t>(number.fraction.size()) +
                             static_cast<std::int64_t>(trailing_zeros);
  if (shift < 0) return Whole::kFraction;
  if (shift > 18 || digits.size() > 19) return Whole::kTooLarge;
  digits.append(static_cast<std::size_t>(shift), '0');
  if (number.negative) digits.insert(0, "-");
  const auto error = std::from_chars(digits.data(), digits.data() + digits.size(), value).ec;
  return error == std::errc() ? Whole::kYes : Whole::kTooLarge;
}

/// Text from a document, short and on one line.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kMaxShown)) {
    if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) >= 0x20U) {
      out += c;
    }
  }
  if (text.size() <= kMaxShown) return out;
  // Do not end inside a UTF-8 sequence.
  while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xC0U) == 0x80U) out.pop_back();
  if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0x80U) out.pop_back();
  return out + "...";
}

std::string found(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "found nothing";
    case Node::Kind::kSequence:
      return "found a sequence";
    case Node::Kind::kMap:
      return "found a map";
    case Node::Kind::kScalar:
      break;
  }
  return fmt::format("found \"{}\"", shown(node.scalar));
}

/// The number an unquoted scalar consists of.
std::optional<Decimal> plain_decimal(const Node& node) {
  if (!node.is_scalar() || node.quoted) return std::nullopt;
  const std::optional<Decimal> number = scan_decimal(node.scalar);
  return number && number->length == node.scalar.size() ? number : std::nullopt;
}

/// " >= 1", " <= 5", " from 1 to 5" or nothing; the largest and smallest values are no limit.
template <class Number>
std::string range_text(Number low, Number high) {
  using Limits = std::numeric_limits<Number>;
  const bool has_low = low > Limits::lowest();
  const bool has_high = high < Limits::max();
  if (has_low && has_high) return fmt::format(" from {} to {}", low, high);
  if (has_low) return fmt::format(" >= {}", low);
  return has_high ? fmt::format(" <= {}", high) : "";
}

std::string joined(std::span<const std::string> words, std::string_view separator) {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += separator;
    out += word;
  }
  return out;
}

std::string child_path(const std::string& path, std::string_view key) {
  return path.empty() ? shown(key) : path + "." + shown(key);
}

/// Edits between two words; a transposition of neighbours is one (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

/// A unit: base units = number * multiplier / divisor. Dividing by 1e6 is exact where
/// multiplying by 1e-6 is not: "10 us" is the double 1e-5.
struct Unit {
  std::string name;
  double multiplier = 1.0;
  double divisor = 1.0;
};

struct QuantityKind {
  std::string name;     ///< with its article
  std::string example;  ///< of a value
  std::vector<Unit> units;
  bool may_be_zero = false;
};

QuantityKind size_kind() {
  return {"a size",
          "80 GiB",
          {{"B"},
           {"kB", 1e3},
           {"MB", 1e6},
           {"GB", 1e9},
           {"TB", 1e12},
           {"KiB", 0x1p10},
           {"MiB", 0x1p20},
           {"GiB", 0x1p30},
           {"TiB", 0x1p40}},
          true};
}

QuantityKind bandwidth_kind() {
  QuantityKind kind = size_kind();
  kind.name = "a bandwidth";
  kind.example = "25 GB/s";
  kind.may_be_zero = false;
  for (Unit& unit : kind.units) unit.name += "/s";
  return kind;
}

QuantityKind flops_kind() {
  return {"a compute rate",
          "312 TFLOPS",
          {{"MFLOPS", 1e6},
           {"GFLOPS", 1e9},
           {"TFLOPS", 1e12},
           {"PFLOPS", 1e15},
           {"MFLOP/s", 1e6},
           {"GFLOP/s", 1e9},
           {"TFLOP/s", 1e12},
           {"PFLOP/s", 1e15}}};
}

QuantityKind duration_kind() {
  return {"a time",
          "10 us",
          {{"ps", 1.0, 1e12},
           {"ns", 1.0, 1e9},
           {"us", 1.0, 1e6},
           {"ms", 1.0, 1e3},
           {"s"},
           {"min", 60.0}},
          true};
}

double read_quantity(const ValueReader& reader, const QuantityKind& kind) {
  const Node& node = reader.node();
  const std::string expected =
      fmt::format("expected {} with a unit such as \"{}\", ", kind.name, kind.example);
  if (!node.is_scalar()) reader.fail(expected + found(node));
  const std::optional<Decimal> number = scan_decimal(node.scalar);
  if (!number) reader.fail(expected + found(node));

  std::string_view unit_text = std::string_view(node.scalar).substr(number->length);
  unit_text.remove_prefix(std::min(unit_text.find_first_not_of(' '), unit_text.size()));
  std::vector<std::string> names;
  for (const Unit& unit : kind.units) names.push_back(unit.name);
  const auto known = std::find(names.begin(), names.end(), unit_text);
  if (known == names.end()) {
    const std::string hint = unit_text.size() < 3 ? "" : suggestion(unit_text, names);
    reader.fail(
        fmt::format("{}{}{} (units: {})", expected, found(node), hint, joined(names, ", ")));
  }
  const Unit& unit = kind.units[static_cast<std::size_t>(known - names.begin())];

  const std::optional<double> value =
      to_double(std::string_view(node.scalar).substr(0, number->length));
  const double base_units = value ? *value * unit.multiplier / unit.divisor : 0.0;
  if (!value || !std::isfinite(base_units)) {
    reader.fail(fmt::format("expected {} within double's range, {}", kind.name, found(node)));
  }
  const std::string limit = kind.may_be_zero ? ">= 0" : "> 0";
  if (base_units < 0.0) {
    reader.fail(
        fmt::format("expected {} {}, {}, which is negative", kind.name, limit, found(node)));
  }
  // A product that underflows to zero is refused with zero itself.
  if (base_units == 0.0 && !kind.may_be_zero) {
    reader.fail(fmt::format("expected {} {}, {}", kind.name, limit, found(node)));
  }
  return base_units == 0.0 ? 0.0 : base_units;  // not -0.0
}

}  // namespace

void fail_at(const Location& at, const std::string& path, const std::string& what) {
  std::string message = at.text();
  if (!message.empty()) message += ": ";
  if (!path.empty()) message += path + ": ";
  throw Error(ErrorKind::kInput, message + what);
}

const std::string* nearest_word(std::string_view word, std::span<const std::string> known) {
  const std::size_t limit = std::clamp<std::size_t>(word.size() / 3, 1, 3);
  const std::string* best = nullptr;
  std::size_t best_distance = limit + 1;
  for (const std::string& candidate : known) {
    const std::size_t longer = std::max(word.size(), candidate.size());
    const std::size_t shorter = std::min(word.size(), candidate.size());
    if (longer - shorter > limit) continue;  // also keeps hostile lengths out of the quadratic part
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string suggestion(std::string_view word, std::span<const std::string> known) {
  const std::string* best = nearest_word(word, known);
  return best == nullptr ? "" : fmt::format(" (did you mean \"{}\"?)", shown(*best));
}

void ValueReader::fail(const std::string& what) const {
  fail_at(node_->at, path_, what);
}

std::string ValueReader::string() const {
  if (!node_->is_scalar()) fail("expected a string, " + found(*node_));
  if (!node_->quoted) {
    const bool is_bool = node_->scalar == "true" || node_->scalar == "false";
    if (is_bool || plain_decimal(*node_)) {
      fail(
          fmt::format("expected a string, found {} (quote it if it is one)", shown(node_->scalar)));
    }
  }
  if (node_->scalar.empty()) fail("expected a non-empty string, found \"\"");
  return node_->scalar;
}

bool ValueReader::boolean() const {
  static constexpr std::string_view kExpected = "expected true or false, ";
  if (!node_->is_scalar()) fail(std::string(kExpected) + found(*node_));
  if (!node_->quoted && node_->scalar == "true") return true;
  if (!node_->quoted && node_->scalar == "false") return false;
  if (node_->quoted)
    fail(fmt::format("{}found the string \"{}\"", kExpected, shown(node_->scalar)));
  const std::vector<std::string> known = {"true", "false"};
  fail(std::string(kExpected) + found(*node_) + suggestion(node_->scalar, known));
}

double ValueReader::number(double low, double high) const {
  const std::string expected = "expected a number" + range_text(low, high) + ", ";
  const std::optional<Decimal> number = plain_decimal(*node_);
  if (!number) {
    if (node_->quoted)
      fail(fmt::format("{}found the string \"{}\"", expected, shown(node_->scalar)));
    fail(expected + found(*node_));
  }
  const std::optional<double> value = to_double(node_->scalar);
  if (!value) fail("expected a number within double's range, " + found(*node_));
  if (*value < low || *value > high) fail(expected + found(*node_));
  return *value;
}

std::int64_t ValueReader::integer(std::int64_t low, std::int64_t high) const {
  const std::string expected = "expected a whole number" + range_text(low, high) + ", ";
  const std::optional<Decimal> number = plain_decimal(*node_);
  if (!number) {
    if (node_->quoted)
      fail(fmt::format("{}found the string \"{}\"", expected, shown(node_->scalar)));
    fail(expected + found(*node_));
  }
  std::int64_t value = 0;
  switch (to_integer(*number, value)) {
    case Whole::kYes:
      break;
    case Whole::kFraction:
      fail(expected + found(*node_));
    case Whole::kTooLarge:
      fail(expected + found(*node_) + ", which is out of range");
  }
  if (value < low || value > high) fail(expected + found(*node_));
  return value;
}

std::string ValueReader::choice(std::span<const std::string> choices) const {
  const std::string expected = "expected one of " + joined(choices, ", ") + ", ";
  if (!node_->is_scalar()) fail(expected + found(*node_));
  if (std::find(choices.begin(), choices.end(), node_->scalar) == choices.end()) {
    fail(expected + found(*node_) + suggestion(node_->scalar, choices));
  }
  return node_->scalar;
}

Bytes ValueReader::bytes() const {
  return Bytes(read_quantity(*this, size_kind()));
}

BytesPerSecond ValueReader::bandwidth() const {
  return BytesPerSecond(read_quantity(*this, bandwidth_kind()));
}

FlopsPerSecond ValueReader::flops_rate() const {
  return FlopsPerSecond(read_quantity(*this, flops_kind()));
}

Seconds ValueReader::duration() const {
  return Seconds(read_quantity(*this, duration_kind()));
}

std::vector<ValueReader> ValueReader::items() const {
  if (node_->kind != Node::Kind::kSequence) fail("expected a sequence, " + found(*node_));
  std::vector<ValueReader> readers;
  readers.reserve(node_->items.size());
  for (std::size_t i = 0; i < node_->items.size(); ++i) {
    readers.emplace_back(node_->items[i], fmt::format("{}[{}]", path_, i));
  }
  return readers;
}

MapReader::MapReader(const Node& node, std::string path) : node_(&node), path_(std::move(path)) {
  if (!node.is_map()) fail_at(node.at, path_, "expected a map, " + found(node));
}

void MapReader::fail(std::string_view key, const std::string& what) const {
  const Node* value = node_->find(key);
  fail_at(value == nullptr ? node_->at : value->at, child_path(path_, key), what);
}

ValueReader MapReader::require(std::string_view key) {
  asked_.emplace(key);
  if (const Node* value = node_->find(key)) return {*value, child_path(path_, key)};
  std::vector<std::string> unread;
  for (const Node::Entry& entry : node_->entries) {
    if (asked_.find(entry.key) == asked_.end()) unread.push_back(entry.key);
  }
  // A long key that is nearly this one is this one misspelt. Short ones may well be others that
  // are yet to be asked for (d2h, h2d).
  constexpr std::size_t kLong = 5;
  const std::string* misspelt = key.size() < kLong ? nullptr : nearest_word(key, unread);
  for (const Node::Entry& entry : node_->entries) {
    if (misspelt == nullptr || entry.key != *misspelt) continue;
    fail_at(entry.key_at, child_path(path_, entry.key),
            fmt::format("unknown key (did you mean \"{}\"?)", shown(std::string(key))));
  }
  fail(key, "required, but missing");
}

std::optional<ValueReader> MapReader::optional(std::string_view key) {
  asked_.emplace(key);
  const Node* value = node_->find(key);
  if (value == nullptr || value->kind == Node::Kind::kNull) return std::nullopt;
  return ValueReader(*value, child_path(path_, key));
}

MapReader MapReader::require_map(std::string_view key) {
  const ValueReader value = require(key);
  return {value.node(), value.path()};
}

std::optional<MapReader> MapReader::optional_map(std::string_view key) {
  const std::optional<ValueReader> value = optional(key);
  if (!value) return std::nullopt;
  return MapReader(value->node(), value->path());
}

void MapReader::ignore(std::string_view key) {
  asked_.emplace(key);
}

std::int64_t MapReader::integer_or(std::string_view key, std::int64_t fallback, std::int64_t low,
                                   std::int64_t high) {
  const std::optional<ValueReader> value = optional(key);
  return value ? value->integer(low, high) : fallback;
}

double MapReader::number_or(std::string_view key, double fallback, double low, double high) {
  const std::optional<ValueReader> value = optional(key);
  return value ? value->number(low, high) : fallback;
}

bool MapReader::boolean_or(std::string_view key, bool fallback) {
  const std::optional<ValueReader> value = optional(key);
  return value ? value->boolean() : fallback;
}

std::string MapReader::string_or(std::string_view key, std::string_view fallback) {
  const std::optional<ValueReader> value = optional(key);
  return value ? value->string() : std::string(fallback);
}

std::vector<std::string> MapReader::keys() const {
  std::vector<std::string> keys;
  keys.reserve(node_->entries.size());
  for (const Node::Entry& entry : node_->entries) keys.push_back(entry.key);
  return keys;
}

void MapReader::reject_unknown_keys() const {
  const std::vector<std::string> known(asked_.begin(), asked_.end());
  for (const Node::Entry& entry : node_->entries) {
    if (asked_.find(entry.key) != asked_.end()) continue;
    fail_at(entry.key_at, child_path(path_, entry.key),
            "unknown key" + suggestion(entry.key, known));
  }
}

}  // namespace zenflow
