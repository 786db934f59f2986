/// Runs a program as a user would and keeps what it said.
#pragma once

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/file_content.h"

namespace zenflow::testing {

using Arguments = std::vector<std::string>;

inline Arguments operator+(Arguments left, const Arguments& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

struct Outcome {
  int code = -1;      ///< exit status; -1 if a signal ended the program
  std::string out{};  ///< standard output
  std::string err{};  ///< standard error
};

struct Surroundings {
  std::filesystem::path folder;  ///< working directory; output is kept there too
  std::map<std::string, std::string> environment{};
  std::string standard_output{};  ///< a file to write to instead
  rlim_t largest_file = RLIM_INFINITY;
  unsigned interrupt_after_ms = 0;  ///< SIGINT after so long; 0: none
  bool own_process_group = false;   ///< so that SIGTSTP stops it wherever the test runs
};

inline void become(const std::vector<std::string>& command, const Surroundings& around,
                   const std::string& out, const std::string& err) {
  if (::chdir(around.folder.c_str()) != 0) ::_exit(125);
  if (around.own_process_group) {
    if (::setpgid(0, 0) != 0) ::_exit(125);
    std::signal(SIGTSTP, SIG_DFL);
  }
  const int out_file = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int err_file = ::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (::dup2(out_file, STDOUT_FILENO) < 0 || ::dup2(err_file, STDERR_FILENO) < 0) ::_exit(125);
  if (around.largest_file != RLIM_INFINITY) {
    const rlimit limit{around.largest_file, around.largest_file};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, SIG_IGN);  // so that writing fails instead
  }
  std::vector<char*> arguments;
  for (const std::string& one : command) arguments.push_back(const_cast<char*>(one.c_str()));
  arguments.push_back(nullptr);
  std::vector<std::string> variables = {"HOME=" + around.folder.string(), "LC_ALL=C",
                                        "PATH=/usr/bin:/bin"};
  for (const auto& [name, value] : around.environment) variables.push_back(name + "=" + value);
  std::vector<char*> environment;
  for (std::string& one : variables) environment.push_back(one.data());
  environment.push_back(nullptr);
  ::execve(arguments[0], arguments.data(), environment.data());
  ::_exit(126);
}

/// A program that runs beside the test. Killed, if it still runs, with this object.
class RunningProgram {
 public:
  /// `command[0]` is the program's path.
  RunningProgram(const std::vector<std::string>& command, const Surroundings& around)
      : out_(around.standard_output.empty() ? (around.folder / ".stdout").string()
                                            : around.standard_output),
        err_((around.folder / ".stderr").string()),
        keeps_out_(around.standard_output.empty()),
        child_(::fork()) {
    if (child_ == 0) become(command, around, out_, err_);
  }
  ~RunningProgram() {
    if (child_ <= 0) return;
    send(SIGKILL);
    (void)wait();
  }
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  [[nodiscard]] pid_t number() const { return child_; }
  /// Nothing happens to a program that has ended: its number is its own until `wait`.
  void send(int signal) const {
    if (child_ > 0) ::kill(child_, signal);
  }
  /// Whether the program has a handler of its own for the signal.
  [[nodiscard]] bool handles(int signal) const { return is_among("SigCgt:", signal); }
  /// Whether its main thread blocks it.
  [[nodiscard]] bool blocks(int signal) const { return is_among("SigBlk:", signal); }
  [[nodiscard]] bool has_ended() const {
    siginfo_t info{};
    return child_ <= 0 ||
           (::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == child_);
  }
  /// Polls until `reached` or the program has ended; false in the latter case.
  template <class Reached>
  [[nodiscard]] bool wait_until(Reached reached) const {
    while (!reached()) {
      if (has_ended()) return reached();
      ::usleep(500);
    }
    return true;
  }
  Outcome wait() {
    Outcome outcome;
    if (child_ <= 0) return outcome;
    int status = 0;
    while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = -1;
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcome.out = keeps_out_ ? file_content(out_) : "";
    outcome.err = file_content(err_);
    if (keeps_out_) std::filesystem::remove(out_);
    std::filesystem::remove(err_);
    return outcome;
  }

 private:
  /// Whether `signal` is in a set of signals in /proc/PID/status.
  [[nodiscard]] bool is_among(const std::string& key, int signal) const {
    std::ifstream status("/proc/" + std::to_string(child_) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with(key)) continue;
      return ((std::stoull(line.substr(key.size()), nullptr, 16) >> (signal - 1)) & 1U) != 0;
    }
    return false;
  }

  std::string out_;
  std::string err_;
  bool keeps_out_;
  pid_t child_;
};

/// `command[0]` is the program's path.
inline Outcome run_program(const std::vector<std::string>& command, const Surroundings& around) {
  RunningProgram program(command, around);
  if (around.interrupt_after_ms > 0) {
    ::usleep(1000 * around.interrupt_after_ms);
    program.send(SIGINT);
  }
  return program.wait();
}

}  // namespace zenflow::testing
