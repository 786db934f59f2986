/// Processes that are suspended by SIGTSTP, and told to go on.
///
/// It stops nobody whose process group is orphaned, as one that a job runner begins may be.
#pragma once

#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

namespace zenflow::testing {

/// Whether a process is stopped by a signal, by /proc.
inline bool is_suspended(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(stat, text);
  const std::size_t name_end = text.rfind(") ");  // the name may have any character
  return name_end != std::string::npos && text[name_end + 2] == 'T';
}

/// In a process group of its own, with a parent in another one, SIGTSTP stops this process,
/// wherever the test runs.
inline void become_suspendable() {
  ::setpgid(0, 0);
  std::signal(SIGTSTP, SIG_DFL);
}

/// SIGTSTP, which this thread and those that it makes do not take before they are told to.
inline void ask_for_suspension() {
  sigset_t suspension;
  sigemptyset(&suspension);
  sigaddset(&suspension, SIGTSTP);
  ::pthread_sigmask(SIG_BLOCK, &suspension, nullptr);
  ::kill(::getpid(), SIGTSTP);
}

/// Another process that waits until this one is suspended, and `pause` later tells it to go on.
class Waker {
 public:
  explicit Waker(std::chrono::milliseconds pause) : sleeper_(::getpid()), child_(::fork()) {
    if (child_ != 0) return;
    while (!is_suspended(sleeper_)) {
      if (::getppid() != sleeper_) ::_exit(1);
      ::usleep(200);
    }
    std::this_thread::sleep_for(pause);
    ::kill(sleeper_, SIGCONT);
    ::_exit(0);
  }
  /// Even if this process was never suspended.
  ~Waker() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

 private:
  pid_t sleeper_;
  pid_t child_;
};

}  // namespace zenflow::testing
