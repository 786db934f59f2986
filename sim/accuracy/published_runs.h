/// Published runs: measurements that others made, and what the simulator predicts for each.
///
/// A file of them (docs/accuracy/published/rows.yaml; its README has all keys) is a list of rows. A
/// row is one published figure: where it stands, how it was read, how sure it is, and the run it is
/// of: node, model, training, DeepSpeed's configuration, schedule. A row that cannot be simulated
/// is kept as a record, with the reason. `like: ID` takes from an earlier row all that a row does
/// not say itself but notes, parts and cause.
///
/// What is predicted, by quantity:
///   optimizer step       one update and all its micro steps
///   TFLOPS/GPU           FLOP of the row's definition, flop x P x tokens, over the time
///   TFLOPS of the node   the same of all of a node's GPUs
///   MFU                  3 (2 P s + 4 n d s^2) FLOP a sequence, over time and peak (llm-foundry)
///   gpu peak memory      the peak of a GPU without context_memory, as max_memory_allocated
///   host memory          what the job needs of a node's RAM, PyTorch's own blocks included, beyond
///                        what was in use before the engine was made
///   largest micro-batch  the largest that fits into GPU memory
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/scenario.h"
#include "sim/simulate/simulation.h"

namespace zenflow::sim {

enum class PublishedQuantity : std::uint8_t {
  kOptimizerStep,      ///< s
  kGpuRate,            ///< TFLOPS of a GPU
  kNodeRate,           ///< TFLOPS of a node
  kMfu,                ///< percent
  kGpuMemory,          ///< GiB
  kHostMemory,         ///< GiB
  kLargestMicroBatch,  ///< sequences
};
[[nodiscard]] std::string to_string(PublishedQuantity quantity);  ///< as in files
[[nodiscard]] std::string unit_of(PublishedQuantity quantity);

/// The run that a row is of.
struct PublishedRun {
  PublishedQuantity quantity = PublishedQuantity::kOptimizerStep;
  std::string schedule;
  ScenarioTree scenario;
  std::vector<Override> set;  ///< further settings of the scenario
  double flop = 0;            ///< FLOP a parameter and token, of the published rate
};

struct PublishedRow {
  std::string id;
  std::string node;
  std::string model;
  std::string schedule;
  std::string quantity;  ///< one of PublishedQuantity, or of a record any
  double value = 0;
  std::string unit;
  std::string source;
  std::string how_read;
  std::string uncertainty;
  std::string notes;
  std::string release_modelled;  ///< what of the run's software the schedule describes
  std::string reason;            ///< of a record: why it is not simulated
  std::string cause;             ///< of the error, where it is known
  bool judged = false;
  std::map<std::string, double> parts;  ///< further numbers of the same run
  std::optional<PublishedRun> run;      ///< empty: a record
};

/// Where names of models and profiles are looked for, after `models` and `profiles` beside the
/// file.
struct PublishedPlaces {
  std::vector<std::filesystem::path> profiles;
  std::vector<std::filesystem::path> models;
};

/// Throws Error(kInput), located: unknown keys, an id twice, a unit that the quantity does not
/// have, a scenario that cannot be read.
[[nodiscard]] std::vector<PublishedRow> read_published_rows(const std::filesystem::path& file,
                                                            const PublishedPlaces& places);

struct PublishedPrediction {
  std::optional<double> value;             ///< in the quantity's unit; empty: refused
  std::string refused;                     ///< why it is not simulated
  std::vector<MemoryLimit> exceeded;       ///< of a run that took place: another miss
  std::optional<SimulationResult> result;  ///< what the value is made of
};

/// A row and what is predicted for it; of records nothing.
struct PublishedResult {
  PublishedRow row;
  std::optional<PublishedPrediction> prediction;

  /// Relative to the published value; empty if nothing is predicted.
  [[nodiscard]] std::optional<double> error() const;
  [[nodiscard]] bool counts() const { return row.judged && error().has_value(); }
};

[[nodiscard]] PublishedPrediction predict(const PublishedRun& run);
[[nodiscard]] std::vector<PublishedResult> predict_published(std::vector<PublishedRow> rows);

/// Errors of the rows that are judged and predicted.
struct PublishedErrors {
  std::string name{};  ///< of the group; empty: all
  int rows = 0;
  double mean = 0;         ///< of |error|
  double signed_mean = 0;  ///< positive: predicted larger than published
  double worst = 0;        ///< with its sign
  std::string worst_row{};
};

enum class PublishedGroup : std::uint8_t { kSchedule, kNode, kSource, kQuantity };
/// The field of the row by which it is grouped.
[[nodiscard]] const std::string& group_name(const PublishedRow& row, PublishedGroup group);

[[nodiscard]] PublishedErrors published_errors(const std::vector<PublishedResult>& results);
/// In the order in which the groups come first.
[[nodiscard]] std::vector<PublishedErrors> published_errors(
    const std::vector<PublishedResult>& results, PublishedGroup group);

[[nodiscard]] int judged_rows(const std::vector<PublishedResult>& results);

/// "19.5", "0.352": three digits, or all of whole ones.
[[nodiscard]] std::string published_number(double value);

/// For a terminal: every row, then the errors by group, then the records.
[[nodiscard]] std::string published_table(const std::vector<PublishedResult>& results, bool bold);
/// schema_version 1. Each row with its run's step, GPU time and stall by cause.
[[nodiscard]] std::string published_json(const std::vector<PublishedResult>& results,
                                         const std::string& version);
/// For the accuracy page: errors by group, rows that are judged, misses above `kPublishedMiss` with
/// their cause, and what is not judged with the reason.
[[nodiscard]] std::string published_markdown(const std::vector<PublishedResult>& results);
inline constexpr double kPublishedMiss = 0.2;

}  // namespace zenflow::sim
