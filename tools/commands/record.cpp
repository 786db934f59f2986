#include "tools/commands/record.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "runtime/trace/cupti/activity_file.h"
#include "runtime/trace/cupti/activity_timeline.h"
#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "sim/base/stop.h"
#include "sim/base/temporary_folder.h"
#include "sim/trace/chrome_trace.h"
#include "tools/commands/traced_process.h"
#include "tools/environment.h"

namespace zenflow::tools {
namespace {

namespace fs = std::filesystem;
using Variables = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kInjection = "CUDA_INJECTION64_PATH";
constexpr const char* kNvtxInjection = "NVTX_INJECTION64_PATH";

void say(const std::string& line) {
  complain(fmt::format("zenflow-calibrate: {}\n", line));
}

bool is_set(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0';
}

/// The library beside this program, or where it is installed to; empty if this build has none.
fs::path injected_library() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& place : {folder, folder.parent_path() / "lib" / "zenflow-sim"}) {
    const fs::path library = place / "libzenflow_inject.so";
    if (!error && fs::exists(library, error)) return library;
  }
  return {};
}

/// What the command needs to be traced; `untraced` is why it will not be.
Variables tracing_variables(const RecordOptions& options, const fs::path& prefix,
                            std::string& untraced) {
  if (is_set(kInjection)) {
    untraced = fmt::format("{} is set: another tool traces this command", kInjection);
    return {};
  }
  const fs::path library = injected_library();
  if (library.empty()) {
    untraced = "libzenflow_inject.so is not with this program: it was built without CUDA";
    return {};
  }
  Variables variables = {{kInjection, library.string()}, {"ZENFLOW_RECORD_OUT", prefix.string()}};
  if (options.low_overhead) variables.emplace_back("ZENFLOW_RECORD_LOW_OVERHEAD", "1");
  if (options.buffers) {
    variables.emplace_back("ZENFLOW_RECORD_BUFFERS", std::to_string(*options.buffers));
  }
  // NVTX hands its ranges to the library named here, which passes them to the CUPTI that it found.
  if (!options.low_overhead && !is_set(kNvtxInjection)) {
    variables.emplace_back(kNvtxInjection, library.string());
  }
  return variables;
}

std::vector<runtime::ActivityLog> recordings(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<runtime::ActivityLog> logs;
  for (const fs::path& file : files) {
    try {
      logs.push_back(runtime::read_activity_file(file));
    } catch (const Error& error) {  // killed at its very start, or a full disk: others are kept
      say(fmt::format("a process's recording cannot be used: {}", error.what()));
    }
  }
  return logs;
}

/// "trace.json.gz" becomes "trace.4711.json.gz".
fs::path output_of(const fs::path& output, std::uint32_t process) {
  std::string name = output.filename().string();
  const std::size_t extension = std::min(name.find('.', 1), name.size());
  name.insert(extension, fmt::format(".{}", process));
  return output.parent_path() / name;
}

std::string lost(const runtime::ActivityLog& log, const runtime::TimelineReport& report) {
  std::string text;
  const auto add = [&text](std::uint64_t count, const char* what) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  };
  add(log.losses.dropped_by_cupti, "dropped by CUPTI (no buffer)");
  add(report.incomplete, "incomplete");
  add(report.before_launch, "begun before their launch");
  add(report.outside_session, "with times outside the session");
  add(report.unmatched_ranges, "NVTX ranges without an end or a start");
  add(log.losses.unknown_kinds, "of unknown kind");
  add(log.losses.cut_records, "cut off");
  return text;
}

