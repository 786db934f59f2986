#include "sim/trace/import/host_operations.h"

#include <algorithm>

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
  last_ = id;
  if (id >= facts_.size()) facts_.resize(names_.size());
  Facts& facts = facts_[id];
  if (facts.is_known) return facts;
  facts.is_known = true;
  facts.is_range = steps_.first_match(name) >= 0 || name.starts_with("ProfilerStep") ||
                   name.starts_with("Optimizer.step#") || name.starts_with("Optimizer.zero_grad#");
  facts.rule = is_python_function ? -1 : operations_.first_match(name);
  return facts;
}

void HostOperations::add_time(Picoseconds time) {
  Facts& facts = facts_[last_];
  ++facts.count;
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(facts.time.count, time.count, &sum)) facts.time.count = sum;
}

std::vector<OperatorTime> HostOperations::longest(std::size_t most) const {
  std::vector<NameId> names;
  for (NameId name = 0; name < facts_.size(); ++name) {
    if (facts_[name].count > 0) names.push_back(name);
  }
  std::stable_sort(names.begin(), names.end(),
                   [&](NameId a, NameId b) { return facts_[a].time > facts_[b].time; });
  std::vector<OperatorTime> found;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) {
    const Facts& facts = facts_[names[i]];
    found.push_back({names_[names[i]], facts.count, facts.time});
  }
  return found;
}

}  // namespace zenflow::sim
