#include "sim/config/hub/weight_check.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "sim/config/hub/tensor_pairs.h"
#include "sim/config/hub/weight_tensors.h"

namespace zenflow::sim::hub {
namespace {

constexpr std::size_t kNamed = 4;     // differences that are said one by one
constexpr int kAlike = 200;           // names whose last two components are the same
constexpr std::size_t kMost = 1'000;  // tensors of a layer that are compared by their names

/// Modules that a checkpoint may have on top of the class that reads it.
constexpr auto kHeads = std::to_array<std::string_view>({"lm_head",
                                                         "cls",
                                                         "score",
                                                         "classifier",
                                                         "qa_outputs",
                                                         "pooler",
                                                         "classification_head",
                                                         "pre_classifier",
                                                         "vocab_transform",
                                                         "vocab_layer_norm",
                                                         "vocab_projector",
                                                         "generator_predictions",
                                                         "generator_lm_head",
                                                         "discriminator_predictions",
                                                         "mask_predictions",
                                                         "lm_predictions",
                                                         "predictions",
                                                         "sop_classifier",
                                                         "head",
                                                         "embed_out"});
/// And those that are initialised anew where a checkpoint is fine-tuned to labels.
constexpr auto kNewHeads = std::to_array<std::string_view>(
    {"score", "classifier", "qa_outputs", "classification_head", "pre_classifier", "pooler"});
/// What tables of embeddings are called, and heads that are copies of them.
constexpr auto kTables = std::to_array<std::string_view>(
    {"embed_tokens", "shared", "lm_head", "wte", "word_embeddings", "decoder", "embed_out"});

bool is_table(std::string_view name) {
  return name.find("embed") != std::string_view::npos ||
         has_component(name, std::array<std::string_view, 2>{"shared", "wte"});
}

bool is_token_table(std::string_view name) {
  return is_table(name) && name.find("position") == std::string_view::npos;
}

struct Wanted : LoneTensor {};

struct Found : LoneTensor {
  const WeightTensor* stored = nullptr;
};

/// The model's tensors with the numbers of their layers, which each stack counts from 0.
std::vector<Wanted> wanted_tensors(const ModelSpec& model) {
  std::vector<Wanted> wanted;
  std::map<std::string, std::int64_t, std::less<>> next;
  for (std::int64_t i = 0; i <= model.layers() + 1; ++i) {
    const Layer& layer = model.part(i);
    if (layer.tensors.empty()) continue;
    const std::string& first = layer.tensors.front().name;
    const std::int64_t number = next[first.substr(0, first.find("{}"))]++;
    for (const Tensor& tensor : layer.tensors) {
      std::string name = tensor.name;
      if (const std::size_t at = name.find("{}"); at != std::string::npos) {
        name.replace(at, 2, std::to_string(number));
      }
      wanted.push_back({{std::move(name), tensor.shape, tensor.parameters()}});
    }
  }
  return wanted;
}

class Check {
 public:
  Check(const ModelSpec& model, const Weights& weights, const WeightCheck& check)
      : model_(model), check_(check), wanted_(wanted_tensors(model)) {
    for (const WeightTensor& tensor : weights.tensors) {
      found_.push_back({{tensor.name, tensor.shape, tensor.elements}, &tensor});
    }
    for (const Wanted& one : wanted_) {
      const auto split = split_at_number(one.name);
      if (split) layers_ = std::max(layers_, split->number + 1);
      if (!split && one.shape.size() == 2 && is_table(one.name)) tables_.push_back(&one);
    }
  }

  void run() {
    pair_names();
    stack_experts();
    pair_by_layers();
    report();
  }

 private:
  /// Tensors of both sides in the layers of one number, in whichever stack.
  struct Group {
    std::vector<LoneTensor*> wanted;
    std::vector<LoneTensor*> found;
  };

  /// Those of the same name. One that has another shape is a difference, and no other tensor's.
  void pair_names() {
    std::map<std::string_view, Found*> by_name;
    for (Found& one : found_) by_name.emplace(one.name, &one);
    for (Wanted& one : wanted_) {
      const auto place = by_name.find(one.name);
      if (place == by_name.end()) continue;
      if (!same_shape(one, *place->second)) differ(one, *place->second);
      one.paired = true;
      place->second->paired = true;
    }
  }

  /// Experts that are stored one by one, "experts.0.w1.weight" and so on, become one tensor of
  /// three dimensions, as transformers stacks them.
  void stack_experts();

