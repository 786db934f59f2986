/// What programs take from their environment: streams, colours, signals, defaults, exit codes.
#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"

namespace zenflow::tools {

/// Runs `body`; a thrown Error becomes its message on stderr and its kind's exit code, or the
/// signal's if one stopped it. Where stacks are limited to less than 8 MiB, `body` has a thread
/// with as much.
int run_program(const char* name, const std::function<int()>& body);

/// SIGINT and SIGTERM, and `more`, set a flag instead of ending the program, so that partial
/// results can be written. The libraries' long loops ask for it (sim/base/stop.h). SIGHUP stays
/// ignored under nohup.
void catch_signals(std::initializer_list<int> more = {});
/// Whether `work` came to its end; false: a signal stopped it, by an exception from some loop.
[[nodiscard]] bool finishes(const std::function<void()>& work);
/// As if SIGINT had come, or not any more: for callers that keep their signals.
void ask_to_stop(bool stop);
/// From now on SIGTSTP (Ctrl-Z, or a batch system that suspends jobs) does not stop this thread and
/// those that it makes at once: it is pending until something lets it (runtime::suspend_process).
/// Where it is ignored it stays so.
void delay_suspension();
/// Whether it is pending: SIGTSTP has come, and no SIGCONT since.
[[nodiscard]] bool suspension_asked();
/// 128 + the number of the signal caught, or 0.
[[nodiscard]] int signal_exit_code();
/// The kind's, or the signal's if one stopped what failed.
[[nodiscard]] int error_exit_code(const Error& error);

enum class ColorMode { kAuto, kAlways, kNever };
/// Whether `stream` gets colours: the mode, NO_COLOR, TERM and whether it is a terminal.
[[nodiscard]] bool use_color(ColorMode mode, std::FILE* stream);
[[nodiscard]] bool is_terminal(std::FILE* stream);
/// Of the terminal; 80 if it does not say, or is none.
[[nodiscard]] std::size_t columns_of(std::FILE* stream);

/// Values for options not given as flags: ZENFLOW_* variables, then the configuration file
/// ($XDG_CONFIG_HOME/zenflow/config.yaml, or the one named by --config).
class Defaults {
 public:
  /// Throws Error(kInput) if the file is named but unreadable, or has unknown keys.
  explicit Defaults(const std::optional<std::filesystem::path>& config);
  /// `option`: "profile", "color".
  [[nodiscard]] std::optional<std::string> value(const std::string& option) const;

 private:
  std::map<std::string, std::string> from_file_;
};

/// Whether standard output gets colours: by `color` ("auto", "always", "never"), or by the
/// defaults. Throws Error(kInput) for another word.
[[nodiscard]] bool colored_output(const std::optional<std::string>& color,
                                  const Defaults& defaults);

/// Where profiles are found for a scenario: beside its folder, here, and with the program.
[[nodiscard]] std::vector<std::filesystem::path> profile_directories(
    const std::filesystem::path& scenario);
/// The published runs that ship with the program (sim/accuracy/published_runs.h): here, or with it.
/// Throws Error(kInput) if they are not there.
[[nodiscard]] std::filesystem::path published_rows();
/// Folders with the model configurations that ship with the program.
[[nodiscard]] std::vector<std::filesystem::path> model_directories();

/// `text` if it is a date such as 2026-11-20, today's if it is empty.
/// Throws Error(kInput) "--date: ...".
[[nodiscard]] std::string date_or_today(const std::string& text);

/// All variables of the environment.
[[nodiscard]] std::map<std::string, std::string> environment_variables();

/// What programs print while it lives, in place of the streams: for callers within this process. Of
/// this thread, and of one that run_program makes for it.
class CapturedOutput {
 public:
  CapturedOutput();
  ~CapturedOutput();
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;
  [[nodiscard]] const std::string& out() const { return texts_.out; }
  [[nodiscard]] const std::string& err() const { return texts_.err; }

  struct Texts {
    std::string out;
    std::string err;
  };

 private:
  Texts texts_;
};

/// Writes to stdout, what controls terminals escaped (sim/base/text.h): names from files may have
/// it. Colours stay if colored_output said so. Throws Error(kRuntime) if that fails (a closed pipe,
/// a full disk).
void print(const std::string& text);
/// Writes to stderr, escaped likewise.
void complain(const std::string& text);
/// In place of the terminal's present line, as much of it as there is room for; an empty text
/// removes it. Escaped likewise.
void rewrite_line(const std::string& line);

}  // namespace zenflow::tools
