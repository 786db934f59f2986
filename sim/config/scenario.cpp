#include "sim/config/scenario.h"

#include <algorithm>
#include <array>
#include <map>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "sim/config/adapter_reader.h"
#include "sim/config/hardware_parts.h"
#include "sim/config/hjson.h"
#include "sim/config/hub/hub_model.h"
#include "sim/config/hub/model_files.h"
#include "sim/config/knob_reader.h"
#include "sim/config/part_block.h"
#include "sim/config/reader.h"
#include "sim/config/weight_headers.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxGpus = 4096;
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 24;
constexpr std::int64_t kMaxSteps = 100'000;
constexpr std::int64_t kMaxThreads = 4096;
constexpr double kBytesPerMb = 1024.0 * 1024;  // as PyTorch counts them
constexpr std::int64_t kMostMb = std::int64_t{1} << 30;

/// The files that are being read, outermost first: a file that names one of them is a cycle.
using OpenFiles = std::vector<fs::path>;

fs::path identity(const fs::path& path) {
  std::error_code ignored;
  fs::path canonical = fs::weakly_canonical(path, ignored);
  return canonical.empty() ? path : canonical;
}

Node load_once(const fs::path& path, const Location& at, const std::string& key, OpenFiles& open) {
  const fs::path id = identity(path);
  if (std::find(open.begin(), open.end(), id) != open.end()) {
    fail_at(at, key,
            fmt::format("files refer to each other in a cycle: \"{}\" is already being read",
                        path.generic_string()));
  }
  std::error_code missing;
  if (!fs::exists(path, missing)) {
    fail_at(at, key, fmt::format("no such file \"{}\"", path.generic_string()));
  }
  open.push_back(id);
  // DeepSpeed reads its file with hjson, whatever its name is; ours may be YAML as well.
  const bool yaml = path.extension() == ".yaml" || path.extension() == ".yml";
  return key == "deepspeed" && !yaml ? load_hjson(path).root : load_document(path);
}

/// Entries of `over` replace those of `base`; maps are merged key by key.
void merge(Node& base, Node over) {
  if (!base.is_map() || !over.is_map()) {
    base = std::move(over);
    return;
  }
  for (Node::Entry& entry : over.entries) {
    if (Node* existing = base.find(entry.key)) {
      merge(*existing, std::move(entry.value));
    } else {
      base.entries.push_back(std::move(entry));
    }
  }
  base.at = over.at;
}

/// The file that a value names, relative to the file in which it stands.
fs::path resolve(const Node& value, const std::string& key) {
  const fs::path name = ValueReader(value, key).string();
  if (name.is_absolute() || !value.at.file) return name;
  const fs::path from = *value.at.file;
  return value.at.line > 0 ? from.parent_path() / name : name;
}

/// Names of shipped models, and where: beside profiles/ there is scenarios/models/.
std::map<std::string, fs::path> listed_models(const std::vector<fs::path>& profile_directories) {
  std::map<std::string, fs::path> models;
  for (const fs::path& profiles : profile_directories) {
    const fs::path folder = profiles.parent_path() / "scenarios" / "models";
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(folder, missing)) {
      if (entry.path().extension() == ".json") {
        models.emplace(entry.path().stem().string(), entry.path());
      }
    }
  }
  return models;
}

/// A path that load_model_files takes, or the config.json of a listed model.
fs::path find_model(const Node& model, const std::vector<fs::path>& profile_directories) {
  const fs::path path = resolve(model, "model");
  std::error_code error;
  if (fs::exists(path, error) || fs::path(model.scalar).has_parent_path() || path.has_extension()) {
    return path;
  }
  const std::map<std::string, fs::path> models = listed_models(profile_directories);
  if (const auto found = models.find(model.scalar); found != models.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, file] : models) names.push_back(name);
  fail_at(model.at, "model",
          fmt::format("no such file, directory or listed model \"{}\"{}", model.scalar,
                      suggestion(model.scalar, names)));
}

/// {name, config, weights}: the last is null if the config.json says it all, so that a derived
/// scenario's model has none of its base's; else what the tree has the headers under.
Node load_spliced_model(const fs::path& path, const Location& at, OpenFiles& open,
                        ScenarioTree& found) {
  std::error_code error;
  ModelFiles files;
  if (fs::is_directory(path, error) || (is_weight_file(path) && fs::exists(path, error))) {
    files = load_model_files(path);
  } else {
    files.name = model_name(path);
    files.config = load_once(path, at, "model", open);
  }
  Node named;
  if (files.weights != nullptr) {
    named = text_node(files.weights->identity(), at);
    found.weights[named.scalar] = files.weights;
  }
  Node spliced = map_node(at);
  spliced.entries.push_back({"name", at, text_node(files.name, at)});
  spliced.entries.push_back({"config", at, std::move(files.config)});
  spliced.entries.push_back({"weights", at, std::move(named)});
  return spliced;
}

