#include "tools/calibrate/foreign_fit.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "sim/calibrate/live_jobs.h"
#include "sim/calibrate/trace/base_profile.h"
#include "sim/calibrate/trace/trace_fit.h"
#include "sim/calibrate/trace/trace_fit_json.h"
#include "sim/calibrate/trace/trace_fit_text.h"
#include "sim/calibrate/trace/trace_work.h"
#include "sim/calibrate/trace/traced_job.h"
#include "sim/calibrate/trace/traced_scenario.h"
#include "sim/job_files/job_facts.h"
#include "sim/job_files/job_inputs.h"
#include "tools/environment.h"
#include "tools/read_trace.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

/// The base profile, and what was trained if that is known.
struct Setting {
  Node hardware;
  std::optional<sim::Job> job;
};

/// The shipped profile of the traces' GPU.
Node profile_of_traces(const std::vector<sim::ImportedTrace>& traces) {
  std::vector<const sim::ImportedTrace*> all;
  for (const sim::ImportedTrace& trace : traces) all.push_back(&trace);
  const std::vector<std::string> devices = sim::traced_job(all).devices;
  const std::vector<std::string> matches =
      sim::profiles_of_devices(devices, profile_directories(""));
  std::string others;
  for (std::size_t i = 1; i < matches.size(); ++i) others += " " + matches[i];
  complain(fmt::format("base profile {} for \"{}\"{}\n", matches.front(),
                       fmt::join(devices, "\", \""),
                       others.empty() ? "" : "; also of this GPU, with --profile:" + others));
  return sim::load_profile(matches.front(), profile_directories(""));
}

/// A scenario of the model alone; the optimizer on the CPU.
sim::Job job_of_model(const FitOptions& options, const Node& hardware) {
  require_fit_option(
      options.training.micro_batch_size_per_gpu > 0 && options.training.sequence_length > 0,
      "--micro-batch-size and --sequence-length with --model");
  sim::TracedScenario scenario;
  scenario.model =
      sim::find_named_model(options.model, model_directories(), sim::source_named("--model"));
  scenario.deepspeed = fmt::format(
      "{{gradient_accumulation_steps: {}, zero_optimization: {{stage: 2, offload_optimizer: "
      "{{device: cpu, pin_memory: true}}}}}}",
      options.accumulation);
  scenario.gpus = options.gpus;
  scenario.training = options.training;
  const auto* const dtype =
      std::find(sim::kDTypeNames.begin(), sim::kDTypeNames.end(), options.dtype);
  scenario.training.dtype = static_cast<sim::DType>(dtype - sim::kDTypeNames.begin());
  scenario.run = {.warmup_steps = 1, .steps = 1};
  return sim::traced_scenario_job(scenario, hardware, {}, "--model");
}

Setting setting_of(const FitOptions& options, const std::vector<sim::ImportedTrace>& traces) {
  require_fit_option(options.scenario.empty() || options.model.empty(),
                     "--scenario or --model, not both");
  if (!options.scenario.empty()) {
    const sim::LiveJobs jobs(options.scenario, options.profile, options.set,
                             profile_directories(options.scenario));
    return {jobs.hardware(), jobs.job()};
  }
  require_fit_option(options.set.empty(), "--scenario with --set");
  Setting setting{options.profile ? sim::load_profile(*options.profile, profile_directories(""))
                                  : profile_of_traces(traces),
                  {}};
  if (options.model.empty()) return setting;
  setting.job = job_of_model(options, setting.hardware);
  if (!options.style.quiet) {
    complain(
        "--model: ZeRO stage 2 with the optimizer on the CPU is assumed; --scenario says "
        "otherwise\n");
  }
  return setting;
}

}  // namespace

int foreign_fit(const FitOptions& options) {
  const std::string date = date_or_today(options.date);
  if (!options.output.empty()) check_output(options.output, options.overwrite);
  sim::ImportOptions import;
  if (options.analyze.rules) import.rules = sim::read_rules(*options.analyze.rules);
  import.steps = options.analyze.steps;
  std::vector<sim::ImportedTrace> traces;
  traces.reserve(options.traces.size());
  for (const std::string& path : options.traces) {
    traces.push_back(read_trace(path, import, !options.style.quiet));
  }
  const Setting setting = setting_of(options, traces);
  sim::TraceFitInput input{sim::read_hardware_profile(setting.hardware), {}, import.rules};
  for (std::size_t i = 0; i < traces.size(); ++i) {
    sim::FitTrace& one = input.traces.emplace_back(sim::FitTrace{options.traces[i], &traces[i]});
    if (!setting.job) continue;
    one.job = &*setting.job;
    if (sim::is_simulated(traces[i].timeline)) continue;
    for (const std::string& text : sim::differences(sim::traced_job({&traces[i]}), *one.job)) {
      one.remarks.push_back(text + ": what is fitted to it may be wrong");
    }
  }
  const sim::TraceFit fit = sim::fit_traces(input);
  if (!options.output.empty()) {
    const std::string name = options.output.stem().string();
    const std::string text =
        sim::fitted_profile_text(setting.hardware, fit.numbers, name,
                                 fmt::format("{} trace{}, zenflow-calibrate fit, {}", traces.size(),
                                             traces.size() == 1 ? "" : "s", date),
                                 fit.remarks);
    // What is written can be read.
    static_cast<void>(sim::read_hardware_profile(parse_yaml(text, options.output.string())));
    write_output(options.output, text, options.overwrite);
  }
  print(options.style.json ? sim::fit_json(fit.numbers, fit.baselines, kVersion)
                           : sim::trace_fit_text(fit, use_color(ColorMode::kAuto, stdout)));
  return 0;
}

}  // namespace zenflow::tools
