/// What zenflow-train says while it runs and at the end.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/train/trainer.h"
#include "tools/train/options.h"

namespace zenflow::tools {

/// A line on standard error: rewritten on a terminal, as far as that is wide, else one every ten
/// seconds.
class Progress {
 public:
  explicit Progress(const TrainCommand& command);

  /// Time left is reckoned from here.
  void begin(std::int64_t first_step);
  void show(const runtime::StepResult& step, const runtime::StepTimes& times,
            double tokens_per_second);
  /// Batches of a validation that are done.
  void show_validation(std::size_t done, std::size_t of);
  /// A line of its own.
  void say(const std::string& line);
  /// Before anything else is printed.
  void end_line();

 private:
  /// Not so soon after the last line, unless `always`.
  [[nodiscard]] bool is_due(bool always);
  void put(const std::vector<std::string>& parts, bool rewrites);

  std::int64_t steps_;
  runtime::LearningRate rate_;
  std::int64_t first_step_ = 0;
  std::chrono::steady_clock::time_point start_;
  bool verbose_;
  bool terminal_;
  bool open_ = false;
  std::chrono::steady_clock::time_point last_;
};

/// Events that go to standard error; if `command` is quiet, warnings alone. Both arguments must
/// outlive the result.
[[nodiscard]] runtime::TrainEvents reporting_events(const TrainCommand& command,
                                                    Progress& progress);

/// A few lines for people.
[[nodiscard]] std::string summary(const TrainCommand& command, const runtime::TrainReport& report);

}  // namespace zenflow::tools