/// Files named inside a scenario are relative to the scenario that names them, so they are
/// read before a derived scenario is merged over it. Of several files for DeepSpeed the first one
/// that is spliced, the outermost scenario's, is remembered.
void splice_files(Node& root, OpenFiles& open, ScenarioTree& found,
                  const std::vector<fs::path>& profile_directories) {
  if (!root.is_map()) return;
  if (Node* deepspeed = root.find("deepspeed"); deepspeed != nullptr && deepspeed->is_scalar()) {
    OpenFiles inner = open;
    const fs::path path = resolve(*deepspeed, "deepspeed");
    *deepspeed = load_once(path, deepspeed->at, "deepspeed", inner);
    if (!found.deepspeed_file) found.deepspeed_file = path;
  }
  if (Node* adapter = root.find("adapter"); adapter != nullptr && adapter->is_scalar()) {
    OpenFiles inner = open;
    const fs::path path = resolve(*adapter, "adapter");
    std::error_code error;
    const fs::path file = fs::is_directory(path, error) ? path / "adapter_config.json" : path;
    *adapter = load_once(file, adapter->at, "adapter", inner);
  }
  if (Node* model = root.find("model"); model != nullptr && model->is_scalar()) {
    OpenFiles inner = open;
    const fs::path path = find_model(*model, profile_directories);
    *model = load_spliced_model(path, model->at, inner, found);
  }
}

Node load_with_base(const fs::path& path, const Location& at, const std::string& key,
                    OpenFiles& open, ScenarioTree& found,
                    const std::vector<fs::path>& profile_directories) {
  Node root = load_once(path, at, key, open);
  const Node* model = root.is_map() ? root.find("model") : nullptr;
  const bool names_model = model != nullptr && model->is_scalar();
  splice_files(root, open, found, profile_directories);
  const Node* base = root.is_map() ? root.find("base") : nullptr;
  if (base == nullptr) return root;
  Node merged =
      load_with_base(resolve(*base, "base"), base->at, "base", open, found, profile_directories);
  erase_key(root, "base");
  // Another file is another model: what it leaves out is not what the base's says.
  if (names_model) erase_key(merged, "model");
  merge(merged, std::move(root));
  return merged;
}

/// The catalogues beside the profile itself, then those of the directories.
GpuCatalogue catalogue_for(const Node& hardware, std::vector<fs::path> directories) {
  if (hardware.at.file && hardware.at.line > 0) {
    directories.insert(directories.begin(), fs::path(*hardware.at.file).parent_path());
  }
  return GpuCatalogue(std::move(directories));
}

bool is_overridden_below(const std::vector<Override>& overrides, const std::string& path) {
  return std::any_of(overrides.begin(), overrides.end(), [&path](const Override& one) {
    return one.path == path || one.path.starts_with(path + ".");
  });
}

/// What the hardware takes of the catalogue before overrides reach into it.
void take_catalogue(ScenarioTree& tree, Node& hardware, const LoadOptions& options) {
  GpuCatalogue catalogue = catalogue_for(hardware, options.profile_directories);
  tree.is_by_parts = is_by_parts(hardware);
  if (tree.is_by_parts) {
    spread_parts(hardware);
    const Node* gpu = hardware.find("gpu");
    const Node* name = gpu != nullptr && gpu->is_map() ? gpu->find("name") : nullptr;
    if (name != nullptr) catalogue.keep(name->scalar);
  } else {
    resolve_gpu_base(hardware, catalogue);
    if (!is_overridden_below(options.overrides, "hardware.gpu.multiprocessors")) {
      tree.notes = take_known_gpu(hardware, catalogue);
    }
  }
  tree.gpus = std::make_shared<const GpuCatalogue>(std::move(catalogue));
}

void splice_hardware(ScenarioTree& tree, const LoadOptions& options, OpenFiles& open) {
  Node* hardware = tree.root.find("hardware");
  if (hardware == nullptr) return;
  if (hardware->is_scalar()) {
    const std::string name = ValueReader(*hardware, "hardware").string();
    const fs::path from = hardware->at.file && hardware->at.line > 0
                              ? fs::path(*hardware->at.file).parent_path()
                              : fs::path();
    const fs::path path = find_profile(name, from, options.profile_directories, hardware->at);
    ScenarioTree none;  // a profile says nothing of DeepSpeed and of models
    *hardware = load_with_base(path, hardware->at, "hardware", open, none, {});
  }
  take_catalogue(tree, *hardware, options);
}

