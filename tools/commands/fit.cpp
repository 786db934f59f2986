#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/table.h"
#include "sim/report/fit_json.h"
#include "tools/commands/commands.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

using sim::MemoryLimit;
using sim::MemoryPlace;
using Rows = std::vector<std::vector<std::string>>;

std::string indented(const std::string& table) {
  std::string text;
  for (std::size_t begin = 0; begin < table.size();) {
    const std::size_t end = table.find('\n', begin) + 1;
    text += "  " + table.substr(begin, end - begin);
    begin = end;
  }
  return text;
}

void add_buffers(const sim::Fit& fit, MemoryPlace place, bool of_framework, Rows& rows) {
  const bool gpu = place == MemoryPlace::kGpu;
  for (const sim::BufferUse& use : fit.buffers) {
    if (sim::place_of(use.buffer.home) != place || use.buffer.of_framework != of_framework) {
      continue;
    }
    std::vector<std::string> row = {use.buffer.name, use.buffer.held, use.buffer.formula,
                                    sim::format_gib(use.at_peak)};
    if (gpu) row.push_back(sim::format_gib(use.largest));
    if (!gpu) row.insert(row.begin() + 1, sim::to_string(use.buffer.home));
    rows.push_back(std::move(row));
  }
}

std::string gpu_table(const sim::Fit& fit, bool bold) {
  Rows rows;
  add_buffers(fit, MemoryPlace::kGpu, false, rows);
  rows.push_back({"peak", "", "", sim::format_gib(fit.memory.gpu.total), ""});
  return indented(sim::format_table({"one GPU", "held", "formula", "at the peak", "largest"}, rows,
                                    bold, 3)) +
         fmt::format("  first reached in {}\n\n", fit.gpu_peak_at);
}

std::string host_table(const sim::Fit& fit, bool bold) {
  Rows rows;
  add_buffers(fit, MemoryPlace::kHost, false, rows);
  if (rows.empty()) return "";
  rows.push_back({"peak", "", "", "", sim::format_gib(fit.memory.host.total)});
  if (fit.memory.host_framework > 0) {
    add_buffers(fit, MemoryPlace::kHost, true, rows);
    rows.push_back({"peak, with what PyTorch and processes add", "", "", "",
                    sim::format_gib(fit.memory.limit(MemoryLimit::kHost).need)});
  }
  return indented(sim::format_table({"host, node", "where", "held", "formula", "at the peak"}, rows,
                                    bold, 4)) +
         "\n";
}

std::string nvme_table(const sim::Fit& fit, bool bold) {
  Rows rows;
  add_buffers(fit, MemoryPlace::kNvme, false, rows);
  if (rows.empty()) return "";
  return indented(
             sim::format_table({"NVMe, node", "where", "held", "formula", "size"}, rows, bold, 4)) +
         "\n";
}

const char* profile_path(MemoryLimit limit) {
  switch (limit) {
    case MemoryLimit::kGpu:
      return "gpu.memory";
    case MemoryLimit::kHost:
      return "host.memory";
    case MemoryLimit::kShared:
      return "host.shared_memory";
    case MemoryLimit::kLocked:
      return "host.locked_memory_limit";
    case MemoryLimit::kNvme:
      return "nvme.capacity";
  }
  return "";
}

std::string capacity_text(const sim::LimitCheck& check) {
  if (!check.capacity) return "not stated";
  return std::isinf(*check.capacity) ? "unlimited" : sim::format_gib(*check.capacity);
}

/// Where the limit comes from, if it is taken for granted and not a fact of the machine; else "".
std::string assumption(const sim::Job& job, MemoryLimit limit) {
  const std::string path = profile_path(limit);
  if (job.scenario.is_overridden("hardware." + path + ".value")) return "";
  for (const sim::SourcedNumber& number : job.scenario.hardware.numbers) {
    if (number.path == path && number.source.starts_with("estimate:")) return number.source;
  }
  return "";
}

