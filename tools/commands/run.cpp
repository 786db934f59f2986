#include <algorithm>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "sim/base/table.h"
#include "sim/graph/algorithms.h"
#include "sim/report/result_json.h"
#include "sim/simulate/simulated_timeline.h"
#include "sim/trace/chrome_trace.h"
#include "tools/commands/commands.h"
#include "tools/report_page.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

using sim::SimulationResult;

std::vector<std::string> result_row(const SimulationResult& one) {
  return {one.schedule,
          sim::format_milliseconds(one.step_time),
          sim::format_milliseconds(one.compute),
          sim::format_milliseconds(one.stall),
          sim::format_percent(one.compute / one.step_time),
          fmt::format("{:.3f}", one.model_sizes),
          fmt::format("{:.0f}", one.tokens_per_second),
          sim::format_percent(one.mfu),
          fmt::format("{}-{}", one.staleness.min, one.staleness.max),
          sim::format_gib(one.memory.gpu.total),
          sim::format_gib(one.memory.limit(sim::MemoryLimit::kHost).need),
          one.memory.fits ? "yes" : "NO"};
}

std::string stall_table(const std::vector<SimulationResult>& results, bool bold) {
  std::vector<std::string> header = {"stall by cause (ms)"};
  for (std::size_t i = 0; i < kStallCauses; ++i)
    header.emplace_back(name_of(static_cast<WaitCause>(i)));
  std::vector<std::vector<std::string>> rows;
  for (const SimulationResult& one : results) {
    std::vector<std::string> row = {one.schedule};
    for (const double stall : one.stall_by_cause) row.push_back(sim::format_milliseconds(stall));
    rows.push_back(std::move(row));
  }
  return sim::format_table(header, rows, bold);
}

/// "deepspeed-zenflow, micro steps (ms): 940.8 710.6 680.6 2165.1*", for schedules whose step times
/// differ.
std::string micro_steps(const std::vector<SimulationResult>& results) {
  constexpr std::size_t kShown = 16;
  std::string text;
  for (const SimulationResult& one : results) {
    if (!one.deepspeed_version || one.step_times.size() < 2) continue;
    text += one.schedule + ", micro steps (ms):";
    for (std::size_t i = 0; i < std::min(kShown, one.step_times.size()); ++i) {
      text += fmt::format(" {}{}", sim::format_milliseconds(one.step_times[i]),
                          one.is_boundary[i] ? "*" : "");
    }
    if (one.step_times.size() > kShown) {
      text += fmt::format(" ... ({} in all)", one.step_times.size());
    }
    text += "   * updates\n";
  }
  return text;
}

std::string notes(const sim::Job& job, const std::vector<SimulationResult>& results) {
  std::string text;
  for (const SimulationResult& one : results) {
    if (one.micro_steps > 1) text += optimizer_step_text(one);
    if (one.update_interval_is_auto) {
      text +=
          fmt::format("{}: update_interval auto chose {}{}\n", one.schedule, *one.update_interval,
                      one.stall_removed ? ""
                                        : fmt::format(", the largest within {} steps of staleness; "
                                                      "the GPU still waits for the CPU",
                                                      job.scenario.max_staleness));
    }
    if (one.memory.fits) continue;
    text += fmt::format("{}: does not fit:", one.schedule);
    for (int i = 0; i < sim::kMemoryLimits; ++i) {
      const auto limit = static_cast<sim::MemoryLimit>(i);
      const sim::LimitCheck& check = one.memory.limit(limit);
      if (check.holds()) continue;
      text += fmt::format(" {} {} of {};", sim::describe(limit), sim::format_gib(check.need),
                          sim::format_gib(*check.capacity));
    }
    text += " see zenflow-sim fit\n";
  }
  return text;
}

std::string tables(const sim::Job& job, const std::vector<SimulationResult>& results, bool bold) {
  const std::vector<std::string> header = {"schedule",  "step ms",    "GPU ms",      "stall ms",
                                           "GPU busy",  "PCIe/step",  "tokens/s",    "MFU",
                                           "staleness", "GPU memory", "host memory", "fits"};
  std::vector<std::vector<std::string>> rows;
  for (const SimulationResult& one : results) rows.push_back(result_row(one));
  std::string text = job_heading(job) + "\n" + sim::format_table(header, rows, bold) + "\n";
  text += stall_table(results, bold);
  const std::string steps = micro_steps(results);
  if (!steps.empty()) text += "\n" + steps;
  const std::string remarks = notes(job, results);
  if (!remarks.empty()) text += "\n" + remarks;
  return text +
         "\nPCIe/step: model sizes over all host links, both directions. Memory: peak of one GPU "
         "and of the node.\n";
}