/// The knobs of a block.
void read_knobs(MapReader& map, std::string_view block, TrainingSetup& setup) {
  for (const SetupKnob& knob : setup_knobs()) {
    const std::string_view key = key_in(block, knob);
    if (key.empty()) continue;
    if (knob.required) {
      set_knob(knob, setup, read_knob(knob, map.require(key)));
    } else if (const auto value = map.optional(key)) {
      set_knob(knob, setup, read_knob(knob, *value));
    }
  }
  map.reject_unknown_keys();
}

/// DeepSpeed's file has the knob, too: which one holds is decided when both have been read.
std::optional<std::int64_t> read_accumulation(MapReader& training) {
  const auto steps = training.optional("gradient_accumulation_steps");
  if (!steps) return std::nullopt;
  return static_cast<std::int64_t>(read_knob(setup_knob("gradient_accumulation_steps"), *steps));
}

TrainingSettings read_training(MapReader& map, const ModelSpec& model) {
  TrainingSetup training;
  read_knobs(map, "training", training);
  const ValueReader length = map.require("sequence_length");
  if (training.sequence_length > model.max_positions) {
    length.fail(fmt::format(
        "expected at most the model's {} positions, found {}{}", model.max_positions,
        training.sequence_length,
        model.learned_positions
            ? ""
            : fmt::format(" (--set model.config.max_position_embeddings={} if rope_scaling "
                          "reaches so far)",
                          training.sequence_length)));
  }
  if (training.tokens() > kMaxTokens) length.fail("more than 2^24 tokens a GPU and step");
  return training;
}

void read_run(MapReader& root, Scenario& scenario) {
  RunSettings& run = scenario.run;
  if (auto map = root.optional_map("run")) {
    run.warmup_steps = map->integer_or("warmup_steps", run.warmup_steps, 0, kMaxSteps);
    run.steps = map->integer_or("steps", run.steps, 1, kMaxSteps);
    scenario.max_tasks = map->integer_or("max_tasks", scenario.max_tasks, 1, std::int64_t{1} << 31);
    map->reject_unknown_keys();
  }
}

/// Flags of zenflow-train for which DeepSpeed's file has no key.
void read_zenflow_train(MapReader& root, Scenario& scenario) {
  auto map = root.optional_map("zenflow_train");
  if (!map) return;
  TrainingSetup setup;
  static_cast<OffloadSetup&>(setup) = scenario.offload;
  read_knobs(*map, "zenflow_train", setup);
  scenario.offload = setup;
}

/// The model, and its config.json.
std::pair<ModelSpec, const Node*> read_spliced_model(MapReader& root, const ScenarioTree& tree) {
  MapReader map = root.require_map("model");
  ModelFiles files;
  files.name = map.require("name").string();
  const auto weights = map.optional("weights");
  if (weights) {
    const auto read = tree.weights.find(weights->string());
    if (read == tree.weights.end()) {
      weights->fail("expected none: a scenario names weights as its model, `model: PATH`");
    }
    files.weights = read->second;
  }
  // Weights alone have no config.json.
  const Node* config = weights ? map.node().find("config") : &map.require("config").node();
  map.ignore("config");
  files.config = *config;
  std::pair<ModelSpec, const Node*> read(read_model_files(files), config);
  map.reject_unknown_keys();
  return read;
}

void read_schedules(MapReader& root, Scenario& scenario) {
  const ValueReader list = root.require("schedules");
  for (const ValueReader& item : list.items()) {
    const std::string name = item.string();
    const auto& known = scenario.schedules;
    if (std::find(known.begin(), known.end(), name) != known.end()) {
      item.fail(fmt::format("\"{}\" is listed twice", name));
    }
    scenario.schedules.push_back(name);
    scenario.schedules_at.push_back(item.node().at);
  }
  if (scenario.schedules.empty()) list.fail("expected at least one schedule");
}