std::string limit_table(const sim::Job& job, const sim::Fit& fit, bool bold) {
  Rows rows;
  for (int i = 0; i < sim::kMemoryLimits; ++i) {
    const auto limit = static_cast<MemoryLimit>(i);
    const sim::LimitCheck& check = fit.memory.limit(limit);
    if (check.need == 0) continue;
    std::string verdict = !check.capacity ? "not checked" : check.holds() ? "holds" : "EXCEEDED";
    if (limit == MemoryLimit::kGpu && sim::is_gpu_at_risk(job, fit)) verdict += ", little room";
    if (limit == MemoryLimit::kHost && sim::is_loading_at_risk(job, fit)) {
      verdict += ", but not while loading";
    }
    if (!assumption(job, limit).empty()) verdict += ", limit estimated";
    rows.push_back(
        {sim::describe(limit), verdict, sim::format_gib(check.need), capacity_text(check)});
  }
  return indented(sim::format_table({"limit", "", "needed", "of"}, rows, bold, 2)) + "\n";
}

/// What to do about the surroundings, where settings of the job do not reach.
std::string remarks(const sim::Job& job, const sim::Fit& fit) {
  constexpr double kGib = 1073741824.0;
  std::string text;
  if (sim::is_gpu_at_risk(job, fit)) {
    text += fmt::format(
        "  GPU memory: PyTorch's allocator holds more than it has given out, a quarter in the mean "
        "where\n  there is room: that would be {}, and the GPU has {}. This job may run out of "
        "memory.\n  PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True wastes less.\n\n",
        sim::format_gib(sim::with_allocator(job, fit)),
        sim::format_gib(*fit.memory.limit(MemoryLimit::kGpu).capacity));
  }
  const auto loading = sim::loading_peak(job, fit);
  const double run = fit.memory.limit(MemoryLimit::kHost).need;
  if (loading && *loading > run) {
    text += fmt::format(
        "  RAM while loading: {} on the node if every rank reads all weights before DeepSpeed "
        "divides\n  them, more than the run needs; the files' pages in the cache besides, which "
        "the "
        "system gives\n  back.{}\n\n",
        sim::format_gib(*loading),
        sim::is_loading_at_risk(job, fit)
            ? " This job may be killed before its first step: load on one rank after the\n  other, "
              "or use stage 3, in which transformers divides weights as it reads them."
            : "");
  }
  const sim::LimitCheck& shared = fit.memory.limit(MemoryLimit::kShared);
  if (shared.need > 0) {
    text += fmt::format(
        "  /dev/shm: overlap_step keeps {} there. Containers get 64 MiB by default, and a full\n"
        "  /dev/shm ends a process by SIGBUS: docker run --shm-size={:.0f}g. To check another "
        "size:\n"
        "  --set hardware.host.shared_memory.value=\"64 MiB\"\n",
        sim::format_gib(shared.need), std::ceil(shared.need / kGib));
    const std::string assumed = assumption(job, MemoryLimit::kShared);
    if (!assumed.empty()) text += fmt::format("  The profile's size is an {}.\n", assumed);
    text += "\n";
  }
  const sim::LimitCheck& locked = fit.memory.limit(MemoryLimit::kLocked);
  if (!locked.holds()) {
    text += fmt::format(
        "  page-locked memory: ulimit -l of {} KiB or more. The CUDA driver usually pins outside "
        "this\n"
        "  limit; mlock, which DeepSpeed's NVMe buffers use, does not.\n\n",
        static_cast<std::int64_t>(std::ceil(locked.need / 1024)));
  }
  return text;
}

std::string change_table(const sim::Fit& fit, bool bold) {
  if (fit.memory.fits) return "";
  if (fit.changes.empty()) return "  No single setting that was tried helps.\n\n";
  std::string text;
  for (int i = 0; i < sim::kMemoryLimits; ++i) {
    Rows rows;
    for (const sim::FitChange& one : fit.changes) {
      if (one.limit != static_cast<MemoryLimit>(i)) continue;
      rows.push_back(
          {sim::change_text(one.set), sim::outcome_text(one), sim::format_gib(one.saves)});
    }
    if (rows.empty()) continue;
    const std::string what = "for " + sim::describe(static_cast<MemoryLimit>(i));
    text += indented(sim::format_table({what, "then", "saves"}, rows, bold, 2)) + "\n";
  }
  if (!fit.together) return text;
  text += fit.together->fits ? "  These fit together:\n" : "  All of these are not enough:\n";
  for (const std::string& set : fit.together->set) {
    text += fmt::format("    {}\n", sim::change_text(set));
  }
  return text + "\n";
}

