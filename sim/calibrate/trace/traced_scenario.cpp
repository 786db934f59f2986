#include "sim/calibrate/trace/traced_scenario.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/paths.h"
#include "sim/base/text.h"
#include "sim/config/hub/hub_model.h"
#include "sim/deepspeed/ds_document.h"
#include "sim/offload/knobs.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;

/// What does not name a file.
std::string settings_text(const std::string& name, std::int64_t gpus, std::int64_t nodes,
                          const TrainingSettings& training, const std::string& schedule) {
  return fmt::format(
      "name: {}\ngpus: {}\nnodes: {}\ntraining: {{micro_batch_size_per_gpu: {}, sequence_length: "
      "{}, dtype: {}, activation_checkpointing: {}}}\nschedules: [{}]\n",
      json_quoted(name), gpus, nodes, training.micro_batch_size_per_gpu, training.sequence_length,
      to_string(training.dtype), training.activation_checkpointing, schedule);
}

/// Nothing where it says no more than a scenario without the block.
std::string zenflow_train_text(const OffloadSetup& offload) {
  TrainingSetup said;
  TrainingSetup unsaid;
  static_cast<OffloadSetup&>(said) = offload;
  static_cast<OffloadSetup&>(unsaid) = Scenario().offload;
  std::vector<std::string> keys;
  for (const SetupKnob& knob : setup_knobs()) {
    const std::string_view key = key_in("zenflow_train", knob);
    if (key.empty() || knob_value(knob, said) == knob_value(knob, unsaid)) continue;
    keys.push_back(fmt::format("{}: {}", key, knob_text(knob, said)));
  }
  return keys.empty() ? "" : fmt::format("zenflow_train: {{{}}}\n", fmt::join(keys, ", "));
}

std::string run_text(const RunSettings& run) {
  return fmt::format("run: {{warmup_steps: {}, steps: {}}}\n", run.warmup_steps, run.steps);
}

/// From a file in `folder`.
std::string quoted_path(const fs::path& folder, const fs::path& path) {
  return json_quoted(path_from(folder, path).generic_string());
}

}  // namespace

ScenarioTree scenario_tree(const TracedScenario& traced, const Node& hardware,
                           const std::string& flag) {
  const std::string name = model_name(traced.model);
  // Any schedule: which one runs is found by setting.
  std::string text =
      settings_text(name, traced.gpus, traced.nodes, traced.training, "zero-offload");
  if (traced.run) text += run_text(*traced.run);
  text += zenflow_train_text(traced.offload);
  text += fmt::format("model: {}\n", json_quoted(traced.model.generic_string()));
  if (!traced.base) text += "deepspeed: " + traced.deepspeed + "\n";
  ScenarioTree tree = load_scenario_tree(parse_yaml(text, flag), {});
  tree.root.entries.push_back({"hardware", hardware.at, hardware});
  if (traced.base) {
    Node document = load_ds_document(*traced.base).root;
    const Location at = document.at;
    tree.root.entries.push_back({"deepspeed", at, std::move(document)});
    tree.deepspeed_file = traced.base;
  }
  return tree;
}

Job traced_scenario_job(const TracedScenario& traced, const Node& hardware,
                        const std::vector<Override>& overrides, const std::string& flag) {
  return make_job(read_scenario(scenario_tree(traced, hardware, flag), overrides));
}

std::string scenario_text(const TracedScenario& traced, const Scenario& scenario,
                          const std::string& schedule, const fs::path& folder,
                          const std::string& origin) {
  std::string text =
      fmt::format("# The job of {}, as zenflow-tune --trace understood it.\n", origin);
  text += settings_text(scenario.name, scenario.gpus, scenario.nodes, scenario.training, schedule);
  text += "model: " + quoted_path(folder, traced.model) + "\n";
  text += "hardware: profile.yaml\n";
  text +=
      "deepspeed: " + (traced.base ? quoted_path(folder, *traced.base) : traced.deepspeed) + "\n";
  text += fmt::format("launch: {{bind_cores_to_rank: {}", scenario.bind_cores_to_rank);
  if (scenario.deepspeed_version) {
    text += ", deepspeed_version: " + json_quoted(scenario.deepspeed_version->text);
  }
  if (scenario.target) text += ", target: " + json_quoted(scenario.target->text);
  text += "}\n" + zenflow_train_text(scenario.offload);
  return text + run_text(scenario.run) + fmt::format("max_staleness: {}\n", scenario.max_staleness);
}

}  // namespace zenflow::sim