void check_ranks(MapReader& root, const Scenario& scenario) {
  // Where the device is the host, each rank has a part of its cores.
  if (scenario.hardware.gpu.runs_on_host()) {
    if (scenario.gpus > 1 && !scenario.hardware.gpu_link) {
      root.fail("gpus", fmt::format("profile {} has no gpu_link block, which says how fast ranks "
                                    "reach each other",
                                    scenario.hardware.name));
    }
  } else if (scenario.gpus > scenario.hardware.gpu.count) {
    root.fail("gpus",
              fmt::format("expected at most the {} GPUs of profile {}, found {}",
                          scenario.hardware.gpu.count, scenario.hardware.name, scenario.gpus));
  }
  if (scenario.nodes > 1 && !scenario.hardware.network) {
    root.fail("nodes",
              fmt::format("profile {} has no network block, so it cannot be joined to others",
                          scenario.hardware.name));
  }
  if (!scenario.hardware.gpu.peak.contains(scenario.training.dtype)) {
    std::vector<std::string> types;
    for (const auto& [type, rate] : scenario.hardware.gpu.peak) types.push_back(to_string(type));
    const Node& training = root.require("training").node();
    const Node* const dtype = training.find("dtype");
    fail_at(dtype != nullptr ? dtype->at : training.at, "training.dtype",
            fmt::format("profile {} has no gpu.peak.{}: {} does not compute in that type; expected "
                        "{} here, or by --dtype",
                        scenario.hardware.name, to_string(scenario.training.dtype),
                        scenario.hardware.gpu.name, fmt::join(types, " or ")));
  }
}

}  // namespace

bool names_a_file(std::string_view override_path) {
  return override_path == "hardware" || override_path == "model" || override_path == "adapter" ||
         override_path == "deepspeed";
}

/// "model.hidden_size" is a key of the model's config.json.
static std::string in_tree(const std::string& path) {
  constexpr std::string_view kModel = "model.";
  if (!path.starts_with(kModel) || path.starts_with("model.config.") || path == "model.name") {
    return path;
  }
  return "model.config." + path.substr(kModel.size());
}

bool Scenario::is_overridden(std::string_view path) const {
  return std::find(overridden.begin(), overridden.end(), path) != overridden.end();
}

/// Replaces what options replace, and reads the files that the scenario names.
static void complete_tree(ScenarioTree& tree, OpenFiles& open, const LoadOptions& options,
                          const Location& command_line) {
  if (!tree.root.is_map()) fail_at(tree.root.at, "", "expected a scenario: a map of keys");
  if (options.profile) {
    erase_key(tree.root, "hardware");
    Node name = text_node(*options.profile, command_line);
    name.at.file = std::make_shared<const std::string>("--profile " + *options.profile);
    tree.root.entries.push_back({"hardware", name.at, std::move(name)});
  }
  for (const Override& change : options.overrides) {
    if (!names_a_file(change.path)) continue;
    set_path(tree.root, change.path, change.value);
    if (change.path == "deepspeed") tree.deepspeed_file.reset();
  }
  splice_files(tree.root, open, tree, options.profile_directories);
  splice_hardware(tree, options, open);
}

ScenarioTree load_scenario_tree(const fs::path& path, const LoadOptions& options) {
  Location command_line;
  command_line.file = std::make_shared<const std::string>(path.generic_string());
  OpenFiles open;
  ScenarioTree tree;
  tree.root = load_with_base(path, command_line, "", open, tree, options.profile_directories);
  complete_tree(tree, open, options, command_line);
  return tree;
}

ScenarioTree load_scenario_tree(Node root, const LoadOptions& options) {
  OpenFiles open;
  ScenarioTree tree;
  const Location at = root.at;
  tree.root = std::move(root);
  complete_tree(tree, open, options, at);
  return tree;
}

Node complete_hardware(const ScenarioTree& tree) {
  const Node* hardware = tree.root.find("hardware");
  if (hardware == nullptr) fail_at(tree.root.at, "hardware", "required, but missing");
  if (tree.is_by_parts) return expand_parts(*hardware, tree.gpus ? *tree.gpus : GpuCatalogue());
  if (const Node* gpu = hardware->find("gpu"); gpu != nullptr && gpu->is_scalar()) {
    fail_at(
        gpu->at, "hardware.gpu",
        "expected a map: the profile is complete, and only a node by parts takes a card's name");
  }
  return *hardware;
}

Node load_hardware(const fs::path& file, const std::vector<fs::path>& directories) {
  OpenFiles open;
  ScenarioTree none;  // a profile says nothing of DeepSpeed and of models
  ScenarioTree tree;
  tree.root = map_node({});
  Node profile = load_with_base(file, Location{}, "", open, none, {});
  LoadOptions options;
  options.profile_directories = directories;
  take_catalogue(tree, profile, options);
  put_entry(tree.root, "hardware", std::move(profile));
  return complete_hardware(tree);
}

