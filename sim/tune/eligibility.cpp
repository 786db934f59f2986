#include "sim/tune/eligibility.h"

#include <algorithm>

#include <fmt/format.h>

namespace zenflow::sim {
namespace {

/// Why a setting that selects columns once is not eligible; no default space has one.
std::string selects_once(const Job& job) {
  const bool says_so = job.deepspeed.zenflow->select_strategy == "step";
  return fmt::format(
      "it {}; only settings that select them again are searched, unless with --vary "
      "select_interval=0",
      says_so ? "selects columns once and never again (select_interval 0)"
              : "does not say after how many steps columns are selected again (select_strategy "
                "\"step\" with a select_interval), so they are selected once");
}

}  // namespace

std::string why_own_is_not_eligible(const Candidates& candidates) {
  std::string why = candidates.refusal_of_own();
  if (!why.empty()) return why;
  const TuneRequest& request = candidates.request();
  const Setting own = setting_of(request.job);
  for (const KnobInfo& one : knobs()) {
    if (one.of_zenflow && !own.zenflow()) continue;
    const std::vector<double>& values = request.space.values(one.knob);
    const double value = own.get(one.knob);
    if (std::binary_search(values.begin(), values.end(), value)) continue;
    if (one.knob == Knob::kSelectInterval && value == 0) return selects_once(request.job);
    return fmt::format("{} {} is not searched", one.name, value_text(one.knob, value));
  }
  return "";
}

}  // namespace zenflow::sim
