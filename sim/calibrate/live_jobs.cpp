#include "sim/calibrate/live_jobs.h"

#include "sim/base/error.h"
#include "sim/deepspeed/overrides.h"
#include "sim/offload/knobs.h"
#include "sim/schedule/live_work.h"

namespace zenflow::sim {

LiveJobs::LiveJobs(const std::filesystem::path& scenario, const std::optional<std::string>& profile,
                   const std::vector<std::string>& set,
                   const std::vector<std::filesystem::path>& profile_directories)
    : overrides_(parse_overrides(set)),
      tree_(load_scenario_tree(scenario, {.profile_directories = profile_directories,
                                          .profile = profile,
                                          .overrides = overrides_})) {}

OffloadSetup LiveJobs::point(const std::string& text) const {
  const Scenario scenario = read_scenario(tree_, overrides_);
  return parse_offload_setup(text, scenario.offload);
}

Job LiveJobs::job(const OffloadSetup& point) const {
  std::vector<Override> overrides = overrides_;
  if (point.schedule == OffloadSchedule::kZenFlow) {
    TrainingSetup setup;
    static_cast<OffloadSetup&>(setup) = point;
    for (const SetupKnob& knob : setup_knobs()) {
      if (knob.in_setting) overrides.push_back({std::string(knob.path), knob_text(knob, setup)});
    }
  }
  Job job = make_job(read_scenario(tree_, overrides));
  find_schedule(schedule_of(point)).check(job);
  return job;
}

Job LiveJobs::job(const Schedule& schedule) const {
  Job found = job();
  schedule.check(found);
  return found;
}

std::vector<std::string> LiveJobs::schedules() const {
  return read_scenario(tree_, overrides_).schedules;
}

Job LiveJobs::job() const {
  return make_job(read_scenario(tree_, overrides_));
}

std::filesystem::path LiveJobs::model_file() const {
  const Node* model = tree_.root.find("model");
  const Node* config = model == nullptr ? nullptr : model->find("config");
  if (config == nullptr || config->at.file == nullptr) {
    throw Error(ErrorKind::kInput, "model: expected a file");
  }
  return *config->at.file;
}

std::string schedule_of(const OffloadSetup& point) {
  return std::string(live_schedule_name(point.schedule));
}

}  // namespace zenflow::sim
