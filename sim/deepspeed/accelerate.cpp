#include "sim/deepspeed/accelerate.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "sim/config/reader.h"
#include "sim/deepspeed/lax_values.h"

namespace zenflow::sim {
namespace {

constexpr std::string_view kBlock = "deepspeed_config";

/// A key of the block and where accelerate puts its value; empty: nowhere in DeepSpeed's file.
struct PluginKey {
  std::string_view key;
  std::string_view path;
  bool is_text = false;
};
// Those with a path are refused beside a file (DeepSpeedPlugin._deepspeed_config_checks).
constexpr std::array<PluginKey, 15> kKeys = {{
    {"zero_stage", "zero_optimization.stage"},
    {"offload_optimizer_device", "zero_optimization.offload_optimizer.device", true},
    {"offload_optimizer_nvme_path", "zero_optimization.offload_optimizer.nvme_path", true},
    {"offload_param_device", "zero_optimization.offload_param.device", true},
    {"offload_param_nvme_path", "zero_optimization.offload_param.nvme_path", true},
    {"zero3_save_16bit_model", "zero_optimization.stage3_gather_16bit_weights_on_model_save"},
    {"gradient_accumulation_steps", "gradient_accumulation_steps"},
    {"gradient_clipping", "gradient_clipping"},
    {"zero3_init_flag", ""},
    {"deepspeed_config_file", ""},
    {"deepspeed_multinode_launcher", ""},
    {"deepspeed_hostfile", ""},
    {"deepspeed_exclusion_filter", ""},
    {"deepspeed_inclusion_filter", ""},
    {"deepspeed_moe_layer_cls_names", ""},
}};

Node scalar(std::string text, bool quoted, const Location& at) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.scalar = std::move(text);
  node.quoted = quoted;
  node.at = at;
  return node;
}

/// Sets a value at a dotted path; maps on the way are created where it stands.
void put(Node& root, std::string_view path, const Location& key_at, Node value) {
  const std::size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  Node* child = root.find(key);
  if (child == nullptr) {
    Node map;
    map.kind = Node::Kind::kMap;
    map.at = key_at;
    root.entries.push_back({key, key_at, std::move(map)});
    child = &root.entries.back().value;
  }
  if (dot == std::string_view::npos) {
    *child = std::move(value);
  } else {
    put(*child, path.substr(dot + 1), key_at, std::move(value));
  }
}

/// "none" stands for a path or a device that is not there.
bool is_none(const Node& node) {
  return node.kind == Node::Kind::kNull ||
         (node.is_scalar() && (node.scalar == "none" || node.scalar == "None"));
}

Node converted(const Node& root, MapReader& block) {
  Node config;
  config.kind = Node::Kind::kMap;
  config.at = block.at();
  const auto fill_in = [&config](const char* path) {
    put(config, path, config.at, scalar("auto", true, config.at));
  };
  fill_in("train_micro_batch_size_per_gpu");
  put(config, "zero_optimization.stage", config.at, scalar("2", false, config.at));
  for (const Node::Entry& entry : block.node().entries) {
    for (const PluginKey& known : kKeys) {
      if (known.key != entry.key) continue;
      block.ignore(known.key);
      if (known.path.empty() || is_none(entry.value)) continue;
      Node value = entry.value;
      const bool is_word = value.is_scalar() && !is_number(value) && !is_boolean(value);
      if (known.is_text || is_word) value.quoted = true;
      put(config, known.path, entry.key_at, std::move(value));
    }
  }
  const Node* precision = root.find("mixed_precision");
  if (precision != nullptr && (precision->scalar == "bf16" || precision->scalar == "fp16")) {
    put(config, precision->scalar + ".enabled", precision->at,
        scalar("true", false, precision->at));
  }
  return config;
}

/// Asked is only whether a key is there: "auto", none and defaults are refused, too.
std::vector<LocatedKey> refused_beside_file(const Node& root, const Node& block) {
  std::vector<LocatedKey> refused;
  for (const Node::Entry& entry : block.entries) {
    const auto* const known = std::find_if(
        kKeys.begin(), kKeys.end(), [&](const PluginKey& one) { return one.key == entry.key; });
    if (known == kKeys.end() || known->path.empty()) continue;
    refused.push_back({std::string(kBlock) + "." + entry.key, entry.key_at});
  }
  for (const Node::Entry& entry : root.entries) {
    const bool precision = entry.key == "mixed_precision" && entry.value.kind != Node::Kind::kNull;
    const bool older = entry.key == "fp16" && entry.value.scalar == "true";
    if (precision || older) refused.push_back({entry.key, entry.key_at});
  }
  return refused;
}

/// Else accelerate does not look at the block.
bool starts_deepspeed(const Node& root) {
  const Node* const type = root.find("distributed_type");
  return type == nullptr || type->scalar == "DEEPSPEED";
}

}  // namespace

bool is_accelerate_config(const Node& root) {
  const Node* block = root.is_map() ? root.find(kBlock) : nullptr;
  return block != nullptr && block->is_map();
}

AccelerateConfig read_accelerate_config(const Node& root) {
  MapReader all(root, "");
  MapReader block = all.require_map(kBlock);
  AccelerateConfig config;
  config.document.root = converted(root, block);
  if (const auto file = block.optional("deepspeed_config_file"); file && !is_none(file->node())) {
    config.file = file->string();
    if (starts_deepspeed(root)) config.refused = refused_beside_file(root, block.node());
  }
  block.reject_unknown_keys();
  constexpr std::int64_t kMany = 1'000'000;
  if (const auto processes = all.optional("num_processes")) {
    config.processes = processes->integer(1, kMany);
  }
  if (const auto machines = all.optional("num_machines")) {
    config.machines = machines->integer(1, kMany);
  }
  return config;
}

}  // namespace zenflow::sim
