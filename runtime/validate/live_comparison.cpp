#include "runtime/validate/live_comparison.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "runtime/gpu/driver.h"
#include "runtime/machine/gather.h"
#include "runtime/validate/live_runs.h"
#include "runtime/validate/rounds.h"
#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "sim/base/temporary_folder.h"
#include "sim/calibrate/live_jobs.h"
#include "sim/config/reader.h"

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;
using sim::ComparedSetting;
using sim::OffloadSetup;

std::unique_ptr<TemporaryFolder> folder_for_data() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  auto folder = error ? nullptr : TemporaryFolder::make(parent / "zenflow-validate-");
  if (!folder) {
    throw Error(ErrorKind::kInput,
                "TMPDIR: expected a folder to write in, for data to train on; or give --data");
  }
  return folder;
}

sim::Job job_with_interval(sim::Job job) {
  if (!job.deepspeed.zenflow->update_interval) job.deepspeed.zenflow->update_interval = 1;
  return job;
}

std::string machine_text() {
  const MachineFacts facts = gather_host_facts({});
  return fmt::format("{} of {} CPUs: {}", facts.allowed_cpus.size(), facts.online_cpus.size(),
                     facts.cpu_name.empty() ? "an unnamed processor" : facts.cpu_name);
}

class LiveComparison {
 public:
  LiveComparison(const LiveComparisonFlags& flags, double agreeing,
                 const LiveComparisonEvents& events, std::string date)
      : flags_(flags),
        agreeing_(agreeing),
        events_(events),
        date_(std::move(date)),
        jobs_(flags.scenario, flags.profile, flags.set, flags.profile_directories) {
    for (const auto& [texts, calibrated] :
         {std::pair(&flags.calibrate, true), std::pair(&flags.predict, false)}) {
      for (const std::string& text : *texts) add(jobs_.point(text), calibrated, text);
    }
  }

  sim::Comparison take() {
    prepare();
    measure();
    result_.stopped = events_.stop();
    if (result_.stopped) return std::move(result_);
    fit();
    predict();
    return std::move(result_);
  }

 private:
  void add(const OffloadSetup& point, bool calibrated, const std::string& text) {
    const auto known = std::find(points_.begin(), points_.end(), point);
    if (known != points_.end()) {
      const bool is_fitted = known - points_.begin() < std::ssize(flags_.calibrate);
      throw Error(ErrorKind::kInput, fmt::format("{}: given twice{}", text,
                                                 is_fitted && !calibrated
                                                     ? "; what is calibrated on cannot be predicted"
                                                     : ""));
    }
    points_.push_back(point);
    runs_.emplace_back();
    result_.settings.push_back(
        {.name = to_string(point), .schedule = sim::schedule_of(point), .calibrated = calibrated});
  }

  void prepare() {
    const sim::Job job = jobs_.job(points_.front());
    const sim::Scenario& scenario = job.scenario;
    require_profile(scenario.hardware);
    refuse_what_is_not_run(job);
    if (on_gpu()) {
      require_gpu(ask_driver(), "--device cuda");
      settings_.cuda = {.libraries = library_folders(flags_.environment)};
    }
    result_.scenario = scenario.name;
    result_.device = flags_.device;
    result_.machine = machine_text();
    sim::TrainingSetup& setup = settings_.setup;
    static_cast<sim::TrainingSettings&>(setup) = scenario.training;
    setup.gradient_accumulation_steps = job.deepspeed.gradient_accumulation_steps;
    setup.select_interval =
        job.deepspeed.zenflow
            ? sim::live_settings(sim::OffloadSchedule::kZenFlow, job_with_interval(job))
                  .select_interval
            : 0;
    setup.threads = on_gpu() ? 1 : scenario.hardware.gpu.host_cores;
    const sim::LiveSettings live = sim::live_settings(sim::OffloadSchedule::kZeroOffload, job);
    setup.optimizer_threads = std::max(1, static_cast<int>(live.optimizer_cores));
    setup.sum_threads = std::max(1, static_cast<int>(live.sum_cores));
    settings_.model = jobs_.model_file();
    if (!flags_.link_bandwidth.empty()) {
      Node node = parse_yaml(flags_.link_bandwidth, "--link-bandwidth");
      node.at = {};
      settings_.link_bandwidth = ValueReader(node, "--link-bandwidth").bandwidth();
    }
    settings_.data = flags_.data;
    if (flags_.data.empty()) {
      temporary_ = folder_for_data();
      settings_.data = temporary_->path() / "tokens.txt";
      constexpr std::int64_t kBatches = 64;
      write_training_bytes(
          settings_.data,
          kBatches * setup.gradient_accumulation_steps * setup.micro_batch_size_per_gpu,
          setup.sequence_length);
    }
  }

  [[nodiscard]] bool on_gpu() const { return flags_.device == "cuda"; }

