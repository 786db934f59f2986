#include "sim/tune/request_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/config/reader.h"
#include "sim/deepspeed/ds_document.h"
#include "sim/deepspeed/overrides.h"
#include "sim/tune/convergence.h"
#include "sim/tune/setting_job.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;

/// A flag's value as documents have it: "40 GiB", "2.3 s".
template <class Read>
auto quantity(const char* flag, const std::string& text, Read read) {
  Node node = parse_yaml(text, flag);
  node.at = {};
  return read(ValueReader(node, flag)).value();
}

/// A base file that states the micro-batch, in one way or another, wins over the scenario.
void take_micro_batch(const LoadTree& scenario, const Node& base, LoadOptions& load) {
  constexpr const char* kMicro = "training.micro_batch_size_per_gpu";
  if (sets(load.overrides, kMicro)) return;
  std::optional<std::int64_t> micro = stated_number(base, "train_micro_batch_size_per_gpu");
  const std::optional<std::int64_t> total = stated_number(base, "train_batch_size");
  if (!micro && total) {
    const std::int64_t ranks = read_scenario(scenario(load), load.overrides).ranks();
    const std::int64_t step =
        stated_number(base, "gradient_accumulation_steps").value_or(1) * ranks;
    if (*total % step == 0) micro = *total / step;
  }
  if (micro) load.overrides.push_back({kMicro, std::to_string(*micro)});
}

LoadOptions load_options(const LoadTree& scenario, const TuneFlags& flags) {
  LoadOptions load;
  load.profile_directories = flags.profile_directories;
  load.profile = flags.profile;
  load.overrides = overrides_of(flags);
  if (flags.base) {
    const DsDocument base = load_ds_document(*flags.base);
    take_micro_batch(scenario, base.root, load);
    load.overrides.insert(load.overrides.begin(), {"deepspeed", flags.base->string()});
  }
  return load;
}

double field(const std::string& cell, const fs::path& path, std::size_t line) {
  double value = 0;
  const auto [end, bad] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (bad == std::errc() && end == cell.data() + cell.size() && value >= 0 && value <= 1)
    return value;
  throw Error(ErrorKind::kInput, fmt::format("{}:{}: expected a share from 0 to 1, found \"{}\"",
                                             path.generic_string(), line, cell));
}

/// Means over all rows of zenflow-train's --importance.
ImportanceCurve read_importance(const fs::path& path) {
  constexpr std::array<std::pair<const char*, double>, 3> kColumns = {
      {{"top_1_percent", 0.01}, {"top_5_percent", 0.05}, {"top_10_percent", 0.1}}};
  std::istringstream lines(read_text_file(path));
  std::string line;
  std::array<std::size_t, kColumns.size()> at{};
  std::array<double, kColumns.size()> sums{};
  std::size_t rows = 0;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      if (number == 1) {
        const auto found = std::find(cells.begin(), cells.end(), kColumns[i].first);
        if (found == cells.end()) {
          throw Error(ErrorKind::kInput,
                      fmt::format("{}:1: expected the columns of zenflow-train --importance; no {}",
                                  path.generic_string(), kColumns[i].first));
        }
        at[i] = static_cast<std::size_t>(found - cells.begin());
      } else {
        sums[i] += field(at[i] < cells.size() ? cells[at[i]] : "", path, number);
      }
    }
    rows += number > 1 ? 1 : 0;
  }
  if (rows == 0) {
    throw Error(ErrorKind::kInput, fmt::format("{}: has no rows", path.generic_string()));
  }
  ImportanceCurve curve;
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    curve.points.emplace_back(kColumns[i].second, sums[i] / static_cast<double>(rows));
  }
  return curve;
}

/// Below it a fit's error says more about how times are written than about the machine.
constexpr double kLeastError = 0.001;

