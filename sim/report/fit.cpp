#include "sim/report/fit.h"

#include <algorithm>
#include <cctype>
#include <set>

#include <fmt/format.h>

#include "sim/schedule/deepspeed_memory.h"
#include "sim/schedule/live_work.h"
#include "sim/simulate/simulated_timeline.h"

namespace zenflow::sim {
namespace {

std::string moment(const Job& job, const Program& program, const MemoryPeak& peak) {
  if (peak.task == kNoTask) return "throughout";
  const TaskLabel& label = program.labels[peak.task];
  return fmt::format("{} of step {}", task_name(job, label), label.step);
}

std::vector<BufferUse> buffer_uses(const Program& program, const Execution& execution,
                                   const MemoryReport& memory) {
  const std::vector<double> largest = largest_sizes(program, execution);
  std::vector<BufferUse> uses;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const MemoryBuffer& buffer = program.buffers[i];
    if (largest[i] == 0) continue;
    double at_peak = buffer.resident;
    if (!buffer.of_framework && place_of(buffer.home) != MemoryPlace::kNvme) {
      const MemoryPeak& peak =
          place_of(buffer.home) == MemoryPlace::kGpu ? memory.gpu : memory.host;
      at_peak = peak.by_buffer[i];
    }
    uses.push_back({buffer, at_peak, largest[i]});
  }
  return uses;
}

std::vector<MemorySymbol> used_symbols(const std::vector<MemorySymbol>& known,
                                       const std::vector<BufferUse>& buffers) {
  std::set<std::string> words;
  for (const BufferUse& use : buffers) {
    for (std::string& word : formula_symbols(use.buffer.formula)) words.insert(std::move(word));
  }
  // What p is made of.
  if (words.contains("p")) words.insert({"P", "N"});
  std::vector<MemorySymbol> used;
  for (const MemorySymbol& symbol : known) {
    if (words.contains(symbol.name)) used.push_back(symbol);
  }
  return used;
}

}  // namespace

std::string environment_of(const std::string& change) {
  constexpr std::string_view kBackend = "launch.ds_pin_memory_backend=";
  constexpr std::string_view kThreshold = "launch.pinned_max_round_threshold_mb=";
  if (change.starts_with(kBackend)) {
    return "DS_PIN_MEMORY_BACKEND=" + change.substr(kBackend.size());
  }
  if (change.starts_with(kThreshold)) {
    return "PYTORCH_ALLOC_CONF=pinned_max_round_threshold_mb:" + change.substr(kThreshold.size());
  }
  return "";
}

std::string change_text(const std::string& change) {
  const std::string variable = environment_of(change);
  return "--set " + change + (variable.empty() ? "" : fmt::format(" ({})", variable));
}

std::string outcome_text(const FitChange& change) {
  if (change.fits) return "fits";
  return change.limit_holds ? "this limit holds" : "not enough";
}

double with_allocator(double peak, double context) {
  constexpr double kHeld = 1.25;
  return context + kHeld * (peak - context);
}

double with_allocator(const Job& job, const Fit& fit) {
  if (live_kind(fit.schedule)) return fit.memory.gpu.total;
  return with_allocator(fit.memory.gpu.total, job.scenario.hardware.gpu.context_memory.value());
}

std::optional<double> loading_peak(const Job& job, const Fit& fit) {
  const bool divides = job.deepspeed.zero_stage == 3;
  if (divides || !find_schedule(fit.schedule).runs_deepspeed()) return std::nullopt;
  const double weights = static_cast<double>(job.scenario.model.parameters() *
                                             bytes_per_element(job.scenario.training.dtype));
  return static_cast<double>(job.scenario.gpus) * (weights + kProcessBytes);
}

bool is_loading_at_risk(const Job& job, const Fit& fit) {
  const LimitCheck& check = fit.memory.limit(MemoryLimit::kHost);
  return check.holds() && check.capacity && loading_peak(job, fit).value_or(0) > *check.capacity;
}

bool is_gpu_at_risk(const Job& job, const Fit& fit) {
  const LimitCheck& check = fit.memory.limit(MemoryLimit::kGpu);
  return check.holds() && check.capacity && with_allocator(job, fit) > *check.capacity;
}

std::vector<std::string> formula_symbols(const std::string& formula) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : formula + ' ') {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
      continue;
    }
    if (!word.empty() && std::isalpha(static_cast<unsigned char>(word.front())) != 0) {
      words.push_back(word);
    }
    word.clear();
  }
  return words;
}

Fit fit(const Job& job, const Schedule& schedule) {
  Fit result;
  result.schedule = schedule.name();
  Job fixed = job;
  const auto knobs = schedule.zenflow(job);
  if (knobs && !knobs->update_interval) {
    result.chosen_interval = simulate_schedule(job, schedule).update_interval;
    fixed = with_update_interval(job, *result.chosen_interval);
  }
  const FullRun run = simulate_fully(fixed, schedule);
  result.memory = memory_report(fixed, run.program, run.execution);
  result.buffers = buffer_uses(run.program, run.execution, result.memory);
  result.gpu_peak_at = moment(fixed, run.program, result.memory.gpu);
  result.host_peak_at = moment(fixed, run.program, result.memory.host);
  result.over_time = memory_by_part(run.program, run.execution, run.measured_begin);
  result.symbols = used_symbols(run.program.symbols, result.buffers);
  result.estimator = compare_with_estimator(fixed, result.memory, result.buffers);
  if (!result.memory.fits) find_changes(fixed, schedule, result);
  return result;
}

}  // namespace zenflow::sim
