/// Live runs for a validation: one training run a setting, measured as its own summary says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/train/trainer.h"
#include "sim/accuracy/recorded_figures.h"
#include "sim/offload/training_setup.h"

namespace zenflow::runtime {

struct LiveRunSettings {
  std::filesystem::path model;                   ///< a Hugging Face config.json
  std::filesystem::path data;                    ///< text or tokens
  sim::TrainingSetup setup;                      ///< what the settings that are run have in common
  std::optional<BytesPerSecond> link_bandwidth;  ///< of the host device
  std::optional<CudaDeviceSettings> cuda{};      ///< train on a GPU
  std::int64_t windows = 8;                      ///< measured; two more come first
  std::int64_t least_steps = 24;
};

struct LiveRun {
  /// Times of the step, stall and bytes as the run's own summary has them; memory by its ledger:
  /// what the engine allocates, without a model's activations; phases from its recording.
  sim::StepFigures figures;
  bool stopped = false;      ///< by `stop`, asked after every step: not measured
  sim::Timeline timeline;    ///< what was recorded
  sim::RecordedSteps steps;  ///< those that count
};

/// Throws Error as train() does.
[[nodiscard]] LiveRun live_run(const LiveRunSettings& settings, const sim::OffloadSetup& point,
                               const std::function<bool()>& stop = {});

/// Pseudo-random bytes to train on: speed does not depend on what they say. Enough for `sequences`.
void write_training_bytes(const std::filesystem::path& file, std::int64_t sequences,
                          std::int64_t length);

}  // namespace zenflow::runtime
