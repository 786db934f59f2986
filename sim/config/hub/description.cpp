#include "sim/config/hub/description.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "sim/config/hub/hub_config.h"
#include "sim/config/reader.h"

namespace zenflow::sim::hub {
namespace {

constexpr std::string_view kVersionKey = "zenflow_model";
constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;
constexpr double kMaxKept = 1e9;  // elements or bytes a token

constexpr auto kChains =
    std::to_array<std::pair<std::string_view, ChainKind>>({{"rms_norm", ChainKind::kRmsNorm},
                                                           {"layer_norm", ChainKind::kLayerNorm},
                                                           {"residual", ChainKind::kResidual},
                                                           {"dropout", ChainKind::kDropout},
                                                           {"rotary", ChainKind::kRotary},
                                                           {"gate", ChainKind::kGate},
                                                           {"activation", ChainKind::kActivation},
                                                           {"new_gelu", ChainKind::kNewGelu},
                                                           {"embedding", ChainKind::kEmbedding},
                                                           {"routing", ChainKind::kRouting}});

/// Maps of a list.
std::vector<MapReader> maps_of(MapReader& map, std::string_view key) {
  std::vector<MapReader> maps;
  for (const ValueReader& item : map.require(key).items()) {
    maps.emplace_back(item.node(), item.path());
  }
  return maps;
}

Tensor read_tensor(MapReader& map) {
  Tensor tensor;
  tensor.name = map.require("name").string();
  double elements = 1;
  const ValueReader shape = map.require("shape");
  for (const ValueReader& size : shape.items()) {
    tensor.shape.push_back(size.integer(1, kMaxSize));
    elements *= as_double(tensor.shape.back());
  }
  if (tensor.shape.empty()) tensor.shape = {1};  // a scalar
  if (elements > 1e15) shape.fail("expected at most 10^15 elements");
  tensor.trained = map.boolean_or("trainable", true);
  map.reject_unknown_keys();
  return tensor;
}

Linear read_product(MapReader& map) {
  Linear product;
  product.name = map.require("name").string();
  product.in = map.require("in").integer(1, kMaxIntermediate * kMaxExperts);
  product.out = map.require("out").integer(1, kMaxVocab);
  product.count = map.integer_or("count", 1, 1, kMaxExperts);
  product.share = map.number_or("share", 1, 0, 1e6);
  if (as_double(product.in) * as_double(product.out) * as_double(product.count) > 1e15) {
    map.fail("in", "expected products of at most 10^15 weights");
  }
  map.reject_unknown_keys();
  return product;
}

Attention read_attention(MapReader& map) {
  Attention attention;
  attention.heads = map.require("heads").integer(1, kMaxHeads);
  attention.kv_heads = map.integer_or("kv_heads", attention.heads, 1, kMaxHeads);
  attention.head_dim = map.require("head_dim").integer(1, kMaxHeadDim);
  attention.value_dim = map.integer_or("value_dim", attention.head_dim, 1, kMaxHeadDim);
  attention.window = map.integer_or("window", 0, 0, kMaxSize);
  attention.causal = map.boolean_or("causal", true);
  attention.linear = map.boolean_or("linear", false);
  attention.key_tokens = map.integer_or("key_tokens", 0, 0, kMaxPositions);
  map.reject_unknown_keys();
  return attention;
}

Chain read_chain(MapReader& map) {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kChains) names.emplace_back(name);
  const std::string name = map.require("kind").choice(names);
  const auto* known = std::find_if(kChains.begin(), kChains.end(),
                                   [&name](const auto& one) { return one.first == name; });
  const double width = map.require("width").number(0, kMaxKept);
  map.reject_unknown_keys();
  return {known->second, width};
}

SavedPerToken read_saved(MapReader map) {
  SavedPerToken saved;
  saved.elements = map.number_or("elements", 0, 0, kMaxKept);
  saved.bytes = map.number_or("bytes", 0, 0, kMaxKept);
  saved.pair_bytes = map.number_or("pair_bytes", 0, 0, kMaxKept);
  map.reject_unknown_keys();
  return saved;
}

Layer read_layer(MapReader map) {
  Layer layer;
  layer.name = map.require("name").string();
  layer.width = map.require("width").integer(0, kMaxHidden * kMaxExperts);
  layer.tokens = map.integer_or("tokens", 0, 0, kMaxPositions);
  for (MapReader& one : maps_of(map, "tensors")) layer.tensors.push_back(read_tensor(one));
  for (MapReader& one : maps_of(map, "products")) layer.products.push_back(read_product(one));
  for (MapReader& one : maps_of(map, "attention")) layer.attention.push_back(read_attention(one));
  for (MapReader& one : maps_of(map, "chains")) layer.chains.push_back(read_chain(one));
  layer.saved = read_saved(map.require_map("saved"));
  map.reject_unknown_keys();
  return layer;
}

/// A product has a gradient of its weight if a tensor of its name is trained, or its weight is not
/// in the layer: a tied head's.
void mark_frozen_products(Layer& layer) {
  for (Linear& product : layer.products) {
    const auto weight =
        std::find_if(layer.tensors.begin(), layer.tensors.end(), [&product](const Tensor& tensor) {
          return tensor.name.find(product.name) != std::string::npos &&
                 tensor.parameters() == product.count * product.in * product.out;
        });
    if (weight != layer.tensors.end()) product.trained = weight->trained;
  }
}

/// [[kind, how many in a row], ...]
void read_order(const ValueReader& order, ModelSpec& model) {
  for (const ValueReader& run : order.items()) {
    const std::vector<ValueReader> pair = run.items();
    if (pair.size() != 2) run.fail("expected a kind's number and how many layers of it follow");
    const std::int64_t kind = pair[0].integer(0, std::ssize(model.kinds) - 1);
    const std::int64_t count = pair[1].integer(1, kMaxLayers);
    if (std::ssize(model.order) + count > kMaxLayers) {
      run.fail(fmt::format("expected at most {} layers", kMaxLayers));
    }
    model.order.insert(model.order.end(), static_cast<std::size_t>(count),
                       static_cast<std::int32_t>(kind));
  }
  if (model.order.empty()) order.fail("expected at least one layer");
}

}  // namespace

