/// What the chosen setting gains or costs in the objective's terms, from where, and what limits it.
#include <cmath>

#include <fmt/format.h>

#include "sim/base/table.h"
#include "sim/report/fit.h"
#include "sim/tune/gain.h"
#include "tools/tune/tune.h"

namespace zenflow::tools {
namespace {

using sim::Evaluation;

/// Rounds to nothing with as many decimals as are shown.
bool is_nothing(double percent) {
  constexpr double kShown = 0.05;
  return percent < kShown;
}

/// "Gain", or what it is if the chosen setting is no better, as far as is shown.
const char* label(double times_better) {
  constexpr double kShown = 0.005;
  if (times_better >= 1 + kShown) return "Gain";
  return times_better > 1 - kShown ? "No gain" : "Loss";
}

/// "389.5 ms instead of 431.2 ms a step of 8 sequences".
std::string step_text(const TuneAnswer& answer, const Evaluation& own) {
  return fmt::format(
      "{} instead of {} a step of {}", sim::format_seconds(answer.chosen().evaluation.step_time),
      sim::format_seconds(own.step_time),
      sim::counted(static_cast<std::uint64_t>(answer.loaded.request.global_batch), "sequence"));
}

/// What the objective says of both, and by how much they differ.
std::string objective_text(const TuneAnswer& answer, const Evaluation& own) {
  const Evaluation& chosen = answer.chosen().evaluation;
  switch (answer.loaded.request.objective) {
    case sim::Objective::kStepTime:
      break;
    case sim::Objective::kTokensPerSecond:
      return fmt::format("{:.0f} tokens/s instead of {:.0f}, {:.2f} times as many",
                         chosen.tokens_per_second, own.tokens_per_second,
                         chosen.tokens_per_second / own.tokens_per_second);
    case sim::Objective::kCostPerToken: {
      const double before =
          cost_per_million_tokens(answer, sim::setting_of(answer.loaded.request.job), own);
      const double after = cost_per_million_tokens(answer, answer.chosen().setting, chosen);
      return fmt::format(
          "a million tokens cost {:.4g} instead of {:.4g}, in the currency of --price, {:.1f} % {}",
          after, before, 100 * std::abs(1 - after / before), after > before ? "more" : "less");
    }
  }
  return step_text(answer, own) + ", " + times_text(own.step_time / chosen.step_time);
}

/// A search that was stopped leaves it out: what numbers do is simulated after it.
std::string error_text(const TuneAnswer& answer) {
  return answer.result.complete
             ? fmt::format("standard error {:.0f} %, of the step's prediction {:.0f} %",
                           100 * sim::gain_error(answer), 100 * sim::step_error(answer))
             : "standard error not computed: the search was stopped";
}

std::string gain_line(const TuneAnswer& answer, const Evaluation& own) {
  const double times_better = sim::times_better(answer, answer.chosen(), simulated_own(answer));
  std::string text = fmt::format("{}: {} ({}).\n", label(times_better), objective_text(answer, own),
                                 error_text(answer));
  if (answer.loaded.request.objective != sim::Objective::kStepTime) {
    text += "It takes " + step_text(answer, own) + ".\n";
  }
  return text;
}

/// Where the chosen setting fits, but not with what PyTorch's allocator holds besides.
std::string allocator_text(const TuneAnswer& answer) {
  const sim::TuneRequest& request = answer.loaded.request;
  if (request.family != sim::Family::kDeepSpeed) return "";
  const sim::GpuProfile& gpu = request.job.scenario.hardware.gpu;
  const double held =
      sim::with_allocator(answer.chosen().evaluation.gpu_bytes, gpu.context_memory.value());
  if (held <= gpu.memory.value()) return "";
  return fmt::format(
      "GPU memory has little room: with what PyTorch's allocator holds besides, a quarter in the "
      "mean, it "
      "is {} where the GPU has {}. --max-gpu-memory leaves room.\n",
      sim::format_gib(held), sim::format_gib(gpu.memory.value()));
}

std::string limits(const TuneAnswer& answer) {
  const auto& most = answer.loaded.request.limits;
  constexpr double kGib = 1U << 30U;
  std::string text;
  for (const sim::MemoryUse& use : memory_uses(answer)) {
    text += fmt::format("{} {:.1f} of {:.1f} GiB, ", use.what, use.need / kGib, use.most / kGib);
  }
  text +=
      fmt::format("staleness {} of {} steps", answer.chosen().evaluation.staleness, most.staleness);
  if (const auto deferred = deferred_share(answer)) {
    text += fmt::format(", deferred share {:.2f} of {:.2f}", *deferred, *most.deferred_share);
  }
  return "Of its limits it takes: " + text + ".\n";
}

/// How much better than the chosen one the best is, in the objective's terms; empty: not to be
/// seen.
std::string advantage(const TuneAnswer& answer, const sim::Simulated& best) {
  const double times = times_better(answer, best, answer.chosen());
  const double less = 100 * (1 - 1 / times);
  const double more = 100 * (times - 1);
  switch (answer.loaded.request.objective) {
    case sim::Objective::kStepTime:
      return is_nothing(less) ? "" : fmt::format("a step takes {:.1f} % less time", less);
    case sim::Objective::kTokensPerSecond:
      return is_nothing(more) ? "" : fmt::format("it has {:.1f} % more tokens/s", more);
    case sim::Objective::kCostPerToken:
      return is_nothing(less) ? "" : fmt::format("a token costs {:.1f} % less", less);
  }
  return "";
}

/// What the best setting by an objective is called.
const char* name_of_best(sim::Objective objective) {
  switch (objective) {
    case sim::Objective::kStepTime:
      return "the fastest";
    case sim::Objective::kTokensPerSecond:
      return "the one with most tokens per second";
    case sim::Objective::kCostPerToken:
      return "the cheapest";
  }
  return "";
}

/// ", and no slower than yours,": of what is within the slack of the best itself.
std::string ceilings_text(const sim::Ceilings& ceilings) {
  if (!ceilings.own && !ceilings.published) return "";
  return fmt::format(", and no slower than {}{}{},", ceilings.own ? "yours" : "",
                     ceilings.own && ceilings.published ? " and " : "",
                     ceilings.published ? "the published setting" : "");
}

/// Why the chosen setting is not the best of the objective, if that can be seen.
std::string care(const TuneAnswer& answer) {
  if (*answer.result.fastest == *answer.result.chosen) return "";
  const sim::TuneRequest& request = answer.loaded.request;
  const sim::Simulated& best = answer.result.simulated[*answer.result.fastest];
  const std::string better = advantage(answer, best);
  const char* name = name_of_best(request.objective);
  if (offloads_in_vain(answer, best)) {
    const bool offloads = answer.chosen().setting.placement() != sim::Placement::kGpu;
    std::string text =
        offloads ? "With more GPUs the job fits without offloading, so there it is not offloaded."
                 : "The job fits without offloading, so it is not offloaded: every weight is "
                   "updated in every step, and nothing is stale.";
    if (!better.empty()) {
      text += fmt::format(
          " With {}, which offloads, {}, as predicted; --offload-when faster chooses it.", name,
          better);
    }
    return text + "\n";
  }
  if (better.empty()) return "";
  return fmt::format(
      "Chosen over {}, with which {}: within {:.0f} %{} the one of least risk is taken (least "
      "staleness, largest topk_ratio, least memory).\n",
      name, better, 100 * request.slack, ceilings_text(ceilings(answer, best)));
}

}  // namespace

std::string times_text(double times) {
  return times >= 1 ? fmt::format("{:.2f} times as fast", times)
                    : fmt::format("{:.2f} times as long", 1 / times);
}

bool is_relied_on(const TuneAnswer& answer) {
  return answer.options.anyway || !sim::is_unreliable(answer);
}

std::string miss_text(const TuneAnswer& answer) {
  if (sim::missed_share(answer).value_or(0) < sim::kMissWorthSaying) return "";
  const auto miss = sim::likely_miss(answer);
  if (!miss) return " No part of the step alone explains that.";
  return fmt::format(" First to look at: {}, {} as predicted, {} if all else is right.", miss->part,
                     sim::format_seconds(miss->predicted), sim::format_seconds(miss->needed));
}

std::string unsearched_text(const TuneAnswer& answer) {
  const sim::UnsearchedChanges& unsearched = answer.unsearched;
  if (unsearched.changes.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const sim::FitChange& one : unsearched.changes) {
    rows.push_back({sim::change_text(one.set), sim::describe(one.limit), sim::outcome_text(one),
                    sim::format_gib(one.saves)});
  }
  std::string text = sim::format_table(
      {"would help yours, and is not searched", "limit", "then", "saves"}, rows, answer.bold);
  if (!unsearched.fit_together.empty()) {
    text += "It fits with all of\n";
    for (const std::string& one : unsearched.fit_together) {
      text += fmt::format("  {}\n", sim::change_text(one));
    }
  }
  return text + "\n";
}

std::string gain_text(const TuneAnswer& answer) {
  const sim::SearchResult& result = answer.result;
  if (!result.own) return fmt::format("Yours cannot run: {}\n", result.own_refusal);
  const Evaluation& own = *result.own;
  std::string text = gain_line(answer, own);
  const auto& measured = answer.loaded.request.measured_step;
  if (measured && !answer.traced) {
    text +=
        fmt::format("Measured today: {}; the model says {} ({}).{}\n",
                    sim::format_seconds(*measured * 1e12), sim::format_seconds(own.step_time),
                    sim::signed_percent(own.step_time / (*measured * 1e12) - 1), miss_text(answer));
    if (sim::is_unreliable(answer)) {
      text +=
          "WARNING: do not rely on what was chosen, nor on the gain: what was measured is of "
          "another job, or something in it is not modelled.\n";
    }
  }
  if (!own.infeasible.empty()) text += fmt::format("Yours is not feasible: {}.\n", own.infeasible);
  text += unsearched_text(answer);
  if (!result.own_not_proposed.empty())
    text += fmt::format("Yours is not among what is proposed: {}.\n", result.own_not_proposed);
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const std::string& name, double before, double after) {
    if (before == 0 && after == 0) return;
    rows.push_back({name, sim::format_milliseconds(before), sim::format_milliseconds(after),
                    sim::format_milliseconds(before - after)});
  };
  const sim::StepBreakdown before = sim::step_breakdown(own);
  const sim::StepBreakdown after = sim::step_breakdown(answer.chosen().evaluation);
  add("GPU computes", before.compute, after.compute);
  for (std::size_t i = 0; i < kStallCauses; ++i) {
    add("waits for " + std::string(name_of(static_cast<WaitCause>(i))), before.stall.at(i),
        after.stall.at(i));
  }
  return text + sim::format_table({"a step, ms", "yours", "chosen", "saved"}, rows, answer.bold);
}

std::string limits_text(const TuneAnswer& answer) {
  const Evaluation& one = answer.chosen().evaluation;
  const sim::LongestWait wait = sim::longest_wait(one);
  std::string text = fmt::format("What limits it: the GPU computes {:.0f} % of the time",
                                 100 * one.compute / one.micro_step);
  if (wait.all > 0.001 * one.micro_step) {
    text += fmt::format(" and waits most for {} ({:.0f} %)", name_of(wait.cause),
                        100 * wait.time / one.micro_step);
  }
  return text + ".\n" + care(answer) + limits(answer) + allocator_text(answer);
}

}  // namespace zenflow::tools