Scenario read_scenario(ScenarioTree tree, const std::vector<Override>& overrides) {
  for (const Override& change : overrides) {
    if (!names_a_file(change.path)) set_path(tree.root, in_tree(change.path), change.value);
  }
  MapReader root(tree.root, "");
  Scenario scenario;
  scenario.name = root.require("name").string();
  const auto [model, config] = read_spliced_model(root, tree);
  scenario.model = model;
  static_cast<void>(root.require_map("hardware"));
  scenario.hardware = read_hardware_profile(complete_hardware(tree));
  scenario.notes = tree.notes;
  if (const Node* guess = config->find("saved_is_estimated");
      guess != nullptr && guess->scalar == "true") {
    scenario.notes.push_back(
        fmt::format("{}: what its layers keep for backward is estimated by who described it",
                    guess->at.text()));
  }
  scenario.gpus = root.integer_or("gpus", scenario.hardware.gpu.count, 1, kMaxGpus);
  scenario.nodes = root.integer_or("nodes", 1, 1, kMaxGpus);
  MapReader training = root.require_map("training");
  read_adapters(root, training, *config, scenario.model, scenario.notes);
  scenario.gradient_accumulation_steps = read_accumulation(training);
  scenario.training = read_training(training, scenario.model);
  const auto deepspeed = root.optional_map("deepspeed");
  scenario.deepspeed = deepspeed ? deepspeed->node() : map_node(root.at());
  if (auto launch = root.optional_map("launch")) {
    const auto written = [&launch](std::string_view key) -> std::optional<WrittenText> {
      const auto value = launch->optional(key);
      if (!value) return std::nullopt;
      return WrittenText{value->string(), value->node().at};
    };
    scenario.bind_cores_to_rank = launch->boolean_or("bind_cores_to_rank", false);
    if (const auto threads = launch->optional("omp_num_threads")) {
      scenario.omp_num_threads = threads->integer(1, kMaxThreads);
    }
    if (const auto backend = launch->optional("ds_pin_memory_backend")) {
      const std::array<std::string, 2> backends = {"torch", "native"};
      scenario.native_pinning = backend->choice(backends) == "native";
    }
    if (const auto threshold = launch->optional("pinned_max_round_threshold_mb")) {
      scenario.pinned_round_threshold =
          Bytes(kBytesPerMb * static_cast<double>(threshold->integer(1, kMostMb)));
    }
    scenario.deepspeed_version = written("deepspeed_version");
    scenario.target = written("target");
    launch->reject_unknown_keys();
  }
  if (auto ranks = root.optional_map("ranks")) {
    constexpr double kMostJitter = 10;
    scenario.rank_jitter = ranks->number_or("jitter", 0, 0, kMostJitter);
    ranks->reject_unknown_keys();
  }
  read_zenflow_train(root, scenario);
  read_schedules(root, scenario);
  read_run(root, scenario);
  scenario.max_staleness = root.integer_or("max_staleness", scenario.max_staleness, 1, kMaxSteps);
  root.reject_unknown_keys();
  check_ranks(root, scenario);
  for (const Override& change : overrides) scenario.overridden.push_back(change.path);
  return scenario;
}

Scenario load_scenario(const fs::path& path, const LoadOptions& options) {
  return read_scenario(load_scenario_tree(path, options), options.overrides);
}

std::vector<std::string> list_profiles(const std::vector<fs::path>& directories) {
  std::vector<std::string> names;
  for (const fs::path& directory : directories) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(directory, error)) {
      if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

fs::path find_profile(const std::string& name, const fs::path& relative_to,
                      const std::vector<fs::path>& directories, const Location& at) {
  const fs::path given = name;
  if (given.has_parent_path() || given.extension() == ".yaml") {
    fs::path path = given.is_absolute() ? given : relative_to / given;
    std::error_code missing;
    if (!fs::exists(path, missing)) {
      fail_at(at, "hardware", fmt::format("no such file \"{}\"", path.generic_string()));
    }
    return path;
  }
  for (const fs::path& directory : directories) {
    fs::path path = directory / (name + ".yaml");
    std::error_code missing;
    if (fs::exists(path, missing)) return path;
  }
  fail_at(at, "hardware",
          fmt::format("no profile named \"{}\"{}; {}", name,
                      suggestion(name, list_profiles(directories)), known_profiles(directories)));
}

std::string known_profiles(const std::vector<fs::path>& directories) {
  const std::vector<std::string> known = list_profiles(directories);
  if (!known.empty()) return fmt::format("known: {}", fmt::join(known, ", "));
  std::string looked;
  for (const fs::path& one : directories) {
    looked += (looked.empty() ? "" : ", ") + one.lexically_normal().generic_string();
  }
  return fmt::format("no profiles were found in {}", looked);
}

}  // namespace zenflow::sim
