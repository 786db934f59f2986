/// The one table of a training setup's knobs: what each is called where, what it may be, who reads
/// it and what it affects.
///
/// Blocks of scenarios and of DeepSpeed's file, short names of --set, zenflow-train's flags, their
/// help and the commands that have them, recordings, a checkpoint's identity and the tuner's knobs
/// come from it. To add one: a field of TrainingSetup, a row, and its effect.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "sim/offload/training_setup.h"

namespace zenflow::sim {

/// Who reads a knob, as bits.
struct SetupReader {
  enum Bits : std::uint8_t { kDeepSpeed = 1, kZenFlowTrain = 2, kSimulator = 4, kTuner = 8 };
};
/// What a knob changes, as bits. Weights: not only when they are there, but what they are.
struct SetupEffect {
  enum Bits : std::uint8_t { kTime = 1, kMemory = 2, kTraffic = 4, kWeights = 8 };
};

/// Where its value is. A bool with words is one of two places, one without is true or false.
using KnobField =
    std::variant<double TrainingSetup::*, std::int64_t TrainingSetup::*, int TrainingSetup::*,
                 bool TrainingSetup::*, DType TrainingSetup::*, OffloadSchedule TrainingSetup::*>;

struct SetupKnob {
  std::string_view name;      ///< in recordings, and for short where `path` is written
  std::string_view path;      ///< in scenarios; DeepSpeed's key follows "deepspeed."; empty: none
  std::string_view flag;      ///< of zenflow-train; empty: none
  std::string_view identity;  ///< in a checkpoint's identity; empty: a resume may change it
  KnobField field;
  double low = 0;  ///< of numbers
  double high = 1;
  double most_trained = high;                 ///< what zenflow-train takes at most
  std::span<const std::string_view> words{};  ///< in the order of the values
  std::string_view unit{};
  std::string_view help{};
  int read_by = 0;  ///< SetupReader
  int affects = 0;  ///< SetupEffect
  /// Recordings and checkpoints of before do not say it: there it has its default.
  bool came_later = false;
  bool required = false;         ///< in a scenario
  bool in_setting = false;       ///< a setting's text says it, "zenflow:K:S:PLACE"
  bool of_zenflow = false;       ///< without effect under the other schedules
  bool said_if_changed = false;  ///< commands leave it out at its default, which is off
};

[[nodiscard]] std::span<const SetupKnob> setup_knobs();
/// By name. Precondition: there is one.
[[nodiscard]] const SetupKnob& setup_knob(std::string_view name);

/// The largest number that its field has, and a double exactly.
[[nodiscard]] double largest_value(const SetupKnob& knob);
/// As a number: that of the word, 0 or 1 for true and false.
[[nodiscard]] double knob_value(const SetupKnob& knob, const TrainingSetup& setup);
/// Precondition: `value` is at most largest_value(knob).
void set_knob(const SetupKnob& knob, TrainingSetup& setup, double value);
[[nodiscard]] bool is_whole(const SetupKnob& knob);
[[nodiscard]] bool is_switch(const SetupKnob& knob);
/// As files and flags have it: "0.1", "true", "device".
[[nodiscard]] std::string knob_text(const SetupKnob& knob, const TrainingSetup& setup);
/// Empty: `text` is no such word.
[[nodiscard]] std::optional<double> word_value(const SetupKnob& knob, std::string_view text);

/// The flags of zenflow-train that say it, in the table's order: " --schedule zenflow --topk-ratio
/// 0.1 ...". Left out: what has no effect under the schedule, and numbers below their range, such
/// as 0 threads, which are not decided.
[[nodiscard]] std::string setup_flags(const TrainingSetup& setup);

/// The knob's key in a block of a scenario, "training", "zenflow_train" (for what DeepSpeed's file
/// has no key for) or "deepspeed.zero_optimization.zenflow". Empty: it is in another one.
[[nodiscard]] std::string_view key_in(std::string_view block, const SetupKnob& knob);

}  // namespace zenflow::sim
