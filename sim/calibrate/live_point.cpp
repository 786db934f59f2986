#include "sim/calibrate/live_point.h"

#include <array>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::sim {
namespace {

constexpr std::array<std::string_view, 4> kShort = {"gpu-only", "zero-offload", "zero-offload-dpu",
                                                    "zenflow"};

constexpr std::int64_t kLongest = 4096;  // steps

template <class Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string to_string(const LivePoint& point) {
  const std::string name(kShort.at(static_cast<std::size_t>(point.kind)));
  if (point.kind != LiveKind::kZenFlow) return name;
  return fmt::format("{} k={:g} S={}{}{}", name, point.topk_ratio, point.update_interval,
                     point.overlap ? "" : " no overlap",
                     point.accumulate_on_device ? " sums on device" : "");
}

LivePoint parse_live_point(const std::string& text, bool accumulate_on_device) {
  for (std::size_t i = 0; i + 1 < kShort.size(); ++i) {
    if (text == kShort.at(i)) return {static_cast<LiveKind>(i), 0, 1, true};
  }
  LivePoint point{.accumulate_on_device = accumulate_on_device};
  std::string_view numbers = text;
  for (const bool on_device : {false, true}) {
    const std::string place = fmt::format(":{}", accumulate_place(on_device));
    if (!numbers.ends_with(place)) continue;
    numbers.remove_suffix(place.size());
    point.accumulate_on_device = on_device;
    break;
  }
  const std::string prefix = std::string(kShort.back()) + ":";
  const std::size_t colon = numbers.find(':', prefix.size());
  if (numbers.starts_with(prefix) && colon != numbers.npos &&
      parse(numbers.substr(prefix.size(), colon - prefix.size()), point.topk_ratio) &&
      parse(numbers.substr(colon + 1), point.update_interval) && point.topk_ratio > 0 &&
      point.topk_ratio < 1 && point.update_interval >= 1 && point.update_interval <= kLongest) {
    return point;
  }
  throw Error(
      ErrorKind::kInput,
      fmt::format(
          "\"{}\": expected gpu-only, zero-offload, zero-offload-dpu or zenflow:K:S "
          "with 0 < K < 1 and S from 1 to 4096, e.g. zenflow:0.1:4, or zenflow:0.1:4:device "
          "with sums on the device",
          text));
}

}  // namespace zenflow::sim
