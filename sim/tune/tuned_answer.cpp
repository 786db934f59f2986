#include "sim/tune/tuned_answer.h"

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/deepspeed/trainer_arguments.h"
#include "sim/tune/gain.h"

namespace zenflow::sim {
namespace {

/// The precision, "bf16" or "fp16", that Trainer and accelerate have to be told: they fill in
/// "auto", and add the block to a file that says nothing of it. Empty: the file says it.
std::string filled_in_precision(const TuneAnswer& answer) {
  const Job& job = answer.loaded.request.job;
  const DType dtype = job.scenario.training.dtype;
  if (dtype == DType::kFp32 || job.deepspeed.bf16 || job.deepspeed.fp16) return "";
  const Node& root = answer.config.root;
  std::string name(to_string(dtype));
  const bool adds_it =
      root.find(name) == nullptr && !says_scalar(root, "torch_autocast.enabled", "true");
  return adds_it || says_scalar(root, name + ".enabled", "auto") ? name : "";
}

/// Trainer raises unless its arguments say what the file says; those of the batch are the setting's
/// also where the file leaves them to Trainer. Behind the user's own, so that they win.
std::string trainer_command(const TuneAnswer& answer) {
  const Setting& setting = answer.chosen().setting;
  std::string arguments = fmt::format(
      " --deepspeed ds_config_optimal.json --per_device_train_batch_size {} "
      "--gradient_accumulation_steps {}",
      setting.whole(Knob::kMicroBatch), answer.candidates.accumulation(setting));
  if (setting.flag(Knob::kCheckpointing)) arguments += " --gradient_checkpointing";
  for (const TrainerArgument& one : trainer_arguments(answer.config.root)) {
    if (arguments.find(one.argument) == std::string::npos) arguments += " " + one.text();
  }
  const std::string precision = filled_in_precision(answer);
  return precision.empty() ? arguments : arguments + " --" + precision;
}

/// "OMP_NUM_THREADS=16 "
std::string threads_of(const TuneAnswer& answer) {
  const TuneRequest& request = answer.loaded.request;
  if (request.family != Family::kDeepSpeed) return "";
  const auto threads = tuned_threads(request.job, answer.chosen().setting);
  return threads ? fmt::format("OMP_NUM_THREADS={} ", *threads) : "";
}

/// What --set changes is no less a change of the file than what the setting does.
std::vector<Edit> changes_of(const TuneAnswer& answer) {
  const LoadedRequest& loaded = answer.loaded;
  const Node* said = loaded.tree.root.find("deepspeed");
  const std::string before = loaded.base_text                    ? *loaded.base_text
                             : said != nullptr && said->is_map() ? render_json(*said)
                                                                 : "{}";
  return differences(parse_ds_document(before, loaded.base_name).root, answer.config.root);
}

/// The file must say what was chosen, and the linter have nothing against it; but zenflow-train
/// reads no such file, and for it an error is only reported.
void verify(const TuneAnswer& answer) {
  const bool runs_file = answer.loaded.request.family != Family::kLive;
  for (const Finding& finding : answer.findings) {
    if (!runs_file || finding.severity != Severity::kError) continue;
    throw Error(ErrorKind::kRuntime,
                fmt::format("tune: the configuration found has an error: {} {}", finding.code,
                            finding.what));
  }
  const DsDocument written = parse_ds_document(answer.text.text, "ds_config_optimal.json");
  if (render_json(written.root) != render_json(answer.config.root)) {
    throw Error(ErrorKind::kRuntime, "tune: the edited text does not say what was chosen");
  }
}

}  // namespace

void write_config(TuneAnswer& answer) {
  const Job& job = answer.loaded.request.job;
  const Setting& setting = answer.chosen().setting;
  answer.config = answer.candidates.config(setting);
  const bool comments = job.target == LaunchTarget::kDeepSpeed;
  if (answer.loaded.base_text) {
    answer.text =
        edit_text(*answer.loaded.base_text, answer.loaded.base_name, answer.config.root, comments);
  } else {
    answer.text = {render_json(answer.config.root), false, "the scenario has no file of its own"};
  }
  answer.changes = changes_of(answer);
  LintOptions options = lint_options(job, setting);
  options.notes = true;
  answer.findings = lint(parse_ds_document(answer.text.text, "ds_config_optimal.json"), options);
  verify(answer);
}

std::string launch_command(const TuneAnswer& answer, const std::string& script) {
  const Job& job = answer.loaded.request.job;
  const Setting& setting = answer.chosen().setting;
  const std::int64_t gpus = setting.whole(Knob::kGpus);
  const std::int64_t nodes = job.scenario.nodes;
  const std::string threads = threads_of(answer);
  if (job.target == LaunchTarget::kAccelerate) {
    std::string command =
        threads + fmt::format("accelerate launch --use_deepspeed --num_processes {}", gpus * nodes);
    if (nodes > 1) command += fmt::format(" --num_machines {}", nodes);
    // Without the flag it is "no", unless accelerate's own configuration has another.
    const std::string precision = filled_in_precision(answer);
    if (!precision.empty()) command += " --mixed_precision " + precision;
    return fmt::format("{} --deepspeed_config_file ds_config_optimal.json {}", command, script);
  }
  std::string command = threads + "deepspeed";
  if (nodes > 1) command += fmt::format(" --num_nodes {}", nodes);
  command += fmt::format(" --num_gpus {}", gpus);
  if (setting.flag(Knob::kBindCores)) command += " --bind_cores_to_rank";
  command += " " + script;
  if (job.target == LaunchTarget::kHf) return command + trainer_command(answer);
  return command + " --deepspeed --deepspeed_config ds_config_optimal.json";
}

bool is_of_another_job(double modelled, double measured) {
  constexpr double kTimes = 2;
  return modelled > kTimes * measured || measured > kTimes * modelled;
}

std::optional<double> missed_share(const TuneAnswer& answer) {
  const auto& step = answer.loaded.request.measured_step;
  if (!step || !answer.result.own || answer.result.own->step_time <= 0) return std::nullopt;
  const double ratio = answer.result.own->step_time / (*step * 1e12);
  return std::max(ratio, 1 / ratio) - 1;
}

bool is_unreliable(const TuneAnswer& answer) {
  return missed_share(answer) && is_of_another_job(answer.result.own->step_time,
                                                   *answer.loaded.request.measured_step * 1e12);
}

double step_error(const TuneAnswer& answer) {
  return std::max(answer.numbers.error, missed_share(answer).value_or(0));
}

double gain_error(const TuneAnswer& answer) {
  return std::max(answer.numbers.gain_error, missed_share(answer).value_or(0));
}

std::optional<LikelyMiss> likely_miss(const TuneAnswer& answer) {
  if (missed_share(answer).value_or(0) < kMissWorthSaying) return std::nullopt;
  const Evaluation& own = *answer.result.own;
  const StepBreakdown parts = step_breakdown(own);
  const double missing = *answer.loaded.request.measured_step * 1e12 - own.step_time;
  // The longest part changes least.
  LikelyMiss found{"the GPU computes", parts.compute, 0};
  for (std::size_t i = 0; i < parts.stall.size(); ++i) {
    if (parts.stall.at(i) <= found.predicted) continue;
    found = {fmt::format("waits for {}", name_of(static_cast<WaitCause>(i))), parts.stall.at(i), 0};
  }
  found.needed = found.predicted + missing;
  if (found.needed <= 0) return std::nullopt;
  return found;
}

std::optional<double> scaled_step(const TuneAnswer& answer) {
  const auto& step = answer.loaded.request.measured_step;
  if (!step || !answer.result.own || answer.result.own->step_time <= 0) return std::nullopt;
  if (is_of_another_job(answer.result.own->step_time, *step * 1e12)) return std::nullopt;
  return answer.chosen().evaluation.step_time * (*step * 1e12 / answer.result.own->step_time);
}

double cost_per_million_tokens(const TuneAnswer& answer, const Setting& setting,
                               const Evaluation& one) {
  return 1e6 * answer.candidates.cost(setting, one.step_time);
}

std::uint64_t simulated_infeasible(const SearchResult& result) {
  return static_cast<std::uint64_t>(
      std::count_if(result.simulated.begin(), result.simulated.end(),
                    [](const Simulated& one) { return !one.evaluation.infeasible.empty(); }));
}

bool offloads_in_vain(const TuneAnswer& answer, const Simulated& best) {
  const Candidates& candidates = answer.candidates;
  const Simulated& chosen = answer.chosen();
  if (best.setting.placement() == Placement::kGpu) return false;
  if (best.setting.get(Knob::kGpus) == chosen.setting.get(Knob::kGpus)) {
    return answer.result.fits_without_offloading;
  }
  return candidates.cost(chosen.setting, chosen.evaluation.step_time) >
         (1 + answer.loaded.request.slack) *
             candidates.cost(best.setting, best.evaluation.step_time);
}

}  // namespace zenflow::sim