/// What the profile says of its own numbers, those of a fit; but not of one that --set replaces.
void take_profile_errors(const LoadedRequest& loaded, Uncertainty& uncertainty) {
  const Node profile = complete_hardware(loaded.tree);
  for (const std::string& number : uncertain_numbers(loaded.request.job.scenario.hardware)) {
    const std::string path = "hardware." + number;
    const bool replaced =
        std::any_of(loaded.overrides.begin(), loaded.overrides.end(),
                    [&](const Override& one) { return one.path.starts_with(path); });
    const Node* error = replaced ? nullptr : find_number(profile, number + ".relative_error");
    if (error == nullptr) continue;
    uncertainty.relative[number] = std::max(kLeastError, ValueReader(*error, path).number(0, 1));
  }
}

/// Relative standard errors: of the profile, unless a YAML map from its paths says otherwise.
Uncertainty read_uncertainty(const TuneFlags& flags, const LoadedRequest& loaded) {
  Uncertainty uncertainty{{}, flags.relative_error};
  take_profile_errors(loaded, uncertainty);
  if (!flags.standard_errors) return uncertainty;
  const Node root = load_document(*flags.standard_errors);
  if (!root.is_map()) fail_at(root.at, "", "expected a map from profile keys to relative errors");
  const std::vector<std::string> known = uncertain_numbers(loaded.request.job.scenario.hardware);
  for (const Node::Entry& entry : root.entries) {
    if (std::find(known.begin(), known.end(), entry.key) == known.end()) {
      fail_at(entry.key_at, entry.key, "no such number" + suggestion(entry.key, known));
    }
    uncertainty.relative[entry.key] = ValueReader(entry.value, entry.key).number(0, 1);
  }
  return uncertainty;
}

/// The text that is changed: the file that --base or the scenario names, unless it is YAML, which
/// is no file of DeepSpeed's.
void find_base_text(LoadedRequest& loaded) {
  if (!loaded.tree.deepspeed_file) return;
  const fs::path& path = *loaded.tree.deepspeed_file;
  if (path.extension() == ".yaml" || path.extension() == ".yml") return;
  loaded.base_text = read_text_file(path);
  loaded.base_name = path.generic_string();
}

Objective find_objective(const TuneFlags& flags) {
  for (const Objective one :
       {Objective::kStepTime, Objective::kTokensPerSecond, Objective::kCostPerToken}) {
    if (to_string(one) != flags.objective) continue;
    if (one == Objective::kCostPerToken && !flags.price) {
      throw Error(ErrorKind::kInput,
                  "--objective cost_per_token: needs --price, of a GPU and hour");
    }
    if (one != Objective::kCostPerToken && flags.price) {
      throw Error(ErrorKind::kInput, "--price: with --objective cost_per_token alone");
    }
    return one;
  }
  const std::vector<std::string> known = {"step_time", "tokens_per_second", "cost_per_token"};
  throw Error(ErrorKind::kInput,
              fmt::format("--objective: expected step_time, tokens_per_second or cost_per_token, "
                          "found \"{}\"{}",
                          flags.objective, suggestion(flags.objective, known)));
}

/// Whether somebody asks for updates that are later than the published setting's: by flag, in the
/// scenario, or by intervals of their own to search.
bool asks_for_staleness(const TuneFlags& flags, const LoadedRequest& loaded) {
  const TuneRequest& request = loaded.request;
  const Space usual = default_space(request.job, request.family, request.global_batch);
  return flags.max_staleness || loaded.tree.root.find("max_staleness") != nullptr ||
         request.job.scenario.is_overridden("max_staleness") ||
         request.space.values(Knob::kUpdateInterval) != usual.values(Knob::kUpdateInterval);
}

/// What the user's own setting has is asked for, too: 2 S - 1 steps, and with overlap_step from the
/// first step on a window more.
std::int64_t usual_staleness(const TuneRequest& request) {
  const Job& job = request.job;
  const Setting own = setting_of(job);
  std::int64_t of_own = 0;
  if (own.zenflow()) {
    const Schedule& schedule = schedule_of(request.family, own.placement());
    const std::int64_t steps = std::max<std::int64_t>(
        1, job.deepspeed.gradient_accumulation_steps / schedule.micro_batches_per_step(job));
    of_own = std::max(staleness_of_interval(own.interval()),
                      schedule.closed_form(job).staleness_steps.max / steps);
  }
  return std::min(job.scenario.max_staleness, std::max(kPublishedStaleness, of_own));
}

