/// zenflow-validate: predictions held against runs.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "runtime/validate/live_runs.h"
#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "sim/calibrate/validation.h"
#include "sim/config/reader.h"
#include "tools/command_line.h"
#include "tools/environment.h"
#include "tools/live_jobs.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using runtime::LiveRun;
using sim::ComparedPoint;
using sim::LivePoint;

struct Options {
  fs::path scenario;
  std::optional<std::string> profile;
  std::vector<std::string> set;
  bool live = false;
  std::string device = "cpu";
  fs::path data;
  std::vector<std::string> calibrate = {"zero-offload", "zenflow:0.1:4"};
  std::vector<std::string> predict = {
      "gpu-only",      "zero-offload-dpu", "zenflow:0.05:2", "zenflow:0.05:4", "zenflow:0.1:1",
      "zenflow:0.1:2", "zenflow:0.1:8",    "zenflow:0.2:2",  "zenflow:0.2:4",  "zenflow:0.5:4"};
  std::string link_bandwidth;
  std::int64_t rounds = 3;
  std::int64_t most_rounds = 12;
  double tolerance = 8;
  double worst = 15;
  double stall = 5;
  fs::path write_profile;
  std::string date;
  bool overwrite = false;
  bool json = false;
  bool quiet = false;
};

void add_options(CLI::App& app, Options& o) {
  app.add_option("SCENARIO", o.scenario, "model, training settings, base profile")->required();
  app.add_flag("--live", o.live, "train here: calibrate on some settings, predict the others");
  app.add_option("--device", o.device, "what trains")
      ->check(CLI::Validator(
          [](const std::string& value) {
            return check_choice({"cpu", "cuda"}, value);
          },
          "{cpu,cuda}"))
      ->capture_default_str();
  app.add_option("--calibrate", o.calibrate,
                 "settings whose recordings are fitted to: zero-offload, zenflow:K:S, ...")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--predict", o.predict, "settings that are predicted")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--data", o.data, "text or tokens to train on; else pseudo-random bytes");
  app.add_option("--link-bandwidth", o.link_bandwidth,
                 "slow copies down to this, in each direction, e.g. \"2 GB/s\"");
  app.add_option("--rounds", o.rounds, "runs of every setting, at least")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--most-rounds", o.most_rounds,
                 "more of them, until they agree within a third of --tolerance")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  const CLI::Range percent(0.0, 1000.0);
  app.add_option("--tolerance", o.tolerance, "mean error of the step time, percent")
      ->check(percent)
      ->capture_default_str();
  app.add_option("--worst", o.worst, "largest error of the step time, percent")
      ->check(percent)
      ->capture_default_str();
  app.add_option("--stall-tolerance", o.stall, "largest error of the stall, percent of the step")
      ->check(percent)
      ->capture_default_str();
  app.add_option("--profile", o.profile, "base profile in place of the scenario's");
  app.add_option("--set", o.set, "PATH=VALUE, a scenario key (repeatable)");
  app.add_option("--write-profile", o.write_profile, "the base profile with the fitted numbers");
  app.add_option("--date", o.date, "for sources, in place of today's");
  app.add_flag("-f,--force", o.overwrite, "overwrite existing files");
  app.add_flag("--json", o.json, "one document on standard output");
  app.add_flag("-q,--quiet", o.quiet, "no progress");
}

