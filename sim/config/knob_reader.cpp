#include "sim/config/knob_reader.h"

#include <cstdint>
#include <string>
#include <vector>

namespace zenflow::sim {

double read_knob(const SetupKnob& knob, const ValueReader& value) {
  if (!knob.words.empty()) {
    const std::vector<std::string> words(knob.words.begin(), knob.words.end());
    return *word_value(knob, value.choice(words));
  }
  if (is_switch(knob)) return value.boolean() ? 1 : 0;
  if (!is_whole(knob)) return value.number(knob.low, knob.high);
  return static_cast<double>(
      value.integer(static_cast<std::int64_t>(knob.low), static_cast<std::int64_t>(knob.high)));
}

}  // namespace zenflow::sim
