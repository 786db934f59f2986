#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/accuracy/published_runs.h"
#include "sim/base/error.h"
#include "sim/config/part_block.h"
#include "sim/config/reader.h"
#include "sim/schedule/schedule.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;

constexpr double kLargestNumber = std::numeric_limits<double>::max();
constexpr std::int64_t kMostFlop = 100;

struct QuantityRow {
  PublishedQuantity quantity;
  const char* name;
  std::array<const char*, 2> units;  ///< the first is the one that is predicted in
  double second = 0;                 ///< the second unit in the first one
};
constexpr double kGbInGib = 1e9 / 1073741824.0;
constexpr std::array<QuantityRow, 7> kQuantities = {{
    {PublishedQuantity::kOptimizerStep, "optimizer step", {"s", "ms"}, 1e-3},
    {PublishedQuantity::kGpuRate, "TFLOPS/GPU", {"TFLOPS", "GFLOPS"}, 1e-3},
    {PublishedQuantity::kNodeRate, "TFLOPS of the node", {"TFLOPS", "GFLOPS"}, 1e-3},
    {PublishedQuantity::kMfu, "MFU", {"%", "share"}, 100},
    {PublishedQuantity::kGpuMemory, "gpu peak memory", {"GiB", "GB"}, kGbInGib},
    {PublishedQuantity::kHostMemory, "host memory", {"GiB", "GB"}, kGbInGib},
    {PublishedQuantity::kLargestMicroBatch, "largest micro-batch", {"sequences", "samples"}, 1},
}};

const QuantityRow& row_of(PublishedQuantity quantity) {
  return kQuantities[static_cast<std::size_t>(quantity)];
}

/// The row with what it takes from the one that it is like.
Node with_like(const Node& row, const std::map<std::string, Node>& earlier) {
  const Node* like = row.is_map() ? row.find("like") : nullptr;
  if (like == nullptr) return row;
  const std::string id = ValueReader(*like, "like").string();
  const auto found = earlier.find(id);
  if (found == earlier.end()) {
    std::vector<std::string> known;
    for (const auto& [name, unused] : earlier) known.push_back(name);
    fail_at(like->at, "like",
            fmt::format("no row before this one is called \"{}\"{}", id, suggestion(id, known)));
  }
  Node merged = found->second;
  merged.at = row.at;
  // Of that row's figure, not of its run.
  std::erase_if(merged.entries, [](const Node::Entry& entry) {
    return entry.key == "notes" || entry.key == "parts" || entry.key == "cause";
  });
  for (const Node::Entry& entry : row.entries) {
    if (entry.key == "like") continue;
    if (Node* existing = merged.find(entry.key)) {
      *existing = entry.value;
    } else {
      merged.entries.push_back(entry);
    }
  }
  return merged;
}

class RowReader {
 public:
  RowReader(const fs::path& file, const PublishedPlaces& places) : folder_(file.parent_path()) {
    profiles_.push_back(folder_ / "profiles");
    profiles_.insert(profiles_.end(), places.profiles.begin(), places.profiles.end());
    models_.push_back(folder_ / "models");
    models_.insert(models_.end(), places.models.begin(), places.models.end());
  }

  PublishedRow read(const Node& node) {
    MapReader map(node, "");
    PublishedRow row;
    row.id = map.require("id").string();
    row.node = map.require("node").string();
    row.model = map.require("model").string();
    row.source = map.require("source").string();
    row.how_read = map.require("how_read").string();
    row.uncertainty = map.require("uncertainty").string();
    row.judged = map.require("judged").boolean();
    row.notes = text_or_empty(map, "notes");
    row.release_modelled = text_or_empty(map, "release_modelled");
    row.reason = text_or_empty(map, "reason");
    row.cause = text_or_empty(map, "cause");
    row.value = map.require("value").number(0, kLargestNumber);
    row.unit = map.require("unit").string();
    row.schedule = map.require("schedule").string();
    if (auto parts = map.optional_map("parts")) {
      for (const std::string& key : parts->keys()) {
        row.parts[key] = parts->require(key).number(-kLargestNumber, kLargestNumber);
      }
    }
    if (map.require("simulated").boolean()) {
      if (row.value <= 0) map.fail("value", "expected a number above 0");
      row.run = read_run(map, row);
    } else {
      read_record(map, row);
    }
    map.reject_unknown_keys();
    return row;
  }

 private:
  static std::string text_or_empty(MapReader& map, std::string_view key) {
    const auto text = map.optional(key);
    return text && !(text->node().is_scalar() && text->node().scalar.empty()) ? text->string() : "";
  }

  static void read_record(MapReader& map, PublishedRow& row) {
    row.quantity = map.require("quantity").string();
    if (row.judged) map.fail("judged", "expected false: a row that is not simulated");
    for (const char* key : {"gpus", "nodes", "micro_batch", "seq", "ga", "global_batch", "ssds",
                            "peak_memory_GB", "gpu_memory_GiB"}) {
      if (const auto value = map.optional(key)) row.parts[key] = value->number(0, kLargestNumber);
    }
  }

  /// The unit that the quantity is predicted in.
  static PublishedQuantity read_quantity(MapReader& map, PublishedRow& row) {
    static const std::vector<std::string> kNames = [] {
      std::vector<std::string> names;
      for (const QuantityRow& one : kQuantities) names.emplace_back(one.name);
      return names;
    }();
    row.quantity = map.require("quantity").choice(kNames);
    const auto at = std::find(kNames.begin(), kNames.end(), row.quantity) - kNames.begin();
    const QuantityRow& known = kQuantities[static_cast<std::size_t>(at)];
    const std::vector<std::string> units = {known.units[0], known.units[1]};
    if (map.require("unit").choice(units) == units[1]) row.value *= known.second;
    row.unit = units[0];
    return known.quantity;
  }