void read_limits(const TuneFlags& flags, LoadedRequest& loaded) {
  TuneRequest& request = loaded.request;
  Limits& limits = request.limits;
  limits.gpu_memory = bytes_of("--max-gpu-memory", flags.max_gpu_memory);
  limits.host_memory = bytes_of("--max-host-memory", flags.max_host_memory);
  limits.shm = bytes_of("--max-shm", flags.max_shm);
  request.is_staleness_asked = asks_for_staleness(flags, loaded);
  limits.staleness = request.is_staleness_asked
                         ? flags.max_staleness.value_or(request.job.scenario.max_staleness)
                         : usual_staleness(request);
  limits.deferred_share = flags.max_deferred_share;
  if (flags.importance) request.importance = read_importance(*flags.importance);
  if (limits.deferred_share && !request.importance) {
    throw Error(ErrorKind::kInput,
                "--max-deferred-share: needs --importance, what zenflow-train recorded");
  }
}

/// DeepSpeed sums where it always does: what only zenflow-train knows is neither followed nor
/// searched for it.
void leave_out_zenflow_train(LoadedRequest& loaded) {
  OffloadSetup& offload = loaded.request.job.scenario.offload;
  const auto note = ignored_sum_place(to_string(loaded.request.family), offload);
  if (!note) return;
  offload = without_zenflow(offload);
  loaded.warnings.push_back(*note);
}

/// Values of --vary or --search-space that the runtime tuned for does not know.
void check_knobs(const TuneRequest& request) {
  const Setting own = setting_of(request.job);
  for (const KnobInfo& one : knobs()) {
    if (has_knob(request.family, one.knob)) continue;
    for (const double value : request.space.values(one.knob)) {
      if (value == own.get(one.knob)) continue;
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: schedule {} knows no such knob; {} does (--schedule)", one.name,
                              to_string(request.family),
                              to_string(has_knob(Family::kLive, one.knob) ? Family::kLive
                                                                          : Family::kDeepSpeed)));
    }
  }
}

/// Whether something else than the file decides in which precision DeepSpeed computes: Trainer and
/// accelerate, which fill in "auto" and add a block that is not there, or autocast.
bool leaves_precision_open(const Job& job, const std::string& dtype) {
  const Node& document = job.scenario.deepspeed;
  const bool may_add = job.target != LaunchTarget::kDeepSpeed;
  return says_scalar(document, dtype + ".enabled", "auto") ||
         says_scalar(document, "torch_autocast.enabled", "true") ||
         (may_add && document.find(dtype) == nullptr);
}

/// DeepSpeed trains in fp32 unless its file says otherwise. zenflow-train, which reads none, does
/// what the scenario says; and so does who sets the precision by flag.
void check_precision(const TuneRequest& request) {
  const Scenario& scenario = request.job.scenario;
  const DType dtype = scenario.training.dtype;
  if (request.family != Family::kDeepSpeed || dtype == DType::kFp32) return;
  if (scenario.is_overridden("training.dtype")) return;
  if (request.job.deepspeed.bf16 || request.job.deepspeed.fp16) return;
  const std::string name = to_string(dtype);
  if (leaves_precision_open(request.job, name)) return;
  fail_at(scenario.deepspeed.at, "",
          fmt::format("enables neither bf16 nor fp16, so DeepSpeed trains in fp32, but "
                      "training.dtype is {}: add \"{}\": {{\"enabled\": true}} there, or --set "
                      "training.dtype=fp32",
                      name, name));
}

/// What a step takes, above zero.
double measured_step_of(const std::string& text) {
  const double step =
      quantity("--measured-step", text, [](const ValueReader& value) { return value.duration(); });
  if (step > 0) return step;
  throw Error(ErrorKind::kInput,
              fmt::format("--measured-step: expected a time above zero, found \"{}\"", text));
}