void describe(const fs::path& output, const runtime::ActivityLog& log,
              const runtime::TimelineReport& report) {
  say(fmt::format(
      "{}: process {}: {} kernels, {} copies, {} memsets, {} calls, {} "
      "synchronisations, {} ranges in {:.3f} s",
      output.string(), log.process, report.kernels, report.copies, report.memsets, report.calls,
      report.synchronizations, report.ranges, to_seconds(report.duration).value()));
  const std::string missing = lost(log, report);
  say(fmt::format("{}: records lost: {}", output.string(), missing.empty() ? "none" : missing));
  if (log.losses.refused_buffers + log.losses.emergency_buffers > 0) {
    say(fmt::format("{}: the buffers ran out {} times; give more with --buffers", output.string(),
                    log.losses.refused_buffers + log.losses.emergency_buffers));
  }
  if (report.overhead.count > 0 && report.duration.count > 0) {
    say(fmt::format(
        "{}: CUPTI's own overhead, summed over threads: {:.3f} ms, {:.2f} % of the time",
        output.string(), to_milliseconds(report.overhead),
        100.0 * static_cast<double>(report.overhead.count) /
            static_cast<double>(report.duration.count)));
  }
  if (!log.complete) {
    say(fmt::format("{}: the process was killed: what CUPTI had not delivered is missing",
                    output.string()));
  }
  for (const std::string& note : log.notes) say(fmt::format("{}: {}", output.string(), note));
}

/// Writes the traces and returns how many.
int convert(const RecordOptions& options, const std::vector<runtime::ActivityLog>& logs) {
  const auto is_traced = [](const runtime::ActivityLog& log) { return log.untraced.empty(); };
  const auto traced = std::count_if(logs.begin(), logs.end(), is_traced);
  for (const runtime::ActivityLog& log : logs) {
    if (!is_traced(log)) {
      say(fmt::format("process {} was not traced: {}", log.process, log.untraced));
      continue;
    }
    const fs::path output = traced == 1 ? options.output : output_of(options.output, log.process);
    const runtime::MeasuredTimeline measured = runtime::measured_timeline(log);
    write_output(output, sim::chrome_trace(measured.timeline), options.overwrite);
    if (!options.quiet) describe(output, log, measured.report);
  }
  return static_cast<int>(traced);
}

}  // namespace

int record_command(const RecordOptions& options) {
  if (options.command.empty()) {
    throw Error(ErrorKind::kInput, "expected a command after --, found none");
  }
  check_output(options.output, options.overwrite);
  const fs::path parent =
      options.output.has_parent_path() ? options.output.parent_path() : fs::path(".");
  const auto folder = TemporaryFolder::make(parent / ".zenflow-record-");
  if (!folder) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: cannot make a folder: {}", parent.string(), std::strerror(errno)));
  }
  std::string untraced;
  const Variables variables = tracing_variables(options, folder->path() / "process", untraced);
  const int code = run_traced(options.command, variables);
  // Ctrl-C ends the command, and what was recorded until then is kept.
  set_stop_question(nullptr);
  const std::vector<runtime::ActivityLog> logs = recordings(folder->path());
  if (convert(options, logs) > 0) return code;
  if (untraced.empty() && logs.empty()) {
    untraced = "no process of the command started CUDA (no driver here, or CUDA was not used)";
  }
  say(untraced.empty() ? "untraced; no trace was written"
                       : fmt::format("untraced: {}; no trace was written", untraced));
  if (options.require_trace && code == 0) return static_cast<int>(ErrorKind::kDevice);
  return code;
}

void add_record(CLI::App& app, std::function<int()>& chosen) {
  CLI::App* record = app.add_subcommand(
      "record", "trace any CUDA program: record [options] -- COMMAND [ARGUMENTS]");
  record->footer(
      "The command's exit code is passed on. It runs in any case; without a GPU, or with CUPTI "
      "held "
      "by another tool, it runs untraced, which is said.");
  const auto options = std::make_shared<RecordOptions>();
  record->add_option("command", options->command, "command to run, after --")->required();
  record->positionals_at_end();
  record->add_option("-o,--output", options->output, "the trace to write; .gz compresses")
      ->capture_default_str();
  record->add_flag("--low-overhead,--low_overhead", options->low_overhead,
                   "record kernels, copies and memsets only: no calls, no NVTX ranges");
  record->add_option("--buffers", options->buffers, "how many buffers of 4 MiB each process has")
      ->check(CLI::Range(2, 1024));
  record->add_flag("--require-trace,--require_trace", options->require_trace,
                   "exit with 5 if nothing was traced");
  record->add_flag("-f,--overwrite", options->overwrite, "overwrite the trace");
  record->add_flag("-q,--quiet", options->quiet, "do not say what was recorded");
  record->callback([options, &chosen] { chosen = [options] { return record_command(*options); }; });
}

}  // namespace zenflow::tools
