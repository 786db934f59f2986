#include "sim/model/adapters.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

namespace zenflow::sim {
namespace {

constexpr std::string_view kWeight = ".weight";

/// "model.layers.{}.mlp.up_proj" of "model.layers.{}.mlp.up_proj.weight".
std::string_view module_of(std::string_view tensor) {
  return tensor.ends_with(kWeight) ? tensor.substr(0, tensor.size() - kWeight.size()) : tensor;
}

/// Whether `name` is `end`, or ends in it after a dot.
bool names(std::string_view name, std::string_view end) {
  if (!name.ends_with(end)) return false;
  return name.size() == end.size() || name[name.size() - end.size() - 1] == '.';
}

bool names_any(std::string_view name, const std::vector<std::string>& ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [name](const std::string& end) { return names(name, end); });
}

/// Whether the module is `name`, or stands below one that is.
bool is_in(std::string_view module, const std::string& name) {
  return names(module, name) || module.starts_with(name + ".") ||
         module.find("." + name + ".") != std::string_view::npos;
}

/// The product that multiplies by this weight, or nullptr: of an embedding, of a norm.
Linear* product_of(Layer& layer, const Tensor& weight) {
  const std::string_view module = module_of(weight.name);
  Linear* transposed = nullptr;  // GPT-2's weights are [in, out]
  for (Linear& product : layer.products) {
    const bool fits = weight.parameters() == product.count * product.in * product.out;
    if (!fits || !names(module, product.name)) continue;
    if (weight.columns() == product.in) return &product;
    if (transposed == nullptr) transposed = &product;
  }
  return transposed;
}

/// What chooses experts is no nn.Linear.
bool is_router(const Linear& product) {
  return product.name == "gate" || product.name == "router";
}

/// Model types whose experts were modules before transformers 5: PEFT takes "all-linear" to mean
/// their stacked tensors and their router, too, and gives the two fused ones twice the rank.
/// Source: PEFT 0.21, utils/transformers_weight_conversion.py.
constexpr auto kConverted = std::to_array<std::string_view>(
    {"afmoe",          "cohere2_moe", "deepseek_v2", "deepseek_v3", "deepseek_v32",  "dots1",
     "ernie4_5_moe",   "exaone_moe",  "flex_olmo",   "glm4_moe",    "glm4_moe_lite", "glm_moe_dsa",
     "hunyuan_v1_moe", "minimax",     "minimax_m2",  "mixtral",     "olmoe",         "qwen2_moe",
     "qwen3_moe",      "qwen3_next",  "solar_open"});

bool is_converted(const ModelSpec& model) {
  return std::find(kConverted.begin(), kConverted.end(), model.type) != kConverted.end();
}

/// Columns that the adapter reads and writes. An embedding's rows are what it reads.
struct Widths {
  std::int64_t in = 0;
  std::int64_t out = 0;
};

class LayerAdapter {
 public:
  /// `converted`: "all-linear" means experts, too.
  LayerAdapter(Layer& layer, const LoraSettings& lora, bool in_layers, bool converted)
      : layer_(layer), lora_(lora), in_layers_(in_layers), converted_(converted) {}

  void adapt() {
    std::vector<Tensor> added;
    std::set<std::int32_t> read;  // inputs that adapters keep
    for (Tensor& tensor : layer_.tensors) {
      tensor.trained = false;
      Linear* product = product_of(layer_, tensor);
      if (is_saved(tensor.name)) {
        Tensor copy = tensor;
        copy.trained = true;
        copy.name += " (saved module)";
        added.push_back(std::move(copy));
        if (product != nullptr) saved_.insert(product);
        continue;
      }
      if (!is_adapted(tensor, product)) continue;
      if (product != nullptr && product->input >= 0) read.insert(product->input);
      add_tensors(tensor, product, added);
    }
    freeze_products(read);
    for (Tensor& tensor : added) layer_.tensors.push_back(std::move(tensor));
    for (Linear& product : adapters_) layer_.products.push_back(std::move(product));
  }

 private:
  [[nodiscard]] bool is_adapted(const Tensor& weight, const Linear* product) const {
    const bool stacked = weight.shape.size() > 2;
    if (weight.shape.size() < 2) return false;
    if (names_any(weight.name, lora_.target_parameters)) return true;
    if (lora_.all_linear) {
      if (product == nullptr || !in_layers_) return false;
      const bool of_experts = product->count > 1 || is_router(*product);
      if (of_experts) return converted_;
      // The names of what is stacked now no longer mean modules.
      const bool renamed =
          converted_ && (product->name == "gate_proj" || product->name == "up_proj" ||
                         product->name == "down_proj");
      return !stacked && !renamed;
    }
    return !stacked && names_any(module_of(weight.name), lora_.targets);
  }

