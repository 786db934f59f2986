#include <algorithm>
#include <cstddef>

#include "sim/base/median.h"
#include "sim/trace/analysis/trace_parts.h"
#include "sim/trace/import/rule_matcher.h"

namespace zenflow::sim {
namespace {

constexpr const char* kFirst = "the first";
constexpr const char* kEvaluation = "evaluation";
constexpr const char* kSaving = "saving";

const std::vector<std::string>& besides_patterns() {
  // RE2: without capturing. Recomputing of activations is called checkpointing as well.
  static const std::vector<std::string> kPatterns = {
      "(?i)(.*[^a-z])?(eval(uat(e|ing|ion))?|validat(e|ing|ion))([^a-z].*)?",
      "(?i)(.*[^a-z])?sav(e|ing)[^a-z]*(the[^a-z]*)?(model|checkpoint|state|ckpt).*|"
      "(?i)(.*[^a-z])?(checkpoint|ckpt)[^a-z]*sav(e|ing)([^a-z].*)?"};
  return kPatterns;
}

}  // namespace

void tell_steps_apart(const Timeline& timeline, std::vector<StepAnalysis>& steps) {
  constexpr std::size_t kFewest = 3;
  if (steps.size() < kFewest) return;
  MatchedNames names(timeline.names, besides_patterns());
  for (const TimelineSpan& span : timeline.spans) {
    if (kind_of(timeline, span) != SpanKind::kRange) continue;
    const int besides = names.first_match(span.name);
    // Nsight has a range for each of PyTorch's operators: autograd::engine::evaluate_function.
    if (besides < 0 || timeline.name_of(span).starts_with("autograd::")) continue;
    const auto behind = std::upper_bound(
        steps.begin(), steps.end(), span.start,
        [](Picoseconds time, const StepAnalysis& step) { return time < step.start; });
    if (behind == steps.begin()) continue;
    StepAnalysis& step = *std::prev(behind);
    if (span.start < step.start + step.duration) step.apart = besides == 0 ? kEvaluation : kSaving;
  }
  std::vector<double> others;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    others.push_back(static_cast<double>(steps[i].duration.count));
  }
  constexpr double kLonger = 1.25;
  if (static_cast<double>(steps.front().duration.count) > kLonger * median(others)) {
    steps.front().apart = kFirst;
  }
}

UsualMean usual_mean(const std::vector<StepAnalysis>& steps) {
  UsualMean found;
  double sum = 0;
  for (const StepAnalysis& step : steps) {
    if (!step.apart.empty()) continue;
    ++found.steps;
    sum += static_cast<double>(step.duration.count) / 1e9;
  }
  if (found.steps > 0) found.milliseconds = sum / static_cast<double>(found.steps);
  return found;
}

}  // namespace zenflow::sim
