#include "tools/train/event_log.h"

#include <functional>
#include <string>
#include <utility>

namespace zenflow::tools {
namespace {

/// Calls both, the one that is there already first.
template <class... Given>
void follow(std::function<void(Given...)>& present, std::function<void(Given...)> more) {
  present = [first = std::move(present), then = std::move(more)](Given... given) {
    if (first) first(given...);
    then(given...);
  };
}

}  // namespace

void EventLog::join(runtime::TrainEvents& events) {
  follow(events.begins,
         {[this](const runtime::RunFacts& facts) { file_.emplace(folder_, facts.first_step); }});
  follow(events.step,
         {[this](const runtime::StepResult& step, const runtime::StepTimes& times,
                 double tokens_per_second) { add_step(step, times, tokens_per_second); }});
  follow(events.validation,
         {[this](const runtime::Validation& validation) { add_validation(validation); }});
}

void EventLog::add_step(const runtime::StepResult& step, const runtime::StepTimes& times,
                        double tokens_per_second) {
  constexpr double kMilliseconds = 1e3;
  add(step.step + 1, {{"train/loss", step.loss},
                      {"train/learning_rate", rate_.at(step.step)},
                      {"train/grad_norm", step.gradient_norm},
                      {"train/tokens_per_second", tokens_per_second},
                      {"train/step_time_ms", kMilliseconds * times.total},
                      {"train/stall_ms", kMilliseconds * (times.total - times.compute)},
                      {"train/update_interval", static_cast<double>(step.window_steps)}});
}

void EventLog::add_validation(const runtime::Validation& validation) {
  std::vector<std::string> tags;
  tags.reserve(validation.metrics.size());
  std::vector<runtime::Scalar> scalars = {{"eval/loss", validation.loss}};
  for (const runtime::NamedValue& metric : validation.metrics) {
    scalars.push_back({tags.emplace_back("eval/" + metric.name), metric.value});
  }
  add(validation.step, scalars);
}

void EventLog::add(std::int64_t step, const std::vector<runtime::Scalar>& scalars) {
  if (!file_ || failure_) return;
  try {
    file_->add(step, scalars);
  } catch (const Error& error) {
    failure_ = error;
  }
}

std::optional<Error> EventLog::end() {
  if (!file_ || failure_) return failure_;
  try {
    file_->flush();
  } catch (const Error& error) {
    failure_ = error;
  }
  return failure_;
}

}  // namespace zenflow::tools
