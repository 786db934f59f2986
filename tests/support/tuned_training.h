/// A training of a real model, tiny, that is tuned while it runs: fits are waited for, so that
/// which window sees one does not depend on the machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/train/deferred_shares.h"
#include "runtime/train/simulated_run.h"
#include "runtime/tune/rank_tuning.h"
#include "tests/support/family_steps.h"
#include "tests/support/offload_case.h"
#include "tests/support/test_model.h"

namespace zenflow::runtime::testing {

/// Begins with S = 1; up to 5 are allowed with overlap, 10 without.
inline Case tuned_case() {
  Case c;
  c.settings.topk_ratio = 0.25;
  c.settings.update_interval = 1;
  c.settings.interval_is_auto = true;
  c.settings.max_staleness = 9;
  c.settings.adamw = {1e-2F, 0.9F, 0.999F, 1e-8F, 0.1F};
  return c;
}

/// An engine, its device and the tuner, as a run has them.
class TunedTraining {
 public:
  /// `read_cores`: LiveTuningSettings', of CPUs 0 and 1.
  TunedTraining(const TransformerConfig& config, const Case& c, std::int64_t steps,
                std::vector<double> ratios, std::function<CoreReading()> read_cores = {})
      : TunedTraining(config, c, steps, std::move(ratios), alone(), std::move(read_cores)) {}
  /// One of several ranks. `most_deferred`: TuneSettings::max_deferred_share.
  TunedTraining(const TransformerConfig& config, const Case& c, std::int64_t steps,
                std::vector<double> ratios, Communicator& ranks,
                std::function<CoreReading()> read_cores = {}, double most_deferred = 1)
      : ranks_(ranks),
        device_(make_test_device({.jitter = c.jitter, .lazy_streams = c.lazy}, recorder_)),
        model_(HostTransformer(config, {kFamilySequences, kFamilyLength, c.type})),
        engine_(model_, c.type, c.settings, *device_, ranks, recorder_),
        tuning_(settings(config, c, steps, std::move(ratios), std::move(read_cores), most_deferred),
                ranks, recorder_, {}) {
    engine_.set_interval_policy([this](const WindowObservation& seen) {
      device_->collect_times();
      const TunePoint next = tuning_.window_ended(seen, step_start_);
      engine_.change_topk_ratio(next.topk_ratio);
      chosen_[seen.window] = next;
      return next.update_interval;
    });
  }

  OffloadEngine& engine() { return engine_; }
  StepResult step(const std::vector<Batch>& batches) {
    model_.begin_step(batches, ranks_.size());
    step_start_ = Clock::now();
    const StepResult result = engine_.step();
    recorder_.step(result.step, step_start_, Clock::now());
    return result;
  }
  /// By window: what was chosen when it ended.
  [[nodiscard]] const std::map<std::int64_t, TunePoint>& chosen() const { return chosen_; }
  /// Of rank 0.
  [[nodiscard]] const TuningLog& log() { return tuning_.leader()->log(); }
  /// What is known at the last window's end of how long a track was busy so far.
  [[nodiscard]] std::chrono::nanoseconds busy(std::string_view track) const {
    return recorder_.find(track)->totals().busy;
  }

 private:
  static Communicator& alone() {
    static SelfCommunicator one;
    return one;
  }
  RankTuningSettings settings(const TransformerConfig& config, const Case& c, std::int64_t steps,
                              std::vector<double> ratios, std::function<CoreReading()> read_cores,
                              double most_deferred) {
    RankTuningSettings all{
        .tuning = tuner(config, c, steps, std::move(ratios), std::move(read_cores)),
        .deferred_squares =
            [this](const std::vector<double>& k) { return deferred_squares(engine_, k); },
        .groups = group_sizes(model_.parameters(), c.type)};
    all.tuning.tuner.max_deferred_share = most_deferred;
    return all;
  }
  LiveTuningSettings tuner(const TransformerConfig& config, const Case& c, std::int64_t steps,
                           std::vector<double> ratios, std::function<CoreReading()> read_cores) {
    return {.model = {.model = simulated_model(config),
                      .training = {.micro_batch_size_per_gpu = kFamilySequences,
                                   .sequence_length = kFamilyLength,
                                   .dtype = c.type == ElementType::kBfloat16 ? sim::DType::kBf16
                                                                             : sim::DType::kFp32},
                      .cores = 2,
                      .device_cores = kTestDeviceIsAGpu ? 0 : 1,
                      .offload = c.settings},
            .tuner = {.first = {c.settings.update_interval, c.settings.topk_ratio},
                      .max_staleness = c.settings.max_staleness,
                      .overlap_step = c.settings.overlap_step},
            .importance = {.max_staleness = c.settings.max_staleness,
                           .overlap_step = c.settings.overlap_step},
            .topk_ratios = std::move(ratios),
            .steps = steps,
            .finish_recording = [this] { device_->collect_all_times(); },
            .read_cores = std::move(read_cores),
            .cpus = {0, 1},
            .wait_for_fits = true};
  }

  Recorder recorder_{false};
  Communicator& ranks_;
  std::unique_ptr<Device> device_;
  TestModel model_;
  OffloadEngine engine_;
  RankTuning tuning_;
  Clock::time_point step_start_;
  std::map<std::int64_t, TunePoint> chosen_;
};

}  // namespace zenflow::runtime::testing
