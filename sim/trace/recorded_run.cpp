#include "sim/trace/recorded_run.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/offload/knobs.h"

namespace zenflow::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKey = "zenflow_train";

Json knob_json(const SetupKnob& knob, const TrainingSetup& setup) {
  if (!knob.words.empty()) return knob_text(knob, setup);
  const double value = knob_value(knob, setup);
  if (is_switch(knob)) return value != 0;
  if (is_whole(knob)) return static_cast<std::int64_t>(value);
  return value;
}

/// Empty: `json` is not of the knob's kind, too small, or larger than it can be.
std::optional<double> read_knob(const SetupKnob& knob, const Json& json) {
  if (!knob.words.empty()) {
    return json.is_string() ? word_value(knob, json.get<std::string>()) : std::nullopt;
  }
  if (is_switch(knob)) {
    return json.is_boolean() ? std::optional(json.get<bool>() ? 1.0 : 0.0) : std::nullopt;
  }
  const bool is_right = is_whole(knob) ? json.is_number_integer() : json.is_number();
  if (!is_right || json.get<double>() < knob.low) return std::nullopt;
  if (json.get<double>() > largest_value(knob)) return std::nullopt;
  return json.get<double>();
}

bool read_range(const Json& json, std::optional<RecordedRatios>& range) {
  const bool two =
      json.is_array() && json.size() == 2 && json[0].is_number() && json[1].is_number();
  if (two) range = {json[0].get<double>(), json[1].get<double>()};
  return two;
}

/// A number of the run that is no knob.
bool read_count(const Json& json, std::int64_t low, std::int64_t& value) {
  const bool is_right = json.is_number_integer() && json.get<std::int64_t>() >= low;
  if (is_right) value = json.get<std::int64_t>();
  return is_right;
}

bool read_time(const Json& json, double low, double& nanoseconds) {
  constexpr double kMost = 1e18;  // 31 years
  const bool is_right =
      json.is_number() && json.get<double>() >= low && json.get<double>() <= kMost;
  if (is_right) nanoseconds = json.get<double>();
  return is_right;
}

bool read_rank(const Json& json, RecordedRank& among) {
  constexpr std::int64_t kMostRanks = 1'000'000;
  constexpr double kLeastOffset = -1e18;
  const auto has = [&json](const char* key, const auto& read) {
    return json.contains(key) && read(json.at(key));
  };
  return json.is_object() &&
         has("run", [&](const Json& j) { return read_count(j, 0, among.run); }) &&
         has("ranks", [&](const Json& j) { return read_count(j, 1, among.ranks); }) &&
         among.ranks <= kMostRanks &&
         has("rank", [&](const Json& j) { return read_count(j, 0, among.rank); }) &&
         among.rank < among.ranks &&
         has("clock_offset_ns",
             [&](const Json& j) { return read_time(j, kLeastOffset, among.clock_offset_ns); }) &&
         has("clock_uncertainty_ns",
             [&](const Json& j) { return read_time(j, 0, among.clock_uncertainty_ns); });
}

/// What a file may say of it.
std::string values_text(const SetupKnob& knob) {
  if (!knob.words.empty()) return fmt::format("one of {}", fmt::join(knob.words, ", "));
  if (is_switch(knob)) return "true or false";
  return fmt::format("a {} from {} to {}", is_whole(knob) ? "whole number" : "number", knob.low,
                     largest_value(knob));
}

[[noreturn]] void refuse(const std::string& file, std::string_view key, const std::string& expected,
                         const Json& found) {
  constexpr std::size_t kLongest = 60;
  // Lists and maps are not written out: that takes a stack as deep as they are.
  const std::string text = found.is_structured()
                               ? std::string(found.is_array() ? "a list" : "a map")
                               : found.dump(-1, ' ', true, Json::error_handler_t::replace);
  throw Error(ErrorKind::kInput, fmt::format("{}: {}.{}: expected {}, found {}", file, kKey, key,
                                             expected, text.substr(0, kLongest)));
}

