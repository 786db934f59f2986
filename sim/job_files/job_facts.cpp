#include "sim/job_files/job_facts.h"

#include <algorithm>
#include <memory>

#include "sim/base/text.h"

namespace zenflow::sim {

bool JobFacts::add(JobFact fact) {
  if (find(fact.path) != nullptr) return false;
  facts_.push_back(std::move(fact));
  return true;
}

void JobFacts::assume(std::string path, std::string value, const std::string& by) {
  add({std::move(path), std::move(value), source_named("default of " + by), false});
}

void JobFacts::estimate(std::string path, std::string value, const std::string& why) {
  add({std::move(path), std::move(value), source_named(why), true});
}

std::optional<JobFact> JobFacts::take(std::string_view path) {
  const JobFact* const fact = find(path);
  if (fact == nullptr) return std::nullopt;
  JobFact taken = *fact;
  facts_.erase(facts_.begin() + (fact - facts_.data()));
  return taken;
}

void JobFacts::replace(std::string_view path, std::string value, const Location& source) {
  for (JobFact& fact : facts_) {
    if (fact.path != path) continue;
    fact.value = std::move(value);
    fact.source = source;
    fact.is_estimate = false;
  }
}

const JobFact* JobFacts::find(std::string_view path) const {
  const auto at = std::find_if(facts_.begin(), facts_.end(),
                               [path](const JobFact& fact) { return fact.path == path; });
  return at == facts_.end() ? nullptr : &*at;
}

std::string JobFacts::value_or(std::string_view path, std::string_view otherwise) const {
  const JobFact* const fact = find(path);
  return fact != nullptr ? fact->value : std::string(otherwise);
}

Location source_named(std::string name) {
  Location source;
  source.file = std::make_shared<const std::string>(std::move(name));
  return source;
}

}  // namespace zenflow::sim
