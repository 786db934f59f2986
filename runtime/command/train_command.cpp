#include "runtime/command/train_command.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/model_config/transformer_config.h"
#include "runtime/train/limits.h"
#include "sim/base/error.h"
#include "sim/base/paths.h"
#include "sim/base/text.h"
#include "sim/deepspeed/trainer_arguments.h"
#include "sim/offload/knobs.h"

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;
using sim::Knob;
using sim::Setting;
using sim::TuneAnswer;

/// Where the model's configuration is read from; empty: it is written in the scenario.
fs::path model_file(const TuneAnswer& answer, const std::optional<fs::path>& given) {
  if (given) return *given;
  const Node* config = sim::find_path(answer.loaded.tree.root, "model.config");
  const bool of_file = config != nullptr && config->at.file && config->at.file->ends_with(".json");
  return of_file ? fs::path(*config->at.file) : fs::path();
}

/// What of the model zenflow-train cannot train; empty: nothing.
std::string untrained_model(const TuneAnswer& answer, const std::optional<fs::path>& given) {
  for (const sim::Override& one : answer.loaded.overrides) {
    if (one.path.starts_with("model.") && one.path != "model.name") {
      return fmt::format("--set {}: it takes the model as its file says", one.path);
    }
  }
  if (model_file(answer, given).empty()) {
    return "model: it needs a config.json, and the scenario names none (*.json)";
  }
  const Node* config = sim::find_path(answer.loaded.tree.root, "model.config");
  try {
    static_cast<void>(
        read_transformer_config(*config, answer.loaded.request.job.scenario.model.name, Task()));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Why zenflow-train cannot do what was chosen; empty: it can.
std::vector<std::string> hindrances(const TuneAnswer& answer,
                                    const std::optional<fs::path>& given) {
  const sim::Scenario& scenario = answer.loaded.request.job.scenario;
  const Setting& setting = answer.chosen().setting;
  const std::int64_t gpus = setting.whole(Knob::kGpus) * scenario.nodes;
  const std::int64_t micro_batches = answer.candidates.accumulation(setting);
  const bool bf16 = scenario.training.dtype == sim::DType::kBf16;
  const auto most =
      bf16 ? kMostBf16MicroBatches
           : static_cast<std::int64_t>(sim::setup_knob("gradient_accumulation_steps").most_trained);
  std::vector<std::string> why = {untrained_model(answer, given)};
  if (gpus > 1) why.push_back(fmt::format("gpus: it has one device, this needs {}", gpus));
  if (setting.placement() == sim::Placement::kNvme) {
    why.emplace_back("placement: it offloads to RAM alone");
  }
  const std::int64_t select = setting.whole(Knob::kSelectInterval);
  if (setting.zenflow() && select % setting.interval() != 0) {
    why.push_back(
        fmt::format("select_interval: it selects at the ends of windows of {} steps, not "
                    "every {} steps",
                    setting.interval(), select));
  }
  if (scenario.training.dtype == sim::DType::kFp16) why.emplace_back("dtype: it has no fp16");
  if (micro_batches > most) {
    why.push_back(fmt::format("gradient_accumulation_steps: it takes at most {} in {}, this has {}",
                              most, to_string(scenario.training.dtype), micro_batches));
  }
  std::erase(why, "");
  return why;
}

/// Says it, and fails, wherever it is pasted.
std::string refusal(const std::vector<std::string>& why) {
  return fmt::format(
      "printf '%s\\n' {} >&2; false",
      shell_word(fmt::format("zenflow-train cannot run what was tuned: {}", fmt::join(why, "; "))));
}

/// Threads: of a recording as they were, else as the scenario has them, or sharing the cores of a
/// profile as pt_reserved_cores_perc says. 0: all cores, or none that would do anything.
void set_threads(const TuneAnswer& answer, sim::TrainingSetup& setup) {
  const Setting& setting = answer.chosen().setting;
  setup.threads = 0;
  if (answer.loaded.run) {
    const sim::RecordedRun& run = *answer.loaded.run;
    if (!run.gpu) setup.threads = run.threads;
    setup.optimizer_threads = run.optimizer_threads;
    setup.sum_threads = run.sum_threads;
  } else if (answer.loaded.request.family != sim::Family::kLive ||
             setting.placement() == sim::Placement::kGpu) {
    setup.optimizer_threads = setup.sum_threads = 0;
  } else {
    const auto cores = static_cast<double>(answer.loaded.request.job.scenario.hardware.host.cores);
    const double sums = setting.get(Knob::kReservedCores) * cores;
    if (setting.zenflow() && sums >= 1 && cores - sums >= 1) {
      const auto whole = [](double number) { return static_cast<int>(std::lround(number)); };
      if (setup.optimizer_threads == 0) setup.optimizer_threads = whole(cores - sums);
      if (setup.sum_threads == 0) setup.sum_threads = whole(sums);
    }
    if (!setting.zenflow()) setup.sum_threads = 0;
  }
  if (setting.zenflow() && setting.flag(Knob::kAccumulateOn)) setup.sum_threads = 0;
}

sim::OffloadSchedule schedule_of(const Setting& setting) {
  if (setting.zenflow()) return sim::OffloadSchedule::kZenFlow;
  return setting.placement() == sim::Placement::kCpu ? sim::OffloadSchedule::kZeroOffload
                                                     : sim::OffloadSchedule::kGpuOnly;
}

/// What zenflow-train is to be set to.
sim::TrainingSetup setup_of(const TuneAnswer& answer) {
  const sim::Scenario& scenario = answer.loaded.request.job.scenario;
  const Setting& setting = answer.chosen().setting;
  sim::TrainingSetup setup = with_setting({scenario.offload, scenario.training}, setting);
  setup.schedule = schedule_of(setting);
  setup.gradient_accumulation_steps = answer.candidates.accumulation(setting);
  set_threads(answer, setup);
  return setup;
}

/// Older gradients than zenflow-train allows unless told.
std::string staleness_flags(const TuneAnswer& answer) {
  const std::int64_t stale = answer.chosen().evaluation.staleness;
  const bool is_told = answer.chosen().setting.zenflow() && stale > sim::Limits().staleness;
  return is_told ? fmt::format(" --max-staleness {}", stale) : "";
}

std::string device_flags(const TuneAnswer& answer) {
  if (answer.loaded.request.job.scenario.hardware.gpu.runs_on_host()) return "";
  std::string flags = " --device cuda";
  if (answer.loaded.run) {
    const std::int64_t gpu = answer.loaded.run->gpu.value_or(0);
    if (gpu > 0) flags += fmt::format(" --gpu {}", gpu);
  }
  return flags;
}

/// What the DeepSpeed file says of the optimizer. That of a recording was made up.
std::string optimizer_flags(const TuneAnswer& answer) {
  static const std::map<std::string, std::string> kFlags = {
      {"--max_grad_norm", "--gradient-clipping"},
      {"--adam_beta1", "--beta1"},
      {"--adam_beta2", "--beta2"},
      {"--adam_epsilon", "--epsilon"},
      {"--weight_decay", "--weight-decay"}};
  if (answer.loaded.run) return "";
  std::string flags;
  for (const sim::TrainerArgument& one : sim::trainer_arguments(answer.config.root)) {
    const auto flag = kFlags.find(one.argument);
    if (one.path == "optimizer.params.lr") {
      flags += " --lr " + shell_word(one.value);
    } else if (flag != kFlags.end()) {
      flags += fmt::format(" {} {}", flag->second, shell_word(one.value));
    }
  }
  return flags;
}

}  // namespace

std::string train_command(const TuneAnswer& answer, const std::optional<fs::path>& given,
                          const std::optional<fs::path>& folder) {
  const std::vector<std::string> why = hindrances(answer, given);
  if (!why.empty()) return refusal(why);
  fs::path model = model_file(answer, given);
  if (folder && model.is_relative()) model = path_from(*folder, model);
  return fmt::format("zenflow-train --model {} --data data.txt",
                     shell_word(model.generic_string())) +
         device_flags(answer) + optimizer_flags(answer) + staleness_flags(answer) +
         setup_flags(setup_of(answer));
}

}  // namespace zenflow::runtime
