/// What a run leaves behind: the last checkpoint, weights, the report.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "runtime/model/weight_file.h"
#include "runtime/trace/cupti/activity_timeline.h"
#include "runtime/trace/cupti/operation_tracks.h"
#include "runtime/train/make_model.h"
#include "runtime/train/measured_result.h"
#include "runtime/train/run.h"
#include "sim/trace/recorded_run.h"

namespace zenflow::runtime {
namespace {

sim::RecordedRun recorded_run(const TrainOptions& options, const TrainReport& report) {
  sim::RecordedRun run;
  static_cast<sim::TrainingSetup&>(run) = options.setup();
  run.topk_ratio = report.topk_ratio;
  run.update_interval = report.update_interval;
  if (const auto& range = options.offload.topk_range) run.topk_range = {range->low, range->high};
  if (options.cuda) run.gpu = options.cuda->ordinal;
  run.parameters = report.parameters;
  return run;
}

std::int64_t nanoseconds_of(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

void Run::save_weights() {
  if (!options_.save_weights && !options_.save_model) return;
  const auto weights = engine_.weights(true);  // of all ranks
  if (options_.rank() > 0) return;
  const auto values = [&](std::size_t i) { return static_cast<const void*>(weights[i].data()); };
  save([&] {
    if (!options_.save_weights) return;
    write_weights(*options_.save_weights, model_->parameters(), ElementType::kFloat32, values,
                  options_.overwrite);
  });
  save([&] {
    if (!model_folder_) return;
    write_model_folder(*model_folder_, model_->parameters(), values, options_.overwrite);
  });
}

void Run::save(const std::function<void()>& write) {
  try {
    write();
  } catch (const std::exception& error) {
    const std::string before = report_.unsaved ? report_.unsaved->what() + std::string("; ") : "";
    report_.unsaved = Error(ErrorKind::kRuntime, before + error.what());
  }
}

void Run::finish() {
  save_checkpoint();  // before what is under way is forced to an end: a resume goes on as if never
  if (report_.stopped) {
    note(fmt::format("stopped after step {}{}", engine_.steps_done(),
                     checkpoints_ ? "" : "; there is no --checkpoint to go on from"));
  }
  engine_.settle();
  report_.times = statistics_.means();
  add_traffic_of_ranks();
  save_weights();
  save([&] {
    if (importance_) importance_->close();
  });
  if (!report_.stopped) {
    // The settled weights are others than those of a validation after the last step.
    std::vector<Validation>& known = report_.validations;
    if (!known.empty() && known.back().step == engine_.steps_done()) known.pop_back();
    last_validation_ = -1;
    report_.stopped = !validate();
    if (report_.stopped) note("stopped in the last validation; all else is done");
  }
  fill_report();
}

void Run::add_traffic_of_ranks() {
  report_.traffic = report_.times.traffic.value_or(difference(device_->traffic(), traffic_before_));
  // Exact: below 2^53.
  std::vector<double> sums = {
      static_cast<double>(rank_traffic_.gradients), static_cast<double>(rank_traffic_.weights),
      static_cast<double>(rank_traffic_.control), static_cast<double>(rank_traffic_.selection)};
  for (const auto* counts : {&report_.traffic.d2h, &report_.traffic.h2d}) {
    for (const std::uint64_t bytes : *counts) sums.push_back(static_cast<double>(bytes));
  }
  communicator().sum(sums);
  auto next = sums.begin();
  const auto take = [&next] { return static_cast<std::uint64_t>(*next++); };
  report_.rank_traffic.gradients = take();
  report_.rank_traffic.weights = take();
  report_.rank_traffic.control = take();
  report_.rank_traffic.selection = take();
  report_.gradient_bytes_ranked = engine_.gradient_bytes_ranked();
  for (auto* counts : {&report_.traffic_of_ranks.d2h, &report_.traffic_of_ranks.h2d}) {
    for (std::uint64_t& bytes : *counts) bytes = take();
  }
}

void Run::fill_report() {
  report_.steps = engine_.steps_done();
  if (LiveTuning* const leader = tuning_ ? tuning_->leader() : nullptr) {
    leader->end();
    report_.tuning = leader->log();
  }
  if (report_.times.steps > 0) {
    report_.tokens_per_second =
        static_cast<double>(tokens_per_step(options_)) / report_.times.mean.total;
  }
  report_.update_interval = engine_.settings().update_interval;
  report_.topk_ratio = engine_.settings().topk_ratio;
  report_.device_memory = device_->memory_use(MemoryKind::kDevice);
  report_.pinned_memory = device_->memory_use(MemoryKind::kPinnedHost);
  report_.device_name = device_->name();
  report_.host_capacity_bytes = host_memory().bytes;
  constexpr std::uint64_t kStateBytes = 12;
  if (!options_.offload.everything_on_device()) {
    report_.host_optimizer_bytes = kStateBytes * engine_.layout().elements;
  }
  if (options_.record_trace) fill_recording();
}

/// Between the two readings a clock may have gone at another speed than rank 0's.
void Run::fill_recording() {
  const ClockOffset at_end = communicator().clock_offset();
  sim::RecordedRun run = recorded_run(options_, report_);
  run.among = {
      .run = run_begin_,
      .rank = options_.rank(),
      .ranks = options_.ranks(),
      .clock_offset_ns = (clock_at_start_.nanoseconds + at_end.nanoseconds) / 2,
      .clock_uncertainty_ns = std::max(clock_at_start_.uncertainty, at_end.uncertainty) +
                              std::abs(at_end.nanoseconds - clock_at_start_.nanoseconds) / 2};
  report_.trace_spans = recorder_.span_count();
  report_.trace_overhead_seconds =
      Recorder::cost_of_a_span().count() * static_cast<double>(report_.trace_spans);
  report_.recorded_traffic = device_->traffic();
  report_.timeline = recorder_.timeline(report_.model_name, std::string(device_->name()));
  if (options_.ranks() > 1) {  // those of one run are merged by it
    report_.timeline.origin_nanoseconds = nanoseconds_of(recorder_.origin());
  }
  sim::write_recorded_run(report_.timeline, run);
  if (gpu_recording_) add_gpu_trace();
}

/// On the clock of the host's spans.
void Run::add_gpu_trace() {
  GpuTrace trace = gpu_recording_->finish(recorder_.origin());
  add_operation_tracks(trace.timeline, launches_.operations(), recorder_.origin());
  append(report_.timeline, trace.timeline);
  report_.trace_spans += trace.spans;
  report_.trace_overhead_seconds += trace.overhead_seconds;
  for (const std::string& text : trace.notes) note(text);
}

}  // namespace zenflow::runtime
