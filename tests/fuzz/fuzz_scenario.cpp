/// Any bytes as a scenario in which model, hardware and DeepSpeed's file are written out: a job
/// that its schedules can say something of, or an input error.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "sim/config/document.h"
#include "sim/config/scenario.h"
#include "sim/schedule/job.h"
#include "sim/schedule/schedule.h"
#include "tests/fuzz/expect_input_error.h"

namespace {

using namespace zenflow;
using fuzz::require;

void check_schedule(const sim::Schedule& schedule, const sim::Job& job) {
  schedule.check(job);
  static_cast<void>(sim::ignored_settings(schedule, job));
  const auto zenflow = schedule.zenflow(job);
  if (zenflow && !zenflow->update_interval) return;  // "auto": simulations decide
  const sim::ClosedForm form = schedule.closed_form(job);
  require(std::isfinite(form.d2h_bytes_per_step) && form.d2h_bytes_per_step >= 0 &&
              std::isfinite(form.h2d_bytes_per_step) && form.h2d_bytes_per_step >= 0,
          "traffic is a number of bytes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz::is_taken([text] {
    sim::ScenarioTree tree;
    tree.root = parse_yaml(text, "fuzz.yaml");
    const sim::Job job = sim::make_job(sim::read_scenario(std::move(tree), {}));
    const sim::Scenario& scenario = job.scenario;
    require(scenario.ranks() >= 1 && scenario.gpus <= scenario.hardware.gpu.count,
            "there are ranks, of GPUs that there are");
    require(scenario.training.tokens() >= 1 &&
                scenario.training.sequence_length <= scenario.model.max_positions,
            "sequences have positions");
    require(scenario.model.trained() > 0, "something is trained");
    require(sim::rank_threads(job).cores > 0, "threads run somewhere");
    static_cast<void>(sim::job_notes(job));
    for (std::size_t i = 0; i < scenario.schedules.size(); ++i) {
      const sim::Schedule& schedule =
          sim::find_schedule(scenario.schedules[i], &scenario.schedules_at[i]);
      fuzz::is_taken([&] { check_schedule(schedule, job); });
    }
  });
  return 0;
}
