/// zenflow-tune: the command line, and the order of things.
#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <malloc.h>

#include "runtime/command/train_command.h"
#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "sim/base/stop.h"
#include "sim/base/text.h"
#include "sim/tune/study.h"
#include "tools/command_line.h"
#include "tools/commands/job_options.h"
#include "tools/environment.h"
#include "tools/program_build.h"
#include "tools/programs.h"
#include "tools/progress_line.h"
#include "tools/read_trace.h"
#include "tools/report_page.h"
#include "tools/tune/tune.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

namespace fs = std::filesystem;

/// Whole numbers of steps, tokens, GPUs; CLI11's own bounds would be named by 300 digits.
constexpr std::int64_t kMany = std::int64_t{1} << 40;

void add_what(CLI::App& app, TuneOptions& o) {
  app.add_option("SCENARIO", o.scenario,
                 "scenario file (YAML): model, hardware, training, DeepSpeed file");
  app.add_option("-o,--output", o.output,
                 "folder for the results; without it only the summary is printed");
  app.add_option("--base", o.base, "DeepSpeed file to change; default: the scenario's");
  app.add_option(
      "--schedule", o.schedule,
      "what to tune for: deepspeed-zenflow, as DeepSpeed ships it (default); zenflow, as "
      "published; live-zenflow, as zenflow-train runs it (default if the device is the host)");
  app.add_option("--set", o.set, "override a scenario key: PATH=VALUE (repeatable)");
  app.add_option("--profile", o.profile, "hardware profile in place of the scenario's");
  app.add_option(
      "--deepspeed-version", o.deepspeed_version,
      "DeepSpeed release that will run the file; default: the scenario's, else the newest known");
  app.add_option("--target", o.target, "what launches the training: deepspeed, hf or accelerate");
}

void add_traces(CLI::App& app, TuneOptions& o) {
  app.add_option("--trace", o.traces,
                 "tune a recorded job in place of SCENARIO: from the PyTorch profiler, Nsight "
                 "Systems (SQLite), zenflow-train, zenflow-sim, or DeepSpeed's log (repeatable); "
                 "--model says which config.json it trained, --sequence-length and --gpus what the "
                 "traces do not tell");
  app.add_option("--host-memory", o.host_memory,
                 "with --trace: memory of the node, e.g. \"512 GiB\"; default: the profile's");
  app.add_option("--gpu-memory", o.gpu_memory,
                 "with --trace: memory of one GPU; default: the traces', else the profile's");
  app.add_option("--setting", o.settings,
                 "with recordings of zenflow-train that do not say how they ran: gpu-only, "
                 "zero-offload, zenflow:K:S, zenflow:K:S:device; once, or once for each trace")
      ->delimiter(',');
  app.add_option("--steps", o.steps,
                 "with --trace: regular expression for the ranges that are steps");
  app.add_option("--rules", o.trace_rules,
                 "with --trace: file that names phases and lanes (YAML, docs/traces.md)");
}

