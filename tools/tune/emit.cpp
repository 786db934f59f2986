#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/deepspeed/trainer_arguments.h"
#include "tools/tune/train_command.h"
#include "tools/tune/tune.h"

namespace zenflow::tools {
namespace {

using sim::Knob;
using sim::Setting;

sim::LintOptions lint_options(const TuneAnswer& answer) {
  const sim::Job& job = answer.loaded.request.job;
  const Setting& setting = answer.chosen().setting;
  sim::LintOptions options{.version = job.version, .target = job.target};
  options.world_size = setting.whole(Knob::kGpus) * job.scenario.nodes;
  options.cores_per_node = job.scenario.hardware.host.cores;
  options.gpus_per_node = setting.whole(Knob::kGpus);
  options.bind_cores_to_rank = setting.flag(Knob::kBindCores);
  options.notes = true;
  return options;
}

/// The precision, "bf16" or "fp16", that Trainer and accelerate have to be told: they fill in
/// "auto", and add the block to a file that says nothing of it. Empty: the file says it.
std::string filled_in_precision(const TuneAnswer& answer) {
  const sim::Job& job = answer.loaded.request.job;
  const sim::DType dtype = job.scenario.training.dtype;
  if (dtype == sim::DType::kFp32 || job.deepspeed.bf16 || job.deepspeed.fp16) return "";
  const Node& root = answer.config.root;
  std::string name(to_string(dtype));
  const auto says = [&root](const std::string& path, const char* what) {
    const Node* node = sim::find_path(root, path);
    return node != nullptr && node->is_scalar() && node->scalar == what;
  };
  const bool adds_it = root.find(name) == nullptr && !says("torch_autocast.enabled", "true");
  return adds_it || says(name + ".enabled", "auto") ? name : "";
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
  for (const sim::TrainerArgument& one : sim::trainer_arguments(answer.config.root)) {
    if (arguments.find(one.argument) == std::string::npos) arguments += " " + one.text();
  }
  const std::string precision = filled_in_precision(answer);
  return precision.empty() ? arguments : arguments + " --" + precision;
}

std::string deepspeed_command(const TuneAnswer& answer) {
  const sim::Job& job = answer.loaded.request.job;
  const Setting& setting = answer.chosen().setting;
  const std::int64_t gpus = setting.whole(Knob::kGpus);
  const std::int64_t nodes = job.scenario.nodes;
  const std::string& script = answer.options.train_command;
  if (job.target == sim::LaunchTarget::kAccelerate) {
    std::string command =
        fmt::format("accelerate launch --use_deepspeed --num_processes {}", gpus * nodes);
    if (nodes > 1) command += fmt::format(" --num_machines {}", nodes);
    // Without the flag it is "no", unless accelerate's own configuration has another.
    const std::string precision = filled_in_precision(answer);
    if (!precision.empty()) command += " --mixed_precision " + precision;
    return fmt::format("{} --deepspeed_config_file ds_config_optimal.json {}", command, script);
  }
  std::string command = "deepspeed";
  if (nodes > 1) command += fmt::format(" --num_nodes {}", nodes);
  command += fmt::format(" --num_gpus {}", gpus);
  if (setting.flag(Knob::kBindCores)) command += " --bind_cores_to_rank";
  command += " " + script;
  if (job.target == sim::LaunchTarget::kHf) return command + trainer_command(answer);
  return command + " --deepspeed --deepspeed_config ds_config_optimal.json";
}

/// What --set changes is no less a change of the file than what the setting does.
std::vector<sim::Edit> changes_of(const TuneAnswer& answer) {
  const LoadedRequest& loaded = answer.loaded;
  const Node* said = loaded.tree.root.find("deepspeed");
  const std::string before = loaded.base_text                    ? *loaded.base_text
                             : said != nullptr && said->is_map() ? sim::render_json(*said)
                                                                 : "{}";
  return sim::differences(sim::parse_ds_document(before, loaded.base_name).root,
                          answer.config.root);
}

/// The file must say what was chosen, and the linter have nothing against it; but zenflow-train
/// reads no such file, and for it an error is only reported.
void verify(const TuneAnswer& answer) {
  const bool runs_file = answer.loaded.request.family != sim::Family::kLive;
  for (const sim::Finding& finding : answer.findings) {
    if (!runs_file || finding.severity != sim::Severity::kError) continue;
    throw Error(ErrorKind::kRuntime,
                fmt::format("tune: the configuration found has an error: {} {}", finding.code,
                            finding.what));
  }
  const sim::DsDocument written =
      sim::parse_ds_document(answer.text.text, "ds_config_optimal.json");
  if (sim::render_json(written.root) != sim::render_json(answer.config.root)) {
    throw Error(ErrorKind::kRuntime, "tune: the edited text does not say what was chosen");
  }
}

}  // namespace

void emit(TuneAnswer& answer) {
  const sim::Job& job = answer.loaded.request.job;
  const Setting& setting = answer.chosen().setting;
  answer.config = answer.candidates.config(setting);
  const bool comments = job.target == sim::LaunchTarget::kDeepSpeed;
  if (answer.loaded.base_text) {
    answer.text = sim::edit_text(*answer.loaded.base_text, answer.loaded.base_name,
                                 answer.config.root, comments);
  } else {
    answer.text = {sim::render_json(answer.config.root), false,
                   "the scenario has no file of its own"};
  }
  answer.changes = changes_of(answer);
  answer.findings = sim::lint(sim::parse_ds_document(answer.text.text, "ds_config_optimal.json"),
                              lint_options(answer));
  verify(answer);
  answer.command =
      (answer.loaded.request.family == sim::Family::kDeepSpeed ? deepspeed_command(answer)
                                                               : train_command(answer)) +
      "\n";
}

}  // namespace zenflow::tools
