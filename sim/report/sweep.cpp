#include "sim/report/sweep.h"

#include <charconv>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/deepspeed/ds_config.h"

namespace zenflow::sim {
namespace {

constexpr std::size_t kMostValues = 1'000'000;
constexpr std::size_t kMostPoints = 10'000'000;
constexpr const char* kZenFlowPrefix = "deepspeed.zero_optimization.zenflow.";

[[noreturn]] void fail(const std::string& text, const std::string& what) {
  throw Error(ErrorKind::kInput, fmt::format("--vary {}: {}", text, what));
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

double number(const std::string& whole, const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, value);
  if (status != std::errc{} || stop != end || !std::isfinite(value)) {
    fail(whole, fmt::format("expected a number in LOW:HIGH:STEP, found \"{}\"", text));
  }
  return value;
}

/// LOW, LOW + STEP, ... up to HIGH, to twelve digits: 0.05:0.15:0.05 gives 0.1, not
/// 0.10000000000000001.
std::vector<std::string> range(const std::string& whole, const std::vector<std::string>& parts) {
  const double low = number(whole, parts[0]);
  const double high = number(whole, parts[1]);
  const double step = number(whole, parts[2]);
  if (step == 0 || (high - low) / step < 0) fail(whole, "the step does not lead from LOW to HIGH");
  constexpr double kSlack = 1e-9;
  const double count = std::floor((high - low) / step + kSlack) + 1;
  if (count > static_cast<double>(kMostValues)) fail(whole, "more than a million values");
  std::vector<std::string> values;
  values.reserve(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    values.push_back(fmt::format("{:.12g}", low + static_cast<double>(i) * step));
  }
  return values;
}

/// The settings that a schedule's result depends on, as a key.
std::string settings_key(const Schedule& schedule, bool has_knobs,
                         const std::vector<Override>& settings) {
  std::string key(schedule.name());
  for (const Override& setting : settings) {
    if (!has_knobs && setting.path.starts_with(kZenFlowPrefix)) continue;
    key += "\n" + setting.path + "=" + setting.value;
  }
  return key;
}

}  // namespace

Variation parse_variation(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    fail(text, "expected KEY=A,B,C or KEY=LOW:HIGH:STEP");
  }
  Variation variation{text.substr(0, equals), "", {}};
  variation.path = expand_short_name(variation.key);
  const std::string values = text.substr(equals + 1);
  const std::vector<std::string> bounds = split(values, ':');
  if (bounds.size() == 3) {
    variation.values = range(text, bounds);
  } else if (bounds.size() == 2) {
    fail(text, "a range needs a step: LOW:HIGH:STEP");
  } else {
    variation.values = split(values, ',');
  }
  for (const std::string& value : variation.values) {
    if (value.empty()) fail(text, "a value is empty");
  }
  return variation;
}

std::size_t combinations(const std::vector<Variation>& variations) {
  std::size_t count = 1;
  for (const Variation& one : variations) {
    for (const Variation& other : variations) {
      if (&other < &one && other.path == one.path) {
        throw Error(ErrorKind::kInput, fmt::format("--vary {}: given twice", one.key));
      }
      if (one.path.starts_with(other.path + ".")) {
        throw Error(ErrorKind::kInput,
                    fmt::format("--vary {} and --vary {}: the first replaces all that the second "
                                "sets a part of",
                                other.key, one.key));
      }
    }
    count *= one.values.size();
    if (count > kMostPoints) {
      throw Error(ErrorKind::kInput, "--vary: more than ten million combinations");
    }
  }
  return count;
}

std::vector<Override> combination(const std::vector<Variation>& variations, std::size_t index) {
  std::vector<Override> settings(variations.size());
  for (std::size_t i = variations.size(); i-- > 0;) {
    const auto& values = variations[i].values;
    settings[i] = {variations[i].path, values[index % values.size()]};
    index /= values.size();
  }
  return settings;
}

Sweeper::Point Sweeper::simulate(const std::vector<Override>& settings,
                                 const std::vector<std::string>& schedules) {
  Point point{read_(settings), {}};
  const bool own = schedules.empty();
  const std::vector<std::string>& names = own ? point.job.scenario.schedules : schedules;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Schedule& schedule =
        find_schedule(names[i], own ? &point.job.scenario.schedules_at[i] : nullptr);
    schedule.check(point.job);
    const bool has_knobs = schedule.zenflow(point.job).has_value();
    const std::string key = settings_key(schedule, has_knobs, settings);
    auto known = known_.find(key);
    if (known == known_.end()) {
      known = known_.emplace(key, simulate_schedule(point.job, schedule)).first;
    }
    point.results.push_back(known->second);
  }
  return point;
}

}  // namespace zenflow::sim