/// What was measured is of the user's own setting, so of its batch.
void check_measured_batch(const TuneRequest& request) {
  const std::int64_t own = global_batch_of(request.job, request.family);
  if (request.global_batch == own) return;
  throw Error(
      ErrorKind::kInput,
      fmt::format("--measured-step: is of your own setting, whose step has {} sequences, but "
                  "--global-batch says {}: leave one of them out",
                  own, request.global_batch));
}

}  // namespace

bool says_scalar(const Node& document, const std::string& path, std::string_view what) {
  const Node* node = find_path(document, path);
  return node != nullptr && node->is_scalar() && node->scalar == what;
}

std::optional<double> bytes_of(const char* flag, const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  return quantity(flag, *text, [](const ValueReader& value) { return value.bytes(); });
}

std::optional<std::int64_t> stated_number(const Node& root, std::string_view key) {
  const Node* node = root.find(key);
  if (node == nullptr || !node->is_scalar() || node->quoted) return std::nullopt;
  return ValueReader(*node, std::string(key)).integer(1, std::int64_t{1} << 31);
}

std::vector<Override> overrides_of(const TuneFlags& flags) {
  return parse_overrides(flags.set, flags.deepspeed_version, flags.target);
}

void complete_request(const TuneFlags& flags, std::optional<Family> family, LoadedRequest& loaded) {
  TuneRequest& request = loaded.request;
  request.job = make_job(read_scenario(loaded.tree, loaded.overrides));
  const std::vector<std::string>& notes = request.job.scenario.notes;
  loaded.warnings.insert(loaded.warnings.end(), notes.begin(), notes.end());
  const bool host = request.job.scenario.hardware.gpu.runs_on_host();
  request.family = flags.schedule ? find_family(*flags.schedule)
                   : family       ? *family
                   : host         ? Family::kLive
                                  : Family::kDeepSpeed;
  leave_out_zenflow_train(loaded);
  check_precision(request);
  request.global_batch = flags.global_batch.value_or(global_batch_of(request.job, request.family));
  request.space = default_space(request.job, request.family, request.global_batch);
  if (flags.search_space) narrow_by_file(request.space, *flags.search_space);
  for (const std::string& text : flags.vary) narrow(request.space, text);
  follow_gpus(request.space, request.job, request.family, request.global_batch);
  check_knobs(request);
  request.objective = find_objective(flags);
  request.offload_when = parse_offload_when(flags.offload_when);
  request.price_per_gpu_hour = flags.price.value_or(0);
  request.slack = flags.slack;
  request.top = flags.top;
  request.front_within = flags.front_within;
  read_limits(flags, loaded);
  if (flags.measured_step) {
    check_measured_batch(request);
    request.measured_step = measured_step_of(*flags.measured_step);
  }
  const DeepSpeedConfig& base = request.job.deepspeed;
  if (request.family == Family::kDeepSpeed && base.zero_stage == 3 &&
      base.offload_param != OffloadDevice::kNone &&
      base.offload_optimizer == OffloadDevice::kNone) {
    loaded.warnings.emplace_back(
        "offload_param without offload_optimizer is not searched: yours is compared as if its "
        "weights stayed on the GPU (zenflow-sim run simulates it)");
  }
  for (std::string& one : job_notes(request.job, request.family != Family::kLive)) {
    loaded.warnings.push_back(std::move(one));
  }
  loaded.uncertainty = read_uncertainty(flags, loaded);
  find_base_text(loaded);
}

LoadedRequest load_request(const LoadTree& scenario, const TuneFlags& flags) {
  LoadedRequest loaded;
  const LoadOptions load = load_options(scenario, flags);
  loaded.overrides = load.overrides;
  loaded.tree = scenario(load);
  complete_request(flags, std::nullopt, loaded);
  return loaded;
}

LoadedRequest load_request(const fs::path& scenario, const TuneFlags& flags) {
  return load_request(
      [&scenario](const LoadOptions& options) { return load_scenario_tree(scenario, options); },
      flags);
}

}  // namespace zenflow::sim
