#include <array>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/config/reader.h"
#include "sim/schedule/live_work.h"
#include "sim/schedule/schedule.h"

namespace zenflow::sim {

std::span<const std::unique_ptr<const Schedule>> schedules() {
  static const std::array<std::unique_ptr<const Schedule>, 15> all = {
      make_gpu_only(),
      make_zero_offload(),
      make_zero_offload_dpu(),
      make_zero_infinity(),
      make_zenflow(),
      make_deepspeed_zero(),
      make_deepspeed_zero_offload(),
      make_deepspeed_zenflow(),
      make_deepspeed_twin_flow(),
      make_deepspeed_zero_infinity(),
      make_deepspeed_super_offload(),
      make_live_gpu_only(),
      make_live_zero_offload(),
      make_live_zero_offload_dpu(),
      make_live_zenflow(),
  };
  return all;
}

const Schedule& find_schedule(std::string_view name, const Location* at) {
  std::vector<std::string> known;
  std::string list;
  for (const auto& schedule : schedules()) {
    if (schedule->name() == name) return *schedule;
    known.emplace_back(schedule->name());
    list += (list.empty() ? "" : ", ") + known.back();
  }
  const std::string what =
      fmt::format("no schedule named \"{}\"{}; known: {}", name, suggestion(name, known), list);
  if (at != nullptr) fail_at(*at, "schedules", what);
  throw Error(ErrorKind::kInput, "--schedule: " + what);
}

std::vector<std::string> ignored_settings(const Schedule& schedule, const Job& job) {
  std::vector<std::string> notes = schedule.ignored(job);
  const OffloadSetup& offload = job.scenario.offload;
  if (const auto note = ignored_sum_place(schedule.name(), offload)) notes.push_back(*note);
  if (offload.topk_is_global && !live_kind(schedule.name())) {
    notes.push_back(fmt::format("{}: zenflow_train.topk_scope has no effect; live-zenflow reads it",
                                schedule.name()));
  }
  if (offload.zero_stage != OffloadSetup{}.zero_stage &&
      (!live_kind(schedule.name()) || job.scenario.ranks() == 1)) {
    notes.push_back(
        fmt::format("{}: zenflow_train.ranks_zero_stage has no effect; the live-* schedules of "
                    "several ranks read it",
                    schedule.name()));
  }
  const bool has_threads = offload.optimizer_threads > 0 || offload.sum_threads > 0;
  if (has_threads && !live_kind(schedule.name())) {
    notes.push_back(fmt::format(
        "{}: zenflow_train.optimizer_threads and sum_threads have no effect; the live-* "
        "schedules read them",
        schedule.name()));
  }
  const bool has_own_kernels =
      live_kind(schedule.name()) && !job.scenario.hardware.gpu.runs_on_host();
  if (has_own_kernels && job.scenario.training.fused_framework) {
    notes.push_back(
        fmt::format("{}: training.framework has no effect; zenflow-train's kernels are its own",
                    schedule.name()));
  }
  if (job.scenario.rank_jitter > 0 && job.scenario.ranks() == 1) {
    notes.push_back(fmt::format("{}: ranks.jitter has no effect on one rank", schedule.name()));
  }
  return notes;
}

std::optional<std::string> ignored_sum_place(std::string_view schedule,
                                             const OffloadSetup& offload) {
  if (!offload.accumulate_on_device || live_kind(schedule)) return std::nullopt;
  return fmt::format("{}: zenflow_train.accumulate_on has no effect; live-zenflow reads it",
                     schedule);
}

std::vector<std::string> ignored_by_published(const Job& job, std::string_view schedule) {
  std::vector<std::string> notes = ignored_nvme(job, schedule);
  if (job.scenario.bind_cores_to_rank) {
    notes.push_back(
        fmt::format("{}: launch.bind_cores_to_rank has no effect; the deepspeed-* "
                    "schedules read it",
                    schedule));
  }
  if (job.scenario.omp_num_threads) {
    notes.push_back(fmt::format(
        "{}: launch.omp_num_threads has no effect; the deepspeed-* schedules read it", schedule));
  }
  return notes;
}

std::vector<std::string> ignored_nvme(const Job& job, std::string_view schedule) {
  if (job.deepspeed.offload_optimizer != OffloadDevice::kNvme &&
      job.deepspeed.offload_param == OffloadDevice::kNone) {
    return {};
  }
  return {
      fmt::format("{} keeps the optimizer in CPU memory and parameters on the GPU; "
                  "offload_optimizer.device nvme and offload_param count only in zero-infinity",
                  schedule)};
}

std::vector<WindowShape> accumulation_windows(const Job& job, std::int64_t steps) {
  const std::int64_t length = job.deepspeed.gradient_accumulation_steps;
  std::vector<WindowShape> shapes;
  for (std::int64_t first = 0; first < steps; first += length) {
    WindowShape shape;
    shape.first_step = first;
    shape.steps = static_cast<std::int32_t>(length);
    // The first windows lack the uploads that later ones wait for.
    shape.age =
        static_cast<std::int32_t>(std::min<std::int64_t>(first / length, WindowShape::kSettledAge));
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

}  // namespace zenflow::sim
