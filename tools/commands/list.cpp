#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/json_text.h"
#include "sim/base/table.h"
#include "sim/config/hub/hub_model.h"
#include "sim/config/hub/model_files.h"
#include "sim/config/reader.h"
#include "sim/deepspeed/ds_fields.h"
#include "sim/deepspeed/lint.h"
#include "sim/job_files/job_inputs.h"
#include "tools/commands/commands.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

namespace fs = std::filesystem;

struct Listing {
  std::string topic;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::string note = {};
};

Listing list_schedules() {
  Listing listing{"schedules", {"schedule", "what it does", "source"}, {}};
  for (const auto& schedule : sim::schedules()) {
    listing.rows.push_back({std::string(schedule->name()), std::string(schedule->summary()),
                            std::string(schedule->source())});
  }
  return listing;
}

Listing list_profiles() {
  Listing listing{"profiles", {"profile", "GPUs", "host", "GPU-host link"}, {}};
  const std::vector<fs::path> folders = profile_directories("scenarios/any");
  for (const std::string& name : sim::list_profiles(folders)) {
    const fs::path path = sim::find_profile(name, "", folders, {});
    const sim::HardwareProfile profile =
        sim::read_hardware_profile(sim::load_hardware(path, folders));
    listing.rows.push_back({name, fmt::format("{} x {}", profile.gpu.count, profile.gpu.name),
                            profile.host.name, profile.host_link.kind});
  }
  return listing;
}

/// A number for people, with "~" before it if it is an estimate.
std::string marked(const sim::CatalogueGpu& gpu, const std::string& path) {
  const auto number =
      std::find_if(gpu.numbers.begin(), gpu.numbers.end(),
                   [&path](const sim::SourcedNumber& one) { return one.path == path; });
  if (number == gpu.numbers.end()) return "";
  return (number->source.starts_with("estimate:") ? "~" : "") + number->value;
}

Listing list_gpus() {
  Listing listing{"gpus",
                  {"gpu", "name", "memory", "bandwidth", "bf16 or fp16", "GEMM share",
                   "multiprocessors", "clock", "links"},
                  {}};
  const sim::GpuCatalogue catalogue(profile_directories("scenarios/any"));
  for (const std::string& key : catalogue.keys()) {
    const sim::CatalogueGpu gpu =
        sim::read_catalogue_gpu(catalogue.load(key, {}, "list").second, key);
    const bool has_bf16 = gpu.gpu.peak.contains(sim::DType::kBf16);
    std::string links = gpu.pcie ? fmt::format("PCIe {}", gpu.pcie->generation) : "NVLink-C2C";
    for (const sim::CatalogueLink& link : gpu.links) links += ", " + link.name;
    listing.rows.push_back(
        {key, gpu.gpu.name, marked(gpu, "memory"), marked(gpu, "memory_bandwidth"),
         marked(gpu, has_bf16 ? "peak.bf16" : "peak.fp16"), marked(gpu, "gemm_efficiency"),
         marked(gpu, "multiprocessors"), marked(gpu, "clock"), links});
  }
  return listing;
}

/// Names on the Hub whose configuration ships with the program.
Listing list_hub_models() {
  Listing listing{"hub-models", {"name", "described by"}, {}};
  for (const auto& [name, file] : sim::named_models(model_directories())) {
    listing.rows.push_back({name, file.stem().string()});
  }
  return listing;
}

/// The numbers of a profile, or of a scenario's node, with where they are from.
Listing list_numbers(const fs::path& file) {
  Listing listing{"numbers", {"number", "value", "source"}, {}};
  sim::LoadOptions options;
  options.profile_directories = profile_directories(file);
  const sim::ScenarioTree tree = sim::load_scenario_tree(file, options);
  const bool is_scenario =
      tree.root.find("hardware") != nullptr || tree.root.find("training") != nullptr;
  const sim::HardwareProfile hardware =
      is_scenario
          ? sim::load_scenario(file, options).hardware
          : sim::read_hardware_profile(sim::load_hardware(file, options.profile_directories));
  for (const sim::SourcedNumber& number : hardware.numbers) {
    listing.rows.push_back({number.path, number.value, number.source});
  }
  return listing;
}

