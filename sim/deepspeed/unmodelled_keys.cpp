#include "sim/deepspeed/unmodelled_keys.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/deepspeed/ds_document.h"
#include "sim/deepspeed/ds_fields.h"
#include "sim/deepspeed/lax_values.h"
#include "sim/deepspeed/optimizer.h"

namespace zenflow::sim {
namespace {

constexpr KeyMeaning kUnknownMeaning{KeyEffect::kNotModelled};
constexpr KeyMeaning kModelledBlock{KeyEffect::kModelled};

/// Whether the value is one of "a|b|c"; numbers by what they are worth.
bool is_one_of(const Node& node, std::string_view values) {
  while (!values.empty()) {
    const std::size_t bar = std::min(values.find('|'), values.size());
    Node one;
    one.kind = Node::Kind::kScalar;
    one.scalar = std::string(values.substr(0, bar));
    const auto wanted = lax_number(one);
    if (node.scalar == one.scalar || (wanted && lax_number(node) == wanted)) return true;
    values.remove_prefix(std::min(bar + 1, values.size()));
  }
  return false;
}

bool is_enabled(const Node& node) {
  if (!node.is_map()) return lax_boolean(node).value_or(true);
  const Node* enabled = node.find("enabled");
  return enabled != nullptr && lax_boolean(*enabled).value_or(true);
}

class Walk {
 public:
  explicit Walk(const Node& root) : root_(root) {
    const auto text = [&root](std::string_view path) -> std::string_view {
      const Node* node = find_path(root, path);
      return node != nullptr && node->is_scalar() ? std::string_view(node->scalar) : "";
    };
    const Node* stage = find_path(root, "zero_optimization.stage");
    stage_ = stage == nullptr ? 0 : lax_integer(*stage).value_or(0);
    nvme_ = stage_ == 3 && (text("zero_optimization.offload_param.device") == "nvme" ||
                            text("zero_optimization.offload_optimizer.device") == "nvme");
  }

  std::vector<UnmodelledKey> take() {
    for (const Node::Entry& entry : root_.entries) top_level(entry);
    return std::move(found_);
  }

 private:
  void top_level(const Node::Entry& entry) {
    const auto keys = top_level_keys();
    const auto known = std::find_if(keys.begin(), keys.end(), [&entry](const TopLevelKey& row) {
      return row.key == entry.key;
    });
    if (known != keys.end()) {
      visit(entry, entry.key, known->meaning);
      return;
    }
    const auto removed = removed_blocks();
    const bool old = std::any_of(removed.begin(), removed.end(), [&entry](const RemovedBlock& row) {
      return row.key == entry.key;
    });
    if (old && is_enabled(entry.value)) found_.push_back({entry.key, entry.key_at});
  }

  void visit(const Node::Entry& entry, const std::string& path, const KeyMeaning& meaning) {
    if (meaning.effect == KeyEffect::kNone) return;
    if (meaning.effect == KeyEffect::kNotModelled) {
      if (counts(entry.value, meaning)) found_.push_back({path, entry.key_at});
      return;
    }
    if (path == "optimizer.type") {
      if (!find_optimizer(entry.value.scalar)) found_.push_back({path, entry.key_at});
      return;
    }
    if (!entry.value.is_map()) return;
    for (const Node::Entry& inner : entry.value.entries) {
      visit(inner, path + "." + inner.key, meaning_in(path, inner.key));
    }
  }

  /// Of a key in a block of which some keys are modelled.
  static KeyMeaning meaning_in(std::string_view block, std::string_view key) {
    const auto blocks = strict_blocks();
    if (std::find(blocks.begin(), blocks.end(), block) != blocks.end()) {
      for (const Field& field : strict_fields()) {
        if (field.block == block && field.key == key) return field.meaning;
      }
      return kModelledBlock;  // refused, here and by DeepSpeed
    }
    for (const InnerKey& inner : inner_keys()) {
      if (inner.block == block && inner.key == key) return inner.meaning;
    }
    return kUnknownMeaning;
  }

  [[nodiscard]] bool counts(const Node& value, const KeyMeaning& meaning) const {
    if (value.kind == Node::Kind::kNull || (value.is_scalar() && value.scalar == "auto")) {
      return false;
    }
    if (value.is_scalar() && is_one_of(value, meaning.neutral)) return false;
    switch (meaning.scope) {
      case KeyScope::kAnywhere:
        return true;
      case KeyScope::kStages12:
        return stage_ == 1 || stage_ == 2;
      case KeyScope::kStage3:
        return stage_ == 3;
      case KeyScope::kNvme:
        return nvme_;
      case KeyScope::kIfEnabled:
        return is_enabled(value);
      case KeyScope::kIfEnabledWithZero:
        return stage_ > 0 && is_enabled(value);
    }
    return true;
  }

  const Node& root_;
  std::int64_t stage_ = 0;
  bool nvme_ = false;
  std::vector<UnmodelledKey> found_;
};

}  // namespace

std::vector<UnmodelledKey> unmodelled_keys(const Node& root) {
  return Walk(root).take();
}

std::string unmodelled_note(const std::vector<std::string>& paths) {
  return fmt::format("not modelled, as if not written: {}", fmt::join(paths, ", "));
}

}  // namespace zenflow::sim
