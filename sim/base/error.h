/// The one exception type. Library code throws it; only `tools/` catches it.
#pragma once

#include <stdexcept>
#include <string>

namespace zenflow {

/// Who has to act on the failure; the value is the exit code of the programs.
enum class ErrorKind {
  kRuntime = 1,     ///< failed while running (disk full, broken invariant)
  kInput = 2,       ///< bad usage, configuration or input file
  kInfeasible = 3,  ///< does not fit, no candidate
  kTolerance = 4,   ///< measured outside tolerance
  kDevice = 5,      ///< a GPU was asked for and is not usable
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}
  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace zenflow
