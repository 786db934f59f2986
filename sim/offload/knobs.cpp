#include "sim/offload/knobs.h"

#include <algorithm>
#include <array>
#include <cassert>

#include <fmt/format.h>

namespace zenflow::sim {
namespace {

constexpr double kManySteps = 100'000;
constexpr double kManyThreads = 100'000;
constexpr double kMany = 1 << 24;

constexpr std::array<std::string_view, 2> kPlaces = {accumulate_place(false),
                                                     accumulate_place(true)};

constexpr int kAll = SetupReader::kDeepSpeed | SetupReader::kZenFlowTrain |
                     SetupReader::kSimulator | SetupReader::kTuner;
constexpr int kOurs = SetupReader::kZenFlowTrain | SetupReader::kSimulator;

/// In the order of recordings.
constexpr std::array<SetupKnob, 16> kTable = {{
    {.name = "schedule",
     .path = "",
     .flag = "--schedule",
     .identity = "schedule",
     .field = &TrainingSetup::schedule,
     .words = kOffloadScheduleNames,
     .help = "what is updated where and when",
     .read_by = kOurs | SetupReader::kTuner,
     .affects =
         SetupEffect::kTime | SetupEffect::kMemory | SetupEffect::kTraffic | SetupEffect::kWeights},
    {.name = "topk_ratio",
     .path = "deepspeed.zero_optimization.zenflow.topk_ratio",
     .flag = "--topk-ratio",
     .identity = "topk_ratio",
     .field = &TrainingSetup::topk_ratio,
     .help = "share of columns updated on the device in every step",
     .read_by = kAll,
     .affects =
         SetupEffect::kTime | SetupEffect::kMemory | SetupEffect::kTraffic | SetupEffect::kWeights,
     .in_setting = true},
    {.name = "update_interval",
     .path = "deepspeed.zero_optimization.zenflow.update_interval",
     .flag = "--update-interval",
     .identity = "",  // or auto
     .field = &TrainingSetup::update_interval,
     .low = 1,
     .high = kManySteps,
     .unit = "steps",
     .help = "steps between updates of the rest, or auto",
     .read_by = kAll,
     .affects = SetupEffect::kTime | SetupEffect::kTraffic | SetupEffect::kWeights,
     .in_setting = true},
    {.name = "update_interval_is_auto",
     .path = "",
     .flag = "",
     .identity = "",
     .field = &TrainingSetup::interval_is_auto,
     .help = "it changes while the run goes on",
     .read_by = SetupReader::kZenFlowTrain,
     .affects = SetupEffect::kTime | SetupEffect::kTraffic | SetupEffect::kWeights},
    {.name = "select_interval",
     .path = "deepspeed.zero_optimization.zenflow.select_interval",
     .flag = "--select-interval",
     .identity = "select_interval",
     .field = &TrainingSetup::select_interval,
     .low = 0,
     .high = kManySteps,
     .unit = "steps",
     .help = "steps between selections of columns; 0: once",
     .read_by = kAll,
     .affects = SetupEffect::kTime | SetupEffect::kTraffic | SetupEffect::kWeights},
    {.name = "full_warm_up_rounds",
     .path = "deepspeed.zero_optimization.zenflow.full_warm_up_rounds",
     .flag = "--full-warm-up-rounds",
     .identity = "full_warm_up_rounds",
     .field = &TrainingSetup::full_warm_up_rounds,
     .low = 0,
     .high = kManySteps,
     .unit = "steps",
     .help = "first steps, in which everything is updated at once",
     .read_by = kAll,
     .affects = SetupEffect::kMemory | SetupEffect::kWeights},
    {.name = "overlap_step",
     .path = "deepspeed.zero_optimization.zenflow.overlap_step",
     .flag = "--overlap-step",
     .identity = "overlap_step",
     .field = &TrainingSetup::overlap_step,
     .help = "true: the CPU update runs beside the next window",
     .read_by = kAll,
     .affects = SetupEffect::kTime | SetupEffect::kMemory | SetupEffect::kWeights,
     .in_setting = true},
    {.name = "accumulate_on",
     .path = "zenflow_train.accumulate_on",
     .flag = "--accumulate-on",
     .identity = "accumulation on the device",
     .field = &TrainingSetup::accumulate_on_device,
     .words = kPlaces,
     .help = "where deferred gradients are summed",
     .read_by = kOurs | SetupReader::kTuner,
     .affects = SetupEffect::kTime | SetupEffect::kMemory | SetupEffect::kTraffic,
     .came_later = true,
     .in_setting = true},
    {.name = "micro_batch_size",
     .path = "training.micro_batch_size_per_gpu",
     .flag = "--micro-batch-size",
     .identity = "micro-batch size",
     .field = &TrainingSetup::micro_batch_size_per_gpu,
     .low = 1,
     .high = kMany,
     .unit = "sequences",
     .help = "sequences of a forward and backward pass",
     .read_by = kAll,
     .affects = SetupEffect::kTime | SetupEffect::kMemory | SetupEffect::kWeights},
    {.name = "gradient_accumulation_steps",
     .path = "deepspeed.gradient_accumulation_steps",
     .flag = "--gradient-accumulation-steps",
     .identity = "gradient accumulation steps",
     .field = &TrainingSetup::gradient_accumulation_steps,
     .low = 1,
     .high = kManySteps,
     .unit = "micro-batches",
     .help = "micro-batches of a step, whose gradients add up on the device; at most 128 in bf16",
     .read_by = kAll,
     .affects = SetupEffect::kTime | SetupEffect::kMemory | SetupEffect::kWeights,
     .came_later = true},
    {.name = "activation_checkpointing",
     .path = "training.activation_checkpointing",
     .flag = "--activation-checkpointing",
     .identity = "",
     .field = &TrainingSetup::activation_checkpointing,
     .help = "keep only the input of every block, and run its forward again in backward",
     .read_by = kOurs | SetupReader::kTuner,
     .affects = SetupEffect::kTime | SetupEffect::kMemory,
     .came_later = true},
    {.name = "sequence_length",
     .path = "training.sequence_length",
     .flag = "--sequence-length",
     .identity = "sequence length",
     .field = &TrainingSetup::sequence_length,
     .low = 1,
     .high = kMany,
     .unit = "tokens",
     .help = "tokens of a sequence",
     .read_by = kOurs,
     .affects = SetupEffect::kTime | SetupEffect::kMemory | SetupEffect::kWeights},
    {.name = "dtype",
     .path = "training.dtype",
     .flag = "--dtype",
     .identity = "dtype",
     .field = &TrainingSetup::dtype,
     .words = kDTypeNames,
     .help = "of weights and gradients",
     .read_by = kOurs,
     .affects =
         SetupEffect::kTime | SetupEffect::kMemory | SetupEffect::kTraffic | SetupEffect::kWeights},
    {.name = "threads",
     .path = "",
     .flag = "--threads",
     .identity = "",
     .field = &TrainingSetup::threads,
     .low = 1,
     .high = kManyThreads,
     .help = "of forward and backward",
     .read_by = SetupReader::kZenFlowTrain,
     .affects = SetupEffect::kTime},
    {.name = "optimizer_threads",
     .path = "zenflow_train.optimizer_threads",
     .flag = "--optimizer-threads",
     .identity = "",
     .field = &TrainingSetup::optimizer_threads,
     .low = 1,
     .high = kManyThreads,
     .help = "of the CPU optimizer",
     .read_by = kOurs,
     .affects = SetupEffect::kTime},
    {.name = "sum_threads",
     .path = "zenflow_train.sum_threads",
     .flag = "--sum-threads",
     .identity = "",
     .field = &TrainingSetup::sum_threads,
     .low = 1,
     .high = kManyThreads,
     .help = "that add up deferred gradients",
     .read_by = kOurs,
     .affects = SetupEffect::kTime},
}};

}  // namespace

std::span<const SetupKnob> setup_knobs() {
  return kTable;
}

const SetupKnob& setup_knob(std::string_view name) {
  const auto found = std::find_if(kTable.begin(), kTable.end(),
                                  [name](const SetupKnob& one) { return one.name == name; });
  assert(found != kTable.end());
  return *found;
}

double knob_value(const SetupKnob& knob, const TrainingSetup& setup) {
  return std::visit([&](auto field) { return static_cast<double>(setup.*field); }, knob.field);
}

void set_knob(const SetupKnob& knob, TrainingSetup& setup, double value) {
  std::visit(
      [&](auto field) {
        using Value = std::remove_reference_t<decltype(setup.*field)>;
        if constexpr (std::is_same_v<Value, bool>) {
          setup.*field = value != 0;
        } else if constexpr (std::is_enum_v<Value>) {
          setup.*field = static_cast<Value>(static_cast<int>(value));
        } else {
          setup.*field = static_cast<Value>(value);
        }
      },
      knob.field);
}

bool is_whole(const SetupKnob& knob) {
  return std::holds_alternative<std::int64_t TrainingSetup::*>(knob.field) ||
         std::holds_alternative<int TrainingSetup::*>(knob.field);
}

bool is_switch(const SetupKnob& knob) {
  return knob.words.empty() && std::holds_alternative<bool TrainingSetup::*>(knob.field);
}

std::string knob_text(const SetupKnob& knob, const TrainingSetup& setup) {
  const double value = knob_value(knob, setup);
  if (!knob.words.empty()) return std::string(knob.words[static_cast<std::size_t>(value)]);
  if (is_switch(knob)) return value != 0 ? "true" : "false";
  return is_whole(knob) ? fmt::format("{}", static_cast<std::int64_t>(value))
                        : fmt::format("{}", value);
}

std::optional<double> word_value(const SetupKnob& knob, std::string_view text) {
  const auto found = std::find(knob.words.begin(), knob.words.end(), text);
  if (found == knob.words.end()) return std::nullopt;
  return static_cast<double>(found - knob.words.begin());
}

std::string_view zenflow_train_key(const SetupKnob& knob) {
  constexpr std::string_view kBlock = "zenflow_train.";
  return knob.path.starts_with(kBlock) ? knob.path.substr(kBlock.size()) : std::string_view();
}

}  // namespace zenflow::sim
