/// What a GPU and its driver did, one record each, without a type of CUPTI's: the form in which
/// records are kept, written and read back.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace zenflow::runtime {

enum class ActivityKind : std::uint8_t {
  kKernel,
  kCopy,             ///< `copy_kind`, `source_memory`, `destination_memory`, `bytes`
  kMemset,           ///< `source_memory`, `bytes`, `value`: the byte or word that is set
  kSynchronization,  ///< `value`: SynchronizationType; `id`, `event`: the event's
  kEventRecord,      ///< has no times; `id`, `event`
  kRuntimeCall,      ///< `value`: what it returned
  kDriverCall,       ///< likewise
  kOverhead,         ///< `value`: CUPTI's kind of overhead
  kRangeStart,       ///< NVTX; `id`, `name`, `domain`, `start`
  kRangeEnd,         ///< NVTX; `id`, `start`
  kInstant,          ///< NVTX mark
};

/// CUPTI's numbers (CUpti_ActivitySynchronizationType).
enum class SynchronizationType : std::uint32_t {
  kUnknown = 0,
  kEvent = 1,
  kStreamWaitEvent = 2,
  kStream = 3,
  kContext = 4,
};

/// Index into ActivityLog::strings. 0 is the empty string.
using StringId = std::uint32_t;

/// One record. Fields that a kind does not have are 0. Times are nanoseconds of
/// std::chrono::steady_clock; 0 if CUPTI has none. Copy and memory kinds are CUPTI's numbers.
struct Activity {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t bytes = 0;
  std::uint64_t id = 0;           ///< of an NVTX range; of one recording of an event (CUDA 12.8)
  std::uint32_t correlation = 0;  ///< joins a call with what it launched; unique in a process
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t process = 0;
  std::uint32_t thread = 0;
  StringId name = 0;
  StringId domain = 0;
  std::array<std::uint32_t, 3> grid{};   ///< blocks
  std::array<std::uint32_t, 3> block{};  ///< threads
  std::uint32_t registers = 0;           ///< per thread
  std::uint32_t shared_memory = 0;       ///< bytes per block, static and dynamic
  std::uint32_t graph = 0;               ///< CUDA graph it ran in; 0: none
  std::uint32_t event = 0;               ///< CUDA event
  std::uint32_t value = 0;
  std::uint32_t source_device = 0;       ///< of copies between devices
  std::uint32_t destination_device = 0;  ///< likewise
  ActivityKind kind = ActivityKind::kKernel;
  std::uint8_t copy_kind = 0;
  std::uint8_t source_memory = 0;
  std::uint8_t destination_memory = 0;
};
// Written to files as it lies in memory: no byte of it may be padding.
static_assert(std::has_unique_object_representations_v<Activity> && sizeof(Activity) == 120);

/// Stands for "this record is of no stream, context or event" in synchronisations.
inline constexpr std::uint32_t kNoNumber = std::numeric_limits<std::uint32_t>::max();

/// What a recording has lost or could not use. None of it is in the activities.
struct RecordLosses {
  std::uint64_t dropped_by_cupti = 0;   ///< CUPTI had no buffer for them
  std::uint64_t refused_buffers = 0;    ///< requests that found the pool empty and got none
  std::uint64_t emergency_buffers = 0;  ///< requests that found it empty and got a new buffer
  std::uint64_t unknown_kinds = 0;      ///< records of kinds that were not asked for
  std::uint64_t cut_records = 0;        ///< buffers that end within a record, or cannot be read on

  friend bool operator==(const RecordLosses&, const RecordLosses&) = default;
};

/// Nanoseconds, 50 days: what is later was not recorded, and two such times can be added up in
/// picoseconds.
inline constexpr std::uint64_t kLongestSession = std::uint64_t{50} * 24 * 3600 * 1'000'000'000;

/// A process's recording.
struct ActivityLog {
  std::uint32_t process = 0;
  std::string program;              ///< its command line
  std::uint32_t cupti_version = 0;  ///< cuptiGetVersion
  bool low_overhead = false;        ///< kernels, copies and memsets only
  std::uint64_t session_start = 0;  ///< nanoseconds of steady_clock; all records lie within
  std::uint64_t session_end = 0;   ///< 0: unknown; not `complete`: when the last buffer was written
  bool complete = false;           ///< the process ended the recording itself
  std::string untraced;            ///< why nothing was recorded; empty if it was
  std::vector<std::string> notes;  ///< what is not recorded, and why
  std::vector<std::string> strings{std::string()};
  std::vector<Activity> activities;
  RecordLosses losses;
};

}  // namespace zenflow::runtime