  [[nodiscard]] bool is_saved(std::string_view tensor) const {
    const std::string_view module = module_of_any(tensor);
    return std::any_of(lora_.saved_modules.begin(), lora_.saved_modules.end(),
                       [module](const std::string& name) { return is_in(module, name); });
  }

  /// A bias belongs to its module, too.
  static std::string_view module_of_any(std::string_view tensor) {
    constexpr std::string_view kBias = ".bias";
    return tensor.ends_with(kBias) ? tensor.substr(0, tensor.size() - kBias.size())
                                   : module_of(tensor);
  }

  void add_tensors(const Tensor& weight, const Linear* product, std::vector<Tensor>& added) {
    const std::string module(module_of(weight.name));
    const std::int64_t experts = weight.shape.size() > 2 ? weight.shape.front() : 1;
    const Widths width = product != nullptr ? Widths{product->in, product->out}
                                            : Widths{weight.shape.front(), weight.columns()};
    const bool fused =
        lora_.all_linear && weight.shape.size() > 2 && weight.name.ends_with("gate_up_proj");
    const std::int64_t rank = fused ? 2 * lora_.rank : lora_.rank;
    const char* const kind = product != nullptr ? ".lora_" : ".lora_embedding_";
    added.push_back(
        {module + kind + "A" + (product != nullptr ? ".weight" : ""), {experts * rank, width.in}});
    added.push_back(
        {module + kind + "B" + (product != nullptr ? ".weight" : ""), {width.out, experts * rank}});
    if (lora_.dora) {
      added.push_back({module + ".lora_magnitude_vector.weight", {experts * width.out}});
    }
    add_work(product, width, experts, rank);
  }

  /// Dropout of the input, both products, their scaling and the sum with the frozen one's result.
  void add_work(const Linear* product, const Widths& width, std::int64_t experts,
                std::int64_t rank) {
    const double seen = product != nullptr ? product->share * static_cast<double>(product->count)
                                           : 1;  // times that a token goes through it
    const auto in = static_cast<double>(width.in) * seen;
    const auto out = static_cast<double>(width.out) * seen;
    const std::int64_t count = experts;
    const double share = seen / static_cast<double>(count);
    if (product != nullptr) adapters_.push_back({"lora_A", width.in, rank, count, share});
    adapters_.push_back({"lora_B", rank, width.out, count, share});
    if (lora_.dropout > 0) {
      layer_.chains.push_back({ChainKind::kDropout, in});
      layer_.saved.elements += in;
      layer_.saved.bytes += in;
    }
    layer_.chains.push_back({ChainKind::kActivation, out});
    layer_.chains.push_back({ChainKind::kResidual, out});
    layer_.saved.elements += static_cast<double>(rank) * seen;
    if (!lora_.dora) return;
    // The weight's norm with the adapter: a product of A and B and a pass over the whole weight;
    // and the scaled result, whose parts are kept for the magnitude's gradient.
    layer_.chains.push_back({ChainKind::kResidual, 2 * out});
    layer_.saved.elements += 2 * out;
  }

  /// An adapter without dropout reads the tensor that its frozen product reads.
  void freeze_products(const std::set<std::int32_t>& read) {
    for (Linear& product : layer_.products) product.trained = saved_.contains(&product);
    if (lora_.dropout > 0) return;
    for (const std::int32_t input : read) {
      layer_.for_weights.inputs[static_cast<std::size_t>(input)] = 0;
    }
  }

  Layer& layer_;
  const LoraSettings& lora_;
  bool in_layers_;
  bool converted_;
  std::set<const Linear*> saved_;  ///< products of which the copy is trained
  std::vector<Linear> adapters_;
};

/// Inputs of products of which none has a gradient, and what norms keep for weights that have none.
void drop_in_layer(Layer& layer) {
  SavedForWeights& kept = layer.for_weights;
  for (std::size_t i = 0; i < kept.inputs.size(); ++i) {
    const bool read =
        std::any_of(layer.products.begin(), layer.products.end(), [i](const Linear& product) {
          return product.trained && product.input == static_cast<std::int32_t>(i);
        });
    if (read) continue;
    layer.saved.elements -= kept.inputs[i];
    kept.inputs[i] = 0;
  }
  const bool norms = std::any_of(layer.tensors.begin(), layer.tensors.end(), [](const Tensor& one) {
    return one.trained && one.shape.size() == 1 && one.name.ends_with(kWeight);
  });
  if (norms) return;
  layer.saved.elements -= kept.norms.elements;
  layer.saved.bytes -= kept.norms.bytes;
  kept.norms = {};
}

bool matches_in(const Layer& layer, const std::string& target) {
  return std::any_of(layer.tensors.begin(), layer.tensors.end(), [&](const Tensor& tensor) {
    return is_in(module_of(tensor.name), target) || names(tensor.name, target);
  });
}

}  // namespace

