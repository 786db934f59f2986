/// What a run's spans say: step times, GPU stall and its causes, traffic, memory peaks.
///
/// Definitions. On a rank a step lasts from the start of its first forward task to that of the
/// next step's. The GPU computes while its compute lane is busy and stalls otherwise; what a
/// compute task takes beyond its duration, because the optimizer shares cores with the threads that
/// feed the GPU, is stall by the CPU update too. A gap before a compute task is split by walking
/// back from it: the predecessor (dependency or lane order) that finished last was what the GPU
/// waited for while it ran; what that one waited for accounts for the time before; and so on to the
/// gap's beginning. The parts add up to the stall exactly.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/wait_cause.h"
#include "sim/engine/engine.h"
#include "sim/schedule/program.h"

namespace zenflow::sim {

using StallTimes = std::array<double, kStallCauses>;  ///< picoseconds, mean over ranks

/// What ranks send each other, in bytes, all of them together. Of a buffer of which each of n ends
/// with its part, or begins with it, n - 1 times its size.
struct RankBytes {
  double gradients = 0;
  double weights = 0;
  double control = 0;    ///< norms of gradients
  double selection = 0;  ///< norms of columns

  RankBytes& operator+=(const RankBytes& more) {
    gradients += more.gradients;
    weights += more.weights;
    control += more.control;
    selection += more.selection;
    return *this;
  }
};

struct WindowMetrics {
  std::vector<double> step_times;  ///< picoseconds, mean over ranks
  double compute = 0;              ///< picoseconds of the compute lane's tasks, mean over ranks
  StallTimes stall{};
  double d2h_bytes = 0;  ///< over one GPU's host link, mean over ranks
  double h2d_bytes = 0;
  RankBytes between_ranks{};
};

/// Metrics of every window but the last, which only closes the one before it.
/// Precondition: the whole program has run.
[[nodiscard]] std::vector<WindowMetrics> window_metrics(const Program& program,
                                                        const Execution& execution);

/// The same of every step of these windows, one after the other.
[[nodiscard]] std::vector<WindowMetrics> step_metrics(const Program& program,
                                                      const Execution& execution);

/// Picoseconds of a step, by number over all built, mean over ranks. Precondition: another follows.
[[nodiscard]] double mean_step_time(const Program& program, const Execution& execution,
                                    std::size_t step);

/// What a task of a compute lane takes beyond its duration, in picoseconds: it waits for the
/// threads that feed it, which share cores with an update; unless these are the device. 0 for other
/// tasks.
[[nodiscard]] double slowed_by_update(const Program& program, const Execution& execution,
                                      TaskId task);

/// A gap on a compute lane, and the cause that accounts for most of it.
struct TaskWait {
  TaskId task;  ///< the task that waited
  Picoseconds time;
  WaitCause cause;
};
/// All gaps of all compute lanes, by task.
[[nodiscard]] std::vector<TaskWait> compute_waits(const Program& program,
                                                  const Execution& execution);

/// One task of a chain in which each waited for the next, and its time on the chain.
struct ChainLink {
  TaskId task;
  Picoseconds time;
};
/// Walks back from the start of `task` to the instant `from` along what finished last.
[[nodiscard]] std::vector<ChainLink> binding_chain(const Program& program,
                                                   const Execution& execution, TaskId task,
                                                   Picoseconds from);

/// What is held at the moment of the highest total, without PyTorch's own.
struct MemoryPeak {
  double total = 0;
  std::array<double, kMemoryCategories> by_category{};
  std::vector<double> by_buffer{};  ///< parallel to Program::buffers
  TaskId task = kNoTask;            ///< at whose start or end it is reached; none: held throughout
};

struct MemorySample {
  Picoseconds time;
  std::array<double, kMemoryCategories> by_category;
};

/// The course of memory over the run: one sample a change, in order of time.
[[nodiscard]] std::vector<MemorySample> memory_timeline(const Program& program,
                                                        const Execution& execution,
                                                        MemoryPlace place);
[[nodiscard]] MemoryPeak memory_peak(const Program& program, const Execution& execution,
                                     MemoryPlace place);
/// The most that each buffer ever holds; parallel to Program::buffers.
[[nodiscard]] std::vector<double> largest_sizes(const Program& program, const Execution& execution);

}  // namespace zenflow::sim