  PublishedRun read_run(MapReader& map, PublishedRow& row) {
    PublishedRun run;
    run.quantity = read_quantity(map, row);
    const ValueReader schedule = map.require("schedule");
    run.schedule = find_schedule(row.schedule, &schedule.node().at).name();
    map.ignore("alt_schedules");  // for readers: what else the run might be called
    Node& root = run.scenario.root = map_node(map.at());
    put_entry(root, "name", map.require("id").node());
    put_entry(root, "model", model(map.require("model")));
    put_entry(root, "hardware", hardware(map.require("node")));
    put_entry(root, "gpus", map.require("gpus").node());
    put_entry(root, "nodes", map.require("nodes").node());
    Node training = map_node(map.at());
    put_entry(training, "micro_batch_size_per_gpu", map.require("micro_batch").node());
    put_entry(training, "sequence_length", map.require("seq").node());
    put_entry(training, "dtype", map.require("dtype").node());
    put_entry(training, "activation_checkpointing", map.require("activation_checkpointing").node());
    const bool recomputes = map.require("activation_checkpointing").boolean();
    put_entry(root, "training", std::move(training));
    Node deepspeed = map.require("deepspeed").node();
    if (!deepspeed.is_map()) map.fail("deepspeed", "expected a DeepSpeed configuration: a map");
    complete(deepspeed, "train_micro_batch_size_per_gpu", map.require("micro_batch"));
    complete(deepspeed, "gradient_accumulation_steps", map.require("ga"));
    put_entry(root, "deepspeed", std::move(deepspeed));
    Node launch = map_node(map.at());
    put_entry(launch, "bind_cores_to_rank", map.require("bind_cores").node());
    put_entry(launch, "deepspeed_version", map.require("deepspeed_version").node());
    put_entry(root, "launch", std::move(launch));
    Node schedules;
    schedules.kind = Node::Kind::kSequence;
    schedules.at = schedule.node().at;
    schedules.items.push_back(schedule.node());
    put_entry(root, "schedules", std::move(schedules));
    // Forward and backward are 2 + 4 FLOP a parameter and token, recomputation another 2.
    constexpr std::int64_t kWithout = 6;
    constexpr std::int64_t kWith = 8;
    run.flop =
        static_cast<double>(map.integer_or("flop", recomputes ? kWith : kWithout, 1, kMostFlop));
    if (auto set = map.optional_map("set")) {
      for (const std::string& path : set->keys()) {
        run.set.push_back({path, set->require(path).node().scalar});
      }
    }
    // Errors of the scenario show now, with their place.
    (void)read_scenario(run.scenario, run.set);
    return run;
  }

  /// What the row says need not be said in its DeepSpeed configuration, but not otherwise.
  static void complete(Node& deepspeed, const char* key, const ValueReader& of_row) {
    constexpr std::int64_t kMostSteps = 1 << 20;
    const std::int64_t value = of_row.integer(1, kMostSteps);
    const Node* written = deepspeed.find(key);
    if (written == nullptr) {
      put_entry(deepspeed, key, of_row.node());
    } else if (ValueReader(*written, key).integer(1, kMostSteps) != value) {
      of_row.fail(fmt::format("{} is not deepspeed.{}, {}", value, key, written->scalar));
    }
  }

  fs::path model_file(const ValueReader& name) const {
    const std::string text = name.string();
    std::vector<std::string> folders;
    for (const fs::path& folder : models_) {
      std::error_code missing;
      if (fs::exists(folder / (text + ".json"), missing)) return folder / (text + ".json");
      folders.push_back(folder.lexically_normal().string());
    }
    name.fail(fmt::format("no {}.json in {}", text, fmt::join(folders, ", ")));
  }

  Node model(const ValueReader& name) {
    const std::string text = name.string();
    auto found = known_models_.find(text);
    if (found == known_models_.end()) {
      Node spliced = map_node(name.node().at);
      put_entry(spliced, "name", text_node(text, name.node().at));
      put_entry(spliced, "config", load_document(model_file(name)));
      found = known_models_.emplace(text, std::move(spliced)).first;
    }
    return found->second;
  }

  Node hardware(const ValueReader& name) {
    const std::string text = name.string();
    auto found = known_profiles_.find(text);
    if (found == known_profiles_.end()) {
      const fs::path file = find_profile(text, folder_, profiles_, name.node().at);
      found = known_profiles_.emplace(text, load_hardware(file, profiles_)).first;
    }
    return found->second;
  }

  fs::path folder_;
  std::vector<fs::path> profiles_;
  std::vector<fs::path> models_;
  std::map<std::string, Node> known_models_;
  std::map<std::string, Node> known_profiles_;
};

}  // namespace

std::string to_string(PublishedQuantity quantity) {
  return row_of(quantity).name;
}

std::string unit_of(PublishedQuantity quantity) {
  return row_of(quantity).units[0];
}

std::vector<PublishedRow> read_published_rows(const fs::path& file, const PublishedPlaces& places) {
  const Node root = load_document(file);
  RowReader reader(file, places);
  std::map<std::string, Node> earlier;
  std::vector<PublishedRow> rows;
  for (const ValueReader& item : ValueReader(root, "").items()) {
    const Node node = with_like(item.node(), earlier);
    rows.push_back(reader.read(node));
    if (!earlier.emplace(rows.back().id, node).second) {
      fail_at(node.find("id")->at, "id", fmt::format("\"{}\" is there twice", rows.back().id));
    }
  }
  if (rows.empty()) {
    fail_at(root.at, "", "expected rows of published runs, found none");
  }
  return rows;
}

}  // namespace zenflow::sim
