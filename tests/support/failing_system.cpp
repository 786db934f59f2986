#include "tests/support/failing_system.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstddef>
#include <utility>

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

namespace zenflow::testing {
namespace {

struct Plan {
  bool is_active = false;
  int nth = 0;
  Failure failure = Failure::kError;
  int error = 0;
  bool has_failed = false;
  std::vector<std::string> calls;
};

Plan& plan() {
  static Plan instance;
  return instance;
}

/// Notes the call; whether it has to fail with errno set.
bool fails(const char* call) {
  Plan& current = plan();
  if (!current.is_active) return false;
  current.calls.emplace_back(call);
  if (static_cast<int>(current.calls.size()) != current.nth) return false;
  current.has_failed = true;
  if (current.failure == Failure::kKill) static_cast<void>(::raise(SIGKILL));
  if (current.failure == Failure::kShortWrite) return false;
  errno = current.error;
  return true;
}

std::size_t allowed(std::size_t count) {
  const Plan& current = plan();
  const bool is_short = current.is_active && current.failure == Failure::kShortWrite &&
                        current.nth > 0 && static_cast<int>(current.calls.size()) >= current.nth;
  return is_short ? std::min<std::size_t>(count, 1) : count;
}

}  // namespace

void plan_failure(int nth, Failure failure, int error) {
  plan() = {true, nth, failure, error, false, {}};
}

std::vector<std::string> end_of_plan() {
  plan().is_active = false;
  return std::exchange(plan().calls, {});
}

bool has_failed() {
  return plan().has_failed;
}

}  // namespace zenflow::testing

using zenflow::testing::allowed;
using zenflow::testing::fails;

extern "C" {

int __real_open(const char* path, int flags, ...);
ssize_t __real_write(int descriptor, const void* bytes, std::size_t count);
int __real_fsync(int descriptor);
int __real_close(int descriptor);
int __real_rename(const char* from, const char* to);
int __real_unlink(const char* path);

int __wrap_open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  return fails("open") ? -1 : __real_open(path, flags, mode);
}

ssize_t __wrap_write(int descriptor, const void* bytes, std::size_t count) {
  return fails("write") ? -1 : __real_write(descriptor, bytes, allowed(count));
}

int __wrap_fsync(int descriptor) {
  return fails("fsync") ? -1 : __real_fsync(descriptor);
}

// A descriptor is gone even if close reports an error.
int __wrap_close(int descriptor) {
  const bool is_failure = fails("close");
  const int error = errno;
  const int status = __real_close(descriptor);
  if (!is_failure) return status;
  errno = error;
  return -1;
}

int __wrap_rename(const char* from, const char* to) {
  return fails("rename") ? -1 : __real_rename(from, to);
}

int __wrap_unlink(const char* path) {
  return fails("unlink") ? -1 : __real_unlink(path);
}

}  // extern "C"