void add_search(CLI::App& app, TuneOptions& o) {
  app.add_option("--search-space", o.search_space,
                 "YAML file that maps knobs to lists of values to search");
  app.add_option("--vary", o.vary,
                 "values to search of one knob: KEY=A,B,C or KEY=LOW:HIGH:STEP (repeatable)");
  constexpr std::int64_t kMostSequences = std::int64_t{1} << 31;  // of a DeepSpeed file's numbers
  app.add_option("--global-batch", o.global_batch,
                 "sequences in a step of all GPUs together; default: the scenario's")
      ->check(CLI::Range(std::int64_t{1}, kMostSequences));
  app.add_option("--objective", o.objective,
                 "what is to be best: step_time, tokens_per_second or cost_per_token")
      ->capture_default_str();
  app.add_option("--price", o.price, "price of a GPU for an hour, for cost_per_token")
      ->check(number_between(1e-6, 1e9));
  app.add_option("--max-gpu-memory", o.max_gpu_memory,
                 "limit on the memory of one GPU, e.g. \"40 GiB\"");
  app.add_option("--max-host-memory", o.max_host_memory, "limit on the memory of the node");
  app.add_option("--max-shm", o.max_shm, "limit on /dev/shm of the node");
  app.add_option("--max-staleness", o.max_staleness,
                 "limit on the steps from a gradient to its use; default: the scenario's "
                 "max_staleness if it "
                 "states one, else 7, the published setting's, or what your own setting has")
      ->check(CLI::Range(std::int64_t{0}, kMany));
  app.add_option(
         "--max-deferred-share", o.max_deferred_share,
         "limit on the share of the squared gradient norm in deferred columns; needs --importance")
      ->check(number_between(0.0, 1.0));
  app.add_option("--importance", o.importance, "CSV file that zenflow-train --importance wrote");
  app.add_option(
         "--offload-when", o.offload_when,
         "needed: a job that fits on the GPUs is not offloaded; faster: the faster one wins")
      ->capture_default_str();
  app.add_option("--slack", o.slack,
                 "among candidates this much slower than the best, at most, the one of least risk "
                 "is chosen (relative)")
      ->check(number_between(0.0, 10.0))
      ->capture_default_str();
  app.add_option("--front-within", o.front_within,
                 "how much more than the best, at most, settings of the Pareto front may cost "
                 "(relative); 0: no front")
      ->check(number_between(0.0, 1000.0))
      ->capture_default_str();
  app.add_option("--top", o.top, "how many settings, of different kinds, are listed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

void add_rest(CLI::App& app, TuneOptions& o) {
  app.add_option("--measured-step", o.measured_step,
                 "what a step of your own setting takes today, e.g. \"2.3 s\"");
  app.add_flag("--anyway", o.anyway,
               "write what was chosen even where the model is off by more than a factor of two");
  app.add_option("--standard-errors", o.standard_errors,
                 "YAML file that maps numbers of the profile to relative standard errors");
  app.add_option("--relative-error", o.relative_error,
                 "relative standard error of numbers that have none")
      ->check(number_between(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--train-command", o.train_command,
                 "script and arguments to launch, for cmd_optimal.txt")
      ->capture_default_str();
  app.add_option("--max-points", o.max_points,
                 "refuse a space of more points: each is looked at, a million in a second or two")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--threads", o.threads,
                 "threads of the search; default: as many as the machine has")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--json", o.json, "print the summary as one JSON document on standard output");
  app.add_flag("-f,--force", o.overwrite, "overwrite results; the study is kept and goes on");
  add_report_option(app, o.report);
  app.add_option("--color", o.color,
                 "colour of tables: auto, always or never (NO_COLOR counts in auto)")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_flag("-q,--quiet", o.quiet, "no progress and no warnings");
  app.add_flag("-v,--verbose", o.verbose, "say how many points of the space met which end");
}

const std::vector<std::string> kOutputs = {"ds_config_optimal.json", "cmd_optimal.txt",
                                           "summary.txt", "summary.json"};
/// What --trace writes besides, to go on with.
const std::vector<std::string> kTracedOutputs = {"profile.yaml", "scenario.yaml"};

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::kInput, what);
}

/// Traces say the rest of their job themselves.
void take_flags_of_traces(TuneOptions& options) {
  sim::JobInputs& job = options.job;
  if (job.model) {
    std::error_code missing;
    options.model =
        std::filesystem::exists(*job.model, missing)
            ? std::filesystem::path(*job.model)  // as it is written, for commands to run
            : sim::find_named_model(*job.model, model_directories(), sim::source_named("--model"));
  }
  options.sequence_length = job.sequence_length;
  options.gpus = job.gpus;
  job.model.reset();
  job.sequence_length.reset();
  job.gpus.reset();
  if (!job.empty()) {
    refuse(
        "of the flags that describe a job --trace takes --model, --sequence-length and --gpus "
        "alone: the rest it says itself");
  }
}

