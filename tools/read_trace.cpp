#include "tools/read_trace.h"

#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "sim/trace/import/import_trace.h"
#include "tools/environment.h"
#include "tools/progress_line.h"

namespace zenflow::tools {
namespace {

void require_steps(const sim::ImportedTrace& trace, const std::string& file,
                   const std::string& pattern) {
  if (trace.step_source == sim::StepSource::kPattern) return;
  if (trace.step_source == sim::StepSource::kTimers) {
    throw Error(ErrorKind::kInput, file + ": --steps: a log's steps are its timers' records");
  }
  constexpr std::size_t kShown = 5;
  std::set<std::string_view> names;
  for (const sim::TimelineSpan& span : trace.timeline.spans) {
    if (span.kind == sim::SpanKind::kRange) names.insert(trace.timeline.name_of(span));
    if (names.size() > kShown) break;
  }
  const bool are_more = names.size() > kShown;
  if (are_more) names.erase(std::prev(names.end()));
  throw Error(ErrorKind::kInput,
              fmt::format("{}: --steps: expected an expression that the whole name of a range "
                          "matches, found '{}'; {}{}{}",
                          file, pattern, names.empty() ? "there are no ranges" : "ranges are ",
                          fmt::join(names, ", "), are_more ? ", ..." : ""));
}

}  // namespace

sim::ImportedTrace read_trace(const std::filesystem::path& file, sim::ImportOptions how,
                              bool shows_progress) {
  const std::string name = file.generic_string();
  ProgressLine progress(shows_progress);
  how.progress = [&](std::uint64_t done, std::uint64_t total) {
    if (signal_exit_code() != 0) throw Error(ErrorKind::kRuntime, name + ": stopped while reading");
    if (total == 0) return;
    const auto read = static_cast<double>(done);
    const auto all = static_cast<double>(total);
    progress.show(fmt::format("{:.0f} % read", 100 * read / all), read, all, name);
  };
  sim::ImportedTrace trace = sim::import_trace(file, how);
  if (!how.steps.empty()) require_steps(trace, name, how.steps);
  return trace;
}

}  // namespace zenflow::tools