/// Numbers in order, "0-2,5".
std::string ranges(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ",";
    text += std::to_string(numbers[i]);
    if (last > i) text += "-" + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

/// The numbers of each kind's layers, which each stack counts from 0.
std::vector<std::vector<std::int64_t>> layer_numbers(const sim::ModelSpec& model) {
  std::map<std::string, std::int64_t> next;
  std::vector<std::vector<std::int64_t>> numbers(model.kinds.size());
  for (const std::int32_t kind : model.order) {
    const auto at = static_cast<std::size_t>(kind);
    const std::vector<sim::Tensor>& tensors = model.kinds[at].tensors;
    const std::string stack =
        tensors.empty() ? "" : tensors.front().name.substr(0, tensors.front().name.find("{}"));
    numbers[at].push_back(next[stack]++);
  }
  return numbers;
}

/// What a model's files describe: tensors of one layer of each kind, and in which layers they are.
Listing list_tensors(const fs::path& file) {
  Listing listing{"tensors", {"tensor", "shape", "layers", "parameters"}, {}};
  const sim::ModelSpec model = sim::load_model(file);
  const auto add = [&listing](const sim::Layer& layer, const std::string& layers,
                              std::int64_t count) {
    for (const sim::Tensor& tensor : layer.tensors) {
      const bool numbered = tensor.name.find("{}") != std::string::npos;
      listing.rows.push_back({tensor.name, fmt::format("{}", fmt::join(tensor.shape, " x ")),
                              numbered ? layers : "", std::to_string(count * tensor.parameters())});
    }
  };
  add(model.embedding, "", 1);
  const std::vector<std::vector<std::int64_t>> numbers = layer_numbers(model);
  for (std::size_t kind = 0; kind < numbers.size(); ++kind) {
    add(model.kinds[kind], ranges(numbers[kind]), std::ssize(numbers[kind]));
  }
  add(model.head, "", 1);
  listing.rows.push_back({"all", "", "", std::to_string(model.parameters())});
  listing.note = model.estimate;
  return listing;
}

Listing list_models() {
  Listing listing{"models", {"model", "family", "parameters", "layers", "hidden"}, {}};
  std::vector<std::string> seen;
  for (const fs::path& folder : model_directories()) {
    std::vector<fs::path> files;
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(folder, missing)) {
      if (entry.path().extension() == ".json") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) {
      const std::string name = file.stem().string();
      if (std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
      seen.push_back(name);
      const sim::ModelSpec model = sim::load_model(file);
      listing.rows.push_back({name, model.type, std::to_string(model.parameters()),
                              std::to_string(model.layers()), std::to_string(model.hidden)});
    }
  }
  return listing;
}

Listing list_rules() {
  Listing listing{"rules", {"rule", "severity", "rejected by", "title", "source"}, {}};
  for (const sim::Rule& rule : sim::lint_rules()) {
    listing.rows.push_back({std::string(rule.code), std::string(to_string(rule.severity)),
                            std::string(to_string(rule.rejected_by)), std::string(rule.title),
                            std::string(rule.reference)});
  }
  return listing;
}

/// Those that the release reads.
Listing list_keys(const sim::Version& version) {
  Listing listing{"keys", {"key", "in a simulation", "without effect with"}, {}};
  const auto add = [&listing](std::string path, const sim::KeyMeaning& meaning) {
    std::string neutral(meaning.neutral);
    std::replace(neutral.begin(), neutral.end(), '|', ' ');
    listing.rows.push_back({std::move(path), std::string(to_string(meaning.effect)), neutral});
  };
  for (const sim::TopLevelKey& one : sim::top_level_keys()) {
    if (is_valid_in(one, version)) add(std::string(one.key), one.meaning);
  }
  for (const sim::Field& one : sim::strict_fields()) {
    if (!is_valid_in(one, version)) continue;
    add(fmt::format("{}.{}", one.block, one.key), one.meaning);
  }
  for (const sim::InnerKey& one : sim::inner_keys()) {
    add(fmt::format("{}.{}", one.block, one.key), one.meaning);
  }
  return listing;
}

Listing list_topic(const std::string& topic, const sim::Version& version) {
  const std::array<std::string, 7> known = {"schedules", "profiles", "models",    "rules",
                                            "gpus",      "keys",     "hub-models"};
  if (topic == known[0]) return list_schedules();
  if (topic == known[1]) return list_profiles();
  if (topic == known[2]) return list_models();
  if (topic == known[3]) return list_rules();
  if (topic == known[4]) return list_gpus();
  if (topic == known[5]) return list_keys(version);
  if (topic == known[6]) return list_hub_models();
  throw Error(
      ErrorKind::kInput,
      fmt::format("list: expected schedules, profiles, models, rules, gpus, keys, hub-models, a "
                  "scenario or profile FILE.yaml, or a config.json, weights or their folder, found "
                  "\"{}\"{}",
                  topic, suggestion(topic, known)));
}

nlohmann::ordered_json as_json(const Listing& listing) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& row : listing.rows) {
    nlohmann::ordered_json map;
    for (std::size_t i = 0; i < row.size(); ++i) map[listing.header[i]] = row[i];
    rows.push_back(std::move(map));
  }
  return rows;
}

}  // namespace

int list_command(const CommonOptions& common, const std::vector<std::string>& topics) {
  nlohmann::ordered_json document;
  document["schema_version"] = 1;
  document["tool"] = "zenflow-sim";
  document["version"] = kVersion;
  std::string text;
  if (common.deepspeed_version && std::find(topics.begin(), topics.end(), "keys") == topics.end()) {
    throw Error(ErrorKind::kInput, "--deepspeed-version: with list keys alone");
  }
  const sim::Version version = common.deepspeed_version
                                   ? sim::parse_version(*common.deepspeed_version)
                                   : sim::newest_version();
  for (const std::string& topic : topics) {
    const bool is_file = fs::path(topic).extension() == ".yaml";
    const Listing listing = is_file                     ? list_numbers(topic)
                            : sim::is_model_path(topic) ? list_tensors(topic)
                                                        : list_topic(topic, version);
    if (listing.rows.empty()) {
      throw Error(ErrorKind::kRuntime, "list: no " + topic + " found beside the program or here");
    }
    document[topic] = as_json(listing);
    if (!text.empty()) text += "\n";
    text += sim::format_table(listing.header, listing.rows, colored(common), listing.header.size());
    if (!listing.note.empty()) document["assumptions"].push_back(listing.note);
    if (!listing.note.empty() && !common.quiet) {
      complain("zenflow-sim: warning: " + listing.note + "\n");
    }
    if (topic == "gpus") text += "~ an estimate; sources are in profiles/gpus\n";
  }
  print(common.json ? json_text(document) : text);
  return 0;
}

}  // namespace zenflow::tools