/// One of scenario, job and traces; and nothing that is of another.
void check_what(TuneOptions& options) {
  if (options.output && options.output->empty()) {
    refuse("-o: expected the name of a folder, found \"\"");
  }
  if (!options.traces.empty()) {
    if (!options.scenario.empty()) refuse("SCENARIO or --trace, not both");
    return take_flags_of_traces(options);
  }
  const bool only_of_traces = options.host_memory || options.gpu_memory ||
                              !options.settings.empty() || !options.steps.empty() ||
                              options.trace_rules;
  if (only_of_traces) {
    refuse(
        "--host-memory, --gpu-memory, --setting, --steps, --rules: with --trace; a scenario says "
        "it itself (--set)");
  }
  if (options.scenario.empty() && options.job.empty()) {
    refuse("expected SCENARIO, a job in its place (--model M --gpu NAME [--ds FILE]), or --trace");
  }
  if (!options.scenario.empty() && !options.job.empty()) {
    refuse("a scenario and flags that describe a job in its place; to change a scenario: --set");
  }
  if (options.base && options.job.file)
    refuse("--base and --ds: the file to change is that of --ds");
}

/// Every point allocates and frees the same megabyte or so; giving it back to the system each time
/// costs a page fault per 4 KiB.
void keep_freed_memory() {
  constexpr int kKeep = 256 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kKeep);
  ::mallopt(M_TRIM_THRESHOLD, kKeep);
}

/// Nothing is there that must not be overwritten.
void check_outputs(const TuneOptions& options) {
  for (const std::string& name : kOutputs) {
    check_output(*options.output / name, options.overwrite);
  }
  if (options.traces.empty()) return;
  for (const std::string& name : kTracedOutputs) {
    check_output(*options.output / name, options.overwrite);
  }
}

/// The folder of -o. One that was made for it and that nothing was written to is gone in the end.
class OutputFolder {
 public:
  explicit OutputFolder(fs::path folder) : folder_(std::move(folder)) {
    std::error_code error;
    if (fs::exists(folder_, error) && !fs::is_directory(folder_, error)) {
      throw Error(ErrorKind::kInput, fmt::format("{}: is no folder", folder_.generic_string()));
    }
    is_new_ = fs::create_directory(folder_, error);
    if (!error) return;
    // Whether or not it was written with a slash at its end.
    const fs::path parent = (folder_ / "").parent_path().parent_path();
    std::error_code unknown;
    const bool is_parent_missing = !parent.empty() && !fs::exists(parent, unknown);
    throw Error(ErrorKind::kInput,
                fmt::format("{}: cannot be created: {}", folder_.generic_string(),
                            is_parent_missing ? "there is no folder " + parent.generic_string()
                                              : error.message()));
  }
  ~OutputFolder() {
    std::error_code is_not_empty;
    if (is_new_) fs::remove(folder_, is_not_empty);
  }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  fs::path folder_;
  bool is_new_ = false;
};

/// It is part of a shell's command as it stands, so nothing of it is quoted.
void check_train_command(const std::string& text) {
  if (printable_name(text) == text && text.find_first_not_of(' ') != text.npos) return;
  throw Error(
      ErrorKind::kInput,
      fmt::format("--train-command: expected a line of words without control characters, found "
                  "\"{}\"",
                  printable_name(text)));
}

