#include "sim/config/number_reader.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <system_error>

#include <fmt/format.h>

namespace zenflow::sim {
namespace {

void require_above_zero(const ValueReader& number, double value, std::string_view what) {
  if (value > 0) return;
  number.fail(fmt::format("expected {}, found \"{}\"", what, number.node().scalar));
}

}  // namespace

double read_with_unit(const ValueReader& value, std::string_view expected,
                      std::span<const NamedUnit> units) {
  const std::string& text = value.node().scalar;  // empty if it is no scalar
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  const auto known = std::find_if(units.begin(), units.end(), [unit](const NamedUnit& candidate) {
    return candidate.name == unit;
  });
  if (error != std::errc() || known == units.end() || !std::isfinite(number) || number <= 0) {
    std::string names;
    for (const NamedUnit& one : units) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", one.name);
    }
    value.fail(fmt::format("expected {}, found \"{}\" (units: {})", expected, text, names));
  }
  return number * known->scale;
}

std::string_view override_source(const Node& node) {
  if (!node.at.file || node.at.line != 0 || !node.at.file->starts_with("--set ")) return {};
  return *node.at.file;
}

std::int64_t NumberReader::count(MapReader& map, std::string_view key) {
  return value(map, key).integer(1, kLargestCount);
}

Bytes NumberReader::bytes(MapReader& map, std::string_view key) {
  return value(map, key).bytes();
}

Bytes NumberReader::capacity(MapReader& map, std::string_view key) {
  const ValueReader number = value(map, key);
  const Bytes size = number.bytes();
  require_above_zero(number, size.value(), "a size > 0");
  return size;
}

Bytes NumberReader::limit(MapReader& map, std::string_view key) {
  const ValueReader number = value(map, key);
  if (number.node().scalar == "unlimited") {
    return Bytes(std::numeric_limits<double>::infinity());
  }
  const std::string& text = number.node().scalar;
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) == 0) {
    number.fail(
        fmt::format("expected a size such as \"64 GiB\" or \"unlimited\", found \"{}\"", text));
  }
  return number.bytes();
}

BytesPerSecond NumberReader::bandwidth(MapReader& map, std::string_view key) {
  return value(map, key).bandwidth();
}

FlopsPerSecond NumberReader::flops_rate(const ValueReader& entry) {
  return value(entry).flops_rate();
}

Flops NumberReader::flops(MapReader& map, std::string_view key) {
  static constexpr std::array<NamedUnit, 4> kUnits = {
      {{"FLOP", 1.0}, {"MFLOP", 1e6}, {"GFLOP", 1e9}, {"TFLOP", 1e12}}};
  return Flops(read_with_unit(value(map, key),
                              "an amount of work > 0 with a unit such as \"1.6 GFLOP\"", kUnits));
}

double NumberReader::hertz(MapReader& map, std::string_view key) {
  static constexpr std::array<NamedUnit, 2> kUnits = {{{"MHz", 1e6}, {"GHz", 1e9}}};
  return read_with_unit(value(map, key), "a clock > 0 with a unit such as \"1.41 GHz\"", kUnits);
}

Seconds NumberReader::duration(MapReader& map, std::string_view key) {
  return value(map, key).duration();
}

double NumberReader::efficiency(MapReader& map, std::string_view key) {
  const ValueReader number = value(map, key);
  const double share = number.number(std::numeric_limits<double>::lowest(), 1.0);
  require_above_zero(number, share, "a number > 0 and <= 1");
  return share;
}

double NumberReader::cores(MapReader& map, std::string_view key) {
  const ValueReader number = value(map, key);
  const double result = number.number(std::numeric_limits<double>::lowest(), kLargestCount);
  require_above_zero(number, result, "a number > 0");
  return result;
}

ValueReader NumberReader::value(MapReader& map, std::string_view key) {
  return value(map.require(key));
}

ValueReader NumberReader::value(const ValueReader& entry) {
  if (entry.node().is_scalar()) {
    const std::string_view origin = override_source(entry.node());
    if (origin.empty()) {
      entry.fail(fmt::format("expected {{value: ..., source: \"...\"}}, found \"{}\"",
                             entry.node().scalar));
    }
    numbers_->push_back({entry.path(), entry.node().scalar, std::string(origin)});
    return entry;
  }
  MapReader pair(entry.node(), entry.path());
  const ValueReader number = pair.require("value");
  std::string origin(override_source(number.node()));
  if (origin.empty() || pair.node().find("source") != nullptr) {
    const ValueReader source = pair.require("source");
    const std::string written = source.string();
    if (written.find_first_not_of(" \t\n") == std::string::npos) {
      source.fail("expected where the number comes from, found only spaces");
    }
    if (origin.empty()) origin = written;
  }
  // What it is known to, of a fit; for whoever asks how sure a result is.
  if (const auto error = pair.optional("relative_error")) static_cast<void>(error->number(0, 1));
  pair.reject_unknown_keys();
  numbers_->push_back({entry.path(), number.node().scalar, origin});
  return number;
}

}  // namespace zenflow::sim
