#include "sim/config/hub/weight_model.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "sim/config/hub/decoder.h"
#include "sim/config/hub/hub_config.h"
#include "sim/config/hub/hub_model.h"
#include "sim/config/hub/layer_builder.h"
#include "sim/config/hub/weight_layer.h"
#include "sim/config/hub/weight_tensors.h"

namespace zenflow::sim::hub {
namespace {

/// What stacks of layers are called; other numbers in names may be anything's.
constexpr auto kLayerWords = std::to_array<std::string_view>(
    {"layers", "layer", "h", "blocks", "block", "resblocks", "encoder_layers", "decoder_layers"});
constexpr auto kOutputs = std::to_array<std::string_view>(
    {"lm_head", "embed_out", "output", "score", "classifier", "qa_outputs", "cls", "head"});

/// Around the number of a layer: the first one behind a word for layers, or the first one at all.
std::optional<NumberedName> split_at_layer(std::string_view name) {
  const auto first = split_at_number(name);
  for (auto split = first; split;
       split = split_at_number(name, name.size() - split->after.size() + 1)) {
    const std::vector<std::string_view> before = components(split->before);
    if (before.size() > 1 && std::find(kLayerWords.begin(), kLayerWords.end(),
                                       before[before.size() - 2]) != kLayerWords.end()) {
      return split;
    }
    if (split->after.empty()) break;
  }
  return first;
}

struct Stack {
  std::map<std::int64_t, std::vector<LayerTensor>> layers;
  std::int64_t parameters = 0;
  bool is_called_so = false;  ///< by a word for layers
};

/// The most usual size of norms' vectors, or the most usual size of matrices.
std::int64_t width_of(const Stack& stack) {
  std::map<std::int64_t, std::int64_t> norms;
  std::map<std::int64_t, std::int64_t> sizes;
  for (const auto& [number, tensors] : stack.layers) {
    for (const LayerTensor& one : tensors) {
      const bool is_norm = mentions(one.name, {"norm", "Norm", "ln"}) &&
                           !mentions(one.name, {"q_", "k_", "kv_", "query", "key"});
      if (one.shape.size() == 1 && is_norm) ++norms[one.shape[0]];
      if (one.shape.size() < 2) continue;
      for (const std::int64_t size : one.shape) ++sizes[size];
    }
  }
  // Of equally usual ones the larger: what is normed within a layer is narrower than the stream.
  const auto most = [](const std::map<std::int64_t, std::int64_t>& counts) {
    return std::max_element(counts.begin(), counts.end(),
                            [](const auto& a, const auto& b) {
                              return std::pair(a.second, a.first) < std::pair(b.second, b.first);
                            })
        ->first;
  };
  if (!norms.empty()) return most(norms);
  return sizes.empty() ? 1 : most(sizes);
}

/// Keys of an unknown model_type's config.json, in it or in its text_config.
class Facts {
 public:
  explicit Facts(const Node& config) {
    if (!config.is_map()) return;
    maps_.push_back(&config);
    for (const char* nested : {"text_config", "llm_config", "language_config"}) {
      const Node* text = config.find(nested);
      if (text != nullptr && text->is_map()) maps_.push_back(text);
    }
  }

  /// The first of `names` that is there; 0 without one.
  [[nodiscard]] std::int64_t size(Names names, std::int64_t limit) const {
    for (const std::string_view name : names) {
      for (const Node* map : maps_) {
        const Node* value = map->find(name);
        if (value == nullptr || !value->is_scalar()) continue;
        return ValueReader(*value, std::string(name)).integer(0, limit);
      }
    }
    return 0;
  }
  /// What the file's own map says: a head that is stored is not tied by a nested one.
  [[nodiscard]] bool is_true(std::string_view name) const { return text(name) == "true"; }
  [[nodiscard]] std::string text(std::string_view name) const {
    const Node* value = maps_.empty() ? nullptr : maps_.front()->find(name);
    return value != nullptr && value->is_scalar() ? value->scalar : "";
  }

