/// Measured times of a trace's work, with the formulas that predict them: what constants are fitted
/// to. One function for each kind of evidence.
///
///   simulated run    every task, by building the schedule anew with other constants; what shares a
///                    link or cores is slowed as the engine's fair shares say, by what was
///                    concurrent
///   product kernel   max((F + H) / (e P), bytes / (s W)) + l - g    shapes of the aten operation
///   attention        max(F / (a P), bytes / (s W)) + l - g          likewise, causal halved
///   element-wise     bytes / (u W) + l - g                          likewise
///   pass of a step   products, attention and the rest by kernel name, against the model's
///   copy             latency + bytes / rate, slowed as its fair share says of the links that it
///                    shares with what was concurrent: the other direction, GPUs under its switch
///   collective       transfer_cost.h, by NCCL's message size and group
///   CPU Adam         adam_launch + 28 bytes a parameter of a rank's part / adam_rate on all cores;
///                    in stage 3, with a range for each, one call a sub-group
///   DeepSpeed log    forward: the model's pass; optimizer: CPU Adam; with state on NVMe the swap
///                    timers: latency a sub-group + bytes of all ranks / read or write
///
/// Every time carries what the trace's clock adds to it (clock_tick.h).
///
/// with the symbols of gpu_cost.h and g the gap between kernels that follow each other on a stream.
#pragma once

#include <string>
#include <vector>

#include "sim/calibrate/constant_fit.h"
#include "sim/schedule/job.h"
#include "sim/trace/import/imported_trace.h"

namespace zenflow::sim {

struct TraceWork {
  std::vector<TimedGroup> groups;
  std::vector<std::string> notes;  ///< what was left aside and why, what was assumed

  void add(TimedGroup group) {
    if (!group.seconds.empty()) groups.push_back(std::move(group));
  }
  void add(TraceWork other);
};

/// Whether `zenflow-sim run --trace` wrote it.
[[nodiscard]] bool is_simulated(const Timeline& timeline);
/// The schedule's name is the last word of the timeline's.
/// Throws Error(kInput), naming the first span that differs, if the timeline is not what this
/// schedule does with this job. Only the hardware's constants may differ.
[[nodiscard]] TraceWork simulated_work(const Timeline& timeline, const Job& job);

/// Kernels whose launching operation's shapes are known. `gap_seconds`: between kernels, 0 if not
/// known.
[[nodiscard]] TraceWork shaped_kernel_work(const Timeline& timeline, const HardwareProfile& base,
                                           double gap_seconds);
/// Kernels by phase and step against what the model computes.
[[nodiscard]] TraceWork model_kernel_work(const Timeline& timeline, const Job& job,
                                          double gap_seconds);

/// The copies in one machine's timelines, which are on one clock, each with GPUs of its own. `base`
/// says which GPUs share a switch.
[[nodiscard]] TraceWork copy_work(const std::vector<const Timeline*>& timelines,
                                  const HardwareProfile& base);
/// `base`: whose node says how many GPUs are reached without a network.
[[nodiscard]] TraceWork collective_work(const Timeline& timeline, const HardwareProfile& base);

/// Whether what repeats in a trace may be a step of the job, where nothing but repetition shows
/// steps: it is no shorter than a third of what the model's forward and backward of a micro-batch
/// take with the job's profile. Layers, of which a model has more than a few, are. True of steps
/// that are known otherwise.
[[nodiscard]] bool may_repeat_steps(const ImportedTrace& trace, const Job& job);
/// Seconds that forward and backward of a micro-batch take with the job's profile.
[[nodiscard]] double micro_batch_seconds(const Job& job);

/// Optimizer ranges of the host, as `rules` recognise them.
[[nodiscard]] TraceWork host_update_work(const Timeline& timeline, const Job& job,
                                         const TraceRules& rules);
/// Precondition: the trace has timers.
[[nodiscard]] TraceWork log_work(const ImportedTrace& trace, const Job& job);

}  // namespace zenflow::sim
