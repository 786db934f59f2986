#include "sim/trace/import/timer_log.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "sim/base/median.h"
#include "sim/base/text.h"

namespace zenflow::sim {

double TimerSeries::sum() const {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

double mean(const std::vector<double>& values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

namespace {

constexpr std::array<std::string_view, 6> kEvaluations = {
    "validation loss",    "validation results", "running evaluation",
    "running validation", "evaluating",         "eval_loss"};
constexpr std::array<std::string_view, 7> kSavings = {
    "saving checkpoint", "saved checkpoint", "saving model",  "saving the model",
    "checkpoint saved",  "model saved",      "[torch] saving"};

}  // namespace

namespace {

constexpr double kGibi = 0x1p30;

/// The number behind `mark` in the line, after blanks, dots and "="; nothing: it has none.
std::optional<double> number_behind(std::string_view line, std::string_view mark) {
  const std::size_t at = line.find(mark);
  if (at == line.npos) return std::nullopt;
  std::string_view rest = line.substr(at + mark.size());
  rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(" .=:\t")));
  double number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc() || !(number > 0) || number > 1e9) return std::nullopt;
  return number;
}

/// "  checkpoint_activations .......... True", as Megatron prints it, and as repr() does.
std::optional<bool> flag_in(std::string_view line, std::string_view name) {
  const std::size_t at = line.find(name);
  if (at == line.npos || (at > 0 && line[at - 1] != ' ' && line[at - 1] != '(')) {
    return std::nullopt;
  }
  std::string_view rest = line.substr(at + name.size());
  if (!rest.starts_with(' ') && !rest.starts_with('=')) return std::nullopt;
  rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(" .=")));
  if (rest.starts_with("True") || rest.starts_with("full")) return true;
  if (rest.starts_with("False")) return false;
  return std::nullopt;
}

}  // namespace

void PrintedMachine::take(std::string_view line) {
  // DeepSpeed's "GB" are 2^30 bytes.
  constexpr std::string_view kMemory = "CPU Virtual Memory:";
  if (line.find(kMemory) != line.npos) {
    const auto used = number_behind(line, "used =");
    const auto percent = number_behind(line, "percent =");
    if (used && percent && *percent <= 100 && *percent > used_percent) {
      used_percent = *percent;
      host_memory = *used * kGibi / (*percent / 100);
    }
  }
  if (const auto size = number_behind(line, "shared memory (/dev/shm) size")) {
    if (line.find("GB") != line.npos) shared_memory = *size * kGibi;
  }
  for (const std::string_view name :
       {"checkpoint_activations", "deepspeed_activation_checkpointing", "recompute_granularity",
        "gradient_checkpointing"}) {
    const auto flag = flag_in(line, name);
    // Any of them recomputes.
    if (!flag || (checkpoints_activations && !*flag)) continue;
    checkpoints_activations = *flag;
    checkpointing_setting = name;
  }
}

Besides said_besides(std::string_view line) {
  // What is printed of settings is filled with dots, or JSON.
  if (line.find("....") != line.npos || line.find("\":") != line.npos) return {};
  const std::string small = lower_case(line);
  return {contains_any(small, kEvaluations), contains_any(small, kSavings),
          small.find("skipping step") != small.npos};
}

std::string UsualSteps::text() const {
  std::string text = fmt::format("{} {}", usual.size(), micro_steps == 0 ? "micro steps" : "steps");
  if (micro_steps > 1) text += fmt::format(" of {} micro steps", micro_steps);
  std::string without;
  const auto leave = [&](const std::string& what) {
    without += (without.empty() ? ", without " : " and ") + what;
  };
  if (!first.empty()) leave(fmt::format("the first ({:.2f} ms)", first.front()));
  const auto leave_with = [&](const std::vector<double>& some, const char* what) {
    if (some.empty()) return;
    leave(fmt::format("{} with {} (mean {:.2f} ms)", some.size(), what, mean(some)));
  };
  leave_with(evaluating, "an evaluation");
  leave_with(saving, "saving");
  leave_with(skipping, "an update that is skipped");
  leave_with(long_forward, "a long forward, as an evaluation makes it");
  return text + without;
}

namespace {

UsualSteps usual_iterations(const TimerSeries& iterations) {
  UsualSteps steps;
  for (std::size_t i = 0; i < iterations.values.size(); ++i) {
    const Besides& also = iterations.besides[i];
    std::vector<double>& kind = i == 0           ? steps.first
                                : also.evaluates ? steps.evaluating
                                : also.saves     ? steps.saving
                                : also.skips     ? steps.skipping
                                                 : steps.usual;
    kind.push_back(iterations.values[i]);
  }
  return steps;
}

UsualSteps usual_sums(const std::vector<SummedStep>& sums) {
  std::vector<double> forwards;
  std::vector<double> backwards;
  for (const SummedStep& one : sums) {
    forwards.push_back(one.forward);
    backwards.push_back(one.backward);
  }
  constexpr double kLong = 1.5;
  const double forward = sums.empty() ? 0 : median(forwards);
  const double backward = sums.empty() ? 0 : median(backwards);
  UsualSteps steps;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    // A step that was slow altogether has a long backward, too.
    const bool is_long = sums[i].forward > kLong * forward &&
                         sums[i].forward * backward > kLong * forward * sums[i].backward;
    std::vector<double>& kind = i == 0              ? steps.first
                                : sums[i].evaluates ? steps.evaluating
                                : sums[i].skips     ? steps.skipping
                                : is_long           ? steps.long_forward
                                                    : steps.usual;
    kind.push_back(sums[i].sum());
  }
  return steps;
}

}  // namespace

UsualSteps TimerLog::usual_steps() const {
  const bool has_iterations = !iterations.values.empty();
  UsualSteps steps = has_iterations ? usual_iterations(iterations) : usual_sums(summed_steps);
  if (steps.usual.empty()) {
    steps = {};
    steps.usual = iterations.values;
    for (const SummedStep& one : summed_steps) {
      if (!has_iterations) steps.usual.push_back(one.sum());
    }
    if (steps.usual.size() > 1) {
      steps.first.push_back(steps.usual.front());
      steps.usual.erase(steps.usual.begin());
    }
  }
  if (!has_iterations) steps.micro_steps = summed_micro_steps;
  return steps;
}

const TimerSeries* TimerLog::find(const std::string& name) const {
  for (const TimerSeries& series : timers) {
    if (series.name == name) return &series;
  }
  return nullptr;
}

}  // namespace zenflow::sim
