#pragma once

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "tests/support/sanitizers.h"

namespace zenflow::testing {

/// Whether tests that simulate thousands of machines do so for all of them: `./script/test --all`
/// sets ZENFLOW_LONG_TESTS=1. Otherwise some of them.
inline bool long_tests() {
  const char* set = std::getenv("ZENFLOW_LONG_TESTS");
  return set != nullptr && std::string_view(set) == "1";
}

/// How many of `all` cases that are drawn alike to try: a quarter with sanitizers, which look for
/// wrong accesses and not at results, unless tests may be long.
template <class Count>
Count tried(Count all) {
  return kSanitized && !long_tests() ? std::max(Count{1}, all / 4) : all;
}

}  // namespace zenflow::testing
