/// What zenflow-train says while it runs and at the end.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/train/trainer.h"
#include "tools/train/options.h"

namespace zenflow::tools {

/// A line on standard error: rewritten on a terminal, else one every ten seconds.
class Progress {
 public:
  explicit Progress(const TrainCommand& command);

  void show(const runtime::StepResult& step, const runtime::StepTimes& times,
            double tokens_per_second);
  /// A line of its own.
  void say(const std::string& line);
  /// Before anything else is printed.
  void end_line();

 private:
  std::int64_t steps_;
  bool verbose_;
  bool terminal_;
  bool open_ = false;
  std::chrono::steady_clock::time_point last_;
};

/// Events that go to standard error; nothing is said if `command` is quiet. Both arguments must
/// outlive the result.
[[nodiscard]] runtime::TrainEvents reporting_events(const TrainCommand& command,
                                                    Progress& progress);

/// A few lines for people.
[[nodiscard]] std::string summary(const TrainCommand& command, const runtime::TrainReport& report);

}  // namespace zenflow::tools
