/// What a setting is called beside others.
#include <algorithm>

#include <fmt/format.h>

#include "sim/tune/tuned_answer.h"

namespace zenflow::sim {
namespace {

/// Whether settings on other numbers of GPUs are searched. With one number the micro-batch, which
/// describe() says, also says how often a step accumulates.
bool varies_gpus(const TuneRequest& request) {
  const std::vector<double>& values = request.space.values(Knob::kGpus);
  const double own = setting_of(request.job).get(Knob::kGpus);
  return std::any_of(values.begin(), values.end(), [own](double one) { return one != own; });
}

}  // namespace

std::vector<std::string> setting_names(const TuneRequest& request,
                                       const std::vector<Setting>& settings) {
  const bool shows_gpus = varies_gpus(request);
  std::vector<std::string> plain;
  for (const Setting& one : settings) {
    std::string& name = plain.emplace_back(describe(one));
    if (!shows_gpus) continue;
    name += fmt::format(", gpus {}", one.whole(Knob::kGpus));
    const std::int64_t steps = accumulation_of(request, one);
    if (steps > 0) name += fmt::format(", accumulation {}", steps);
  }
  std::vector<std::string> names = plain;
  for (const KnobInfo& knob : knobs()) {
    for (std::size_t i = 0; i < settings.size(); ++i) {
      if (knob.of_zenflow && !settings[i].zenflow()) continue;
      const double value = settings[i].get(knob.knob);
      for (std::size_t other = 0; other < settings.size(); ++other) {
        if (plain[other] != plain[i] || settings[other].get(knob.knob) == value) continue;
        names[i] += fmt::format(", {} {}", knob.name, value_text(knob.knob, value));
        break;
      }
    }
  }
  return names;
}

}  // namespace zenflow::sim
