/// The one way in which readers may refuse.
#pragma once

#include <string>

#include "sim/base/error.h"
#include "tests/fuzz/require.h"

namespace zenflow::fuzz {

/// Whether `read` took what it read. An error has to be one of input.
template <class Read>
bool is_taken(const Read& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    const std::string what = error.what();
    require(error.kind() == ErrorKind::kInput, "what is bad is bad input, not: " + what);
    require(!what.empty(), "an error says what is wrong");
    return false;
  }
}

}  // namespace zenflow::fuzz
