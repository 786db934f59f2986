#include "tools/live_jobs.h"

#include <ctime>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/offload/knobs.h"
#include "sim/schedule/live_work.h"
#include "tools/environment.h"

namespace zenflow::tools {
namespace {

sim::Override parse_override(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(
        ErrorKind::kInput,
        fmt::format("--set {}: expected PATH=VALUE, e.g. training.sequence_length=64", text));
  }
  return {sim::expand_short_name(text.substr(0, equals)), text.substr(equals + 1)};
}

}  // namespace

LiveJobs::LiveJobs(const std::filesystem::path& scenario, const std::optional<std::string>& profile,
                   const std::vector<std::string>& set) {
  for (const std::string& text : set) overrides_.push_back(parse_override(text));
  tree_ = sim::load_scenario_tree(scenario, {.profile_directories = profile_directories(scenario),
                                             .profile = profile,
                                             .overrides = overrides_});
}

sim::OffloadSetup LiveJobs::point(const std::string& text) const {
  const sim::Scenario scenario = sim::read_scenario(tree_, overrides_);
  return sim::parse_offload_setup(text, scenario.offload);
}

sim::Job LiveJobs::job(const sim::OffloadSetup& point) const {
  std::vector<sim::Override> overrides = overrides_;
  if (point.schedule == sim::OffloadSchedule::kZenFlow) {
    sim::TrainingSetup setup;
    static_cast<sim::OffloadSetup&>(setup) = point;
    for (const sim::SetupKnob& knob : sim::setup_knobs()) {
      if (knob.in_setting) overrides.push_back({std::string(knob.path), knob_text(knob, setup)});
    }
  }
  sim::Job job = sim::make_job(sim::read_scenario(tree_, overrides));
  sim::find_schedule(schedule_of(point)).check(job);
  return job;
}

sim::Job LiveJobs::job(const sim::Schedule& schedule) const {
  sim::Job job = sim::make_job(sim::read_scenario(tree_, overrides_));
  schedule.check(job);
  return job;
}

std::vector<std::string> LiveJobs::schedules() const {
  return sim::read_scenario(tree_, overrides_).schedules;
}

sim::Job LiveJobs::job() const {
  return sim::make_job(sim::read_scenario(tree_, overrides_));
}

std::filesystem::path LiveJobs::model_file() const {
  const Node* model = tree_.root.find("model");
  const Node* config = model == nullptr ? nullptr : model->find("config");
  if (config == nullptr || config->at.file == nullptr) {
    throw Error(ErrorKind::kInput, "model: expected a file");
  }
  return *config->at.file;
}

std::string schedule_of(const sim::OffloadSetup& point) {
  return std::string(sim::live_schedule_name(point.schedule));
}

std::string date_or_today(const std::string& text) {
  if (text.empty()) {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    ::gmtime_r(&now, &utc);
    return fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
  }
  const bool is_date = text.size() == 10 && text.find_first_not_of("0123456789-") == text.npos &&
                       text[4] == '-' && text[7] == '-';
  if (is_date) return text;
  throw Error(ErrorKind::kInput,
              fmt::format("--date: expected a date such as 2026-11-20, found \"{}\"", text));
}

}  // namespace zenflow::tools