double stored_bytes(BaseStorage storage) {
  switch (storage) {
    case BaseStorage::kTrainingType:
      return 0;
    case BaseStorage::kNf4:
      // Scales of blocks of 64, themselves in 8 bits with one of fp32 for each 256 of them.
      return 0.5 + 1.0 / 64 + 4.0 / (64 * 256);
    case BaseStorage::kInt8:
      return 1;
    case BaseStorage::kFp8:
      return 1 + 4.0 / (128 * 128);
    case BaseStorage::kMxfp4:
      return 0.5 + 1.0 / 32;
    case BaseStorage::kGptq4:
      return 0.5 + 2.5 / 128;  // groups of 128: an fp16 scale and a 4-bit zero
  }
  return 0;
}

std::string unmatched_target(const ModelSpec& model, const LoraSettings& lora) {
  const auto in_model = [&model](const std::string& target) {
    for (std::int64_t part = 0; part <= model.layers() + 1; ++part) {
      if (matches_in(model.part(part), target)) return true;
    }
    return false;
  };
  for (const auto* targets : {&lora.targets, &lora.saved_modules, &lora.target_parameters}) {
    for (const std::string& target : *targets) {
      if (!in_model(target)) return target;
    }
  }
  return "";
}

void add_lora(ModelSpec& model, const LoraSettings& lora) {
  const bool converted = is_converted(model);
  LayerAdapter(model.embedding, lora, false, converted).adapt();
  LayerAdapter(model.head, lora, false, converted).adapt();
  // Layers with adapters and without them are two kinds.
  LoraSettings none;
  none.rank = lora.rank;
  none.saved_modules = lora.saved_modules;
  std::map<std::pair<std::int32_t, bool>, std::int32_t> made;
  std::vector<Layer> kinds;
  for (std::size_t i = 0; i < model.order.size(); ++i) {
    const bool adapted =
        lora.layers.empty() || std::find(lora.layers.begin(), lora.layers.end(),
                                         static_cast<std::int64_t>(i)) != lora.layers.end();
    const std::int32_t kind = model.order[i];
    const auto [at, added] =
        made.emplace(std::pair(kind, adapted), static_cast<std::int32_t>(kinds.size()));
    if (added) {
      kinds.push_back(model.kinds[static_cast<std::size_t>(kind)]);
      LayerAdapter(kinds.back(), adapted ? lora : none, true, converted).adapt();
    }
    model.order[i] = at->second;
  }
  model.kinds = std::move(kinds);
}

std::int64_t freeze(ModelSpec& model, const std::function<bool(std::string_view)>& frozen) {
  std::int64_t count = 0;
  const auto in_layer = [&](Layer& layer) {
    for (Tensor& tensor : layer.tensors) {
      if (!frozen(tensor.name)) continue;
      tensor.trained = false;
      ++count;
      if (Linear* product = product_of(layer, tensor)) product->trained = false;
    }
  };
  in_layer(model.embedding);
  for (Layer& kind : model.kinds) in_layer(kind);
  in_layer(model.head);
  return count;
}

void drop_what_is_not_trained(ModelSpec& model) {
  for (Layer& layer : model.kinds) drop_in_layer(layer);
  // A tower has a stream of its own, which begins at its first layer.
  bool trained = model.embedding.trained() > 0;
  model.embedding.runs_backward = trained;
  bool tower_trained = false;
  std::map<std::pair<std::int32_t, bool>, std::int32_t> made;
  std::vector<Layer> kinds;
  for (std::int32_t& kind : model.order) {
    const Layer& layer = model.kinds[static_cast<std::size_t>(kind)];
    bool& before = layer.tokens > 0 ? tower_trained : trained;
    before = before || layer.trained() > 0;
    if (layer.tokens > 0) trained = trained || before;
    const auto [at, added] =
        made.emplace(std::pair(kind, before), static_cast<std::int32_t>(kinds.size()));
    if (added) {
      kinds.push_back(layer);
      kinds.back().runs_backward = before;
      if (!before) kinds.back().saved = {};
    }
    kind = at->second;
  }
  model.kinds = std::move(kinds);
}

void quantise_base(ModelSpec& model, BaseStorage storage) {
  const double bytes = stored_bytes(storage);
  for (Layer& layer : model.kinds) {
    for (Tensor& tensor : layer.tensors) {
      if (tensor.trained || tensor.shape.size() < 2) continue;
      Linear* product = product_of(layer, tensor);
      if (product == nullptr || is_router(*product)) continue;
      // bitsandbytes and GPTQ know modules only, MXFP4 is of stacked experts.
      const bool stacked = tensor.shape.size() > 2;
      const bool any = storage == BaseStorage::kFp8;
      if (!any && stacked != (storage == BaseStorage::kMxfp4)) continue;
      tensor.stored_bytes = bytes;
      product->stored_bytes = bytes;
    }
  }
}

}  // namespace zenflow::sim
