#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/base/table.h"
#include "sim/trace/analysis/trace_parts.h"
#include "sim/trace/analysis/trace_report.h"

namespace zenflow::sim {
namespace {

using Rows = std::vector<std::vector<std::string>>;

/// Microseconds are what GPU work is about.
std::string ms(Picoseconds time) {
  return fmt::format("{:.3f}", static_cast<double>(time.count) / 1e9);
}

std::string percent(Picoseconds part, Picoseconds whole) {
  if (whole.count <= 0) return "-";
  return format_percent(static_cast<double>(part.count) / static_cast<double>(whole.count));
}

std::string shortened(const std::string& name) {
  constexpr std::size_t kMost = 60;
  if (name.size() <= kMost) return name;
  std::size_t end = kMost;
  // Not in the middle of a character.
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80U) --end;
  return name.substr(0, end) + "...";
}

/// Which steps are not like the others, and the mean without them.
std::string usual_text(const std::vector<StepAnalysis>& steps) {
  const UsualMean usual = usual_mean(steps);
  if (usual.steps == steps.size() || !usual.milliseconds) return "";
  return fmt::format("mean of {}: {:.3f} ms{}\n", counted(usual.steps, "step"), *usual.milliseconds,
                     apart_text(steps));
}

/// Whether steps may be of one micro-batch each.
std::string updates_text(const TraceAnalysis& analysis) {
  const std::size_t updates = analysis.steps_with_updates;
  if (updates == 0 || updates == analysis.steps.size()) return "";
  return fmt::format(
      "an optimizer updates in {} of them: one step of a batch may be several of these\n", updates);
}

std::string steps_text(const TraceAnalysis& analysis) {
  if (analysis.steps.empty()) {
    return "No steps found: no annotation, no optimizer range, no repeating kernels. Name ranges "
           "that "
           "are steps with --steps REGEX.\n\n";
  }
  Picoseconds sum;
  Picoseconds shortest = analysis.steps.front().duration;
  Picoseconds longest = shortest;
  for (const StepAnalysis& step : analysis.steps) {
    sum += step.duration;
    shortest = std::min(shortest, step.duration);
    longest = std::max(longest, step.duration);
  }
  const auto count = static_cast<double>(analysis.steps.size());
  const std::string source = analysis.step_source == StepSource::kPeriod
                                 ? std::string(kStepsOrLayers) + " --steps REGEX says"
                                 : "by " + to_string(analysis.step_source);
  const char* const noun = analysis.step_source == StepSource::kPeriod ? "repetition" : "step";
  return fmt::format("{} ({}): mean {:.3f} ms, shortest {}, longest {}\n{}{}\n",
                     counted(analysis.steps.size(), noun), source,
                     static_cast<double>(sum.count) / 1e9 / count, ms(shortest), ms(longest),
                     usual_text(analysis.steps), updates_text(analysis));
}

std::string busy_text(const DeviceAnalysis& device, bool bold) {
  const Picoseconds whole = device.span();
  Rows rows;
  const auto row = [&](const char* what, Picoseconds time) {
    rows.push_back({what, ms(time), percent(time, whole)});
  };
  row("computes", device.compute);
  row("communicates", device.collective);
  row("copies", device.copy);
  row("busy (any of these, memsets)", device.busy);
  row("idle", whole - device.busy);
  std::string text = format_table({"the GPU", "ms", "share"}, rows, bold) + "\n";
  rows.clear();
  for (std::size_t i = 0; i < kTraceCauses; ++i) {
    if (device.stall[i].count > 0) row(name_of(static_cast<WaitCause>(i)).data(), device.stall[i]);
  }
  if (!rows.empty())
    text += format_table({"does not compute for", "ms", "share"}, rows, bold) + "\n";
  return text;
}

/// PyTorch names the range in which a loop waits for its next batch: kernels are launched late
/// then, whatever launching takes.
std::string loader_text(const TraceAnalysis& analysis, const DeviceAnalysis& device) {
  Picoseconds waited;
  for (const NamedTime& one : analysis.ranges) {
    if (one.name.starts_with("enumerate(DataLoader)#")) waited += one.time;
  }
  const Picoseconds late = device.stall[static_cast<std::size_t>(WaitCause::kLaunch)];
  // A twentieth of the span is worth a word.
  constexpr std::int64_t kShare = 20;
  if (kShare * late.count < device.span().count || 2 * waited.count < late.count) return "";
  return fmt::format(
      "launch: the loop was {} ms in enumerate(DataLoader); where that is most of it the GPU waits "
      "for data (more workers, less work a sample), not for launches\n\n",
      ms(waited));
}

std::string copies_text(const DeviceAnalysis& device, bool bold) {
  if (device.copy_statistics.empty()) return "";
  Rows rows;
  for (const CopyStatistics& one : device.copy_statistics) {
    const bool is_known = one.without_bytes < one.copies;
    const bool has_rate = is_known && one.time_with_bytes.count > 0;
    std::string bytes = is_known ? fmt::format("{}", one.bytes) : "not in the trace";
    if (is_known && one.without_bytes > 0) bytes += fmt::format(" (without {})", one.without_bytes);
    rows.push_back({fmt::format("{} {} -> {}", to_string(one.kind.direction),
                                to_string(one.kind.from), to_string(one.kind.to)),
                    fmt::format("{}", one.copies), std::move(bytes), ms(one.time),
                    has_rate
                        ? fmt::format("{:.2f}", static_cast<double>(one.bytes) /
                                                    to_seconds(one.time_with_bytes).value() / 1e9)
                        : "-",
                    percent(one.hidden, one.united)});
  }
  return format_table({"copies", "count", "bytes", "ms", "GB/s", "behind compute"}, rows, bold) +
         "\n";
}

std::string streams_text(const DeviceAnalysis& device, bool bold) {
  Rows rows;
  for (const StreamIdle& one : device.streams) {
    rows.push_back({one.track, fmt::format("{}", one.spans), ms(one.busy), ms(one.host_wait),
                    ms(one.kernel_wait), ms(one.other), ms(one.not_recorded)});
  }
  return format_table({"idle as HTA counts it", "spans", "busy ms", "host wait", "kernel wait",
                       "other", "not recorded"},
                      rows, bold) +
         "\n";
}

std::string phases_text(const DeviceAnalysis& device, bool bold) {
  Picoseconds total;
  for (const PhaseTime& one : device.phases) total += one.time;
  Rows rows;
  for (const PhaseTime& one : device.phases) {
    rows.push_back({to_string(one.phase), fmt::format("{}", one.spans), ms(one.time),
                    percent(one.time, total)});
  }
  std::string text = format_table({"phase", "spans", "ms", "share"}, rows, bold) + "\n";
  rows.clear();
  for (const NamedTime& one : device.unassigned) {
    rows.push_back({shortened(one.name), fmt::format("{}", one.spans), ms(one.time),
                    percent(one.time, total)});
  }
  if (!rows.empty()) {
    text += format_table({"without a phase, longest", "spans", "ms", "share"}, rows, bold) + "\n";
  }
  return text;
}

std::string ranks_text(const TraceAnalysis& analysis, bool bold) {
  if (analysis.rank_waits.empty()) return "";
  std::vector<RankWait> waits = analysis.rank_waits;
  constexpr std::size_t kMost = 12;
  if (waits.size() > kMost) {
    // Stragglers: those that the others waited for most.
    std::stable_sort(waits.begin(), waits.end(), [](const RankWait& a, const RankWait& b) {
      return a.came_last > b.came_last;
    });
    waits.resize(kMost);
  }
  Rows rows;
  for (const RankWait& one : waits) {
    rows.push_back({fmt::format("{} {}", one.device, shortened(one.name)),
                    fmt::format("{}", one.collectives), ms(one.time), ms(one.waited),
                    percent(one.waited, one.time), fmt::format("{}", one.came_last)});
  }
  return format_table(
             {"collectives of all ranks", "count", "ms", "waits for others", "share", "came last"},
             rows, bold) +
         "\n";
}

constexpr std::size_t kShownRows = 5;

std::string named_text(const char* title, const std::vector<NamedTime>& names, bool bold) {
  if (names.empty()) return "";
  Rows rows;
  for (std::size_t i = 0; i < std::min(kShownRows, names.size()); ++i) {
    rows.push_back(
        {shortened(names[i].name), fmt::format("{}", names[i].spans), ms(names[i].time)});
  }
  return format_table({title, "count", "ms"}, rows, bold) + "\n";
}

std::string known(double value) {
  return std::isfinite(value) ? fmt::format("{:.1f}", value) : "-";
}

/// As shares of the GPU's peak; if that is not known, of the fastest.
std::string products_text(const std::vector<ShapedProduct>& products, bool bold) {
  if (products.empty()) return "";
  const bool has_peak = std::any_of(products.begin(), products.end(),
                                    [](const ShapedProduct& one) { return one.peak > 0; });
  double fastest = 0;
  for (const ShapedProduct& one : products) {
    if (std::isfinite(one.flops_per_second())) {
      fastest = std::max(fastest, one.flops_per_second());
    }
  }
  Rows rows;
  for (std::size_t i = 0; i < std::min(kShownRows, products.size()); ++i) {
    const ShapedProduct& one = products[i];
    const std::string batch = one.batch == 1 ? "" : fmt::format("{} x ", one.batch);
    const double whole = has_peak ? one.peak : fastest;
    rows.push_back({fmt::format("{}{} x {} x {} {}", batch, one.m, one.n, one.k, one.type),
                    fmt::format("{}", one.products), ms(one.time),
                    known(one.flops_per_second() / 1e12),
                    whole > 0 && std::isfinite(one.flops_per_second())
                        ? format_percent(one.flops_per_second() / whole)
                        : "-"});
  }
  return format_table({"products, m x n x k", "count", "ms", "TFLOPS",
                       has_peak ? "of peak" : "of the fastest"},
                      rows, bold) +
         "\n";
}

std::string collectives_text(const std::vector<SizedCollective>& collectives, bool bold) {
  if (collectives.empty()) return "";
  Rows rows;
  for (std::size_t i = 0; i < std::min(kShownRows, collectives.size()); ++i) {
    const SizedCollective& one = collectives[i];
    rows.push_back({one.kind, one.bytes > 0 ? fmt::format("{:.0f}", one.bytes) : "not in the trace",
                    one.ranks > 0 ? fmt::format("{}", one.ranks) : "-",
                    fmt::format("{}", one.collectives), ms(one.time),
                    known(one.bus_bytes_per_second() / 1e9)});
  }
  return format_table({"collectives", "bytes", "ranks", "count", "ms", "bus GB/s"}, rows, bold) +
         "\n";
}

std::string tables_text(const TraceTables& tables, bool bold) {
  std::string text;
  if (tables.steps) {
    const StepVariation& steps = *tables.steps;
    text += fmt::format(
        "All steps vary by {:.1f} % (standard deviation); median {:.3f} ms, {:.3f} to {:.3f}\n\n",
        steps.mean > 0 ? 100 * steps.deviation / steps.mean : 0, steps.median / 1e9,
        steps.least / 1e9, steps.most / 1e9);
  }
  return text + named_text("kernels, longest in all", tables.kernels, bold) +
         named_text("operators of the host, with what they call", tables.operators, bold) +
         products_text(tables.products, bold) + collectives_text(tables.collectives, bold);
}

/// One row a device: who waits for whom, of many the first and those that compute least and most.
std::string devices_text(const TraceAnalysis& analysis, bool bold) {
  std::vector<const DeviceAnalysis*> devices;
  for (const DeviceAnalysis& one : analysis.devices) devices.push_back(&one);
  std::stable_sort(
      devices.begin(), devices.end(),
      [](const DeviceAnalysis* a, const DeviceAnalysis* b) { return a->compute > b->compute; });
  constexpr std::size_t kAtEachEnd = 6;
  Rows rows;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const bool is_shown = i < kAtEachEnd || i + kAtEachEnd >= devices.size();
    if (!is_shown) continue;
    const DeviceAnalysis& one = *devices[i];
    rows.push_back({fmt::format("{} {}", one.device, shortened(one.name)), ms(one.span()),
                    percent(one.compute, one.span()), percent(one.collective_exposed, one.span()),
                    percent(one.span() - one.busy, one.span())});
  }
  const std::string left =
      devices.size() > rows.size()
          ? fmt::format("{} devices between these are in --json\n", devices.size() - rows.size())
          : "";
  return format_table({"device, by compute", "ms", "computes", "communicates alone", "idle"}, rows,
                      bold) +
         left + "\n";
}

