#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

#include <fmt/format.h>

#include "sim/base/median.h"
#include "sim/trace/analysis/trace_parts.h"
#include "sim/trace/import/rule_matcher.h"
#include "sim/trace/span_names.h"

namespace zenflow::sim {
namespace {

constexpr const char* kFirst = "the first";
constexpr const char* kEvaluation = "evaluation";
constexpr const char* kSaving = "saving";
constexpr const char* kAhead = "the host ran ahead of the GPU";

const std::vector<std::string>& besides_patterns() {
  // RE2: without capturing. Recomputing of activations is called checkpointing as well.
  static const std::vector<std::string> kPatterns = {
      "(?i)(.*[^a-z])?(eval(uat(e|ing|ion))?|validat(e|ing|ion))([^a-z].*)?|"
      "(?i)(.*[^a-z])?(val|test)[^a-z](loop|step|epoch)([^a-z].*)?",
      "(?i)(.*[^a-z])?dcp[^a-z]*save([^a-z].*)?|"
      "(?i)(.*[^a-z])?sav(e|ing)[^a-z]*(the[^a-z]*)?(model|checkpoint|state|ckpt).*|"
      "(?i)(.*[^a-z])?(checkpoint|ckpt)[^a-z]*sav(e|ing)([^a-z].*)?"};
  return kPatterns;
}

/// Products of matrices of a step.
struct Products {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
};

/// By step.
std::vector<Products> products_of(const Timeline& timeline,
                                  const std::vector<StepAnalysis>& steps) {
  std::map<std::int64_t, std::size_t> places;
  for (std::size_t i = 0; i < steps.size(); ++i) places.emplace(steps[i].number, i);
  enum class Known : std::uint8_t { kNo, kProduct, kOther };
  std::vector<Known> names(timeline.names.size(), Known::kNo);
  std::vector<Products> found(steps.size());
  for (const TimelineSpan& span : timeline.spans) {
    const bool is_forward = span.phase == SpanPhase::kForward;
    if (!is_forward && span.phase != SpanPhase::kBackward) continue;
    if (kind_of(timeline, span) != SpanKind::kKernel) continue;
    Known& known = names[span.name];
    if (known == Known::kNo) {
      const std::string& name = timeline.name_of(span);
      known = is_product(name) || is_attention(name) ? Known::kProduct : Known::kOther;
    }
    if (known == Known::kOther) continue;
    const auto place = places.find(timeline.extra_of(span).step);
    if (place == places.end()) continue;
    ++(is_forward ? found[place->second].forward : found[place->second].backward);
  }
  return found;
}

/// Steps with products of a forward without a backward: who evaluates names no range after it.
void find_evaluations(const Timeline& timeline, std::vector<StepAnalysis>& steps) {
  const std::vector<Products> products = products_of(timeline, steps);
  std::vector<double> forwards;
  std::vector<double> backwards;
  for (const Products& one : products) {
    forwards.push_back(static_cast<double>(one.forward));
    backwards.push_back(static_cast<double>(one.backward));
  }
  constexpr double kMore = 1.1;
  const double forward = median(forwards);
  const double backward = median(backwards);
  if (forward == 0 || backward == 0) return;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool evaluates = forwards[i] > kMore * forward && backwards[i] <= backward;
    if (evaluates && steps[i].apart.empty()) steps[i].apart = kEvaluation;
  }
}

/// By ranges that are named so.
void find_named(const Timeline& timeline, std::vector<StepAnalysis>& steps) {
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
  // What every step has makes none of them another.
  const bool all = std::none_of(steps.begin(), steps.end(),
                                [](const StepAnalysis& step) { return step.apart.empty(); });
  if (!all) return;
  for (StepAnalysis& step : steps) step.apart.clear();
}

constexpr double kLonger = 1.25;

/// Where the host does not wait for the GPU, what it launches in a step runs in later ones: long
/// ones in which an evaluation ends are apart like it.
void find_late_evaluations(const Timeline& timeline, std::vector<StepAnalysis>& steps) {
  std::map<std::int64_t, Picoseconds> ends;  // of the GPU's work, by step
  for (const TimelineSpan& span : timeline.spans) {
    if (!is_gpu_work(kind_of(timeline, span))) continue;
    Picoseconds& end = ends[timeline.extra_of(span).step];
    end = std::max(end, span.end);
  }
  std::vector<double> durations;
  for (const StepAnalysis& step : steps) {
    if (step.apart.empty()) durations.push_back(static_cast<double>(step.duration.count));
  }
  if (durations.empty()) return;
  const double usual = median(durations);
  Picoseconds end;
  for (StepAnalysis& step : steps) {
    const bool is_long = static_cast<double>(step.duration.count) > kLonger * usual;
    const auto of_step = ends.find(step.number);
    if (step.apart == kEvaluation && of_step != ends.end()) {
      end = of_step->second;
    } else if (step.apart.empty() && is_long && step.start < end) {
      step.apart = kEvaluation;
    }
  }
}

}  // namespace

