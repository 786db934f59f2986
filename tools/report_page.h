/// --report of the programs: a result as one HTML file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/page/page.h"
#include "sim/simulate/simulation.h"

namespace CLI {
class App;
}

namespace zenflow::tools {

/// The flag, which writes `file`.
void add_report_option(CLI::App& command, std::optional<std::filesystem::path>& file);

/// Before any work whose result would be lost: that the page can be made, and its file written,
/// which is none of `others`, what the program writes besides. Throws Error(kInput).
void check_report(const std::optional<std::filesystem::path>& file, bool overwrite,
                  const std::vector<std::filesystem::path>& others = {});

/// Writes the page if one was asked for, and says so on standard error unless `quiet`.
void write_report(const std::optional<std::filesystem::path>& file, const sim::PageContent& content,
                  bool overwrite, bool quiet);

/// The whole run that `result` is the average of, to be drawn. `job` is the one that was simulated.
[[nodiscard]] sim::PageRun page_run(const sim::Job& job, const sim::Schedule& schedule,
                                    const sim::SimulationResult& result, const std::string& label);

}  // namespace zenflow::tools
