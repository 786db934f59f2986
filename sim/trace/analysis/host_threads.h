/// Which thread of the host ran before a call, and which calls waited for a copy.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/base/intervals.h"
#include "sim/trace/import/imported_trace.h"
#include "sim/trace/launches.h"
#include "sim/trace/span_indices.h"

namespace zenflow::sim {

/// A call into the GPU's runtime: it launches, or waits.
[[nodiscard]] bool is_call(const Timeline& timeline, const TimelineSpan& span);
/// Whether a call returns when the GPU has done something: "cudaStreamSynchronize".
[[nodiscard]] bool is_synchronization(const Timeline& timeline, const TimelineSpan& call);

/// Threads that launch kernels. In each process one is the main one; the others do as it says, as
/// PyTorch's autograd engine does: between two of their calls they may have had nothing to do.
class HostThreads {
 public:
  /// `trace` must outlive it. Memory: 4 bytes for each call.
  HostThreads(const ImportedTrace& trace, const SpanLaunches& launch);

  [[nodiscard]] bool is_worker(std::uint32_t track) const { return is_worker_[track]; }
  /// Since when the thread had been running operations without a pause at `time`, which is the
  /// answer itself if it ran none then.
  [[nodiscard]] Picoseconds active_since(std::uint32_t track, Picoseconds time) const;
  /// How long the main thread of a thread's process ran operations in [start, end).
  [[nodiscard]] Picoseconds main_active_within(std::uint32_t track, Picoseconds start,
                                               Picoseconds end) const;
  /// The last call that ended after `start` and until `end` on another thread of the process: for
  /// the main thread a worker, for a worker any; else kNoSpan.
  [[nodiscard]] std::uint32_t last_call_of_others(std::uint32_t track, Picoseconds start,
                                                  Picoseconds end) const;

 private:
  void find_workers(const std::vector<bool>& launches_kernels);
  [[nodiscard]] std::vector<bool> tracks_with_steps() const;

  const Timeline& timeline_;
  std::vector<bool> is_worker_;         // by track
  std::vector<std::uint32_t> main_of_;  // by track; its own number if there is no other
  std::vector<Intervals> activity_;     // by track
  SpanIndices calls_;                   // of main threads and their workers, by end
};

/// Copies that the call that asked for them waited for: to or from memory that is not pinned, or by
/// a call that is not asynchronous. CUDA's "API synchronization behavior" says which.
class AwaitedCopies {
 public:
  /// Memory: 8 bytes for each such copy.
  AwaitedCopies(const Timeline& timeline, const SpanLaunches& launch);

  /// The copy that `call` waited for; kNoSpan: none.
  [[nodiscard]] std::uint32_t of_call(std::uint32_t call) const;

 private:
  std::vector<std::pair<std::uint32_t, std::uint32_t>> copies_;  // call, copy; by call
};

}  // namespace zenflow::sim
