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
  };
  /// Valid until the next call. Python functions match no rule.
  [[nodiscard]] const Facts& facts_of(std::string_view name, bool is_python_function);

 private:
  NamePatterns steps_;
  NamePatterns operations_;
  NameTable names_;
  std::vector<Facts> facts_;  // by name
};

}  // namespace zenflow::sim
