#include "tools/train/progress.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/train/measured_result.h"
#include "tools/environment.h"

namespace zenflow::tools {

Progress::Progress(const TrainCommand& command)
    : steps_(command.train.steps), verbose_(command.verbose), terminal_(is_terminal(stderr)) {}

void Progress::show(const runtime::StepResult& step, const runtime::StepTimes& times,
                    double tokens_per_second) {
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> since = now - last_;
  constexpr double kTerminal = 0.1;
  constexpr double kLog = 10;
  const bool final_step = step.step + 1 == steps_;
  if (!verbose_ && !final_step && since.count() < (terminal_ ? kTerminal : kLog)) return;
  last_ = now;
  const double stall = times.total - times.compute;
  const std::string line = fmt::format(
      "step {}/{}  loss {:.4f}  {:.0f} tokens/s  step {:.1f} ms  stall {:.1f} ms", step.step + 1,
      steps_, step.loss, tokens_per_second, times.total * 1e3, stall * 1e3);
  const bool rewrite = terminal_ && !verbose_;
  if (rewrite) {
    rewrite_line(line);
  } else {
    complain(line + "\n");
  }
  open_ = rewrite;
}

void Progress::say(const std::string& line) {
  end_line();
  complain(line + "\n");
}

void Progress::end_line() {
  if (open_) complain("\n");
  open_ = false;
}

namespace {

std::string describe(const runtime::Validation& validation) {
  std::string text =
      fmt::format("step {}: validation loss {:.4f}", validation.step, validation.loss);
  for (const auto& metric : validation.metrics) {
    text += fmt::format(", {} {:.4f}", metric.name, metric.value);
  }
  return text;
}

std::string describe(const runtime::IntervalDecision& d) {
  return fmt::format(
      "window {}: update_interval {} -> {}: {} (by gradient {}, by stall {}, limit {}; {:.1f} % of "
      "the squared gradient norm is deferred)",
      d.window, d.previous, d.next, d.reason, d.by_gradient, d.by_stall, d.limit,
      100 * d.deferred_share);
}

std::string describe(const runtime::TuneEvent& e) {
  using Kind = runtime::TuneEvent::Kind;
  const auto milliseconds = [](double seconds) {
    return seconds > 0 ? fmt::format("{:.2f} ms", 1e3 * seconds) : std::string("unknown");
  };
  const auto point = [](const runtime::TunePoint& one) {
    return fmt::format("S={} k={:g}", one.update_interval, one.topk_ratio);
  };
  std::string text =
      fmt::format("window {}: tuning, {} at {}", e.window, to_string(e.kind), point(e.from));
  if (!(e.from == e.to)) text += " -> " + point(e.to);
  text += ": " + e.reason;
  if (e.kind == Kind::kFailed || e.kind == Kind::kDrift) return text;
  text += fmt::format("; step {} measured, {} predicted, noise {:.1f} %", milliseconds(e.measured),
                      milliseconds(e.predicted), 100 * e.noise);
  if (e.selection_seconds > 0) {
    text += fmt::format(", columns selected anew in {}{}", e.kind == Kind::kChange ? "about " : "",
                        milliseconds(e.selection_seconds));
  }
  if (e.kind == Kind::kFitted) text += fmt::format(", fitted in {}", milliseconds(e.fit_seconds));
  return text;
}

}  // namespace

runtime::TrainEvents reporting_events(const TrainCommand& command, Progress& progress) {
  if (command.quiet) return {};
  return {.step = [&progress](const auto& step, const auto& times,
                              double tokens) { progress.show(step, times, tokens); },
          .validation = [&progress](const auto& seen) { progress.say(describe(seen)); },
          .decision =
              [&](const runtime::IntervalDecision& d) {
                if (d.next != d.previous || command.verbose) progress.say(describe(d));
              },
          .tuning = [&progress](const runtime::TuneEvent& e) { progress.say(describe(e)); },
          .note = [&progress](const auto& text) { progress.say("zenflow-train: " + text); },
          .stop = {},
          .suspension_asked = {}};
}

std::string summary(const TrainCommand& command, const runtime::TrainReport& report) {
  const runtime::StepTimes& mean = report.times.mean;
  std::string text =
      fmt::format("{}: {} parameters, {}, {} steps\n", report.model_name, report.parameters,
                  to_string(command.train.offload.schedule), report.steps);
  if (!report.losses.empty()) {
    text += fmt::format("  loss          {:.4f} at first, {:.4f} at last\n", report.losses.front(),
                        report.losses.back());
  }
  if (!report.validations.empty()) {
    const runtime::Validation& last = report.validations.back();
    text += fmt::format("  validation    loss {:.4f}", last.loss);
    for (const auto& metric : last.metrics)
      text += fmt::format("  {} {:.4f}", metric.name, metric.value);
    text += "\n";
  }
  if (report.times.steps > 0) {
    text += fmt::format(
        "  step          {:.1f} ms: compute {:.1f}, waiting for CPU update {:.1f}, d2h {:.1f}, "
        "h2d {:.1f}, {}launch {:.1f} (mean of {}{})\n",
        mean.total * 1e3, mean.compute * 1e3, mean.cpu_update * 1e3, mean.d2h * 1e3, mean.h2d * 1e3,
        command.train.ranks() > 1 ? fmt::format("other ranks {:.1f}, ", mean.collective * 1e3) : "",
        mean.launch * 1e3, report.times.steps,
        report.times.traffic ? "" : ", the first ones included");
    text += fmt::format("  speed         {:.0f} tokens/s\n", report.tokens_per_second);
  }
  if (report.staleness_max) {
    text += fmt::format("  staleness     {} to {} steps\n", *report.staleness_min,
                        *report.staleness_max);
  }
  if (command.train.record_trace) {
    text += fmt::format("  trace         {} spans, {:.2f} % of the time went into recording\n",
                        report.trace_spans,
                        100 * report.trace_overhead_seconds / std::max(1e-9, report.seconds));
  }
  return text;
}

}  // namespace zenflow::tools
