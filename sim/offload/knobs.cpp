#include "sim/offload/knobs.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

namespace zenflow::sim {

const SetupKnob& setup_knob(std::string_view name) {
  const std::span<const SetupKnob> knobs = setup_knobs();
  const auto found = std::find_if(knobs.begin(), knobs.end(),
                                  [name](const SetupKnob& one) { return one.name == name; });
  assert(found != knobs.end());
  return *found;
}

double largest_value(const SetupKnob& knob) {
  const bool is_int = std::holds_alternative<int TrainingSetup::*>(knob.field);
  return is_int ? std::numeric_limits<int>::max()
                : static_cast<double>(std::int64_t{1} << std::numeric_limits<double>::digits);
}

double knob_value(const SetupKnob& knob, const TrainingSetup& setup) {
  return std::visit([&](auto field) { return static_cast<double>(setup.*field); }, knob.field);
}

void set_knob(const SetupKnob& knob, TrainingSetup& setup, double value) {
  std::visit(
      [&](auto field) {
        using Value = std::remove_reference_t<decltype(setup.*field)>;
        if constexpr (std::is_same_v<Value, bool>) {
          setup.*field = value != 0;
        } else if constexpr (std::is_enum_v<Value>) {
          setup.*field = static_cast<Value>(static_cast<int>(value));
        } else {
          setup.*field = static_cast<Value>(value);
        }
      },
      knob.field);
}

bool is_whole(const SetupKnob& knob) {
  return std::holds_alternative<std::int64_t TrainingSetup::*>(knob.field) ||
         std::holds_alternative<int TrainingSetup::*>(knob.field);
}

bool is_switch(const SetupKnob& knob) {
  return knob.words.empty() && std::holds_alternative<bool TrainingSetup::*>(knob.field);
}

std::string knob_text(const SetupKnob& knob, const TrainingSetup& setup) {
  const double value = knob_value(knob, setup);
  if (!knob.words.empty()) return std::string(knob.words[static_cast<std::size_t>(value)]);
  if (is_switch(knob)) return value != 0 ? "true" : "false";
  return is_whole(knob) ? fmt::format("{}", static_cast<std::int64_t>(value))
                        : fmt::format("{}", value);
}

std::optional<double> word_value(const SetupKnob& knob, std::string_view text) {
  const auto found = std::find(knob.words.begin(), knob.words.end(), text);
  if (found == knob.words.end()) return std::nullopt;
  return static_cast<double>(found - knob.words.begin());
}

std::string setup_flags(const TrainingSetup& setup) {
  const TrainingSetup unsaid;
  std::string flags;
  for (const SetupKnob& knob : setup_knobs()) {
    const double value = knob_value(knob, setup);
    const double by_default = knob_value(knob, unsaid);
    if (knob.flag.empty() || value < knob.low) continue;
    if (knob.of_zenflow && setup.schedule != OffloadSchedule::kZenFlow) continue;
    const bool stands_alone = is_switch(knob) && by_default == 0;
    if ((stands_alone || knob.said_if_changed) && value == by_default) continue;
    flags += fmt::format(" {}{}", knob.flag, stands_alone ? "" : " " + knob_text(knob, setup));
  }
  return flags;
}

std::string_view key_in(std::string_view block, const SetupKnob& knob) {
  const bool inside =
      knob.path.starts_with(block) && knob.path.substr(block.size()).starts_with('.');
  return inside ? knob.path.substr(block.size() + 1) : std::string_view();
}

}  // namespace zenflow::sim
