#include "sim/tune/unsearched_changes.h"

#include <algorithm>

#include "sim/base/error.h"
#include "sim/deepspeed/ds_config.h"
#include "sim/offload/knobs.h"

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
  const std::string path = expand_usual_name(change.substr(0, equals));
  const std::string value = change.substr(equals + 1);
  if (path == "deepspeed.zero_optimization.offload_optimizer.device") {
    const std::vector<double>& placements = space.values(Knob::kPlacement);
    const double wanted = parse_value(Knob::kPlacement, value);
    return std::binary_search(placements.begin(), placements.end(), wanted);
  }
  const KnobInfo* knob = knob_of(path);
  if (knob == nullptr) return false;
  const std::vector<double>& values = space.values(knob->knob);
  const double wanted = parse_value(knob->knob, value);
  const bool is_number = knob->kind == KnobKind::kWhole || knob->kind == KnobKind::kShare;
  if (!is_number) return std::binary_search(values.begin(), values.end(), wanted);
  // A higher stage and more GPUs hold less each, and less of all else is less.
  const bool more_helps = knob->knob == Knob::kStage || knob->knob == Knob::kGpus;
  return more_helps ? values.back() >= wanted : values.front() <= wanted;
}

/// The machine, where the user's limits are below it.
void apply_limits(const Limits& limits, HardwareProfile& hardware) {
  const auto lower = [](Bytes& capacity, const std::optional<double>& limit) {
    if (limit) capacity = std::min(capacity, Bytes(*limit));
  };
  lower(hardware.gpu.memory, limits.gpu_memory);
  lower(hardware.host.memory, limits.host_memory);
  lower(hardware.host.shared_memory, limits.shm);
}

}  // namespace

UnsearchedChanges unsearched_changes(const Candidates& candidates) {
  const TuneRequest& request = candidates.request();
  Fit own_fit;
  try {
    Candidates::OwnJob own = candidates.own_job();
    own.job.scenario.run = request.job.scenario.run;
    apply_limits(request.limits, own.job.scenario.hardware);
    own_fit = fit(own.job, own.schedule);
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
