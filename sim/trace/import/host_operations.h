/// What a host operation in a profiler's trace is good for, by name; each name is looked at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/trace/import/imported_trace.h"
#include "sim/trace/import/rule_matcher.h"
#include "sim/trace/name_table.h"

namespace zenflow::sim {

class HostOperations {
 public:
  explicit HostOperations(const ImportOptions& options);

  struct Facts {
    bool is_known = false;
    bool is_range = false;  ///< kept as a range though it is an operation: steps, optimizers
    int rule = -1;          ///< of TraceRules::phases by operation; -1: none
    std::uint64_t count = 0;
    Picoseconds time{};  ///< as far as 64 bits hold it
  };
  /// Valid until the next call. Python functions match no rule.
  [[nodiscard]] const Facts& facts_of(std::string_view name, bool is_python_function);
  /// Another one of the name that was looked at last took so long.
  void add_time(Picoseconds time);
  /// Of all names that times were added to, those with most, by time. Of a trace with more than a
  /// million names those since.
  [[nodiscard]] std::vector<OperatorTime> longest(std::size_t most) const;

 private:
  NamePatterns steps_;
  NamePatterns operations_;
  NameTable names_;
  std::vector<Facts> facts_;  // by name
  NameId last_ = kNoName;
};

}  // namespace zenflow::sim
