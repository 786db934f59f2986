#include "sim/calibrate/live_setting.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/offload/knobs.h"
#include "sim/schedule/live_work.h"
#include "sim/trace/recorded_run.h"

namespace zenflow::sim {
namespace {

/// "topk_ratio 0.1 was recorded, the setting has 0.4", for each that differs.
class Differences {
 public:
  template <class Value>
  void add(std::string_view what, const Value& recorded, const char* from, const Value& given) {
    if (recorded == given) return;
    text_ += fmt::format("{}{} {} was recorded, the {} has {}", text_.empty() ? "" : "; ", what,
                         recorded, from, given);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

void require_compute_track(const std::string& name, const Timeline& timeline) {
  const bool is_there = std::any_of(
      timeline.tracks.begin(), timeline.tracks.end(),
      [](const Track& track) { return lane_of_track(track.name) == LaneKind::kCompute; });
  if (is_there) return;
  throw Error(ErrorKind::kInput,
              fmt::format("{}: no track \"compute\": a --setting is of a recording of "
                          "zenflow-train --trace; for other programs' leave it out "
                          "(zenflow-validate: --schedule in its place)",
                          name));
}

void check_recorded_setting(const std::string& name, const Timeline& timeline,
                            const OffloadSetup& point, const Job& job) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kInput, fmt::format("{}: {}", name, what));
  };
  const auto run = recorded_run(timeline);
  require_compute_track(name, timeline);
  if (!run) return;
  if (run->topk_range) {
    fail("its topk ratio changed while it ran (--topk-range): record one that stays");
  }
  if (run->interval_is_auto) {
    fail(
        "its update interval changed while it ran (--update-interval auto): record one that stays");
  }
  Differences found;
  const auto add_knob = [&](const SetupKnob& knob, const char* from, const OffloadSetup& given) {
    TrainingSetup whole;
    static_cast<OffloadSetup&>(whole) = given;
    found.add(knob.name, knob_text(knob, *run), from, knob_text(knob, whole));
  };
  found.add("schedule", to_string(run->schedule), "setting", to_string(point.schedule));
  if (point.schedule == OffloadSchedule::kZenFlow && run->schedule == point.schedule) {
    for (const SetupKnob& knob : setup_knobs()) {
      if (knob.in_setting) add_knob(knob, "setting", point);
    }
    add_knob(setup_knob("full_warm_up_rounds"), "scenario", live_settings(point.schedule, job));
  }
  TrainingSetup given;
  static_cast<TrainingSettings&>(given) = job.scenario.training;
  given.gradient_accumulation_steps = job.deepspeed.gradient_accumulation_steps;
  for (const char* knob : {"micro_batch_size", "gradient_accumulation_steps",
                           "activation_checkpointing", "sequence_length", "dtype"}) {
    found.add(knob, knob_text(setup_knob(knob), *run), "scenario",
              knob_text(setup_knob(knob), given));
  }
  if (run->parameters > 0) {
    found.add("a model of so many parameters:", run->parameters, "scenario",
              job.scenario.model.parameters());
  }
  found.add("ranks", run->among.ranks, "scenario", job.scenario.ranks());
  if (timeline.devices.size() > 1) fail("it is of several ranks (merge): give each rank's own");
  if (!found.text().empty()) fail(found.text());
}

}  // namespace zenflow::sim
