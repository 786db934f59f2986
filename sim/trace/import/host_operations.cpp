#include "sim/trace/import/host_operations.h"

namespace zenflow::sim {
namespace {

std::vector<std::string> operation_patterns(const TraceRules& rules) {
  std::vector<std::string> patterns;
  for (const PhaseRule& rule : rules.phases) patterns.push_back(rule.operation);
  return patterns;
}

}  // namespace

HostOperations::HostOperations(const ImportOptions& options)
    : steps_({options.steps}), operations_(operation_patterns(options.rules)) {}

const HostOperations::Facts& HostOperations::facts_of(std::string_view name,
                                                      bool is_python_function) {
  constexpr std::size_t kMostNames = 1'000'000;
  if (names_.size() > kMostNames) {
    names_ = {};
    facts_.clear();
  }
  const NameId id = names_.intern(name);
  if (id >= facts_.size()) facts_.resize(names_.size());
  Facts& facts = facts_[id];
  if (facts.is_known) return facts;
  facts.is_known = true;
  facts.is_range = steps_.first_match(name) >= 0 || name.starts_with("ProfilerStep") ||
                   name.starts_with("Optimizer.step#") || name.starts_with("Optimizer.zero_grad#");
  facts.rule = is_python_function ? -1 : operations_.first_match(name);
  return facts;
}

}  // namespace zenflow::sim
