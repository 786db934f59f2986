/// A point of the search: one value for every knob, and the table of the knobs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/offload/training_setup.h"

namespace zenflow::sim {

struct SetupKnob;

/// Where the optimizer works.
enum class Placement : std::uint8_t {
  kGpu,      ///< on the GPUs: no offloading
  kCpu,      ///< ZeRO-Offload
  kZenFlow,  ///< selected columns on the GPUs, the rest on the CPU
  kNvme,     ///< ZeRO-Infinity
};
inline constexpr int kPlacements = 4;
[[nodiscard]] std::string_view to_string(Placement placement);

/// Those of ZenFlow come last: candidate_list.cpp counts on it.
enum class Knob : std::uint8_t {
  kPlacement,
  kStage,
  kMicroBatch,
  kBucket,
  kOverlapComm,
  kPinMemory,
  kOffloadParam,  ///< where stage 3 keeps parameters whose optimizer is offloaded
  kCheckpointing,
  kGpus,
  kBindCores,
  kTopkRatio,
  kUpdateInterval,
  kSelectInterval,
  kWarmUp,
  kOverlapStep,
  kSelectedOffload,
  kReservedCores,
  kAccumulateOn,  ///< where deferred gradients are summed; of zenflow-train alone
};
inline constexpr std::size_t kKnobs = 18;

enum class KnobKind : std::uint8_t { kWord, kFlag, kWhole, kShare };

struct KnobInfo {
  Knob knob;
  std::string_view name;  ///< "update_interval"
  std::string_view path;  ///< where it is written: DeepSpeed's file, the scenario, the launch
  KnobKind kind;
  double low;  ///< of numbers
  double high;
  bool of_zenflow;                   ///< without effect where ZenFlow is off
  const SetupKnob* setup = nullptr;  ///< its row, if a training's setup has it
};
/// By Knob.
[[nodiscard]] std::span<const KnobInfo> knobs();
[[nodiscard]] inline const KnobInfo& info(Knob knob) {
  return knobs()[static_cast<std::size_t>(knob)];
}
/// The values of a kWord knob, in their order.
[[nodiscard]] std::span<const std::string_view> words(Knob knob);
/// By name, or by path as --vary of zenflow-sim takes it. Throws Error(kInput) with the nearest
/// name if there is none.
[[nodiscard]] Knob find_knob(std::string_view name);
/// A value as the user writes it: "0.1", "true", "zenflow". Throws Error(kInput).
[[nodiscard]] double parse_value(Knob knob, std::string_view text);
[[nodiscard]] std::string value_text(Knob knob, double value);

class Setting {
 public:
  [[nodiscard]] double get(Knob knob) const { return values_[static_cast<std::size_t>(knob)]; }
  void set(Knob knob, double value) { values_[static_cast<std::size_t>(knob)] = value; }

  [[nodiscard]] Placement placement() const {
    return static_cast<Placement>(static_cast<int>(get(Knob::kPlacement)));
  }
  [[nodiscard]] bool zenflow() const { return placement() == Placement::kZenFlow; }
  [[nodiscard]] int stage() const { return static_cast<int>(get(Knob::kStage)); }
  [[nodiscard]] std::int64_t whole(Knob knob) const { return static_cast<std::int64_t>(get(knob)); }
  [[nodiscard]] bool flag(Knob knob) const { return get(knob) != 0; }
  [[nodiscard]] std::int64_t interval() const { return whole(Knob::kUpdateInterval); }
  /// Parameters are offloaded only beside an optimizer, and by stage 3.
  [[nodiscard]] bool offloads_param() const {
    return stage() == 3 && placement() != Placement::kGpu && flag(Knob::kOffloadParam);
  }
  [[nodiscard]] double topk_ratio() const { return get(Knob::kTopkRatio); }

  friend bool operator==(const Setting&, const Setting&) = default;
  friend auto operator<=>(const Setting&, const Setting&) = default;

 private:
  std::array<double, kKnobs> values_{};
};

/// `setup` with the setting's values of the knobs that a setup has.
[[nodiscard]] TrainingSetup with_setting(TrainingSetup setup, const Setting& setting);

/// "zenflow, stage 2, topk_ratio 0.1, update_interval 4, overlap_step": what distinguishes
/// settings.
[[nodiscard]] std::string describe(const Setting& setting);

}  // namespace zenflow::sim
