#include "sim/offload/training_setup.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/offload/knobs.h"

namespace zenflow::sim {
namespace {

constexpr std::int64_t kLongest = 4096;  // steps

template <class Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string to_string(DType dtype) {
  return std::string(kDTypeNames.at(static_cast<std::size_t>(dtype)));
}

std::int64_t bytes_per_element(DType dtype) {
  return dtype == DType::kFp32 ? 4 : 2;
}

std::string_view to_string(OffloadSchedule schedule) {
  return kOffloadScheduleNames.at(static_cast<std::size_t>(schedule));
}

std::optional<OffloadSchedule> find_offload_schedule(std::string_view name) {
  const auto found = std::find(kOffloadScheduleNames.begin(), kOffloadScheduleNames.end(), name);
  if (found == kOffloadScheduleNames.end()) return std::nullopt;
  return static_cast<OffloadSchedule>(found - kOffloadScheduleNames.begin());
}

OffloadSetup without_zenflow(OffloadSetup setup) {
  TrainingSetup without{setup, {}};
  for (const SetupKnob& knob : setup_knobs()) {
    if (knob.of_zenflow) set_knob(knob, without, knob.low);
  }
  setup = without;
  setup.overlap_step = setup.schedule == OffloadSchedule::kZeroOffloadDpu;
  return setup;
}

OffloadSetup as_scheduled(const OffloadSetup& setup) {
  return setup.schedule == OffloadSchedule::kZenFlow ? setup : without_zenflow(setup);
}

std::string to_string(const OffloadSetup& setup) {
  const std::string name(to_string(setup.schedule));
  if (setup.schedule != OffloadSchedule::kZenFlow) return name;
  return fmt::format("{} k={:g} S={}{}{}", name, setup.topk_ratio, setup.update_interval,
                     setup.overlap_step ? "" : " no overlap",
                     setup.accumulate_on_device ? " sums on device" : "");
}

OffloadSetup parse_offload_setup(const std::string& text, const OffloadSetup& otherwise) {
  const auto schedule = find_offload_schedule(text);
  if (schedule && *schedule != OffloadSchedule::kZenFlow) return {*schedule, 0, 1, true};
  OffloadSetup setup{.accumulate_on_device = otherwise.accumulate_on_device};
  std::string_view numbers = text;
  for (const bool on_device : {false, true}) {
    const std::string place = fmt::format(":{}", accumulate_place(on_device));
    if (!numbers.ends_with(place)) continue;
    numbers.remove_suffix(place.size());
    setup.accumulate_on_device = on_device;
    break;
  }
  const std::string prefix = std::string(kOffloadScheduleNames.back()) + ":";
  const std::size_t colon = numbers.find(':', prefix.size());
  if (numbers.starts_with(prefix) && colon != numbers.npos &&
      parse(numbers.substr(prefix.size(), colon - prefix.size()), setup.topk_ratio) &&
      parse(numbers.substr(colon + 1), setup.update_interval) && setup.topk_ratio > 0 &&
      setup.topk_ratio < 1 && setup.update_interval >= 1 && setup.update_interval <= kLongest) {
    return setup;
  }
  throw Error(
      ErrorKind::kInput,
      fmt::format(
          "\"{}\": expected gpu-only, zero-offload, zero-offload-dpu or zenflow:K:S "
          "with 0 < K < 1 and S from 1 to 4096, e.g. zenflow:0.1:4, or zenflow:0.1:4:device "
          "with sums on the device",
          text));
}

OffloadSetup with_setting(OffloadSetup setup, const OffloadSetup& setting) {
  TrainingSetup with{setup, {}};
  const TrainingSetup said{setting, {}};
  for (const SetupKnob& knob : setup_knobs()) {
    if (knob.in_setting) set_knob(knob, with, knob_value(knob, said));
  }
  setup = with;
  setup.schedule = setting.schedule;
  return setup;
}

}  // namespace zenflow::sim