/// A directory of this process's own, gone when it ends.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "zenflow-validate-XXXXXX").string();
    if (error || ::mkdtemp(name.data()) == nullptr) {
      throw Error(ErrorKind::kInput,
                  "TMPDIR: expected a folder to write in, for data to train on; or give --data");
    }
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class Validation {
 public:
  explicit Validation(const Options& options)
      : options_(options),
        date_(date_or_today(options.date)),
        jobs_(options.scenario, options.profile, options.set) {
    for (const auto& [texts, calibrated] :
         {std::pair(&options.calibrate, true), std::pair(&options.predict, false)}) {
      for (const std::string& text : *texts) add(sim::parse_live_point(text), calibrated, text);
    }
  }

  int go() {
    prepare();
    const sim::Tolerance tolerance{options_.tolerance / 100, options_.worst / 100,
                                   options_.stall / 100};
    measure(tolerance);
    if (const int code = signal_exit_code(); code != 0) {
      complain("zenflow-validate: stopped by a signal; nothing has been compared\n");
      return code;
    }
    predict();
    const sim::ValidationSummary summary = sim::summarize(points_, tolerance);
    write_profile();
    print(options_.json ? document(summary, tolerance) : text(summary, tolerance));
    if (summary.too_noisy) {
      complain("zenflow-validate: the machine is too noisy to judge by\n");
      return static_cast<int>(ErrorKind::kRuntime);
    }

    return summary.within ? 0 : static_cast<int>(ErrorKind::kTolerance);
  }

 private:
  void add(const LivePoint& point, bool calibrated, const std::string& text) {
    for (const ComparedPoint& known : points_) {
      if (known.point == point) {
        throw Error(
            ErrorKind::kInput,
            fmt::format("{}: given twice; what is calibrated on cannot be predicted", text));
      }
    }
    points_.push_back({.point = point, .calibrated = calibrated});
    runs_.emplace_back();
  }

  void prepare() {
    const sim::Job job = jobs_.job(points_.front().point);
    const sim::Scenario& scenario = job.scenario;
    if (!scenario.hardware.gpu.runs_on_host()) {
      throw Error(
          ErrorKind::kInput,
          fmt::format("{}: hardware: expected a profile of the host device (gpu.host_cores) "
                      "for --device cpu, found {}",
                      options_.scenario.generic_string(), scenario.hardware.name));
    }
    refuse_what_is_not_run(job);
    settings_.training = scenario.training;
    settings_.select_interval =
        job.deepspeed.zenflow
            ? sim::live_settings(sim::LiveKind::kZenFlow, job_with_interval(job)).select_interval
            : 0;
    settings_.threads = static_cast<std::size_t>(scenario.hardware.gpu.host_cores);
    const sim::LiveSettings live = sim::live_settings(sim::LiveKind::kZeroOffload, job);
    settings_.optimizer_threads = std::max(1, static_cast<int>(live.optimizer_cores));
    settings_.model = jobs_.model_file();
    if (!options_.link_bandwidth.empty()) {
      Node node = parse_yaml(options_.link_bandwidth, "--link-bandwidth");
      node.at = {};
      settings_.link_bandwidth = ValueReader(node, "--link-bandwidth").bandwidth();
    }
    settings_.data = options_.data;
    if (options_.data.empty()) {
      temporary_.emplace();
      settings_.data = temporary_->path() / "tokens.txt";
      constexpr std::int64_t kBatches = 64;
      runtime::write_training_bytes(settings_.data,
                                    kBatches * scenario.training.micro_batch_size_per_gpu,
                                    scenario.training.sequence_length);
    }
    if (!options_.write_profile.empty()) check_output(options_.write_profile, options_.overwrite);
  }

  static sim::Job job_with_interval(sim::Job job) {
    if (!job.deepspeed.zenflow->update_interval) job.deepspeed.zenflow->update_interval = 1;
    return job;
  }

  /// What would be simulated and not run, or run and not simulated.
  void refuse_what_is_not_run(const sim::Job& job) const {
    const auto refuse = [&](bool given, const char* what) {
      if (!given) return;
      throw Error(ErrorKind::kInput, fmt::format("{}: zenflow-validate --live runs without {}",
                                                 options_.scenario.generic_string(), what));
    };
    const sim::LiveSettings live = sim::live_settings(sim::LiveKind::kZeroOffload, job);
    refuse(job.scenario.training.activation_checkpointing, "activation_checkpointing");
    refuse(job.scenario.training.dtype == sim::DType::kFp16, "fp16: expected fp32 or bf16");
    refuse(job.deepspeed.gradient_accumulation_steps > 1, "gradient_accumulation_steps");
    refuse(job.deepspeed.zenflow && job.deepspeed.zenflow->full_warm_up_rounds > 0,
           "full_warm_up_rounds");
    refuse(job.deepspeed.zenflow && !job.deepspeed.zenflow->overlap_step,
           "overlap_step false: what is predicted overlaps");
    refuse(live.optimizer_cores != std::floor(live.optimizer_cores) ||
               live.sum_cores != std::floor(live.sum_cores),
           "parts of cores: pt_reserved_cores_perc has to leave whole ones to the optimizer");
  }

  /// Rounds over all settings, so that what drifts slowly meets all of them alike.
  void measure(const sim::Tolerance& tolerance) {
    const std::int64_t most = std::max(options_.rounds, options_.most_rounds);
    for (std::int64_t round = 0; round < most; ++round) {
      for (std::size_t i = 0; i < points_.size(); ++i) {
        // A setting whose runs agree has been measured.
        if (round >= options_.rounds && points_[i].spread <= tolerance.mean_step / 3) continue;
        progress(round, i);
        runs_[i].push_back(runtime::live_run(settings_, points_[i].point, points_[i].calibrated,
                                             [] { return signal_exit_code() != 0; }));
        if (signal_exit_code() != 0) return;
        take_median(i);
      }
      if (round + 1 < options_.rounds) continue;
      if (std::all_of(points_.begin(), points_.end(), [&](const ComparedPoint& one) {
            return one.spread <= tolerance.mean_step / 3;
          })) {
        return;
      }
    }
  }

  void progress(std::int64_t round, std::size_t point) const {
    if (options_.quiet || !is_terminal(stderr)) return;
    complain(fmt::format("\r\033[Kround {}: {}", round + 1, to_string(points_[point].point)));
  }

  /// Of each figure on its own: a setting's runs. The spread is that of the middle half.
  void take_median(std::size_t i) {
    const std::vector<LiveRun>& runs = runs_[i];
    ComparedPoint& point = points_[i];
    point.runs = static_cast<std::int64_t>(runs.size());
    const auto sorted = [&](double sim::StepFigures::*figure) {
      std::vector<double> values;
      for (const LiveRun& run : runs) values.push_back(run.figures.*figure);
      std::sort(values.begin(), values.end());
      return values;
    };
    for (double sim::StepFigures::*figure :
         {&sim::StepFigures::step, &sim::StepFigures::compute, &sim::StepFigures::stall,
          &sim::StepFigures::cpu_update, &sim::StepFigures::d2h, &sim::StepFigures::h2d,
          &sim::StepFigures::launch, &sim::StepFigures::d2h_bytes, &sim::StepFigures::h2d_bytes}) {
      const std::vector<double> values = sorted(figure);
      point.measured.*figure = (values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
    }
    const std::vector<double> steps = sorted(&sim::StepFigures::step);
    const std::size_t quarter = steps.size() / 4;
    point.spread = (steps[steps.size() - 1 - quarter] - steps[quarter]) / 2 / point.measured.step;
  }

  void predict() {
    // Kept alive while the recordings refer to them.
    std::vector<sim::Job> jobs;
    jobs.reserve(points_.size());
    std::vector<sim::LiveRecording> recordings;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      if (!points_[i].calibrated) continue;
      jobs.push_back(jobs_.job(points_[i].point));
      for (const LiveRun& run : runs_[i]) {
        recordings.push_back(
            {&jobs.back(), schedule_of(points_[i].point), &run.timeline, run.first_step});
      }
    }
    fit_ = sim::fit_live(recordings);
    for (ComparedPoint& one : points_) {
      sim::Job job = jobs_.job(one.point);
      job.scenario.hardware = fit_.profile;
      const sim::Schedule& schedule = sim::find_schedule(schedule_of(one.point));
      one.predicted = sim::figures_of(sim::simulate_schedule(job, schedule));
    }
  }

  void write_profile() const {
    if (options_.write_profile.empty()) return;
    std::int64_t runs = 0;
    for (const ComparedPoint& one : points_) runs += one.calibrated ? one.runs : 0;
    write_output(options_.write_profile,
                 sim::fitted_profile_text(
                     jobs_.hardware(), fit_, options_.write_profile.stem().string(),
                     fmt::format("{} live runs of {}, zenflow-validate --live, {}", runs,
                                 jobs_.job(points_.front().point).scenario.name, date_)),
                 options_.overwrite);
  }

  [[nodiscard]] std::string text(const sim::ValidationSummary& summary,
                                 const sim::Tolerance& tolerance) const {
    const bool bold = use_color(ColorMode::kAuto, stdout);
    return sim::fitted_table(fit_, bold) + "\n" +
           sim::validation_table(points_, summary, tolerance, bold);
  }

  static Json figures(const sim::StepFigures& f) {
    return {{"step_time_ms", f.step},
            {"gpu_compute_ms", f.compute},
            {"gpu_stall_ms", f.stall},
            {"stall_by_cause_ms",
             {{"cpu_update", f.cpu_update}, {"d2h", f.d2h}, {"h2d", f.h2d}, {"launch", f.launch}}},
            {"d2h_bytes_per_step", f.d2h_bytes},
            {"h2d_bytes_per_step", f.h2d_bytes}};
  }

  [[nodiscard]] std::string document(const sim::ValidationSummary& summary,
                                     const sim::Tolerance& tolerance) const {
    Json json{{"schema_version", 1},
              {"tool", "zenflow-validate"},
              {"version", kVersion},
              {"scenario", jobs_.job(points_.front().point).scenario.name},
              {"device", options_.device}};
    json["numbers"] = Json::array();
    for (const sim::FittedNumber& one : fit_.numbers) {
      json["numbers"].push_back({{"path", one.path},
                                 {"value", one.value},
                                 {"unit", one.unit},
                                 {"fitted", one.fitted},
                                 {"standard_error", one.standard_error},
                                 {"samples", one.samples},
                                 {"residual", one.residual},
                                 {"range", one.range}});
    }
    json["results"] = Json::array();
    for (const ComparedPoint& one : points_) {
      Json entry{{"setting", to_string(one.point)},
                 {"schedule", schedule_of(one.point)},
                 {"calibrated", one.calibrated},
                 {"measured", figures(one.measured)},
                 {"predicted", figures(one.predicted)},
                 {"step_error", one.step_error()},
                 {"stall_error", one.stall_error()},
                 {"bytes_equal", one.bytes_equal()},
                 {"runs", one.runs},
                 {"spread", one.spread}};
      json["results"].push_back(std::move(entry));
    }
    json["summary"] = {{"predicted", summary.predicted},
                       {"mean_step_error", summary.mean_step_error},
                       {"worst_step_error", summary.worst_step_error},
                       {"worst_stall_error", summary.worst_stall_error},
                       {"bytes_equal", summary.bytes_equal},
                       {"worst_spread", summary.worst_spread},
                       {"too_noisy", summary.too_noisy},
                       {"within_tolerance", summary.within},
                       {"tolerance",
                        {{"mean_step", tolerance.mean_step},
                         {"worst_step", tolerance.worst_step},
                         {"worst_stall", tolerance.worst_stall}}}};
    return json.dump(2) + "\n";
  }

  const Options& options_;
  std::string date_;
  LiveJobs jobs_;
  runtime::LiveRunSettings settings_;
  std::optional<TemporaryDirectory> temporary_;
  std::vector<ComparedPoint> points_;
  std::vector<std::vector<LiveRun>> runs_;
  sim::LiveFit fit_;
};

int main_program(int argc, char** argv) {
  Options options;
  CLI::App app{"Holds predictions against runs: step time, stall by cause, bytes."};
  app.name("zenflow-validate");
  app.set_version_flag("--version", kVersion);
  add_options(app, options);
  app.footer(
      "Exit codes: 0 within tolerance, 1 failed while running or too noisy to judge, 2 bad usage "
      "or "
      "input, 4 outside tolerance, 5 no usable GPU.");
  if (!parse_command_line(app, argc, argv)) return 0;
  if (!options.live) {
    throw Error(ErrorKind::kInput, "expected --live: train here and compare");
  }
  if (options.device == "cuda") {
    throw Error(ErrorKind::kDevice,
                "--device cuda: the live runtime trains on the CPU only so far");
  }
  return Validation(options).go();
}

}  // namespace
}  // namespace zenflow::tools

int main(int argc, char** argv) {
  zenflow::tools::catch_signals();
  return zenflow::tools::run_program("zenflow-validate",
                                     [&] { return zenflow::tools::main_program(argc, argv); });
}
