/// The amounts of work in the operations of recordings beside the times that they took: what the
/// constants of live_fit.h are fitted to.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/calibrate/live_run.h"
#include "sim/calibrate/regression.h"
#include "sim/cost/gpu_cost.h"

namespace zenflow::sim {

/// Rows of one fit.
struct Rows {
  std::vector<TimedWork> times;

  void add(std::vector<double> work, double seconds, double known = 0) {
    times.push_back({std::move(work), seconds, known});
  }
};

/// Amounts of one kind of work in the times that identify `unit` and are not damped: "0.4 to 6.4
/// MB".
[[nodiscard]] std::string range_text(const Rows& rows, const TimeFit& fit, std::size_t unit,
                                     std::size_t amount, double scale, const char* name);

/// A layer's pass; backward may contain the forward that it runs again.
struct ModelSample {
  std::vector<LayerWork> work;
  double seconds;
};

/// Samples of all recordings, as rows of each fit.
struct LiveRows {
  std::vector<ModelSample> model;
  Rows device;                       ///< bytes streamed, bytes of columns, kernels
  Rows down;                         ///< bytes, copies
  Rows up;                           ///< bytes, copies
  Rows update;                       ///< bytes, calls
  Rows sum;                          ///< bytes of a core
  Rows gap;                          ///< steps
  std::vector<double> update_cores;  ///< of each of `update`
  std::set<double> all_update_cores;
  double sum_cores = 1;  ///< at most
};

/// Work of a sample that moves memory on the device: after backward, of selected columns, of
/// uploads that are placed. Nothing: it is another kind of operation.
[[nodiscard]] std::optional<DeviceWork> device_work(const LiveWork& work,
                                                    const std::vector<LiveLayer>& layers,
                                                    const LiveSample& sample);

/// Adds a run's. Throws Error(kInput) if a copy is not of the run's setting.
void add_rows(const LiveRun& run, LiveRows& rows);

}  // namespace zenflow::sim
