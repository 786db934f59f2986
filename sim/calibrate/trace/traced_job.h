/// What traces say of the job that was recorded, apart from times: how many GPUs, which batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/schedule/job.h"
#include "sim/trace/import/imported_trace.h"
#include "sim/trace/recorded_run.h"

namespace zenflow::sim {

/// A number with where it was found.
struct StatedNumber {
  std::int64_t value = 0;
  std::string from;  ///< "shapes of its attention"
};

struct TracedJob {
  std::vector<std::string> devices;  ///< names of GPUs, each once; not those that only say a number
  std::optional<std::int64_t> device_memory;  ///< bytes of the smallest GPU with work
  std::optional<StatedNumber> host_memory;    ///< bytes of a node's RAM
  std::optional<StatedNumber> shared_memory;  ///< bytes of its /dev/shm
  std::optional<StatedNumber> checkpoints;    ///< activations are recomputed: 1, else 0
  std::optional<StatedNumber> global_batch;   ///< sequences
  std::optional<StatedNumber> ranks;
  std::optional<StatedNumber> micro_batch;      ///< sequences of a GPU
  std::optional<StatedNumber> sequence_length;  ///< tokens
  /// Sequences of several lengths were seen: `sequence_length` is that of most.
  bool lengths_differ = false;
};

/// Ranks: the profiler's world size, the largest group of a collective, ranks that a simulated GPU
/// stands for, what a log prints, or GPUs with work in one trace. Batch and length: inputs of fused
/// attention, or what a log prints.
[[nodiscard]] TracedJob traced_job(const std::vector<const ImportedTrace*>& traces);

/// Each of its GPUs that is none of the profile: a sentence.
[[nodiscard]] std::vector<std::string> differences(const TracedJob& traced,
                                                   const HardwareProfile& profile);
/// What the traces say of ranks, batch and length that `job` does not have: a sentence each.
[[nodiscard]] std::vector<std::string> differences(const TracedJob& traced, const Job& job);

}  // namespace zenflow::sim
