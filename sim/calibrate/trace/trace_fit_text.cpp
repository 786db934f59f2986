#include "sim/calibrate/trace/trace_fit_text.h"

#include <utility>

#include <fmt/format.h>

namespace zenflow::sim {
namespace {

std::string microseconds(const MeasuredTime& time) {
  return fmt::format("  {}: {:.2f} us (half within {:.2f} to {:.2f}, {} samples)\n", time.what,
                     1e6 * time.median, 1e6 * time.lower, 1e6 * time.upper, time.samples);
}

std::string run_text(const TraceBaseline& run) {
  std::string text = run.name + ": ";
  const bool is_repetition = run.analysis.step_source == StepSource::kPeriod;
  text += run.step_seconds
              ? fmt::format("{} of {:.3f} ms", is_repetition ? "a repetition" : "a step",
                            1e3 * *run.step_seconds)
              : std::string("no steps");
  if (!run.steps.empty()) text += ": mean of " + run.steps;
  text += "\n";
  if (is_repetition) text += fmt::format("  {}\n", kStepsOrLayers);
  for (const DeviceAnalysis& device : run.analysis.devices) {
    text +=
        fmt::format("  GPU {}: computes {:.1f} % of {:.3f} ms", device.device,
                    device.span().count > 0 ? 100.0 * static_cast<double>(device.compute.count) /
                                                  static_cast<double>(device.span().count)
                                            : 0.0,
                    to_milliseconds(device.span()));
    bool is_first = true;
    for (std::size_t i = 0; i < kTraceCauses; ++i) {
      if (device.stall[i].count == 0) continue;
      if (std::exchange(is_first, false)) text += "; idle by cause:";
      text += fmt::format(" {} {:.3f} ms", name_of(static_cast<WaitCause>(i)),
                          to_milliseconds(device.stall[i]));
    }
    text += "\n";
  }
  for (const MeasuredTime* one : {&run.launch.call, &run.launch.delay, &run.launch.gap,
                                  &run.launch.starve, &run.launch.wake}) {
    if (one->samples > 0) text += microseconds(*one);
  }
  for (const std::string& remark : run.remarks) text += "  note: " + remark + "\n";
  return text;
}

}  // namespace

std::string trace_fit_text(const TraceFit& fit, bool bold) {
  std::string text = fitted_table(fit.numbers, bold) + "\n";
  for (const TraceBaseline& run : fit.baselines) text += run_text(run);
  return text;
}

}  // namespace zenflow::sim