/// With several schedules each needs a file of its own: x.json becomes x.zenflow.json.
std::filesystem::path path_for(const std::filesystem::path& path, const std::string& schedule,
                               bool only_one) {
  if (only_one) return path;
  std::filesystem::path stem = path;
  std::string extension = stem.extension().string();
  stem.replace_extension();
  if (extension == ".gz") {
    extension = stem.extension().string() + extension;
    stem.replace_extension();
  }
  stem += "." + schedule + extension;
  return stem;
}

std::string dot(const sim::Job& job, const sim::Schedule& schedule) {
  // Two windows show how the one hands over to the next; whole runs are unreadable.
  std::vector<sim::WindowShape> shapes = schedule.windows(job, 1);
  for (std::int64_t steps = 2; shapes.size() < 2; ++steps) shapes = schedule.windows(job, steps);
  shapes.resize(2);
  const sim::Program program = schedule.build(job, shapes);
  std::ostringstream out;
  sim::write_graphviz(out, program.graph, [&](sim::TaskId id) {
    const sim::TaskLabel& label = program.labels[id];
    return fmt::format("{} {}.{}", sim::task_name(job, label), label.step, label.index);
  });
  return out.str();
}

struct Output {
  std::filesystem::path path;
  const sim::Schedule* schedule;
};

std::vector<Output> outputs(const std::optional<std::filesystem::path>& path,
                            const LoadedJob& loaded, bool overwrite) {
  std::vector<Output> all;
  if (!path) return all;
  for (const sim::Schedule* schedule : loaded.schedules) {
    all.push_back(
        {path_for(*path, std::string(schedule->name()), loaded.schedules.size() == 1), schedule});
    check_output(all.back().path, overwrite);
  }
  return all;
}

void write_files(const LoadedJob& loaded, const std::vector<SimulationResult>& results,
                 const std::vector<Output>& traces, const std::vector<Output>& graphs,
                 const CommonOptions& common) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    const sim::Job fixed = results[i].update_interval_is_auto
                               ? sim::with_update_interval(loaded.job, *results[i].update_interval)
                               : loaded.job;
    if (!traces.empty()) {
      const sim::FullRun run = sim::simulate_fully(fixed, *traces[i].schedule);
      write_output(traces[i].path,
                   sim::chrome_trace(sim::simulated_timeline(fixed, results[i].schedule, run)),
                   common.overwrite);
      if (!common.quiet) complain("wrote " + traces[i].path.generic_string() + "\n");
    }
    if (!graphs.empty()) {
      write_output(graphs[i].path, dot(fixed, *graphs[i].schedule), common.overwrite);
      if (!common.quiet) complain("wrote " + graphs[i].path.generic_string() + "\n");
    }
  }
}

void write_page(const LoadedJob& loaded, const std::vector<SimulationResult>& results,
                const CommonOptions& common) {
  if (!common.report) return;
  sim::PageContent page{"run", loaded.job.scenario.name,
                        sim::result_json(loaded.job, results, kVersion)};
  for (std::size_t i = 0; i < results.size(); ++i) {
    page.runs.push_back(
        page_run(loaded.job, *loaded.schedules[i], results[i], results[i].schedule));
  }
  write_report(common.report, page, common.overwrite, common.quiet);
}

}  // namespace

int run_command(const CommonOptions& common, const RunOptions& options) {
  const LoadedJob loaded = load_job(common, common.scenarios.front());
  const std::vector<Output> traces = outputs(options.trace, loaded, common.overwrite);
  const std::vector<Output> graphs = outputs(options.dot, loaded, common.overwrite);
  if (options.trace && options.trace == options.dot) {
    throw Error(ErrorKind::kInput, "--trace and --dot name the same file");
  }
  std::vector<std::filesystem::path> others;
  for (const std::vector<Output>* all : {&traces, &graphs}) {
    for (const Output& one : *all) others.push_back(one.path);
  }
  check_report(common.report, common.overwrite, others);
  std::vector<SimulationResult> results;
  for (const sim::Schedule* schedule : loaded.schedules) {
    if (signal_exit_code() != 0) break;
    if (!finishes([&] { results.push_back(sim::simulate_schedule(loaded.job, *schedule)); })) break;
    if (common.verbose) {
      complain(fmt::format("{}: {} windows averaged, {} simulated, {} tasks a step\n",
                           results.back().schedule, results.back().measured_windows,
                           results.back().simulated_windows, results.back().tasks));
    }
  }
  print(common.json ? sim::result_json(loaded.job, results, kVersion)
                    : tables(loaded.job, results, colored(common)));
  if (signal_exit_code() != 0) return signal_exit_code();
  write_files(loaded, results, traces, graphs, common);
  write_page(loaded, results, common);
  return signal_exit_code();
}

}  // namespace zenflow::tools
