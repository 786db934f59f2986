/// How the live runtime is set up, and how much work its operations are: what a prediction turns
/// into times, and what a fit divides measured times by.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/cost/cpu_cost.h"
#include "sim/schedule/live_layout.h"
#include "sim/schedule/step_plan.h"

namespace zenflow::sim {

/// "live-zenflow" and so on.
[[nodiscard]] std::string_view live_schedule_name(OffloadSchedule schedule);
/// The schedule with that name; empty: it is not one of the live ones.
[[nodiscard]] std::optional<OffloadSchedule> live_kind(std::string_view schedule);

/// The one rule that all four are points of.
struct LiveSettings : OffloadSetup {  ///< topk_ratio 1: nothing is deferred
  double optimizer_cores = 1;
  double sum_cores = 1;

  [[nodiscard]] bool offloads() const { return topk_ratio < 1; }
  /// The update reads the copies themselves; else sums are kept.
  [[nodiscard]] bool reads_staging() const { return !keeps_sums(); }
  [[nodiscard]] bool sums_on_device() const { return offloads() && OffloadSetup::sums_on_device(); }
};

/// Where the device is the host, ranks share its cores equally; each has one at least.
[[nodiscard]] double cores_of_a_rank(const Scenario& scenario);
/// Precondition: for kZenFlow the job has a zenflow block with a number for update_interval.
[[nodiscard]] LiveSettings live_settings(OffloadSchedule schedule, const Job& job);
/// The way back: DeepSpeed's file and the scenario's zenflow_train block say `setup`.
void set_offload(Job& job, const OffloadSetup& setup);

/// Whether backward of layer `layer` of `layers` (embedding, blocks, head) runs its forward before:
/// with activation checkpointing all blocks do, but the last, whose activations are still there.
[[nodiscard]] bool runs_forward_again(const TrainingSettings& training, std::size_t layer,
                                      std::size_t layers);
/// The scenario's, as our runtime trains: whatever training.framework says of other programs', its
/// kernels on a GPU are fused, and its products take vocabularies of any size.
[[nodiscard]] TrainingSettings live_training(const Job& job);

/// The step's layers and buckets: one bucket a layer, in the order of backward; gradients are
/// packed by tasks of their own, so backward is without that; activations are in buffers that stay.
[[nodiscard]] StepPlan live_plan(const Job& job);

/// Work of device kernels that move memory.
struct DeviceWork {
  double streamed = 0;  ///< bytes, neighbours together
  double columns = 0;   ///< bytes, single columns picked
  double kernels = 0;   ///< launches

  DeviceWork& operator+=(const DeviceWork& other);
};
/// Rates as in gpu_cost.h and column_cost.h.
[[nodiscard]] Seconds device_time(const GpuProfile& gpu, const DeviceWork& work);

/// Amounts of everything that is not forward and backward.
class LiveWork {
 public:
  LiveWork(const Job& job, const LiveSettings& live) : job_(job), live_(live) {}

  /// Compute stream, after a layer's backward: norms of the gradient, selected columns gathered,
  /// deferred ones packed.
  [[nodiscard]] DeviceWork after_backward(const LiveLayer& layer) const;
  /// Compute stream: AdamW on the selected columns, weights written where they belong.
  [[nodiscard]] DeviceWork update_selected(const LiveLayer& layer) const;
  /// Compute stream, at a window's end: selected weights into the set that becomes current.
  [[nodiscard]] DeviceWork carry_selected(const LiveLayer& layer) const;
  /// H2D stream, after the layer's copy.
  [[nodiscard]] DeviceWork place_upload(const LiveLayer& layer) const;
  [[nodiscard]] DeviceWork column_norms(const LiveLayer& layer) const;
  /// Compute stream, where sums are kept on the device: those of a step's `elements`, in one
  /// kernel. On the host device that is the CPU's pass, on one core.
  [[nodiscard]] Seconds sum_on_device(double elements, bool first) const;
  /// CPU, bytes of memory traffic a parameter: one pass of Adam that also writes the weights that
  /// go up.
  [[nodiscard]] double update_bytes() const;
  /// Likewise, on either side; the window's first step writes the sums without reading them.
  [[nodiscard]] double sum_bytes(bool first) const;
  /// The same as times, on the settings' cores.
  [[nodiscard]] CpuWork update() const;
  [[nodiscard]] CpuWork sum(bool first) const;
  [[nodiscard]] double width() const;  ///< bytes of an element
  /// What comes down at once of `layer`: a step's gradients, or a window's sums.
  [[nodiscard]] double bytes_down(const LiveLayer& layer) const;
  /// An update's weights of `layer`.
  [[nodiscard]] double bytes_up(const LiveLayer& layer) const;

 private:
  [[nodiscard]] DeviceWork gather(const LiveTensor& tensor, std::int64_t columns) const;
  [[nodiscard]] DeviceWork scatter(const LiveTensor& tensor, std::int64_t columns) const;

  const Job& job_;
  LiveSettings live_;
};

}  // namespace zenflow::sim
