#include "sim/calibrate/live_setting.h"

#include <cstdint>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/trace/recorded_run.h"

namespace zenflow::sim {
namespace {

/// "topk_ratio 0.1 was recorded, the setting has 0.4", for each that differs.
class Differences {
 public:
  template <class Value>
  void add(const char* what, const Value& recorded, const char* from, const Value& given) {
    if (recorded == given) return;
    text_ += fmt::format("{}{} {} was recorded, the {} has {}", text_.empty() ? "" : "; ", what,
                         recorded, from, given);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

void check_recorded_setting(const std::string& name, const Timeline& timeline,
                            const LivePoint& point, const Job& job) {
  const auto run = recorded_run(timeline);
  if (!run) return;
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kInput, fmt::format("{}: {}", name, what));
  };
  if (run->topk_range) {
    fail("its topk ratio changed while it ran (--topk-range): record one that stays");
  }
  if (run->interval_is_auto) {
    fail(
        "its update interval changed while it ran (--update-interval auto): record one that stays");
  }
  Differences found;
  const std::string live = std::string(live_schedule_name(point.kind));
  found.add("schedule", run->schedule, "setting", live.substr(live.find('-') + 1));
  if (point.kind == LiveKind::kZenFlow && run->schedule == "zenflow") {
    const LiveSettings settings = live_settings(point.kind, job);
    found.add("topk_ratio", run->topk_ratio, "setting", point.topk_ratio);
    found.add("update_interval", run->update_interval, "setting", point.update_interval);
    found.add("overlap_step", run->overlap_step, "setting", point.overlap);
    found.add("accumulate_on", accumulate_place(run->accumulate_on_device), "setting",
              accumulate_place(point.accumulate_on_device));
    found.add("full_warm_up_rounds", run->full_warm_up_rounds, "scenario", settings.warm_up);
  }
  const TrainingSettings& training = job.scenario.training;
  found.add("micro_batch_size", run->micro_batch_size, "scenario",
            training.micro_batch_size_per_gpu);
  found.add("gradient_accumulation_steps", run->gradient_accumulation_steps, "scenario",
            job.deepspeed.gradient_accumulation_steps);
  found.add("activation_checkpointing", run->activation_checkpointing, "scenario",
            training.activation_checkpointing);
  found.add("sequence_length", run->sequence_length, "scenario", training.sequence_length);
  found.add("dtype", run->dtype, "scenario", to_string(training.dtype));
  if (run->parameters > 0) {
    found.add("a model of so many parameters:", run->parameters, "scenario",
              job.scenario.model.parameters());
  }
  if (!found.text().empty()) fail(found.text());
}

}  // namespace zenflow::sim