std::string estimator_table(const sim::Fit& fit, bool bold) {
  std::string text;
  for (const sim::EstimatorComparison& one : fit.estimator) {
    Rows rows;
    rows.push_back(
        {fmt::format("DeepSpeed's estimate: {}", one.formula), sim::format_gib(one.estimate)});
    for (const auto& term : one.terms) {
      rows.push_back(
          {term.what, fmt::format("{}{}", term.bytes < 0 ? "" : "+", sim::format_gib(term.bytes))});
    }
    rows.push_back({"needed here", sim::format_gib(one.ours)});
    text += indented(sim::format_table(
                {one.place == MemoryPlace::kGpu ? "one GPU, against DeepSpeed's estimator"
                                                : "host, against DeepSpeed's estimator",
                 ""},
                rows, bold)) +
            "\n";
  }
  return text;
}

std::string time_table(const sim::Fit& fit, bool bold) {
  Rows rows;
  for (const sim::PartMemory& part : fit.over_time) {
    rows.push_back({std::to_string(part.step), sim::to_string(part.part),
                    sim::format_milliseconds(static_cast<double>(part.duration.count)),
                    sim::format_gib(part.gpu), sim::format_gib(part.host)});
  }
  return indented(
             sim::format_table({"step", "part", "ms", "GPU peak", "host peak"}, rows, bold, 2)) +
         "\n";
}

std::string as_text(const sim::Job& job, const sim::Fit& fit, bool over_time, bool bold) {
  std::string text = fmt::format(
      "{}: {}{}\n\n", fit.schedule, fit.memory.fits ? "fits" : "DOES NOT FIT",
      fit.chosen_interval ? fmt::format(" (update_interval auto chose {})", *fit.chosen_interval)
                          : "");
  text += gpu_table(fit, bold) + host_table(fit, bold) + nvme_table(fit, bold) +
          limit_table(job, fit, bold) + remarks(job, fit) + change_table(fit, bold) +
          estimator_table(fit, bold);
  return over_time ? text + time_table(fit, bold) : text;
}

std::string legend(const std::vector<sim::Fit>& fits) {
  std::vector<std::string> lines;
  for (const sim::Fit& fit : fits) {
    for (const sim::MemorySymbol& symbol : fit.symbols) {
      const bool fraction = symbol.value != std::floor(symbol.value);
      std::string line =
          fraction ? fmt::format("  {} = {:g}  {}\n", symbol.name, symbol.value, symbol.meaning)
                   : fmt::format("  {} = {:.0f}  {}\n", symbol.name, symbol.value, symbol.meaning);
      if (std::find(lines.begin(), lines.end(), line) == lines.end()) {
        lines.push_back(std::move(line));
      }
    }
  }
  std::string text;
  const bool unchecked = std::any_of(fits.begin(), fits.end(), [](const sim::Fit& fit) {
    const sim::LimitCheck& locked = fit.memory.limit(MemoryLimit::kLocked);
    return locked.need > 0 && !locked.capacity;
  });
  if (unchecked) {
    text =
        "The profile does not state host.locked_memory_limit (ulimit -l), so page-locked memory "
        "is\n"
        "not checked: --set hardware.host.locked_memory_limit='{value: 64 GiB, source: "
        "ulimit}'\n\n";
  }
  return text + fmt::format(
                    "Formulas are in bytes; symbols side by side are multiplied. Of the estimator: "
                    "T all GPUs, "
                    "n\n"
                    "nodes, L parameters of the largest module, f = 1.5.\n{}",
                    fmt::join(lines, ""));
}

}  // namespace

int fit_command(const CommonOptions& common, const FitOptions& options) {
  const LoadedJob loaded = load_job(common, common.scenarios.front());
  std::vector<sim::Fit> fits;
  for (const sim::Schedule* schedule : loaded.schedules) {
    if (signal_exit_code() != 0) break;
    if (!finishes([&] { fits.push_back(sim::fit(loaded.job, *schedule)); })) break;
  }
  std::string text = job_heading(loaded.job) + "\n";
  for (const sim::Fit& one : fits) {
    text += as_text(loaded.job, one, options.over_time, colored(common));
  }
  text += legend(fits);
  print(common.json ? sim::fit_json(loaded.job, fits, kVersion) : text);
  if (signal_exit_code() != 0) return signal_exit_code();
  const bool all_fit =
      std::all_of(fits.begin(), fits.end(), [](const sim::Fit& one) { return one.memory.fits; });
  return all_fit ? 0 : static_cast<int>(ErrorKind::kInfeasible);
}

}  // namespace zenflow::tools