bool is_description(const Node& root) {
  return root.is_map() && root.find(kVersionKey) != nullptr;
}

ModelSpec read_description(const Node& root, const std::string& name) {
  MapReader map(root, "");
  static_cast<void>(map.require(kVersionKey).integer(1, 1));
  ModelSpec model;
  model.name = name;
  model.type = map.require("type").string();
  for (const char* key : {"name", "class", "source", "saved_is_estimated"}) map.ignore(key);
  model.hidden = map.require("hidden").integer(1, kMaxHidden);
  model.embedding_dim = model.hidden;
  model.vocab = map.require("vocab").integer(0, kMaxVocab);
  model.outputs = map.require("outputs").integer(0, kMaxVocab);
  model.max_positions = map.require("max_positions").integer(1, kMaxPositions);
  model.tied_embeddings = map.boolean_or("tied_embeddings", false);
  model.embedding = read_layer(map.require_map("embedding"));
  const ValueReader kinds = map.require("kinds");
  for (const ValueReader& item : kinds.items()) {
    model.kinds.push_back(read_layer(MapReader(item.node(), item.path())));
    mark_frozen_products(model.kinds.back());
  }
  if (model.kinds.empty()) kinds.fail("expected at least one kind of layer");
  model.head = read_layer(map.require_map("head"));
  mark_frozen_products(model.head);
  read_order(map.require("order"), model);
  const ValueReader parameters = map.require("parameters");
  map.reject_unknown_keys();
  double sum = 0;
  for (std::int64_t part = 0; part <= model.layers() + 1; ++part) {
    for (const Tensor& tensor : model.part(part).tensors) sum += as_double(tensor.parameters());
  }
  if (sum != as_double(parameters.integer(1, 1'000'000'000'000'000))) {
    parameters.fail(fmt::format("expected the {:.0f} of its tensors", sum));
  }
  return model;
}

}  // namespace zenflow::sim::hub
