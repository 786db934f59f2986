#pragma once

#include <cstdlib>
#include <string_view>

namespace zenflow::testing {

/// Whether tests that simulate thousands of machines do so for all of them: `./script/test --all`
/// sets ZENFLOW_LONG_TESTS=1. Otherwise some of them.
inline bool long_tests() {
  const char* set = std::getenv("ZENFLOW_LONG_TESTS");
  return set != nullptr && std::string_view(set) == "1";
}

}  // namespace zenflow::testing
