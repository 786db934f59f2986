/// A run's scalars for TensorBoard (--log-dir).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "runtime/train/event_file.h"
#include "runtime/train/trainer.h"
#include "sim/base/error.h"

namespace zenflow::tools {

/// Takes part in a run's events. What cannot be written ends the log, not the run.
class EventLog {
 public:
  EventLog(std::filesystem::path folder, const runtime::LearningRate& rate)
      : folder_(std::move(folder)), rate_(rate) {}

  /// After what `events` does already. The file is made when the run begins, which throws
  /// Error(kInput) if that cannot be. Both must outlive the run.
  void join(runtime::TrainEvents& events);
  /// Why the log has not all of the run; nothing: it has.
  [[nodiscard]] std::optional<Error> end();

 private:
  void add_step(const runtime::StepResult& step, const runtime::StepTimes& times,
                double tokens_per_second);
  void add_validation(const runtime::Validation& validation);
  void add(std::int64_t step, const std::vector<runtime::Scalar>& scalars);

  std::filesystem::path folder_;
  runtime::LearningRate rate_;
  std::optional<runtime::EventFile> file_;
  std::optional<Error> failure_;
};

}  // namespace zenflow::tools
