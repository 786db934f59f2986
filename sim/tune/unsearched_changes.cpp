#include "sim/tune/unsearched_changes.h"

#include <algorithm>

#include "sim/base/error.h"
#include "sim/deepspeed/ds_config.h"
#include "sim/tune/setting_job.h"

namespace zenflow::sim {
namespace {

const KnobInfo* knob_of(const std::string& path) {
  for (const KnobInfo& one : knobs()) {
    const bool is_setup = one.setup != nullptr && one.setup->path == path;
    if (one.path == path || is_setup) return &one;
  }
  return nullptr;
}

bool is_searched(const Space& space, const std::string& change) {
  const std::size_t equals = change.find('=');
  const std::string path = expand_short_name(change.substr(0, equals));
  const std::string value = change.substr(equals + 1);
  if (path == "deepspeed.zero_optimization.offload_optimizer.device") {
    const std::vector<double>& placements = space.values(Knob::kPlacement);
    const double wanted = parse_value(Knob::kPlacement, value);
    return std::binary_search(placements.begin(), placements.end(), wanted);
  }
  const KnobInfo* knob = knob_of(path);
  if (knob == nullptr) return false;
  const std::vector<double>& values = space.values(knob->knob);
  // Another number than the one that was tried will do.
  const bool is_number = knob->kind == KnobKind::kWhole || knob->kind == KnobKind::kShare;
  if (is_number) return values.size() > 1;
  return std::binary_search(values.begin(), values.end(), parse_value(knob->knob, value));
}

}  // namespace

UnsearchedChanges unsearched_changes(const TuneRequest& request) {
  const Setting own = setting_of(request.job);
  Fit own_fit;
  try {
    own_fit = fit(request.job, schedule_of(request.family, own.placement()));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    return {};  // nobody can run it: what is wrong with it is said elsewhere
  }
  const auto searched = [&](const std::string& set) { return is_searched(request.space, set); };
  UnsearchedChanges found{std::move(own_fit.changes)};
  std::erase_if(found.changes, [&](const FitChange& one) { return searched(one.set); });
  const auto& together = own_fit.together;
  if (together && together->fits &&
      !std::all_of(together->set.begin(), together->set.end(), searched)) {
    found.fit_together = together->set;
  }
  return found;
}

}  // namespace zenflow::sim