void tell_steps_apart(const Timeline& timeline, std::vector<StepAnalysis>& steps) {
  constexpr std::size_t kFewest = 3;
  if (steps.size() < kFewest) return;
  find_named(timeline, steps);
  find_evaluations(timeline, steps);
  find_late_evaluations(timeline, steps);
  std::vector<double> others;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    if (steps[i].apart.empty()) others.push_back(static_cast<double>(steps[i].duration.count));
  }
  if (others.empty()) return;
  const double usual = median(others);
  const auto duration = [&](std::size_t i) { return static_cast<double>(steps[i].duration.count); };
  if (steps.front().apart.empty() && duration(0) > kLonger * usual) steps.front().apart = kFirst;
  const bool has_gpu_work =
      std::any_of(timeline.spans.begin(), timeline.spans.end(),
                  [&](const TimelineSpan& span) { return is_gpu_work(kind_of(timeline, span)); });
  // Until it has to wait: the first steps end when their work is launched, not when it is done.
  for (std::size_t i = 0; has_gpu_work && 2 * i < steps.size(); ++i) {
    if (!steps[i].apart.empty()) continue;
    if (kLonger * duration(i) >= usual) break;
    steps[i].apart = kAhead;
  }
}

std::size_t steps_with_updates(const Timeline& timeline, const TraceRules& rules) {
  MatchedNames names(timeline.names, rules.optimizers);
  std::vector<bool> has_update(timeline.steps.size(), false);
  for (const TimelineSpan& span : timeline.spans) {
    const bool is_on_host = timeline.tracks[span.track].process >= 0;
    if (!is_on_host || kind_of(timeline, span) != SpanKind::kRange) continue;
    if (names.first_match(span.name) < 0) continue;
    const auto behind = std::upper_bound(
        timeline.steps.begin(), timeline.steps.end(), span.start,
        [](Picoseconds time, const TimelineStep& step) { return time < step.start; });
    if (behind == timeline.steps.begin() || span.start >= std::prev(behind)->end) continue;
    has_update[static_cast<std::size_t>(std::prev(behind) - timeline.steps.begin())] = true;
  }
  return static_cast<std::size_t>(std::count(has_update.begin(), has_update.end(), true));
}

std::string apart_text(const std::vector<StepAnalysis>& steps) {
  constexpr std::size_t kMost = 5;
  std::string text;
  std::size_t shown = 0;
  for (const StepAnalysis& step : steps) {
    if (step.apart.empty() || ++shown > kMost) continue;
    text += fmt::format("{} step {} ({}, {:.3f} ms)", shown == 1 ? ", without" : ",", step.number,
                        step.apart, to_milliseconds(step.duration));
  }
  if (shown > kMost) text += fmt::format(" and {} further ones", shown - kMost);
  return text;
}

UsualMean usual_interval(const std::vector<StepAnalysis>& steps) {
  UsualMean found;
  double sum = 0;
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    if (!steps[i].apart.empty()) continue;
    ++found.steps;
    sum += to_milliseconds(steps[i + 1].start - steps[i].start);
  }
  if (found.steps > 0) found.milliseconds = sum / static_cast<double>(found.steps);
  return found;
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
