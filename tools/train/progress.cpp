#include "tools/train/progress.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runtime/train/measured_result.h"
#include "runtime/train/memory_plan.h"
#include "sim/base/median.h"
#include "sim/base/quantity_text.h"
#include "tools/environment.h"
#include "tools/progress_line.h"

namespace zenflow::tools {

namespace {

/// As many of the parts as `width` columns have room for.
std::string joined(const std::vector<std::string>& parts, std::size_t width) {
  std::string line;
  for (const std::string& part : parts) {
    const std::size_t longer = line.size() + (line.empty() ? 0 : 2) + part.size();
    if (!line.empty() && longer > width) break;
    line += (line.empty() ? "" : "  ") + part;
  }
  return line.substr(0, width);
}

}  // namespace

Progress::Progress(const TrainCommand& command)
    : steps_(command.train.steps),
      rate_(command.train.learning_rate),
      verbose_(command.verbose),
      terminal_(is_terminal(stderr)) {}

bool Progress::is_due(bool always) {
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> since = now - last_;
  constexpr double kTerminal = 0.1;
  constexpr double kLog = 10;
  if (!always && since.count() < (terminal_ ? kTerminal : kLog)) return false;
  last_ = now;
  return true;
}

void Progress::put(const std::vector<std::string>& parts, bool rewrites) {
  if (rewrites) {
    rewrite_line(joined(parts, columns_of(stderr) - 1));
  } else {
    complain(joined(parts, std::string::npos) + "\n");
  }
  open_ = rewrites;
}

void Progress::begin(std::int64_t first_step) {
  first_step_ = first_step;
  start_ = std::chrono::steady_clock::now();
}

void Progress::show(const runtime::StepResult& step, const runtime::StepTimes& times,
                    double tokens_per_second) {
  const std::int64_t done = step.step + 1;
  if (!is_due(verbose_ || done == steps_)) return;
  const std::chrono::duration<double> so_far = last_ - start_;
  const double left =
      so_far.count() / static_cast<double>(done - first_step_) * static_cast<double>(steps_ - done);
  const double stall = times.total - times.compute;
  put({fmt::format("step {}/{}", done, steps_), fmt::format("loss {:.4f}", step.loss),
       fmt::format("{:.0f} tokens/s", tokens_per_second), clock_text(left) + " left",
       fmt::format("lr {:.3g}", rate_.at(step.step)),
       fmt::format("gradient {:.3g}", step.gradient_norm),
       fmt::format("step {:.1f} ms", times.total * 1e3),
       fmt::format("stall {:.1f} ms", stall * 1e3)},
      terminal_ && !verbose_);
}

void Progress::show_validation(std::size_t done, std::size_t of) {
  if (done == of || !is_due(done == 1)) return;
  put({fmt::format("validation {}/{}", done, of)}, terminal_);
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

std::string header(const TrainCommand& command, const runtime::RunFacts& facts) {
  const runtime::TrainOptions& train = command.train;
  const runtime::OffloadSettings& offload = train.offload;
  const auto per_step = static_cast<double>(runtime::tokens_per_step(train));
  const double samples = per_step / static_cast<double>(train.training.sequence_length) *
                         static_cast<double>(train.steps);
  std::string text = fmt::format("model     {}: {} parameters, {}, on {}\n", facts.model_name,
                                 count_text(static_cast<double>(facts.parameters)),
                                 to_string(train.training.dtype), facts.device_name);
  text += fmt::format(
      "data      {} sequences of {} tokens; {} steps of {} tokens: {} tokens, {:.2f} epochs\n",
      facts.training_samples, train.training.sequence_length, train.steps,
      runtime::tokens_per_step(train), count_text(per_step * static_cast<double>(train.steps)),
      samples / static_cast<double>(facts.training_samples));
  text += fmt::format("memory    {}{} on the device, {} on the host\n",
                      train.ranks() > 1 ? "of each rank at most " : "",
                      size_text(facts.device_bytes), size_text(facts.host_bytes));
  text += "schedule  " + std::string(to_string(offload.schedule));
  if (offload.schedule == runtime::OffloadSchedule::kZenFlow) {
    text += fmt::format(", k = {:g}, S = {}{}", facts.topk_ratio, facts.update_interval,
                        !offload.interval_is_auto ? ""
                        : train.tune_live         ? " at first, tuned"
                                                  : " at first, by Zen-auto");
  }
  text += fmt::format("; lr {:g}, {}", train.learning_rate.peak, command.decay);
  if (facts.first_step > 0) text += fmt::format("; from step {} on", facts.first_step);
  return text;
}

}  // namespace

runtime::TrainEvents reporting_events(const TrainCommand& command, Progress& progress) {
  const auto warning = [&progress](const std::string& text) {
    progress.say("zenflow-train: warning: " + text);
  };
  if (command.quiet) {
    runtime::TrainEvents warnings;
    warnings.warning = warning;
    return warnings;
  }
  return {.begins =
              [&](const runtime::RunFacts& facts) {
                progress.say(header(command, facts));
                progress.begin(facts.first_step);
              },
          .step = [&progress](const auto& step, const auto& times,
                              double tokens) { progress.show(step, times, tokens); },
          .validation = [&progress](const auto& seen) { progress.say(describe(seen)); },
          .validating = [&progress](std::size_t done,
                                    std::size_t of) { progress.show_validation(done, of); },
          .decision =
              [&](const runtime::IntervalDecision& d) {
                if (d.next != d.previous || command.verbose) progress.say(describe(d));
              },
          .tuning = [&progress](const runtime::TuneEvent& e) { progress.say(describe(e)); },
          .note = [&progress](const auto& text) { progress.say("zenflow-train: " + text); },
          .warning = warning,
          .stop = {},
          .suspension_asked = {}};
}

namespace {

std::string setting_text(const runtime::TunePoint& point) {
  return fmt::format("S = {} k = {:g}", point.update_interval, point.topk_ratio);
}

/// The median step time of windows at the first setting, until it was left, or at the last one,
/// since it was taken; seconds. The first window at a setting still has the one before's update.
struct Stay {
  double seconds = 0;
  std::size_t windows = 0;
};
template <class Windows>
Stay stay_of(const Windows& windows) {
  std::vector<double> seconds;
  for (const runtime::TunedWindow& window : windows) {
    if (!(window.point == windows.front().point)) break;
    seconds.push_back(window.step_seconds);
  }
  const std::size_t count = seconds.size();
  return {sim::median(std::move(seconds)), count};
}

std::string tuning_text(const runtime::TuningLog& log) {
  using Kind = runtime::TuneEvent::Kind;
  const auto count = [&log](Kind kind) {
    return std::ranges::count(log.events, kind, &runtime::TuneEvent::kind);
  };
  if (log.windows.empty()) return "";
  const runtime::TunePoint& first = log.windows.front().point;
  const runtime::TunePoint& last = log.windows.back().point;
  std::string text = fmt::format("  tuning        {} change{}, {} drift{}: ", count(Kind::kChange),
                                 count(Kind::kChange) == 1 ? "" : "s", count(Kind::kDrift),
                                 count(Kind::kDrift) == 1 ? "" : "s");
  if (first == last) return text + fmt::format("{} kept\n", setting_text(first));
  const Stay before = stay_of(log.windows);
  const std::vector<runtime::TunedWindow> backwards(log.windows.rbegin(), log.windows.rend());
  const Stay after = stay_of(backwards);
  text += fmt::format("{} -> {}\n", setting_text(first), setting_text(last));
  if (before.seconds <= 0 || after.seconds <= 0) return text;
  return text + fmt::format(
                    "                {:.1f} ms a step at first, {:.1f} ms at last: {:.1f} % "
                    "{} (medians of {} and {} windows)\n",
                    before.seconds * 1e3, after.seconds * 1e3,
                    100 * std::abs(1 - after.seconds / before.seconds),
                    after.seconds <= before.seconds ? "less" : "more", before.windows,
                    after.windows);
}

std::string zen_auto_text(const std::vector<runtime::IntervalDecision>& decisions) {
  if (decisions.empty()) return "";
  const auto changes = std::ranges::count_if(
      decisions, [](const runtime::IntervalDecision& d) { return d.next != d.previous; });
  return fmt::format("  Zen-auto      S = {} -> {}, changed in {} of {} windows\n",
                     decisions.front().previous, decisions.back().next, changes, decisions.size());
}

}  // namespace

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
  text += tuning_text(report.tuning) + zen_auto_text(report.decisions);
  if (command.train.record_trace) {
    text += fmt::format("  trace         {} spans, {:.2f} % of the time went into recording\n",
                        report.trace_spans,
                        100 * report.trace_overhead_seconds / std::max(1e-9, report.seconds));
  }
  return text;
}

}  // namespace zenflow::tools