 private:
  std::vector<const Node*> maps_;
};

class WeightModel {
 public:
  WeightModel(const Node& config, const ModelWeights& weights, const std::string& name)
      : facts_(config), weights_(weights) {
    model_.name = name;
    model_.type = facts_.text("model_type");
    if (model_.type.empty()) model_.type = "unknown";
  }

  ModelSpec read() {
    const Weights stored = weight_tensors(weights_.files);
    if (!stored.quantization.empty()) {
      fail(
          fmt::format("tensor \"{}\" is quantised ({}): of a model that no row knows, shapes of "
                      "weights are only read where they are stored whole",
                      stored.quantised, stored.quantization));
    }
    sort(stored.tensors);
    read_ends();
    check_layers();
    read_stacks();
    read_head();
    model_.max_positions = positions();
    model_.estimate = sentence();
    Node root;
    root.at.file = std::make_shared<const std::string>(weights_.path.generic_string());
    check_model_size(model_, root);
    return std::move(model_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kInput, fmt::format("{}: {}", weights_.path.generic_string(), what));
  }

  /// Tensors into stacks of layers, and those that are in none.
  void sort(const std::vector<WeightTensor>& tensors) {
    for (const WeightTensor& tensor : tensors) {
      if (is_buffer(tensor) || tensor.elements == 0) continue;
      if (!tensor.type.starts_with('F') && tensor.type != "BF16") {
        if (tensor.shape.size() < 2) continue;  // a count, or ids
        fail(
            fmt::format("tensor \"{}\" is stored as {}: expected weights of floating-point numbers",
                        tensor.name, tensor.type));
      }
      if (tensor.shape.empty()) {
        single_.push_back({tensor.name, {1}});  // a scalar
        continue;
      }
      const auto split = split_at_layer(tensor.name);
      if (!split || split->after.empty()) {
        single_.push_back({tensor.name, tensor.shape});
        continue;
      }
      Stack& stack = stacks_[std::string(split->before)];
      stack.layers[split->number].push_back({std::string(split->after.substr(1)), tensor.shape});
      stack.parameters += tensor.elements;
      const std::vector<std::string_view> before = components(split->before);
      stack.is_called_so =
          before.size() > 1 && std::find(kLayerWords.begin(), kLayerWords.end(),
                                         before[before.size() - 2]) != kLayerWords.end();
    }
    dissolve_others();
    if (stacks_.empty()) {
      fail("expected layers, numbered from 0 in the names of their tensors, found none");
    }
  }

  /// Numbers from 0 without a hole are layers; other ones are those of single modules
  /// ("projector.0", "projector.2") unless they are called layers.
  void dissolve_others() {
    for (auto stack = stacks_.begin(); stack != stacks_.end();) {
      const auto& layers = stack->second.layers;
      const std::int64_t last = layers.rbegin()->first;
      const bool is_whole = last + 1 == std::ssize(layers);
      if (!is_whole && stack->second.is_called_so) {
        fail(fmt::format("the layers \"{}N\" are numbered up to {}, and there are {} of them",
                         stack->first, last, layers.size()));
      }
      if (is_whole && (stack->second.is_called_so || layers.size() > 2)) {
        if (std::ssize(layers) > kMaxLayers) {
          fail(fmt::format("expected at most {} layers \"{}N\", found {}", kMaxLayers, stack->first,
                           layers.size()));
        }
        ++stack;
        continue;
      }
      for (const auto& [number, tensors] : layers) {
        for (const LayerTensor& one : tensors) {
          single_.push_back({fmt::format("{}{}.{}", stack->first, number, one.name), one.shape});
        }
      }
      stack = stacks_.erase(stack);
    }
  }

  /// The stack with the most parameters: the language model's.
  [[nodiscard]] const std::string& main_stack() const {
    return std::max_element(stacks_.begin(), stacks_.end(),
                            [](const auto& a, const auto& b) {
                              return a.second.parameters < b.second.parameters;
                            })
        ->first;
  }

