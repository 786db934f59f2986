#include "tools/commands/traced_process.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/base/error.h"
#include "tools/environment.h"

namespace zenflow::tools {
namespace {

constexpr std::array kForwarded = {SIGINT, SIGTERM};
constexpr int kSignalBase = 128;

std::atomic<pid_t> child{0};
static_assert(std::atomic<pid_t>::is_always_lock_free, "read in a signal handler");

extern "C" void pass_on(int number, siginfo_t* info, void*) {
  const int error = errno;
  const pid_t to = child.load();
  // The kernel sends a terminal's signals, to this process and the command alike.
  if (to > 0 && info->si_code != SI_KERNEL) ::kill(to, number);
  errno = error;
}

/// Signals are passed on as long as this lives.
class Forwarding {
 public:
  explicit Forwarding(pid_t to) {
    child.store(to);
    for (std::size_t i = 0; i < kForwarded.size(); ++i) {
      struct sigaction action {};
      action.sa_sigaction = pass_on;
      action.sa_flags = SA_SIGINFO | SA_RESTART;
      ::sigaction(kForwarded[i], &action, &before_[i]);
    }
    // One that came before this.
    if (const int code = signal_exit_code(); code != 0) ::kill(to, code - kSignalBase);
  }
  ~Forwarding() {
    child.store(0);
    for (std::size_t i = 0; i < kForwarded.size(); ++i) {
      ::sigaction(kForwarded[i], &before_[i], nullptr);
    }
  }
  Forwarding(const Forwarding&) = delete;
  Forwarding& operator=(const Forwarding&) = delete;

 private:
  std::array<struct sigaction, kForwarded.size()> before_{};
};

/// Pointers as exec takes them; `texts` outlives them.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& variables) {
  std::set<std::string> replaced;
  std::vector<std::string> all;
  for (const auto& [name, value] : variables) {
    replaced.insert(name);
    all.push_back(name + "=" + value);
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!replaced.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  return all;
}

pid_t spawn(const std::vector<std::string>& command,
            const std::vector<std::pair<std::string, std::string>>& variables) {
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  // What this program ignores or catches, the command starts out with as usual.
  sigset_t usual;
  ::sigemptyset(&usual);
  for (const int number : {SIGINT, SIGTERM, SIGPIPE}) ::sigaddset(&usual, number);
  ::posix_spawnattr_setsigdefault(&attributes, &usual);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> arguments = command;
  std::vector<std::string> environment = environment_with(variables);
  pid_t process = 0;
  const int error = ::posix_spawnp(&process, command.front().c_str(), nullptr, &attributes,
                                   pointers(arguments).data(), pointers(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    throw Error(ErrorKind::kInput,
                fmt::format("cannot run {}: {}", command.front(), std::strerror(error)));
  }
  return process;
}

}  // namespace

int run_traced(const std::vector<std::string>& command,
               const std::vector<std::pair<std::string, std::string>>& variables) {
  const pid_t process = spawn(command, variables);
  const Forwarding forwarding(process);
  int status = 0;
  while (::waitpid(process, &status, 0) < 0) {
    if (errno != EINTR) {
      throw Error(ErrorKind::kRuntime,
                  fmt::format("cannot wait for {}: {}", command.front(), std::strerror(errno)));
    }
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalBase + WTERMSIG(status);
}

}  // namespace zenflow::tools