std::string path_text(const TraceAnalysis& analysis, bool bold) {
  if (analysis.path.empty()) return "";
  Rows rows;
  for (const PathPart& part : analysis.path) {
    rows.push_back({part.what, ms(part.time), percent(part.time, analysis.path_length)});
  }
  return format_table({"what decided the duration", "ms", "share"}, rows, bold) + "\n";
}

std::string ranges_text(const TraceAnalysis& analysis, bool bold) {
  if (analysis.ranges.empty()) return "";
  constexpr std::size_t kShown = 10;
  Rows rows;
  for (const NamedTime& one : analysis.ranges) {
    if (rows.size() == kShown) break;
    rows.push_back({shortened(one.name), fmt::format("{}", one.spans), ms(one.time)});
  }
  return format_table({"ranges, longest", "count", "ms"}, rows, bold) + "\n";
}

std::string left_out_text(const ImportedTrace& trace, bool bold) {
  if (trace.left_out.empty()) return "";
  Rows rows;
  for (const LeftOut& one : trace.left_out) {
    rows.push_back({shortened(one.what), fmt::format("{}", one.count),
                    (one.takes_longer ? "> " : "") + ms(one.time), one.first});
  }
  return format_table({"not used", "count", "ms", "first"}, rows, bold) + "\n";
}

