/// How fuzz targets say that something does not hold.
#pragma once

#include <stdexcept>
#include <string>

namespace zenflow::fuzz {

/// A broken invariant. libFuzzer reports it as an uncaught exception, the replay as a failure.
inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error("broken: " + what);
}

}  // namespace zenflow::fuzz
