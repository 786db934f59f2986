/// One run of `train`, from its parts to its report.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/cuda/gpu_recording.h"
#include "runtime/model/model_folder.h"
#include "runtime/offload/engine.h"
#include "runtime/offload/training_model.h"
#include "runtime/train/data_feed.h"
#include "runtime/train/importance_log.h"
#include "runtime/train/memory_plan.h"
#include "runtime/train/step_statistics.h"
#include "runtime/train/trainer.h"
#include "runtime/tune/rank_tuning.h"
#include "sim/base/thread_pool.h"

namespace zenflow::runtime {

/// Everything of a run that lives as long as it. Members are destroyed from the last to the first.
class Run {
 public:
  Run(const TrainOptions& options, const TrainEvents& events);
  TrainReport go();

 private:
  /// Says what was asked for and this run is too short, or has no data, for.
  void note_unreached() const;
  void set_policy();
  [[nodiscard]] RankTuningSettings tuning_settings(const IntervalLimits& limits);
  void check_ranks();
  /// Of files that a path names on each rank for itself.
  void check_initial_weights(const std::vector<std::vector<float>>& weights, ThreadPool& pool);
  /// Rank 0's text, on every rank.
  [[nodiscard]] std::string text_of_first(const std::string& text);
  void read_clock();
  struct Asked {
    bool stop;
    bool suspend;
  };
  /// Of any rank, so that all do it after the same step.
  [[nodiscard]] Asked what_is_asked();
  [[nodiscard]] Communicator& communicator() {
    return options_.communicator != nullptr ? *options_.communicator : self_;
  }
  void train_steps();
  void one_step();
  /// Of a step, on all ranks; nothing where each micro-batch has the same number.
  [[nodiscard]] std::optional<double> targets_of_all(const std::vector<Batch>& micro_batches);
  void suspend();
  void record_importance();
  /// False: it was stopped; a resume begins with it.
  bool validate();
  /// After a step whose number asks for it. False as above.
  bool validate_if_due();

  // run_checkpoints.cpp
  [[nodiscard]] CheckpointFile newest_checkpoint();
  void resume();
  void check_same_checkpoint(const CheckpointFile& file,
                             const std::deque<CheckpointReader>& shards);
  /// The data to where the checkpoint was.
  void seek(CheckpointReader& reader);
  /// Returns when all ranks have come here.
  void meet_ranks();
  void open_checkpoints();
  void save_checkpoint();

  // run_end.cpp
  void finish();
  void save_weights();
  /// What cannot be written at the end does not end the run: the report says so.
  void save(const std::function<void()>& write);
  void fill_report();
  void add_traffic_of_ranks();
  void fill_recording();
  void add_gpu_trace();
  void note(const std::string& text) const {
    if (events_.note) events_.note(text);
  }

  void warn(const std::string& text) const {
    if (events_.warning) events_.warning(text);
  }

  const TrainOptions& options_;
  const TrainEvents& events_;
  TransformerConfig config_;
  std::optional<ModelFolder> model_folder_;  // with save_model, on rank 0
  std::unique_ptr<DataFeed> feed_;
  Recorder recorder_;
  SelfCommunicator self_;
  std::unique_ptr<GpuRecording> gpu_recording_;  // with a trace, on a GPU
  LaunchLog launches_;                           // likewise
  std::unique_ptr<Device> device_;
  MemoryPlan plan_;
  std::unique_ptr<TrainingModel> model_;
  OffloadEngine engine_;
  std::string identity_;
  std::optional<CheckpointDirectory> checkpoints_;  // rank 0's
  std::optional<ImportanceLog> importance_;
  std::optional<RankTuning> tuning_;
  StepStatistics statistics_;
  TrainReport report_;
  TrafficCount traffic_before_;
  RankTraffic rank_traffic_;  // of the steps
  ClockOffset clock_at_start_;
  std::int64_t run_begin_ = 0;  // of several ranks that record, on rank 0's clock
  std::int64_t last_checkpoint_ = -1;
  std::int64_t last_validation_ = -1;
};

}  // namespace zenflow::runtime