std::string timers_text(const TimerLog& log, bool bold) {
  const auto value = [](double of) { return std::isnan(of) ? "-" : fmt::format("{:.2f}", of); };
  Rows rows;
  const auto row = [&](const TimerSeries& of) {
    if (of.values.empty()) return;
    rows.push_back({of.name, fmt::format("{}", of.values.size()), value(of.mean()),
                    value(of.values.front()), value(of.values.back())});
  };
  row(log.iterations);
  for (const TimerSeries& one : log.timers) row(one);
  const UsualSteps steps = log.usual_steps();
  std::string text;
  if (!steps.usual.empty()) {
    text += fmt::format("a {} takes {} ms: mean of {}\n",
                        steps.micro_steps == 0 ? "micro step" : "step", value(mean(steps.usual)),
                        steps.text());
  }
  text += fmt::format("mean ms of all: step {}, forward {}, backward {}, optimizer {}\n\n",
                      value(log.step_ms), value(log.forward_ms), value(log.backward_ms),
                      value(log.optimizer_ms));
  if (!rows.empty()) {
    text += format_table({"timer", "count", "mean ms", "first", "last"}, rows, bold) + "\n";
  }
  rows.clear();
  for (const RankTimerSeries& one : log.across_ranks) {
    rows.push_back({one.name, fmt::format("{}", one.longest.size()), value(mean(one.shortest)),
                    value(mean(one.longest))});
  }
  if (rows.empty()) return text;
  return text +
         format_table({"timer of all ranks", "count", "shortest, mean ms", "longest"}, rows, bold) +
         "\n";
}

}  // namespace