  /// Layers that share their weights are stored once; fewer than there should be are a part.
  void check_layers() const {
    const std::int64_t expected =
        facts_.size({"num_hidden_layers", "n_layer", "num_layers"}, kMaxLayers);
    const std::string& main = main_stack();
    const std::int64_t found = std::ssize(stacks_.at(main).layers);
    if (found >= expected) return;
    fail(fmt::format("expected the {} layers that config.json says, found {} \"{}N\"", expected,
                     found, main));
  }

  /// What is in no layer: tables and whatever else is before them, or the head and its norm.
  void read_ends() {
    model_.hidden = width_of(stacks_.at(main_stack()));
    const LayerTensor* table = nullptr;
    for (const LayerTensor& one : single_) {
      const bool is_table = one.shape.size() == 2 && !has_component(one.name, kOutputs) &&
                            mentions(one.name, {"emb", "wte", "shared", "token", "vocab"}) &&
                            !mentions(one.name, {"pos", "type"});
      if (is_table && (table == nullptr || one.shape[0] > table->shape[0])) table = &one;
    }
    if (table != nullptr) {
      model_.vocab = table->shape[0];
      model_.embedding_dim = table->shape[1];
    }
    for (const LayerTensor& one : single_) {
      const bool is_norm = mentions(one.name, {"norm", "Norm", "ln_f"}) && one.shape.size() == 1;
      const bool is_last = !mentions(one.name, {"emb", "vision", "visual", "audio", "ln_pre"});
      const bool is_positions = one.shape.size() == 2 && mentions(one.name, {"pos", "wpe"});
      if (is_positions) table_positions_ = std::max(table_positions_, one.shape[0]);
      if (has_component(one.name, kOutputs)) {
        head_.push_back(&one);
      } else if (is_norm && is_last) {
        norms_.push_back(&one);
      } else {
        first_.push_back(&one);
      }
    }
    read_embedding(table);
  }

  void read_embedding(const LayerTensor* table) {
    LayerBuilder b("embedding", "", model_.hidden);
    for (const LayerTensor* one : first_) {
      b.tensor(one->name, one->shape);
      // What joins a tower's stream to the next one.
      const bool is_product = one != table && one->shape.size() == 2 &&
                              one->name.ends_with(".weight") &&
                              !mentions(one->name, {"emb", "pos", "wpe", "token"});
      if (is_product) b.product(one->name, one->shape[1], one->shape[0]);
    }
    b.chain(ChainKind::kEmbedding, as_double(model_.hidden));
    model_.embedding = b.take();
  }

  void read_stacks() {
    std::vector<std::pair<const std::string*, Stack*>> order;
    const std::string last = main_stack();
    for (auto& [prefix, stack] : stacks_) order.emplace_back(&prefix, &stack);
    // Towers and encoders first.
    const auto place = [&last](const std::string& prefix) {
      if (prefix.find("decoder") != std::string::npos) return 2;
      return prefix == last ? 1 : 0;
    };
    std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      return place(*a.first) < place(*b.first);
    });
    for (auto& [prefix, stack] : order) {
      StackFacts facts;
      facts.width = width_of(*stack);
      const bool is_main = *prefix == last;
      if (is_main) {
        facts.heads = facts_.size({"num_attention_heads", "n_head", "num_heads"}, kMaxHeads);
        facts.head_dim = facts_.size({"head_dim", "kv_channels"}, kMaxHeadDim);
      }
      facts.experts_per_token =
          facts_.size({"num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k",
                       "top_k_experts", "experts_per_token"},
                      kMaxExperts);
      facts.causal = !mentions(*prefix, {"encoder", "vision", "visual", "audio"});
      facts.rotary = table_positions_ == 0;
      any_causal_ = any_causal_ || facts.causal;
      for (auto& [number, tensors] : stack->layers) {
        append_layer(model_, estimate_layer(*prefix + "{}.", std::move(tensors), facts, assumed_));
      }
    }
  }