/// As --vary and --search-space take them.
std::string knob_names() {
  std::vector<std::string> names;
  for (const sim::KnobInfo& one : sim::knobs()) {
    names.emplace_back(one.name);
    if (one.kind == sim::KnobKind::kWord) {
      names.back() += fmt::format(" ({})", fmt::join(sim::words(one.knob), ", "));
    }
    if (!sim::has_knob(sim::Family::kDeepSpeed, one.knob)) names.back() += " of live-zenflow alone";
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// All of them, or, if one cannot be written, none. `rely`: what was chosen is among them.
void write_results(const TuneAnswer& answer, bool rely) {
  std::vector<std::pair<std::string, std::string>> texts;
  if (rely) {
    texts = {{kOutputs[0], answer.text.text}, {kOutputs[1], answer.command}};
  } else {
    // Those of an earlier run would be launched beside this summary.
    for (const std::string& name : {kOutputs[0], kOutputs[1]}) {
      fs::remove(*answer.options.output / name);
    }
  }
  texts.emplace_back(kOutputs[2], printable(summary_text(answer)));
  texts.emplace_back(kOutputs[3], summary_json(answer));
  if (answer.traced) {
    texts.emplace_back(kTracedOutputs[0], answer.traced->profile);
    texts.emplace_back(kTracedOutputs[1], answer.traced->scenario);
  }
  OutputFiles files(answer.options.overwrite);
  for (const auto& [name, text] : texts) files.write(*answer.options.output / name, text);
  files.commit();
}

/// If candidates fail for the linter's reasons, how to see all of what it says. Not where some got
/// as far as a limit: then that is not what all of them fail for.
std::string lint_hint(const sim::SearchCounts& counts, sim::LaunchTarget target) {
  const auto has = [&counts](std::string_view kind) {
    return std::any_of(counts.reasons.begin(), counts.reasons.end(),
                       [kind](const auto& one) { return one.first.starts_with(kind); });
  };
  const bool lints = has("lint ") && !has("limit: ") && !has("memory: ");
  return lints ? fmt::format("; of the base file zenflow-sim lint --target {} says more",
                             to_string(target))
               : "";
}

sim::LoadedRequest load(const TuneOptions& options, std::optional<sim::TracedRequest>& traced) {
  if (!options.scenario.empty()) return sim::load_request(options.scenario, options);
  if (options.traces.empty()) {
    sim::JobScenario job = assemble_job(options.job, overrides_of(options));
    sim::LoadedRequest loaded = sim::load_request(
        [&job](const sim::LoadOptions& how) { return sim::load_scenario_tree(job.root, how); },
        options);
    std::vector<std::string> notes = assembly_notes(job);
    loaded.warnings.insert(loaded.warnings.begin(), notes.begin(), notes.end());
    return loaded;
  }
  const auto read = [&options](const fs::path& file, const sim::ImportOptions& how) {
    return read_trace(file, how, !options.quiet);
  };
  return sim::load_traced_request(options, read, options.output.value_or("."), traced.emplace());
}

/// The own setting's run and the chosen one's, as far as the own one can be simulated.
void write_page(const TuneAnswer& answer) {
  const TuneOptions& options = answer.options;
  if (!options.report) return;
  const sim::Candidates& candidates = answer.candidates;
  sim::PageContent page{"tune", candidates.request().job.scenario.name, summary_json(answer)};
  const sim::Setting& setting = answer.chosen().setting;
  const sim::Job chosen = candidates.job(setting);
  const sim::Schedule& schedule = candidates.schedule(setting);
  page.runs.push_back(
      page_run(chosen, schedule, sim::simulate_schedule(chosen, schedule), "chosen"));
  if (answer.result.own) {
    const sim::Candidates::OwnJob own = candidates.own_job();
    page.runs.push_back(page_run(own.job, own.schedule,
                                 sim::simulate_schedule(own.job, own.schedule), "own setting"));
  }
  write_report(options.report, page, options.overwrite, options.quiet);
}

int tune(TuneOptions& options) {
  const Defaults defaults(std::nullopt);
  const bool bold = colored_output(options.color, defaults);
  check_what(options);
  std::vector<std::filesystem::path> others;
  if (options.output) {
    others.push_back(*options.output / "study.sqlite");
    for (const std::string& name : kOutputs) others.push_back(*options.output / name);
  }
  check_report(options.report, options.overwrite, others);
  check_train_command(options.train_command);
  options.profile_directories = profile_directories(options.scenario);
  if (!options.profile) options.profile = defaults.value("profile");
  std::optional<sim::TracedRequest> traced;
  const sim::LoadedRequest loaded = load(options, traced);
  for (const std::string& warning : loaded.warnings) {
    if (!options.quiet) complain("zenflow-tune: warning: " + warning + "\n");
  }
  if (const double points = loaded.request.space.points();
      points > static_cast<double>(options.max_points)) {
    throw Error(ErrorKind::kInput,
                fmt::format("the space has {:.3g} points, more than --max-points {}: give fewer "
                            "values of a knob, or allow more",
                            points, options.max_points));
  }
  sim::Candidates candidates(loaded.request);
  std::optional<OutputFolder> folder;
  std::optional<sim::Study> study;
  if (options.output) {
    folder.emplace(*options.output);  // before any work
    check_outputs(options);
    study.emplace(*options.output / "study.sqlite",
                  study_identity(fmt::format("{} build {}", kVersion, program_build()), loaded.tree,
                                 loaded.overrides, loaded.request),
                  candidates);
    check_outputs(options);  // another run may have written them before this one had the study
  }
  sim::SearchOptions search;
  search.threads =
      options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
  search.cancelled = [] { return signal_exit_code() != 0; };
  std::optional<ProgressLine> line(std::in_place, !options.quiet);
  search.progress = [&line](std::uint64_t done) { line->show(fmt::format("{} simulated", done)); };
  search.store = study ? &*study : nullptr;
  set_stop_question(nullptr);  // from here on the search is what stops, with the best so far
  TuneAnswer answer{{loaded, candidates, sim::search(candidates, search)}, options, traced};
  line.reset();
  if (study) study->record(answer.result.counts);
  answer.unsearched = sim::unsearched_changes(candidates);
  if (!answer.result.chosen) {
    complain(reasons_text(answer.result.counts) + unsearched_text(answer));
    if (!answer.result.complete) {
      complain("zenflow-tune: stopped by a signal before anything feasible was found\n");
      return signal_exit_code();
    }
    throw Error(ErrorKind::kInfeasible,
                fmt::format("{}: no candidate of {} is feasible; reasons are above{}",
                            loaded.request.job.scenario.name, answer.result.counts.points,
                            lint_hint(answer.result.counts, loaded.request.job.target)));
  }
  if (answer.result.complete) {
    answer.knobs = knob_effects(candidates, answer.result, search);
    answer.numbers = number_effects(candidates, answer.result, loaded.uncertainty, search);
  }
  sim::write_config(answer);
  answer.command = (loaded.request.family == sim::Family::kDeepSpeed
                        ? sim::launch_command(answer, options.train_command)
                        : runtime::train_command(answer, options.model, options.output)) +
                   "\n";
  const bool rely = is_relied_on(answer);
  if (options.output) write_results(answer, rely);
  if (options.verbose) complain(study_text(answer));
  answer.bold = bold;  // of files nothing is
  print(options.json ? summary_json(answer) : summary_text(answer));
  write_page(answer);
  if (!rely && answer.result.complete) {
    throw Error(
        ErrorKind::kTolerance,
        fmt::format(
            "the model is off by a factor of {:.1f} of what was measured: the answer is not "
            "to be relied on{}",
            1 + *sim::missed_share(answer),
            options.output
                ? fmt::format("; {} and {} are not written (--anyway)", kOutputs[0], kOutputs[1])
                : ""));
  }
  return answer.result.complete ? 0 : signal_exit_code();
}

int main_program(int argc, char** argv) {
  TuneOptions options;
  CLI::App app{
      "Finds the best configuration of an offloaded training by exact search over simulated ones, "
      "and says why."};
  app.name("zenflow-tune");
  app.set_version_flag("--version", kVersion);
  add_what(app, options);
  add_traces(app, options);
  options.job.under_deepspeed = true;
  add_job_options(app, options.job);
  add_search(app, options);
  add_rest(app, options);
  app.footer(
      "Knobs: " + knob_names() +
      ".\n"
      "Writes ds_config_optimal.json, cmd_optimal.txt, summary.txt, summary.json, study.sqlite; "
      "with "
      "--trace also scenario.yaml and profile.yaml.\n"
      "Example: zenflow-tune scenarios/llama2_7b_4xa100.yaml --max-gpu-memory \"40 GiB\" -o out/\n"
      "Example: zenflow-tune --ds ds_config.json --model Qwen/Qwen3-8B --gpu \"RTX 4090\" --gpus 2 "
      "--ram 256GB -o out/\n"
      "Example: zenflow-tune --trace rank0.pt.trace.json.gz --model config.json --base "
      "ds_config.json -o out/\n"
      "Exit codes: 0 done, 1 failed while running, 2 bad usage or input, 3 no candidate within the "
      "limits, 4 the model is off by more than a factor of two of what was measured, 130/143 "
      "stopped by a signal, with the best so far written.");
  if (!parse_command_line(app, argc, argv)) return 0;
  return tune(options);
}

}  // namespace

int run_tune(int argc, char** argv) {
  return run_program("zenflow-tune", [&] { return main_program(argc, argv); });
}

int tune_main(int argc, char** argv) {
  keep_freed_memory();
  catch_signals();
  return run_tune(argc, argv);
}

}  // namespace zenflow::tools
