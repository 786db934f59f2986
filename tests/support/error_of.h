/// What an action throws.
#pragma once

#include <string>
#include <utility>

#include "sim/base/error.h"

namespace zenflow::testing {

/// Kind and message of the Error that `action` throws; an empty message if it throws none.
template <class Action>
std::pair<ErrorKind, std::string> error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  return {ErrorKind::kTolerance, ""};
}

}  // namespace zenflow::testing