std::string trace_text(const ImportedTrace& trace, const TraceAnalysis& analysis,
                       const std::string& file, bool bold) {
  std::string text =
      fmt::format("{}: {} trace, {} events, {} spans kept\n", file, to_string(trace.format),
                  trace.events, trace.timeline.spans.size());
  for (const std::string& problem : trace.problems) text += "note: " + problem + "\n";
  text += "\n";
  if (trace.timers) return text + timers_text(*trace.timers, bold) + left_out_text(trace, bold);
  text += steps_text(analysis);
  if (analysis.devices.empty()) text += "No GPU work in this trace: nothing to say of GPUs.\n\n";
  constexpr std::size_t kInFull = 2;
  const bool are_many = analysis.devices.size() > kInFull;
  if (are_many) {
    text +=
        devices_text(analysis, bold) + "Of these in full the first; the others are in --json.\n\n";
  }
  for (const DeviceAnalysis& device : analysis.devices) {
    if (are_many && &device != &analysis.devices.front()) break;
    text +=
        fmt::format("device {} {}: {} kernels ({} collective), {} copies, {} memsets in {} ms\n\n",
                    device.device, device.name, device.kernels, device.collectives, device.copies,
                    device.memsets, ms(device.span()));
    text += busy_text(device, bold) + loader_text(analysis, device) + copies_text(device, bold) +
            phases_text(device, bold) + streams_text(device, bold);
    if (device.without_launch > 0) {
      text += fmt::format("{} pieces of GPU work have no launching call in the trace.\n\n",
                          device.without_launch);
    }
  }
  return text + ranks_text(analysis, bold) + tables_text(analysis.tables, bold) +
         path_text(analysis, bold) + ranges_text(analysis, bold) + left_out_text(trace, bold);
}

}  // namespace zenflow::sim
