// run, fit and tune say the same of one job: what a setting of the tuner takes of a GPU is what its
// DeepSpeed file takes when it is simulated, on every shipped scenario and every schedule that all
// three know.
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "sim/report/fit.h"
#include "sim/simulate/simulation.h"
#include "sim/tune/candidates.h"
#include "tests/support/tune_requests.h"

namespace zenflow::sim {
namespace {

using testing::shipped_request;
using testing::shipped_scenarios;

/// The job that somebody simulates who has the setting's DeepSpeed file, and the rest of the
/// scenario as the setting says.
Job written_job(const Candidates& candidates, const Setting& setting) {
  const TuneRequest& request = candidates.request();
  Scenario scenario = request.job.scenario;
  const TrainingSetup setup = with_setting({scenario.offload, scenario.training}, setting);
  scenario.offload = setup;
  scenario.training = setup;
  scenario.gpus = setting.whole(Knob::kGpus);
  scenario.bind_cores_to_rank = setting.flag(Knob::kBindCores);
  scenario.deepspeed = candidates.config(setting).root;
  // What does not fit is not looked into, which takes long.
  scenario.hardware.gpu.memory = Bytes(std::numeric_limits<double>::max());
  scenario.hardware.host.memory = scenario.hardware.host.shared_memory =
      Bytes(std::numeric_limits<double>::max());
  scenario.hardware.host.locked_memory_limit.reset();
  return make_job(scenario);
}

class MemoryAgreement : public ::testing::TestWithParam<std::string> {};

TEST_P(MemoryAgreement, OfRunFitAndTune) {
  int compared = 0;
  for (const Family family : {Family::kDeepSpeed, Family::kPublished, Family::kLive}) {
    Candidates candidates(shipped_request(GetParam(), family));
    const Setting own = setting_of(candidates.request().job);
    for (const double placement : candidates.request().space.values(Knob::kPlacement)) {
      for (const double stage : candidates.request().space.values(Knob::kStage)) {
        Setting setting = own;
        setting.set(Knob::kPlacement, placement);
        setting.set(Knob::kStage, stage);
        if (!candidates.refusal(setting).empty()) continue;
        const Schedule& schedule = candidates.schedule(setting);
        SCOPED_TRACE(std::string(schedule.name()) + ", stage " + std::to_string(setting.stage()));
        const Job job = written_job(candidates, setting);
        const double tuned = candidates.evaluate(setting).gpu_bytes;
        // Windows of another length are other sums of the same bytes: their last bits may differ.
        EXPECT_NEAR(simulate_schedule(job, schedule).memory.gpu.total, tuned, 1);
        EXPECT_NEAR(fit(job, schedule).memory.gpu.total, tuned, 1);
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 0);
}

INSTANTIATE_TEST_SUITE_P(Shipped, MemoryAgreement, ::testing::ValuesIn(shipped_scenarios()),
                         [](const auto& one) {
                           std::string name = one.param;
                           for (char& c : name) c = c == '/' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace zenflow::sim
