/// What importing a trace gives: a Timeline, and what is not on it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/trace/import/rules.h"
#include "sim/trace/import/timer_log.h"
#include "sim/trace/timeline.h"

namespace zenflow::sim {

enum class TraceFormat : std::uint8_t { kChrome, kNsight, kTimerLog };
[[nodiscard]] std::string to_string(TraceFormat format);

/// How the steps were found.
enum class StepSource : std::uint8_t {
  kNone,
  kAnnotation,  ///< the profiler's own ("ProfilerStep#12"), or a range that is named as a step
  kPattern,     ///< ranges whose names match what the user gave
  kOptimizer,   ///< from the end of one optimizer step to that of the next
  kPeriod,      ///< the sequence of kernels repeats
  kTimers,      ///< a log's lines; only durations are known
};
[[nodiscard]] std::string to_string(StepSource source);
/// What is asked of steps that nothing but repetition shows.
inline constexpr const char* kStepsOrLayers = "repetitions: steps or layers?";

/// Things of one kind that were in the file and are not on the timeline.
struct LeftOut {
  std::string what;
  std::uint64_t count = 0;
  Picoseconds time{};         ///< sum of their durations; nested ones count twice
  bool takes_longer = false;  ///< `time` is the most that it can be, 106 days, and the sum is more
  bool is_unusable = false;   ///< wanted, if it were not damaged or impossible
  std::string first;  ///< where the first was: "byte 120", "CUPTI_ACTIVITY_KIND_KERNEL row 3"
};

/// A thread ran operations or Python functions, with little between them.
struct ThreadActivity {
  std::uint32_t track = 0;
  Picoseconds start;
  Picoseconds end;
};

/// Time that a host operation of a name took in all, with what it called.
struct OperatorTime {
  std::string name;
  std::uint64_t count = 0;
  Picoseconds time{};
};

struct ImportedTrace {
  TraceFormat format = TraceFormat::kChrome;
  Timeline timeline;
  /// Of threads that have a track, as far as the trace has their operations: by track and start,
  /// apart from each other.
  std::vector<ThreadActivity> activity;
  /// PyTorch's operators of the host, by time; at most 200. Not its functions in Python.
  std::vector<OperatorTime> operators{};
  StepSource step_source = StepSource::kNone;
  std::vector<LeftOut> left_out;  ///< by name
  std::vector<std::string>
      problems;                    ///< what is wrong with the file or missing in it, with the place
  std::optional<TimerLog> timers;  ///< of kTimerLog
  std::uint64_t events = 0;        ///< in the file, kept or not
};

struct ImportOptions {
  TraceRules rules = default_rules();
  /// A regular expression (RE2) for the whole name of ranges that are steps; empty: known
  /// names.
  std::string steps;
  /// Also what only a copy of the trace needs: every argument of every event that is kept.
  bool keep_fields = false;
  /// Called now and then with how many bytes of how many have been read; may throw to end the
  /// import.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
};

/// Says of each kind of what could not be used how much there is and where.
void note_unusable(const std::string& name, ImportedTrace& trace);

/// Adds up what is left out, by kind.
class LeftOutCounter {
 public:
  void add(std::string_view what, Picoseconds time, std::uint64_t place, std::string_view unit);
  /// The same of what should have been used.
  void add_unusable(std::string_view what, Picoseconds time, std::uint64_t place,
                    std::string_view unit);
  /// By name.
  [[nodiscard]] std::vector<LeftOut> take();

 private:
  LeftOut& count(std::string_view what, Picoseconds time, std::uint64_t place,
                 std::string_view unit);

  NameTable names_;
  std::vector<LeftOut> counts_;
};

}  // namespace zenflow::sim
