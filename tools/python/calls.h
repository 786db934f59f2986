/// The programs for other languages: one call, with what it prints. C, so that any version of any
/// interpreter can load it.
#pragma once

#include "tools/programs.h"

extern "C" {

/// Runs zenflow-sim or zenflow-tune within this process, with `arguments` as their command line has
/// them, and returns the exit code. `out` and `err` become what it prints, to be given to
/// zenflow_free. May be called from any thread, and from several at once. Signals stay the
/// caller's.
ZENFLOW_SHOWN int zenflow_call(const char* program, int count, const char* const* arguments,
                               char** out, char** err);
ZENFLOW_SHOWN void zenflow_free(char* text);
/// With 1 all calls end soon, with exit code 130, until it is called with 0.
ZENFLOW_SHOWN void zenflow_stop(int stop);
}
