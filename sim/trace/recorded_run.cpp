#include "sim/trace/recorded_run.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace zenflow::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKey = "zenflow_train";
constexpr const char* kHost = "host";
constexpr const char* kDevice = "device";

}  // namespace

void write_recorded_run(Timeline& timeline, const RecordedRun& run) {
  Json map = {{"schedule", run.schedule},
              {"topk_ratio", run.topk_ratio},
              {"update_interval", run.update_interval},
              {"update_interval_is_auto", run.interval_is_auto},
              {"select_interval", run.select_interval},
              {"full_warm_up_rounds", run.full_warm_up_rounds},
              {"overlap_step", run.overlap_step},
              {"accumulate_on", run.accumulate_on_device ? kDevice : kHost},
              {"micro_batch_size", run.micro_batch_size},
              {"gradient_accumulation_steps", run.gradient_accumulation_steps},
              {"activation_checkpointing", run.activation_checkpointing},
              {"sequence_length", run.sequence_length},
              {"dtype", run.dtype},
              {"threads", run.threads},
              {"optimizer_threads", run.optimizer_threads},
              {"sum_threads", run.sum_threads}};
  if (run.topk_range) map["topk_range"] = {run.topk_range->low, run.topk_range->high};
  if (run.gpu) map["gpu"] = *run.gpu;
  if (run.parameters > 0) map["parameters"] = run.parameters;
  timeline.metadata.emplace_back(kKey, map.dump());
}

std::optional<RecordedRun> recorded_run(const Timeline& timeline) {
  const auto found = std::find_if(timeline.metadata.begin(), timeline.metadata.end(),
                                  [](const auto& one) { return one.first == kKey; });
  if (found == timeline.metadata.end()) return std::nullopt;
  const Json map = Json::parse(found->second, nullptr, false);
  if (!map.is_object()) return std::nullopt;
  bool complete = true;
  const auto take = [&]<class Value>(const char* key, Value& value, bool is_right) {
    complete = complete && is_right;
    if (is_right) map.at(key).get_to(value);
  };
  const auto text = [&](const char* key, std::string& value) {
    take(key, value, map.contains(key) && map.at(key).is_string());
  };
  const auto flag = [&](const char* key, bool& value) {
    take(key, value, map.contains(key) && map.at(key).is_boolean());
  };
  const auto whole = [&](const char* key, std::int64_t& value, std::int64_t low) {
    const bool is_whole = map.contains(key) && map.at(key).is_number_integer();
    take(key, value, is_whole && map.at(key).get<std::int64_t>() >= low);
  };
  RecordedRun run;
  text("schedule", run.schedule);
  take("topk_ratio", run.topk_ratio,
       map.contains("topk_ratio") && map.at("topk_ratio").is_number());
  whole("update_interval", run.update_interval, 1);
  flag("update_interval_is_auto", run.interval_is_auto);
  whole("select_interval", run.select_interval, 0);
  whole("full_warm_up_rounds", run.full_warm_up_rounds, 0);
  flag("overlap_step", run.overlap_step);
  whole("micro_batch_size", run.micro_batch_size, 1);
  // Recordings of before these existed are of runs without.
  if (map.contains("topk_range")) {
    const Json& range = map.at("topk_range");
    const bool two =
        range.is_array() && range.size() == 2 && range[0].is_number() && range[1].is_number();
    complete = complete && two;
    if (two) run.topk_range = {range[0].get<double>(), range[1].get<double>()};
  }
  if (map.contains("accumulate_on")) {
    std::string place;
    text("accumulate_on", place);
    complete = complete && (place == kHost || place == kDevice);
    run.accumulate_on_device = place == kDevice;
  }
  if (map.contains("gradient_accumulation_steps")) {
    whole("gradient_accumulation_steps", run.gradient_accumulation_steps, 1);
  }
  if (map.contains("activation_checkpointing")) {
    flag("activation_checkpointing", run.activation_checkpointing);
  }
  if (map.contains("gpu")) whole("gpu", run.gpu.emplace(), 0);
  whole("sequence_length", run.sequence_length, 1);
  text("dtype", run.dtype);
  whole("threads", run.threads, 1);
  whole("optimizer_threads", run.optimizer_threads, 1);
  whole("sum_threads", run.sum_threads, 1);
  if (map.contains("parameters")) whole("parameters", run.parameters, 1);
  if (!complete) return std::nullopt;
  return run;
}

bool is_of_zenflow_train(const Timeline& timeline) {
  return std::any_of(timeline.tracks.begin(), timeline.tracks.end(), [](const Track& track) {
    return track.name == "cpu optimizer" || track.name == "cpu sums";
  });
}

}  // namespace zenflow::sim
