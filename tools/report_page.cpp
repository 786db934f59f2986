#include "tools/report_page.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "sim/simulate/simulated_timeline.h"
#include "tools/environment.h"

namespace zenflow::tools {

void add_report_option(CLI::App& command, std::optional<std::filesystem::path>& file) {
  command.add_option("--report", file,
                     "write the result as a page, one HTML file that needs no network: figures, "
                     "timelines and tables");
}

void check_report(const std::optional<std::filesystem::path>& file, bool overwrite,
                  const std::vector<std::filesystem::path>& others) {
  if (!file) return;
  const auto whole = [](const std::filesystem::path& path) {
    std::error_code unknown;  // is said where the file is written
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, unknown), unknown);
  };
  for (const std::filesystem::path& other : others) {
    if (other.empty() || whole(other) != whole(*file)) continue;
    throw Error(ErrorKind::kInput, fmt::format("--report: {}: is written by this command besides",
                                               file->generic_string()));
  }
  sim::check_charts();
  check_output(*file, overwrite);
}

void write_report(const std::optional<std::filesystem::path>& file, const sim::PageContent& content,
                  bool overwrite, bool quiet) {
  if (!file) return;
  write_output(*file, sim::page_html(content), overwrite);
  if (!quiet) complain("wrote " + file->generic_string() + "\n");
}

sim::PageRun page_run(const sim::Job& job, const sim::Schedule& schedule,
                      const sim::SimulationResult& result, const std::string& label) {
  const sim::Job fixed = result.update_interval_is_auto
                             ? sim::with_update_interval(job, *result.update_interval)
                             : job;
  const sim::FullRun run = sim::simulate_fully(fixed, schedule);
  return {label, sim::simulated_timeline(fixed, result.schedule, run),
          sim::memory_courses(run, result.memory)};
}

}  // namespace zenflow::tools
