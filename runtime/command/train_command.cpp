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

/// Sums on the device need no threads.
std::string sum_threads(const Setting& setting, std::int64_t threads) {
  if (setting.zenflow() && setting.flag(Knob::kAccumulateOn)) return "";
  return fmt::format(" --sum-threads {}", threads);
}

/// --optimizer-threads and --sum-threads: as the scenario has them, or sharing the cores of a
/// profile as pt_reserved_cores_perc says; empty: all cores for both.
std::string shared_threads(const sim::Scenario& scenario, const Setting& setting) {
  if (setting.placement() == sim::Placement::kGpu) return "";
  const auto cores = static_cast<double>(scenario.hardware.host.cores);
  const auto shared_sums = setting.get(Knob::kReservedCores) * cores;
  const bool shares = setting.zenflow() && shared_sums >= 1 && cores - shared_sums >= 1;
  std::int64_t updates = scenario.offload.optimizer_threads;
  std::int64_t sums = scenario.offload.sum_threads;
  if (updates == 0 && shares) updates = std::llround(cores - shared_sums);
  if (sums == 0 && shares) sums = std::llround(shared_sums);
  return (updates > 0 ? fmt::format(" --optimizer-threads {}", updates) : "") +
         (sums > 0 && setting.zenflow() ? sum_threads(setting, sums) : "");
}

/// Of a recording they stay as they were.
std::string thread_flags(const TuneAnswer& answer) {
  const Setting& setting = answer.chosen().setting;
  if (answer.loaded.run) {
    const sim::RecordedRun& run = *answer.loaded.run;
    const std::string model = run.gpu ? "" : fmt::format(" --threads {}", run.threads);
    return model + fmt::format(" --optimizer-threads {}", run.optimizer_threads) +
           sum_threads(setting, run.sum_threads);
  }
  if (answer.loaded.request.family != sim::Family::kLive) return "";
  return shared_threads(answer.loaded.request.job.scenario, setting);
}

/// What a step is: its batch and what of the activations is kept.
std::string step_flags(const sim::Scenario& scenario, const Setting& setting,
                       std::int64_t micro_batches) {
  std::string flags =
      fmt::format(" --micro-batch-size {} --sequence-length {}", setting.whole(Knob::kMicroBatch),
                  scenario.training.sequence_length);
  if (micro_batches > 1) flags += fmt::format(" --gradient-accumulation-steps {}", micro_batches);
  if (setting.flag(Knob::kCheckpointing)) flags += " --activation-checkpointing";
  return flags;
}

std::string zenflow_flags(const TuneAnswer& answer) {
  const Setting& setting = answer.chosen().setting;
  if (!setting.zenflow()) return "";
  std::string flags =
      fmt::format(" --topk-ratio {} --update-interval {} --select-interval {} --overlap-step {}",
                  setting.topk_ratio(), setting.interval(), setting.whole(Knob::kSelectInterval),
                  setting.flag(Knob::kOverlapStep));
  const std::int64_t warm_up = setting.whole(Knob::kWarmUp);
  if (warm_up > 0) flags += fmt::format(" --full-warm-up-rounds {}", warm_up);
  if (setting.flag(Knob::kAccumulateOn)) {
    flags += fmt::format(" --accumulate-on {}", sim::accumulate_place(true));
  }
  // More than zenflow-train allows unless told.
  const std::int64_t stale = answer.chosen().evaluation.staleness;
  if (stale > sim::Limits().staleness) flags += fmt::format(" --max-staleness {}", stale);
  return flags;
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

const char* schedule_of(const Setting& setting) {
  if (setting.zenflow()) return "zenflow";
  return setting.placement() == sim::Placement::kCpu ? "zero-offload" : "gpu-only";
}

}  // namespace

std::string train_command(const TuneAnswer& answer, const std::optional<fs::path>& given,
                          const std::optional<fs::path>& folder) {
  const std::vector<std::string> why = hindrances(answer, given);
  if (!why.empty()) return refusal(why);
  const sim::Scenario& scenario = answer.loaded.request.job.scenario;
  const Setting& setting = answer.chosen().setting;
  fs::path model = model_file(answer, given);
  if (folder && model.is_relative()) model = path_from(*folder, model);
  return fmt::format("zenflow-train --model {} --data data.txt --schedule {}",
                     shell_word(model.generic_string()), schedule_of(setting)) +
         step_flags(scenario, setting, answer.candidates.accumulation(setting)) +
         zenflow_flags(answer) + fmt::format(" --dtype {}", to_string(scenario.training.dtype)) +
         device_flags(answer) + optimizer_flags(answer) + thread_flags(answer);
}

}  // namespace zenflow::runtime
