/// What zenflow-tune was asked for, and how it says what it found.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/job_files/job_inputs.h"
#include "sim/tune/trace/traced_request.h"
#include "sim/tune/tuned_answer.h"

namespace zenflow::tools {

struct TuneOptions : sim::TraceFlags {
  std::filesystem::path scenario;               ///< empty: the job is `job`, or that of `traces`
  sim::JobInputs job;                           ///< with traces only what these flags also say
  std::optional<std::filesystem::path> output;  ///< a folder; else nothing is written
  std::uint64_t max_points = 100'000'000;       ///< a larger space is refused
  unsigned threads = 0;                         ///< 0: as many as the machine has
  std::string train_command = "train.py";
  bool json = false;
  bool anyway = false;  ///< writes what is not to be relied on
  bool quiet = false;
  bool verbose = false;
  std::optional<std::string> color;
  bool overwrite = false;
  std::optional<std::filesystem::path> report;  ///< page to write
};

/// The answer, ready to be written.
struct TuneAnswer : sim::TuneAnswer {
  const TuneOptions& options;
  const std::optional<sim::TracedRequest>& traced;  ///< if the job is that of traces
  std::string command{};                            ///< cmd_optimal.txt
  bool bold = false;                                ///< headers of tables, for a terminal
};

[[nodiscard]] std::string summary_json(const TuneAnswer& answer);
[[nodiscard]] std::string summary_text(const TuneAnswer& answer);
/// The part of the summary that says what became of the points of the space.
[[nodiscard]] std::string study_text(const TuneAnswer& answer);

/// Whether the files to launch are written: what was measured does not contradict the model, or
/// --anyway asks for them.
[[nodiscard]] bool is_relied_on(const TuneAnswer& answer);

/// What the chosen setting gains, or costs, and from where.
[[nodiscard]] std::string gain_text(const TuneAnswer& answer);
/// What is known of how the chosen setting learns, where it is one of ZenFlow; else empty.
[[nodiscard]] std::string convergence_text(const TuneAnswer& answer);
/// " First to look at: ...": the part of the step that explains what the model misses of a measured
/// one; empty where it misses little or nothing was measured.
[[nodiscard]] std::string miss_text(const TuneAnswer& answer);
/// What would help the memory of the own setting and is not searched; empty if it fits.
[[nodiscard]] std::string unsearched_text(const TuneAnswer& answer);
/// What limits it, what it is chosen over, and how much of its limits it takes.
[[nodiscard]] std::string limits_text(const TuneAnswer& answer);
/// "1.11 times as fast", or of less than 1 "1.11 times as long".
[[nodiscard]] std::string times_text(double times);

/// Empty where the job is not that of traces.
[[nodiscard]] std::string traced_text(const TuneAnswer& answer);
/// Why there is no candidate, by reason.
[[nodiscard]] std::string reasons_text(const sim::SearchCounts& counts);

}  // namespace zenflow::tools
