/// A schedule turns a job into a task graph, and nothing else.
///
/// To add one: write a file with a class and a factory, and add one line to registry.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/schedule/program.h"

namespace zenflow::sim {

struct Staleness {
  std::int64_t min = 0;
  std::int64_t max = 0;
};

/// What must hold for every simulation of the schedule, from formulas alone.
struct ClosedForm {
  double d2h_bytes_per_step = 0;  ///< over one GPU's host link
  double h2d_bytes_per_step = 0;
  Staleness staleness_steps;  ///< from producing a gradient to applying it
};

class Schedule {
 public:
  virtual ~Schedule() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::string_view summary() const = 0;
  [[nodiscard]] virtual std::string_view source() const = 0;
  /// Whether it does what DeepSpeed does, and so depends on release and launcher.
  [[nodiscard]] bool runs_deepspeed() const { return name().starts_with("deepspeed-"); }

  /// Throws Error(kInput) if the job lacks what the schedule needs.
  virtual void check(const Job&) const {}

  /// Settings of the job that have no effect under this schedule, one sentence each.
  [[nodiscard]] virtual std::vector<std::string> ignored(const Job&) const { return {}; }

  /// The windows of a run that covers at least `steps` steps.
  [[nodiscard]] virtual std::vector<WindowShape> windows(const Job& job,
                                                         std::int64_t steps) const = 0;

  /// The graph of the given windows, one after the other.
  [[nodiscard]] virtual Program build(const Job& job,
                                      std::span<const WindowShape> shapes) const = 0;

  [[nodiscard]] virtual ClosedForm closed_form(const Job& job) const = 0;

  /// Micro-batches of what the schedule calls a step: one, a micro step, but of zenflow-train,
  /// whose step ends with an update of the selected columns.
  [[nodiscard]] virtual std::int64_t micro_batches_per_step(const Job&) const { return 1; }

  /// The ZenFlow knobs in force, for schedules that have them.
  [[nodiscard]] virtual std::optional<ZenFlowSettings> zenflow(const Job&) const {
    return std::nullopt;
  }

  /// Which of two gradient buffers the CPU update of boundary step `step` reads; empty if the
  /// schedule does not alternate between two.
  [[nodiscard]] virtual std::optional<int> gradient_buffer(const Job&, std::int64_t) const {
    return std::nullopt;
  }
};

/// All schedules, in the order in which they are listed.
[[nodiscard]] std::span<const std::unique_ptr<const Schedule>> schedules();

/// Throws Error(kInput) naming the known schedules, with a suggestion; located if `at` is given.
[[nodiscard]] const Schedule& find_schedule(std::string_view name, const Location* at = nullptr);

/// Settings of the job that have no effect under the schedule: what it says itself, and, of others
/// than live-*, what only zenflow-train has.
[[nodiscard]] std::vector<std::string> ignored_settings(const Schedule& schedule, const Job& job);
/// That the schedule does not know where to sum, if that is said; empty: it does, or it is not.
[[nodiscard]] std::optional<std::string> ignored_sum_place(std::string_view schedule,
                                                           const OffloadSetup& offload);

/// For the published schedules: NVMe as below, and the launcher's threads and core binding.
[[nodiscard]] std::vector<std::string> ignored_by_published(const Job& job,
                                                            std::string_view schedule);

/// For schedules that keep the optimizer in CPU memory: says so if the job asks for NVMe.
[[nodiscard]] std::vector<std::string> ignored_nvme(const Job& job, std::string_view schedule);

/// One micro step per window times gradient_accumulation_steps: windows without ZenFlow.
[[nodiscard]] std::vector<WindowShape> accumulation_windows(const Job& job, std::int64_t steps);

// Factories; one per file.
[[nodiscard]] std::unique_ptr<const Schedule> make_gpu_only();
[[nodiscard]] std::unique_ptr<const Schedule> make_zero_offload();
[[nodiscard]] std::unique_ptr<const Schedule> make_zero_offload_dpu();
[[nodiscard]] std::unique_ptr<const Schedule> make_zero_infinity();
[[nodiscard]] std::unique_ptr<const Schedule> make_zenflow();
[[nodiscard]] std::unique_ptr<const Schedule> make_deepspeed_zero();
[[nodiscard]] std::unique_ptr<const Schedule> make_deepspeed_zero_offload();
[[nodiscard]] std::unique_ptr<const Schedule> make_deepspeed_zenflow();
[[nodiscard]] std::unique_ptr<const Schedule> make_deepspeed_twin_flow();
[[nodiscard]] std::unique_ptr<const Schedule> make_deepspeed_zero_infinity();
[[nodiscard]] std::unique_ptr<const Schedule> make_deepspeed_super_offload();
[[nodiscard]] std::unique_ptr<const Schedule> make_live_gpu_only();
[[nodiscard]] std::unique_ptr<const Schedule> make_live_zero_offload();
[[nodiscard]] std::unique_ptr<const Schedule> make_live_zero_offload_dpu();
[[nodiscard]] std::unique_ptr<const Schedule> make_live_zenflow();

}  // namespace zenflow::sim