  void pair_by_layers() {
    constexpr std::int64_t kNone = -1;
    std::map<std::int64_t, Group> groups;
    const auto number_of = [](const LoneTensor& one) {
      const auto split = split_at_number(one.name);
      return split ? split->number : kNone;
    };
    for (Wanted& one : wanted_) {
      if (!one.paired) groups[number_of(one)].wanted.push_back(&one);
    }
    for (Found& one : found_) {
      if (one.paired) continue;
      Group& group = groups[number_of(one)];
      if (!may_be_left(one) || is_asked_for(one, group)) group.found.push_back(&one);
    }
    for (auto& [number, group] : groups) {
      pair_same_shapes(group.wanted, group.found);
      pair_joined(group.wanted, group.found);
      pair_joined(group.found, group.wanted);
      pair_different(group);
    }
  }

  /// What may be left must not stand in for what is missing unless it is called so, or both are
  /// the tokens' table.
  [[nodiscard]] static bool is_asked_for(const Found& found, const Group& group) {
    return group.wanted.size() <= kMost &&
           std::any_of(group.wanted.begin(), group.wanted.end(), [&found](const LoneTensor* one) {
             return same_shape(*one, found) &&
                    (likeness(one->name, found.name) >= kAlike ||
                     (is_token_table(one->name) && is_token_table(found.name)));
           });
  }

  /// The rest by their names: what is alike but for its shape is one difference, not two.
  void pair_different(const Group& group) {
    if (group.wanted.size() > kMost || group.found.size() > kMost) return;
    for (LoneTensor* wanted : group.wanted) {
      LoneTensor* best = nullptr;
      int most = kAlike - 1;
      for (LoneTensor* found : group.found) {
        if (found->paired) continue;
        const int alike = likeness(wanted->name, found->name);
        if (alike > most) {
          most = alike;
          best = found;
        }
      }
      if (best == nullptr) continue;
      differ(*wanted, *static_cast<const Found*>(best));
      wanted->paired = true;
      best->paired = true;
    }
  }

  /// A table of embeddings, or a head tied to it, that is stored once more.
  [[nodiscard]] bool is_second_table(const LoneTensor& found) const {
    if (!has_component(found.name, kTables)) return false;
    return std::any_of(tables_.begin(), tables_.end(), [&found](const Wanted* one) {
      return one->shape == found.shape ||
             (found.shape.size() == 1 && one->shape.front() == found.shape.front());
    });
  }

  /// A head that the class does not have: behind it there would be a tensor of its name.
  [[nodiscard]] bool is_other_head(const LoneTensor& found) const {
    if (split_at_number(found.name) || !has_component(found.name, kHeads)) return false;
    // Tied, it would be a copy of the table.
    return !(model_.tied_embeddings && model_.outputs == model_.vocab &&
             has_component(found.name, std::array<std::string_view, 1>{"lm_head"}));
  }

  /// Layers that predict more tokens than the next one.
  [[nodiscard]] bool is_extra_layer(const LoneTensor& found) const {
    if (has_component(found.name, std::array<std::string_view, 2>{"mtp", "mtp_layers"})) {
      return true;
    }
    const auto split = split_at_number(found.name);
    if (!split || check_.extra_layers == 0) return false;
    return split->number >= layers_ && split->number < layers_ + check_.extra_layers;
  }

  [[nodiscard]] bool may_be_left(const Found& found) const {
    return is_buffer(*found.stored) || is_second_table(found) || is_other_head(found) ||
           is_extra_layer(found) || found.elements == 0 ||
           // T5's cross-attention, which has no distances.
           found.name.ends_with("EncDecAttention.relative_attention_bias.weight") ||
           // Tables of sines.
           found.name.ends_with("embed_positions.weight") ||
           found.name.ends_with("embed_positions.weights");
  }

  [[nodiscard]] static bool may_be_missing(const Wanted& wanted) {
    return !split_at_number(wanted.name) && has_component(wanted.name, kNewHeads);
  }

  void differ(const LoneTensor& wanted, const LoneTensor& found) {
    const auto& stored = *static_cast<const Found&>(found).stored;
    const std::string size =
        found.shape.empty() ? fmt::format("{} elements", found.elements) : shape_text(found.shape);
    shapes_.push_back(fmt::format("\"{}\" has the shape {}, expected {} ({}{})", found.name, size,
                                  shape_text(wanted.shape),
                                  stored.file->path.filename().generic_string(),
                                  wanted.name == found.name ? "" : ", of " + wanted.name));
  }

