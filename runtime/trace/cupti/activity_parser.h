/// CUPTI's activity buffers into activities.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/trace/cupti/activity.h"
#include "runtime/trace/cupti/cupti_api.h"
#include "runtime/trace/cupti/string_table.h"

namespace zenflow::runtime {

/// Reads records by their kind and copies out what is pointed to: names live as long as CUPTI's
/// process, not as long as the record. Nothing is judged here; that needs all records
/// (activity_timeline.h). For one thread at a time.
///
/// Structures. CUPTI appends to its structures and gives each a new name (Kernel9 in CUDA 12.0,
/// Kernel10 in 13.0); fields that were there keep their places. Only fields that CUDA 12.0's
/// structures have are read, wherever a record ends, so one build reads every later CUPTI of its
/// major version; `cudaEventSyncId`, which came with CUDA 12.8, is read if `cupti_version` has it.
class ActivityParser {
 public:
  /// `cupti_version`: what cuptiGetVersion says of the library that writes the buffers.
  ActivityParser(const CuptiApi& api, std::uint32_t cupti_version, StringTable& strings)
      : api_(api), cupti_version_(cupti_version), strings_(strings) {}

  /// Appends the records of a buffer, in its order. `buffer` is 8-byte aligned, as CUPTI requires;
  /// its size is the number of valid bytes.
  void parse(std::span<std::byte> buffer, std::vector<Activity>& activities);

  /// What was lost in all buffers so far: unknown_kinds and cut_records.
  [[nodiscard]] const RecordLosses& losses() const { return losses_; }

 private:
  const CuptiApi& api_;
  std::uint32_t cupti_version_;
  StringTable& strings_;
  RecordLosses losses_;
};

}  // namespace zenflow::runtime
