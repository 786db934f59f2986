/// The system calls that write files, made to fail on request. Tests that have their linker wrap
/// these calls (tests/runtime_data.cmake) get those of failing_system.cpp.
#pragma once

#include <string>
#include <vector>

namespace zenflow::testing {

/// What the call does that the plan is about.
enum class Failure {
  kError,       ///< fails with `error`; only the n-th
  kKill,        ///< the process is killed before it happens
  kShortWrite,  ///< from the n-th on, writes take one byte only
};

/// Counts calls from now on; the `nth` (from 1, 0 for none) and `failure` say what happens.
void plan_failure(int nth, Failure failure, int error);

/// Ends the plan; the calls since it began, by name.
std::vector<std::string> end_of_plan();

/// Whether the planned call came.
bool has_failed();

}  // namespace zenflow::testing
