#include "sim/tune/setting.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "sim/config/reader.h"
#include "sim/config/scenario.h"
#include "sim/deepspeed/ds_config.h"
#include "sim/offload/knobs.h"

namespace zenflow::sim {
namespace {

constexpr double kMany = 1e12;

using enum KnobKind;

/// A knob that the table of sim/offload/knobs.h has.
KnobInfo of_setup(Knob knob, std::string_view name) {
  const SetupKnob& row = setup_knob(name);
  const KnobKind kind = !row.words.empty() ? kWord
                        : is_switch(row)   ? kFlag
                        : is_whole(row)    ? kWhole
                                           : kShare;
  return {knob, row.name, row.path, kind, row.low, row.high, row.of_zenflow, &row};
}

/// Made when it is first asked for, which may be before this file's own values are.
const std::array<KnobInfo, kKnobs>& table() {
  static const std::array<KnobInfo, kKnobs> kTable = {{
      {Knob::kPlacement, "placement", "placement", kWord, 0, 0, false},
      {Knob::kStage, "stage", "deepspeed.zero_optimization.stage", kWhole, 0, 3, false},
      {Knob::kMicroBatch, "micro_batch_size_per_gpu", "deepspeed.train_micro_batch_size_per_gpu",
       kWhole, 1, 1 << 24, false, &setup_knob("micro_batch_size")},
      {Knob::kBucket, "reduce_bucket_size", "deepspeed.zero_optimization.reduce_bucket_size",
       kWhole, 1, kMany, false},
      {Knob::kOverlapComm, "overlap_comm", "deepspeed.zero_optimization.overlap_comm", kFlag, 0, 1,
       false},
      {Knob::kPinMemory, "pin_memory", "deepspeed.zero_optimization.offload_optimizer.pin_memory",
       kFlag, 0, 1, false},
      {Knob::kOffloadParam, "offload_param", "deepspeed.zero_optimization.offload_param.device",
       kWord, 0, 0, false},
      of_setup(Knob::kCheckpointing, "activation_checkpointing"),
      {Knob::kGpus, "gpus", "gpus", kWhole, 1, 4096, false},
      {Knob::kBindCores, "bind_cores_to_rank", "launch.bind_cores_to_rank", kFlag, 0, 1, false},
      of_setup(Knob::kTopkRatio, "topk_ratio"),
      of_setup(Knob::kUpdateInterval, "update_interval"),
      of_setup(Knob::kSelectInterval, "select_interval"),
      of_setup(Knob::kWarmUp, "full_warm_up_rounds"),
      of_setup(Knob::kOverlapStep, "overlap_step"),
      {Knob::kSelectedOffload, "offload", "deepspeed.zero_optimization.zenflow.offload", kFlag, 0,
       1, true},
      {Knob::kReservedCores, "pt_reserved_cores_perc",
       "deepspeed.zero_optimization.zenflow.pt_reserved_cores_perc", kShare, 0, 1, true},
      of_setup(Knob::kAccumulateOn, "accumulate_on"),
  }};
  return kTable;
}

constexpr std::array<std::string_view, kPlacements> kPlacementNames = {"gpu", "cpu", "zenflow",
                                                                       "nvme"};

/// As OffloadDevice has them.
constexpr std::array<std::string_view, 3> kDeviceNames = {"none", "cpu", "nvme"};

[[noreturn]] void fail(Knob knob, std::string_view text, const std::string& what) {
  throw Error(ErrorKind::kInput,
              fmt::format("{}: expected {}, found \"{}\"", info(knob).name, what, text));
}

double parse_word(Knob knob, std::string_view text) {
  const auto all = words(knob);
  const auto found = std::find(all.begin(), all.end(), text);
  if (found != all.end()) return static_cast<double>(found - all.begin());
  const std::vector<std::string> known(all.begin(), all.end());
  fail(knob, text, fmt::format("one of {}{}", fmt::join(known, ", "), suggestion(text, known)));
}

double parse_number(Knob knob, std::string_view text) {
  const KnobInfo& of = info(knob);
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, bad] = std::from_chars(text.data(), end, value);
  const bool whole = of.kind == kWhole;
  const std::string range =
      fmt::format("a {} from {} to {}", whole ? "whole number" : "number", of.low, of.high);
  if (bad != std::errc() || rest != end || !std::isfinite(value)) fail(knob, text, range);
  if (whole && value != std::floor(value)) fail(knob, text, range);
  if (value < of.low || value > of.high) fail(knob, text, range);
  if (knob == Knob::kTopkRatio && (value == 0 || value == 1)) {
    fail(knob, text, "a share between 0 and 1, both excluded");
  }
  return value;
}

}  // namespace

std::string_view to_string(Placement placement) {
  return kPlacementNames[static_cast<std::size_t>(placement)];
}

std::span<const KnobInfo> knobs() {
  return table();
}

std::span<const std::string_view> words(Knob knob) {
  if (const SetupKnob* row = info(knob).setup) return row->words;
  if (knob == Knob::kOffloadParam) return kDeviceNames;
  return kPlacementNames;
}

Knob find_knob(std::string_view name) {
  std::vector<std::string> known;
  for (const KnobInfo& one : table()) {
    if (one.name == name || one.path == name) return one.knob;
    known.emplace_back(one.name);
  }
  if (name == "training.micro_batch_size_per_gpu") return Knob::kMicroBatch;
  throw Error(ErrorKind::kInput, fmt::format("\"{}\": no such knob{}; known: {}", name,
                                             suggestion(name, known), fmt::join(known, ", ")));
}

double parse_value(Knob knob, std::string_view text) {
  switch (info(knob).kind) {
    case kWord:
      return parse_word(knob, text);
    case kFlag:
      if (text == "true") return 1;
      if (text == "false") return 0;
      fail(knob, text, "true or false");
    case kWhole:
    case kShare:
      break;
  }
  return parse_number(knob, text);
}

std::string value_text(Knob knob, double value) {
  switch (info(knob).kind) {
    case kWord:
      return std::string(words(knob)[static_cast<std::size_t>(value)]);
    case kFlag:
      return value != 0 ? "true" : "false";
    case kWhole:
      return fmt::format("{}", static_cast<std::int64_t>(value));
    case kShare:
      break;
  }
  return fmt::format("{}", value);
}

TrainingSetup with_setting(TrainingSetup setup, const Setting& setting) {
  for (const KnobInfo& one : table()) {
    if (one.setup != nullptr) set_knob(*one.setup, setup, setting.get(one.knob));
  }
  return setup;
}

std::string describe(const Setting& setting) {
  std::string text = fmt::format("{}, stage {}, micro-batch {}", to_string(setting.placement()),
                                 setting.stage(), setting.whole(Knob::kMicroBatch));
  if (setting.zenflow()) {
    text += fmt::format(", topk_ratio {}, update_interval {}", setting.topk_ratio(),
                        setting.interval());
    if (setting.flag(Knob::kOverlapStep)) text += ", overlap_step";
    if (setting.flag(Knob::kSelectedOffload)) text += ", offload";
    for (const KnobInfo& one : table()) {
      if (one.kind != kWord || !one.of_zenflow || !setting.flag(one.knob)) continue;
      text += fmt::format(", {} {}", one.name, value_text(one.knob, setting.get(one.knob)));
    }
  }
  if (setting.offloads_param()) {
    text += fmt::format(", offload_param {}",
                        value_text(Knob::kOffloadParam, setting.get(Knob::kOffloadParam)));
  }
  if (setting.flag(Knob::kBindCores)) text += ", cores bound";
  return text;
}

}  // namespace zenflow::sim
