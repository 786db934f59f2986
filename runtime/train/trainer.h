/// A training run: data, model, engine, evaluations, checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/device/host_device.h"
#include "runtime/offload/settings.h"
#include "runtime/train/data_feed.h"
#include "runtime/train/importance_log.h"
#include "runtime/train/learning_rate.h"
#include "runtime/train/step_statistics.h"
#include "runtime/train/validation.h"
#include "runtime/tune/interval_controller.h"
#include "runtime/tune/live_tuning.h"
#include "sim/base/error.h"

namespace zenflow::runtime {

struct TrainOptions {
  std::filesystem::path model;  ///< a Hugging Face config.json
  std::filesystem::path data;   ///< a text or token file, or a GLUE task's folder
  std::string task;             ///< a GLUE task; empty: language modelling
  std::optional<std::filesystem::path> tokenizer;     ///< a file or folder, for save_model
  std::optional<std::filesystem::path> weights;       ///< safetensors to begin with
  std::optional<std::filesystem::path> save_weights;  ///< fp32 safetensors at the end
  std::optional<std::filesystem::path> save_model;    ///< a folder for Hugging Face, at the end
  std::uint64_t shard_bytes = 5'000'000'000;          ///< of a file in it
  FeedOptions feed;
  /// Of the ranks that train together; null: this process alone. Each reads its share of the data.
  Communicator* communicator = nullptr;
  std::int64_t steps = 100;
  std::uint64_t seed = 0;
  LearningRate learning_rate;
  OffloadSettings offload;
  sim::TrainingSettings training{.sequence_length = 128, .dtype = sim::DType::kFp32};
  std::int64_t threads = 1;  ///< of the model's computations, where the host is the device
  double auto_ratio = 0.99;
  bool tune_live = false;      ///< update_interval is auto: by the tuner, not by Zen-auto
  bool wait_for_fits = false;  ///< for tests
  /// Slack, gain, confidence and max_deferred_share; the rest follows from `offload`.
  TuneSettings tuner;
  HostDeviceSettings device;                        ///< unless `cuda`
  std::optional<CudaDeviceSettings> cuda{};         ///< train on a GPU
  std::int64_t evaluate_interval = 0;               ///< steps; 0: at the end only
  std::optional<std::filesystem::path> checkpoint;  ///< directory
  std::int64_t checkpoint_interval = 0;             ///< steps; 0: at the end only
  std::uint64_t checkpoints_kept = 2;
  bool resume = false;
  std::optional<std::filesystem::path> importance;  ///< CSV
  bool record_trace = false;
  bool overwrite = false;

  [[nodiscard]] sim::TrainingSetup setup() const { return {offload, training, threads}; }
  [[nodiscard]] int ranks() const { return communicator == nullptr ? 1 : communicator->size(); }
  [[nodiscard]] int rank() const { return communicator == nullptr ? 0 : communicator->rank(); }
};

/// What is known of a run before its first step.
struct RunFacts {
  std::string model_name;
  std::int64_t parameters = 0;
  std::string device_name;
  std::uint64_t training_samples = 0;
  std::int64_t first_step = 0;  ///< of this process
  double topk_ratio = 0;        ///< at first; a resumed run's are those that its checkpoint has
  std::int64_t update_interval = 1;
  std::uint64_t device_bytes = 0;  ///< planned, activations included
  std::uint64_t host_bytes = 0;
};

/// What a run reports while it goes on. Calls come from the training thread, except of `stop`.
struct TrainEvents {
  /// Called once, when everything has been checked.
  std::function<void(const RunFacts&)> begins{};
  std::function<void(const StepResult&, const StepTimes&, double tokens_per_second)> step;
  std::function<void(const Validation&)> validation;
  /// Batches of a validation that are done, after each.
  std::function<void(std::size_t done, std::size_t of)> validating{};
  std::function<void(const IntervalDecision&)> decision;
  std::function<void(const TuneEvent&)> tuning;
  std::function<void(const std::string&)> note;
  /// Something that whoever wants no notes has to know, too.
  std::function<void(const std::string&)> warning{};
  /// Called once before the first step. Until then Stopped (sim/base/stop.h) may end the run, which
  /// has nothing to lose yet; from then on only `stop` may, so whoever asks for that has to end it.
  std::function<void()> steps_begin{};
  /// Asked after every step, and in validations, which it ends; true ends the run as if it were
  /// finished, with a checkpoint and the weights that were asked for. With a link bandwidth also
  /// asked by threads that wait for the link, which they then do no longer.
  std::function<bool()> stop;
  /// Asked between steps and in validations: whether SIGTSTP is pending, which then stops the
  /// process until SIGCONT (suspend_process). For what is measured no time passes meanwhile. Not
  /// asked of a run on a GPU, where it would.
  std::function<bool()> suspension_asked;
  /// Called on a rank that fails while others wait for it, before anything is torn down. Ends the
  /// job.
  std::function<void(const std::exception&)> rank_failed{};
};

struct TrainReport {
  std::string model_name;
  std::string device_name;
  std::int64_t parameters = 0;
  std::int64_t steps = 0;       ///< done in all, those before a resume included
  std::int64_t first_step = 0;  ///< of this process
  bool stopped = false;         ///< by TrainEvents::stop
  std::vector<double> losses;   ///< of all steps
  std::vector<Validation> validations;
  std::vector<IntervalDecision> decisions;
  TuningLog tuning;  ///< with tune_live
  StepMeans times;
  double seconds = 0;            ///< of this process's steps
  double tokens_per_second = 0;  ///< over the steps that `times` is the mean of
  /// In the steps that `times` is the mean of; where those are all, of the whole process, with what
  /// a resume repeats.
  TrafficCount traffic;
  TrafficCount traffic_of_ranks;  ///< the sum of theirs
  RankTraffic rank_traffic;       ///< the sum of theirs, of this process's steps
  /// What would have crossed in place of its `selection` if columns were ranked by gradients.
  std::uint64_t gradient_bytes_ranked = 0;
  std::optional<std::int64_t> staleness_min;
  std::optional<std::int64_t> staleness_max;
  MemoryUse device_memory;
  MemoryUse pinned_memory;
  std::uint64_t host_optimizer_bytes = 0;
  std::uint64_t host_capacity_bytes = 0;  ///< that this process may use
  std::int64_t update_interval = 0;       ///< at the end
  double topk_ratio = 0;                  ///< likewise
  sim::Timeline timeline;                 ///< with record_trace
  TrafficCount recorded_traffic;          ///< all that the trace has
  std::size_t trace_spans = 0;
  double trace_overhead_seconds = 0;
  std::optional<Error> unsaved;  ///< why weights or --importance could not be written at the end
};

/// Tokens of a step: of all its micro-batches.
[[nodiscard]] std::int64_t tokens_per_step(const TrainOptions& options);

/// Checks everything that can be checked first, then trains. Throws Error: kInput for what the user
/// gave, kInfeasible if memory is short, kRuntime for what fails while running, or Stopped before
/// the first step; a checkpoint written before stays valid in every case. What is written at the
/// end is written before the last validation, which reads data and may fail; weights that cannot be
/// written are the report's to say, since all else of it is there.
[[nodiscard]] TrainReport train(const TrainOptions& options, const TrainEvents& events);

}  // namespace zenflow::runtime
