/// The one way in which readers may refuse.
#pragma once

#include <string_view>

#include "sim/base/error.h"
#include "tests/fuzz/require.h"

namespace zenflow::fuzz {

/// Whether `read` took what it read. An error has to be one of input, in one line.
template <class Read>
bool is_taken(const Read& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kInput, "what is bad is bad input");
    const std::string_view what = error.what();
    require(!what.empty(), "an error says what is wrong");
    return false;
  }
}

}  // namespace zenflow::fuzz