std::optional<Json> recorded_map(const Timeline& timeline) {
  const auto found = std::find_if(timeline.metadata.begin(), timeline.metadata.end(),
                                  [](const auto& one) { return one.first == kKey; });
  if (found == timeline.metadata.end()) return std::nullopt;
  Json map = Json::parse(found->second, nullptr, false);
  return map.is_object() ? std::optional(std::move(map)) : std::nullopt;
}

}  // namespace

void check_recorded_run(const Timeline& timeline, const std::string& file) {
  const std::optional<Json> map = recorded_map(timeline);
  if (!map) return;
  for (const SetupKnob& knob : setup_knobs()) {
    const auto written = map->find(std::string(knob.name));
    if (written == map->end() || read_knob(knob, *written)) continue;
    refuse(file, knob.name, values_text(knob), *written);
  }
  RecordedRun run;
  if (map->contains("topk_range") && !read_range(map->at("topk_range"), run.topk_range)) {
    refuse(file, "topk_range", "two numbers", map->at("topk_range"));
  }
  if (map->contains("gpu") && !read_count(map->at("gpu"), 0, run.gpu.emplace())) {
    refuse(file, "gpu", "a whole number, 0 or more", map->at("gpu"));
  }
  if (map->contains("parameters") && !read_count(map->at("parameters"), 1, run.parameters)) {
    refuse(file, "parameters", "a whole number, 1 or more", map->at("parameters"));
  }
  if (map->contains("among") && !read_rank(map->at("among"), run.among)) {
    refuse(file, "among",
           "a run, its ranks, a rank below that, and what its clock shows beyond rank 0's",
           map->at("among"));
  }
}

void write_recorded_run(Timeline& timeline, const RecordedRun& run) {
  Json map = Json::object();
  for (const SetupKnob& knob : setup_knobs()) map[std::string(knob.name)] = knob_json(knob, run);
  if (run.topk_range) map["topk_range"] = {run.topk_range->low, run.topk_range->high};
  if (run.gpu) map["gpu"] = *run.gpu;
  if (run.parameters > 0) map["parameters"] = run.parameters;
  if (run.among.ranks > 1) {
    map["among"] = {{"run", run.among.run},
                    {"ranks", run.among.ranks},
                    {"rank", run.among.rank},
                    {"clock_offset_ns", run.among.clock_offset_ns},
                    {"clock_uncertainty_ns", run.among.clock_uncertainty_ns}};
  }
  timeline.metadata.emplace_back(kKey, map.dump());
}

std::optional<RecordedRun> recorded_run(const Timeline& timeline) {
  const std::optional<Json> said = recorded_map(timeline);
  if (!said) return std::nullopt;
  const Json& map = *said;
  RecordedRun run;
  bool complete = true;
  for (const SetupKnob& knob : setup_knobs()) {
    const auto written = map.find(std::string(knob.name));
    if (written == map.end()) {
      complete = complete && knob.came_later;
      continue;
    }
    const std::optional<double> value = read_knob(knob, *written);
    complete = complete && value.has_value();
    if (value) set_knob(knob, run, *value);
  }
  // Recordings of before these existed are of runs without.
  if (map.contains("topk_range")) {
    complete = read_range(map.at("topk_range"), run.topk_range) && complete;
  }
  if (map.contains("gpu")) complete = read_count(map.at("gpu"), 0, run.gpu.emplace()) && complete;
  if (map.contains("parameters")) {
    complete = read_count(map.at("parameters"), 1, run.parameters) && complete;
  }
  if (map.contains("among")) complete = read_rank(map.at("among"), run.among) && complete;
  if (!complete) return std::nullopt;
  return run;
}

bool is_of_zenflow_train(const Timeline& timeline) {
  return std::any_of(timeline.tracks.begin(), timeline.tracks.end(), [](const Track& track) {
    return track.name == "cpu optimizer" || track.name == "cpu sums";
  });
}

}  // namespace zenflow::sim
