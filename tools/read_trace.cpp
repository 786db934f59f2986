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

namespace zenflow::tools {
namespace {

/// Percent on a terminal; ends the import when a signal has come.
class Progress {
 public:
  Progress(std::string file, bool is_shown)
      : file_(std::move(file)), is_shown_(is_shown && is_terminal(stderr)) {}
  ~Progress() {
    if (percent_ >= 0) rewrite_line("");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::uint64_t done, std::uint64_t total) {
    if (signal_exit_code() != 0)
      throw Error(ErrorKind::kRuntime, file_ + ": stopped while reading");
    if (!is_shown_ || total == 0) return;
    const int percent =
        static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(total));
    if (percent == percent_) return;
    percent_ = percent;
    rewrite_line(fmt::format("reading {}: {} %", file_, percent));
  }

 private:
  std::string file_;
  bool is_shown_;
  int percent_ = -1;
};

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
  Progress progress(name, shows_progress);
  how.progress = [&](std::uint64_t done, std::uint64_t total) { progress.show(done, total); };
  sim::ImportedTrace trace = sim::import_trace(file, how);
  if (!how.steps.empty()) require_steps(trace, name, how.steps);
  return trace;
}

}  // namespace zenflow::tools
