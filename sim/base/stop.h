/// Whether the user wants the program to end: what long loops ask, so that Ctrl-C ends each.
#pragma once

#include "sim/base/error.h"

namespace zenflow {

/// Thrown where a loop was left because of a signal.
class Stopped : public Error {
 public:
  Stopped() : Error(ErrorKind::kRuntime, "stopped by a signal") {}
};

/// Whom loops ask from now on; nullptr: nobody, they run to their end. A program sets it as long as
/// it has no partial results that an exception would lose. One for the process, because the loops
/// are below every interface. `is_asked` is called from any thread.
void set_stop_question(bool (*is_asked)()) noexcept;
[[nodiscard]] bool stop_asked() noexcept;
/// Throws Stopped if it is so.
void throw_if_stopped();

}  // namespace zenflow
