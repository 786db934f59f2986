/// Recording what GPUs do in this process, through CUPTI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/trace/cupti/activity.h"
#include "runtime/trace/cupti/cupti_api.h"

namespace zenflow::runtime {

/// Nanoseconds of std::chrono::steady_clock, which on Linux is CLOCK_MONOTONIC: the clock of the
/// CPU spans, and CUPTI's timestamp callback.
[[nodiscard]] std::uint64_t trace_clock();

/// The pool of buffers is the process's: its first session decides how many and how large.
struct CuptiOptions {
  /// Kernels, copies and memsets only. Launches cannot be matched then, nor a record that begins
  /// before its launch be found.
  bool low_overhead = false;
  std::string program{};  ///< for the log
  std::size_t buffers =
      16;  ///< of the pool; CUPTI takes one or two for every thread that calls CUDA
  std::size_t buffer_bytes = std::size_t{4} << 20;  ///< NVIDIA recommends 1 to 10 MB
  std::function<void()> synchronize{};  ///< waits for the GPU before the last flush; may be empty
};

/// Receives activities in the order of parsing, on the parser's thread. `strings`: all so far. Of
/// `facts` it may read what is known from the start, but `notes`.
using ActivitySink =
    std::function<void(const ActivityLog& facts, std::span<const Activity> activities,
                       const std::vector<std::string>& strings)>;

/// At most one at a time in a process; sessions may follow each other.
///
/// Threads. CUPTI's callbacks run on the program's threads and on CUPTI's own; they move a buffer
/// (buffer_pool.h) and, the one call into CUPTI, ask for the number of dropped records, holding no
/// lock. One thread of the session parses. `start` and `stop` are called by one thread; no lock is
/// held in them while CUPTI is called, so it may deliver buffers from within those calls.
///
/// Once in a process, whatever number of sessions: the pool (CUPTI may ask for a buffer after a
/// session's end, and has to get one) and the registration of the timestamp callback (CUPTI gives
/// records on the wrong clock after a second one; pytorch issue 192021). CUPTI is never detached.
class CuptiSession {
 public:
  /// Either a session, or why there is none: CUPTI is held by another tool, has no driver, ...
  /// The program goes on as if nothing had been asked for: what was enabled is disabled again.
  struct Started;
  /// `api` and what `sink` refers to outlive the session; `api`'s functions outlive the process.
  /// Throws Error(kRuntime) if a session is running.
  [[nodiscard]] static Started start(const CuptiApi& api, CuptiOptions options, ActivitySink sink);

  /// As `stop`; what the sink has thrown is lost.
  ~CuptiSession();
  CuptiSession(const CuptiSession&) = delete;
  CuptiSession& operator=(const CuptiSession&) = delete;

  /// What is known from the start: process, program, cupti_version, low_overhead,
  /// session_start, notes.
  [[nodiscard]] const ActivityLog& facts() const;
  /// Flushes: all completed buffers, then, after the kinds are disabled, incomplete ones too. Waits
  /// until all is parsed; nothing is recorded afterwards. Rethrows what the sink has thrown; it is
  /// not called again after it has.
  /// Returns facts() with session_end, losses and further notes; without activities and strings.
  [[nodiscard]] ActivityLog stop();

 private:
  class State;
  explicit CuptiSession(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

struct CuptiSession::Started {
  std::unique_ptr<CuptiSession> session;  ///< null if nothing is recorded
  std::string untraced;                   ///< then the reason
};

}  // namespace zenflow::runtime