  void read_head() {
    LayerBuilder b("head", "", model_.hidden);
    for (const LayerTensor* one : norms_) {
      b.tensor(one->name, one->shape);
      if (one->name.ends_with(".bias") || one->shape[0] != model_.hidden) continue;
      b.chain(ChainKind::kRmsNorm, as_double(model_.hidden));
      b.keep(2 * as_double(model_.hidden), 4 * as_double(model_.hidden));
    }
    const LayerTensor* widest = nullptr;
    const bool is_tied = facts_.is_true("tie_word_embeddings");
    for (const LayerTensor* one : head_) {
      const bool is_copy = is_tied && one->shape == std::vector{model_.vocab, model_.embedding_dim};
      if (is_copy) continue;
      b.tensor(one->name, one->shape);
      if (one->shape.size() != 2) continue;
      b.product(one->name, one->shape[1], one->shape[0]);
      if (widest == nullptr || one->shape[0] > widest->shape[0]) widest = one;
    }
    // "lm_head.dense" and the like stand before a head that is tied.
    const bool is_labels =
        widest != nullptr && mentions(widest->name, {"score", "classifier", "qa_outputs"});
    if (widest != nullptr && (is_labels || widest->shape[0] >= model_.vocab)) {
      model_.outputs = widest->shape[0];
    } else if (model_.vocab > 0) {
      model_.tied_embeddings = true;
      model_.outputs = model_.vocab;
      b.product("lm_head", model_.embedding_dim, model_.vocab);
    }
    model_.head = b.take();
  }

  [[nodiscard]] std::int64_t positions() const {
    const std::int64_t said = facts_.size(
        {"max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "model_max_length"},
        kMaxPositions);
    if (said > 0) return said;
    return table_positions_ > 0 ? table_positions_ : kMaxPositions;
  }

  [[nodiscard]] std::string sentence() const {
    std::vector<std::string> assumed;
    if (!assumed_.head_dims.empty()) {
      assumed.push_back(
          fmt::format("attention heads of {} columns", fmt::join(assumed_.head_dims, " and ")));
    }
    for (const auto& [seen, count] : assumed_.experts) {
      assumed.push_back(fmt::format("{} of {} experts a token", seen, count));
    }
    if (any_causal_) assumed.emplace_back("causal attention");
    if (model_.tied_embeddings) assumed.emplace_back("a head tied to the embedding");
    if (stacks_.size() > 1) {
      assumed.emplace_back("as many tokens in each stack of layers as the training's");
    }
    if (assumed_.without_attention) {
      assumed.emplace_back("no attention where no projections of queries and keys were recognised");
    }
    return fmt::format(
        "{}: a model that no row knows, {}: tensors and parameters are those of the headers, but "
        "what is computed and kept for backward is estimated from their shapes, assuming {}",
        weights_.path.generic_string(), stored_text(),
        assumed.empty() ? "nothing else" : fmt::format("{}", fmt::join(assumed, ", ")));
  }

  /// "6.43 GB of BF16".
  [[nodiscard]] std::string stored_text() const {
    constexpr double kBytesPerGb = 1e9;
    std::map<std::string, std::uint64_t> bytes;
    for (const SafetensorsHeader& file : weights_.files) {
      for (const StoredTensor& one : file.tensors) bytes[one.type] += one.end - one.begin;
    }
    std::vector<std::string> texts;
    for (const auto& [type, count] : bytes) {
      texts.push_back(
          fmt::format("{:.3g} GB of {}", static_cast<double>(count) / kBytesPerGb, type));
    }
    return fmt::format("{}", fmt::join(texts, " and "));
  }

  Facts facts_;
  const ModelWeights& weights_;
  ModelSpec model_;
  std::map<std::string, Stack> stacks_;
  std::vector<LayerTensor> single_;
  std::vector<const LayerTensor*> first_;
  std::vector<const LayerTensor*> norms_;
  std::vector<const LayerTensor*> head_;
  std::int64_t table_positions_ = 0;  ///< rows of a learnt table
  bool any_causal_ = false;
  Assumptions assumed_;
};

}  // namespace

ModelSpec read_weight_model(const Node& config, const ModelWeights& weights,
                            const std::string& name) {
  return WeightModel(config, weights, name).read();
}

}  // namespace zenflow::sim::hub