  void report();

  const ModelSpec& model_;
  const WeightCheck& check_;
  std::vector<Wanted> wanted_;
  std::vector<Found> found_;
  std::vector<const Wanted*> tables_;  ///< of embeddings
  std::int64_t layers_ = 0;            ///< of the deepest stack
  std::vector<std::string> shapes_;    ///< differences of shape
  std::vector<std::string> absent_;    ///< experts that are missing
};

/// Experts of one matrix: their numbers, and where each is.
struct ExpertGroup {
  std::map<std::int64_t, std::size_t> members;
  std::string_view before;
  std::string_view after;
};

/// "a.layers.3.b.experts." and ".w1.weight" around the second number of a name.
std::map<std::string, ExpertGroup> expert_groups(const std::vector<Found>& found) {
  std::map<std::string, ExpertGroup> groups;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].paired || found[i].shape.empty()) continue;
    const auto layer = split_at_number(found[i].name);
    if (!layer || layer->after.empty()) continue;
    const std::string_view name = found[i].name;
    const auto expert = split_at_number(name, name.size() - layer->after.size() + 1);
    if (!expert || expert->before.find("expert") == std::string_view::npos) continue;
    std::string key = std::string(expert->before) + "*" + std::string(expert->after);
    ExpertGroup& group = groups[std::move(key)];
    group.members.emplace(expert->number, i);
    group.before = expert->before;
    group.after = expert->after;
  }
  return groups;
}

void Check::stack_experts() {
  std::vector<Found> stacks;
  for (const auto& [key, group] : expert_groups(found_)) {
    std::map<std::vector<std::int64_t>, std::size_t> shapes;
    for (const auto& [number, at] : group.members) ++shapes[found_[at].shape];
    const auto& usual =
        std::max_element(shapes.begin(), shapes.end(), [](const auto& a, const auto& b) {
          return a.second < b.second;
        })->first;
    const std::int64_t experts = group.members.rbegin()->first + 1;
    // Numbers with holes, or not from 0: the first one that is missing is named.
    for (std::int64_t i = 0; i < experts; ++i) {
      if (group.members.contains(i)) continue;
      absent_.push_back(fmt::format("{}{}{}", group.before, i, group.after));
      break;
    }
    Found stack{{key, usual, 0}, found_[group.members.begin()->second].stored};
    stack.shape.insert(stack.shape.begin(), experts);
    for (const auto& [number, at] : group.members) {
      Found& one = found_[at];
      one.paired = true;
      stack.elements += one.elements;
      if (one.shape != usual) differ({"the other experts", usual, 0}, one);
    }
    stacks.push_back(std::move(stack));
  }
  std::move(stacks.begin(), stacks.end(), std::back_inserter(found_));
}

void Check::report() {
  std::vector<std::string> differences = shapes_;
  for (const std::string& name : absent_) {
    differences.push_back(fmt::format("\"{}\" is missing", name));
  }
  for (const Wanted& one : wanted_) {
    if (one.paired || may_be_missing(one)) continue;
    differences.push_back(fmt::format("\"{}\" {} is missing", one.name, shape_text(one.shape)));
  }
  for (const Found& one : found_) {
    if (one.paired || may_be_left(one)) continue;
    differences.push_back(fmt::format("\"{}\" {} ({}) is none of the model's", one.name,
                                      shape_text(one.shape),
                                      one.stored->file->path.filename().generic_string()));
  }
  if (differences.empty()) return;
  const std::size_t count = differences.size();
  if (count > kNamed) {
    differences.resize(kNamed);
    differences.push_back(fmt::format("and {} more", count - kNamed));
  }
  throw Error(
      ErrorKind::kInput,
      fmt::format("{}: expected the tensors of {} ({}), found {}: {}",
                  check_.weights.generic_string(), check_.config.generic_string(), model_.type,
                  count == 1 ? "a difference" : fmt::format("{} differences", count),
                  fmt::join(differences, "; ")));
}

}  // namespace

void check_weights(const ModelSpec& model, std::span<const SafetensorsHeader> files,
                   const WeightCheck& check) {
  const Weights weights = weight_tensors(files);
  Check(model, weights, check).run();
}

}  // namespace zenflow::sim::hub