  void require_profile(const sim::HardwareProfile& hardware) const {
    if (hardware.gpu.runs_on_host() != on_gpu()) return;
    throw Error(
        ErrorKind::kInput,
        fmt::format("{}: hardware: expected a profile of {} for --device {}, found {}",
                    flags_.scenario.generic_string(),
                    on_gpu() ? "a GPU (no gpu.host_cores)" : "the host device (gpu.host_cores)",
                    flags_.device, hardware.name));
  }

  /// What would be simulated and not run, or run and not simulated.
  void refuse_what_is_not_run(const sim::Job& job) const {
    const auto refuse = [&](bool given, const char* what) {
      if (!given) return;
      throw Error(ErrorKind::kInput, fmt::format("{}: zenflow-validate --live runs without {}",
                                                 flags_.scenario.generic_string(), what));
    };
    const sim::LiveSettings live = sim::live_settings(sim::OffloadSchedule::kZeroOffload, job);
    refuse(job.scenario.training.dtype == sim::DType::kFp16, "fp16: expected fp32 or bf16");
    refuse(job.deepspeed.zenflow && job.deepspeed.zenflow->full_warm_up_rounds > 0,
           "full_warm_up_rounds");
    refuse(job.deepspeed.zenflow && !job.deepspeed.zenflow->overlap_step,
           "overlap_step false: what is predicted overlaps");
    refuse(live.optimizer_cores != std::floor(live.optimizer_cores) ||
               live.sum_cores != std::floor(live.sum_cores),
           "parts of cores: pt_reserved_cores_perc has to leave whole ones to the optimizer");
  }

  void measure() {
    const std::vector<std::vector<double>> times =
        run_rounds({flags_.rounds, flags_.most_rounds, agreeing_}, points_.size(),
                   [&](std::int64_t round, std::size_t i) {
                     events_.run_begins(round + 1, to_string(points_[i]));
                     LiveRun run = live_run(settings_, points_[i], events_.stop);
                     if (run.stopped || events_.stop()) return -1.0;
                     if (on_gpu())
                       result_.machine = machine_text() + ", " + run.timeline.devices.front();
                     const double step = *run.figures[sim::Metric::kStep];
                     // A fit needs the recordings of the runs that count, an overlay one.
                     const bool is_kept = result_.settings[i].calibrated || flags_.wants_overlay();
                     if (!is_kept) run.timeline = {};
                     if (!result_.settings[i].calibrated && !runs_[i].empty())
                       runs_[i].back().timeline = {};
                     runs_[i].push_back(std::move(run));
                     if (std::ssize(runs_[i]) > flags_.rounds) runs_[i].erase(runs_[i].begin());
                     return step;
                   });
    if (events_.stop()) return;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      ComparedSetting& setting = result_.settings[i];
      std::vector<sim::StepFigures> figures;
      for (const LiveRun& run : runs_[i]) figures.push_back(run.figures);
      setting.measured = sim::median_of(figures);
      setting.runs = std::ssize(times[i]);
      setting.run_times = newest(times[i], flags_.rounds);
      setting.earlier_run_times = {times[i].begin(),
                                   times[i].end() - std::ssize(setting.run_times)};
    }
  }

  void fit() {
    // Kept alive while the recordings refer to them.
    std::vector<sim::Job> jobs;
    jobs.reserve(points_.size());
    std::vector<sim::LiveRecording> recordings;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      if (!result_.settings[i].calibrated) continue;
      jobs.push_back(jobs_.job(points_[i]));
      for (const LiveRun& run : runs_[i]) {
        recordings.push_back(
            {&jobs.back(), sim::schedule_of(points_[i]), &run.timeline, run.steps.first});
      }
    }
    result_.fit = sim::fit_live(recordings);
    result_.base_profile = jobs_.hardware();
    result_.fitted_to = fmt::format("{} live runs of {}, zenflow-validate --live, {}",
                                    recordings.size(), result_.scenario, date_);
  }

  void predict() {
    for (std::size_t i = 0; i < points_.size(); ++i) {
      sim::Job job = jobs_.job(points_[i]);
      job.scenario.hardware = result_.fit->profile;
      sim::OverlayPart* part = nullptr;
      if (flags_.wants_overlay()) {
        LiveRun& last = runs_[i].back();
        part = &result_.overlay.emplace_back();
        part->measured = std::move(last.timeline);
        part->measured_stretch = {nullptr, last.steps.begin, last.steps.finish};
      }
      sim::predict_setting(job, sim::find_schedule(sim::schedule_of(points_[i])),
                           result_.settings[i], part);
    }
  }

  const LiveComparisonFlags& flags_;
  double agreeing_;
  const LiveComparisonEvents& events_;
  std::string date_;
  sim::LiveJobs jobs_;
  LiveRunSettings settings_;
  std::unique_ptr<TemporaryFolder> temporary_;
  std::vector<OffloadSetup> points_;
  std::vector<std::vector<LiveRun>> runs_;
  sim::Comparison result_;
};

}  // namespace

sim::Comparison compare_live(const LiveComparisonFlags& flags, double agreeing,
                             const LiveComparisonEvents& events, const std::string& date) {
  return LiveComparison(flags, agreeing, events, date).take();
}

}  // namespace zenflow::runtime
