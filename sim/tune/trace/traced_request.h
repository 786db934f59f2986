/// From traces of a job to what is asked of the tuner: the job put together, the machine fitted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/calibrate/fitted_profile.h"
#include "sim/trace/import/import_trace.h"
#include "sim/tune/request_reader.h"
#include "sim/tune/trace/phase_times.h"

namespace zenflow::sim {

/// Besides, what traces do not say, each named as its flag is.
struct TraceFlags : TuneFlags {
  std::vector<std::filesystem::path> traces;         ///< recordings of one job
  std::optional<std::filesystem::path> model;        ///< config.json
  std::optional<std::int64_t> sequence_length;       ///< tokens
  std::optional<std::int64_t> gpus;                  ///< of the whole job
  std::vector<std::string> settings;                 ///< of recordings that do not say theirs
  std::optional<std::string> host_memory;            ///< of a node
  std::optional<std::string> gpu_memory;             ///< of one GPU
  std::string steps;                                 ///< ranges that are steps
  std::optional<std::filesystem::path> trace_rules;  ///< phases by name
};

/// What traces told of their job, and what they did not.
struct TracedRequest {
  std::vector<std::string> facts;  ///< "4 GPUs: the group of its collectives"
  std::vector<std::string> untold;
  std::string base_profile;  ///< "dgx_h100"
  std::vector<FittedNumber> numbers;
  /// That the measured step is the mean of, or the median; 0: --measured-step says it, or nothing.
  std::size_t steps = 0;
  /// The step time is the median of windows of so many steps; 0: the mean of all.
  std::int64_t window = 0;
  /// Of the first trace, where what a step takes is known from it.
  std::vector<RecordedPart> parts{};
  std::string profile;   ///< profile.yaml
  std::string scenario;  ///< scenario.yaml, for the folder of the results
};

/// `read`: import_trace, or who shows progress of it. `folder`: where scenario.yaml is to lie.
/// Fills in `traced`. Throws Error(kInput) also where the traces do not suffice, with what they
/// lack.
[[nodiscard]] LoadedRequest load_traced_request(const TraceFlags& flags, const ReadTrace& read,
                                                const std::filesystem::path& folder,
                                                TracedRequest& traced);

}  // namespace zenflow::sim
