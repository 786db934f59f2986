#include "sim/accuracy/setting_comparison.h"

#include <algorithm>
#include <utility>

#include "sim/base/error.h"
#include "sim/simulate/simulated_timeline.h"

namespace zenflow::sim {
namespace {

/// Enough to see a window's end and what comes of it.
constexpr std::size_t kShownWindows = 2;

}  // namespace

void predict_setting(const Job& job, const Schedule& schedule, ComparedSetting& setting,
                     OverlayPart* overlay) {
  const Prediction prediction = predict(job, schedule);
  setting.predicted = prediction.figures;
  if (overlay == nullptr) return;
  overlay->name = setting.name;
  overlay->predicted =
      simulated_timeline(prediction.job, std::string(schedule.name()), prediction.run);
  overlay->predicted_stretch = settled_stretch(prediction, overlay->predicted, kShownWindows);
  // As many steps of both.
  std::size_t steps = 0;
  const TimelineStretch& shown = overlay->predicted_stretch;
  for (const TimelineStep& step : overlay->predicted.steps) {
    if (step.start >= shown.begin && step.start < shown.end) ++steps;
  }
  TimelineStretch& measured = overlay->measured_stretch;
  for (const TimelineStep& step : overlay->measured.steps) {
    if (step.start < measured.begin || steps == 0) continue;
    if (--steps == 0) measured.end = std::min(measured.end, step.end);
  }
}

Timeline overlay(const std::vector<OverlayPart>& parts) {
  std::vector<OverlaidSetting> settings;
  for (const OverlayPart& part : parts) {
    OverlaidSetting one{part.name, part.predicted_stretch, part.measured_stretch};
    one.predicted.timeline = &part.predicted;
    one.measured.timeline = &part.measured;
    settings.push_back(std::move(one));
  }
  if (settings.empty()) {
    throw Error(ErrorKind::kInput, "--overlay: nothing recorded says when things happened");
  }
  return overlay(settings);
}

}  // namespace zenflow::sim
