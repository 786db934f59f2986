#include "sim/model/adapters.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"

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

/// Whether the module's name ends so, or that of one that it stands below.
bool is_in(std::string_view module, const std::string& end) {
  for (std::size_t dot = 0; dot != std::string_view::npos;) {
    dot = module.find('.', dot + 1);
    if (module.substr(0, dot).ends_with(end)) return true;
  }
  return false;
}

/// The name with its layer's number; `number` below 0: as it is, of what is in no layer.
std::string numbered(std::string_view name, std::int64_t number) {
  std::string text(name);
  const std::size_t at = text.find("{}");
  if (number >= 0 && at != std::string::npos) text.replace(at, 2, std::to_string(number));
  return text;
}

/// Numbers of the layers, each counted in its own stack: an encoder's, a decoder's, a tower's.
std::vector<std::int64_t> layer_numbers(const ModelSpec& model) {
  std::map<std::string, std::int64_t> next;
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < model.layers(); ++i) {
    const Layer& layer = model.layer(i);
    const std::string name = layer.tensors.empty() ? "" : layer.tensors.front().name;
    numbers.push_back(next[name.substr(0, name.find("{}"))]++);
  }
  return numbers;
}

/// Makes kinds of the layers that `change` changes alike: for which key(layer, number) is the same.
void split_kinds(ModelSpec& model,
                 const std::function<std::string(const Layer&, std::int64_t)>& key,
                 const std::function<void(Layer&, std::int64_t)>& change) {
  const std::vector<std::int64_t> numbers = layer_numbers(model);
  std::map<std::pair<std::int32_t, std::string>, std::int32_t> made;
  std::vector<Layer> kinds;
  for (std::size_t i = 0; i < model.order.size(); ++i) {
    const Layer& layer = model.kinds[static_cast<std::size_t>(model.order[i])];
    const auto [at, added] = made.emplace(std::pair(model.order[i], key(layer, numbers[i])),
                                          static_cast<std::int32_t>(kinds.size()));
    if (added) {
      kinds.push_back(layer);
      change(kinds.back(), numbers[i]);
    }
    model.order[i] = at->second;
  }
  model.kinds = std::move(kinds);
}

/// Calls visit(layer, number) for every part of the model, with -1 for what is in no layer.
template <class Visit>
void for_each_part(const ModelSpec& model, const Visit& visit) {
  const std::vector<std::int64_t> numbers = layer_numbers(model);
  visit(model.embedding, std::int64_t{-1});
  for (std::int64_t i = 0; i < model.layers(); ++i) {
    visit(model.layer(i), numbers[static_cast<std::size_t>(i)]);
  }
  visit(model.head, std::int64_t{-1});
}

/// The product that multiplies by this weight, or nullptr: of an embedding, of a norm.
const Linear* product_of(const Layer& layer, const Tensor& weight) {
  const std::string_view module = module_of(weight.name);
  const Linear* transposed = nullptr;  // GPT-2's weights are [in, out]
  for (const Linear& product : layer.products) {
    const bool fits = weight.parameters() == product.count * product.in * product.out;
    if (!fits || !names(module, product.name)) continue;
    if (weight.columns() == product.in) return &product;
    if (transposed == nullptr) transposed = &product;
  }
  return transposed;
}
Linear* product_of(Layer& layer, const Tensor& weight) {
  return const_cast<Linear*>(product_of(std::as_const(layer), weight));
}

/// What chooses experts is no nn.Linear.
bool is_router(const Linear& product) {
  return product.name == "gate" || product.name == "router";
}

/// Model types whose experts were modules before transformers 5: PEFT takes "all-linear" to mean
/// their stacked tensors and their router, too, and gives the two fused ones twice the rank.
/// Source: PEFT 0.21, utils/transformers_weight_conversion.py.
constexpr auto kConverted = std::to_array<std::string_view>(
    {"afmoe",         "cohere2_moe",  "deepseek_v2",    "deepseek_v3", "deepseek_v32",
     "dots1",         "ernie4_5_moe", "exaone_moe",     "flex_olmo",   "glm4_moe",
     "glm4_moe_lite", "glm_moe_dsa",  "hunyuan_v1_moe", "minimax",     "minimax_m2",
     "mixtral",       "olmoe",        "qwen3_moe",      "qwen3_next",  "solar_open"});

bool is_converted(const ModelSpec& model) {
  return std::find(kConverted.begin(), kConverted.end(), model.type) != kConverted.end();
}

/// What a module of an expert, or the router, was called.
struct ExpertNames {
  std::string_view gate;
  std::string_view up;
  std::string_view down;
};
ExpertNames expert_names(const ModelSpec& model) {
  const bool numbered = model.type == "mixtral" || model.type.starts_with("minimax");
  return numbered ? ExpertNames{"w1", "w3", "w2"}
                  : ExpertNames{"gate_proj", "up_proj", "down_proj"};
}

/// Columns that the adapter reads and writes. An embedding's rows are what it reads.
struct Widths {
  std::int64_t in = 0;
  std::int64_t out = 0;
};

/// A bias belongs to its module, too.
std::string_view module_of_any(std::string_view tensor) {
  constexpr std::string_view kBias = ".bias";
  return tensor.ends_with(kBias) ? tensor.substr(0, tensor.size() - kBias.size())
                                 : module_of(tensor);
}

/// What becomes of the tensors of a layer.
class LayerPlan {
 public:
  /// `number`: of the layer in its stack; below 0 of what is in none.
  LayerPlan(const ModelSpec& model, const LoraSettings& lora, const Layer& layer,
            std::int64_t number)
      : lora_(lora),
        layer_(layer),
        number_(number),
        converted_(is_converted(model)),
        outputs_(model.outputs),
        vocabulary_(model.vocab) {}

  [[nodiscard]] bool is_saved(const Tensor& tensor) const {
    const std::string module = numbered(module_of_any(tensor.name), number_);
    return std::any_of(lora_.saved_modules.begin(), lora_.saved_modules.end(),
                       [&module](const std::string& name) { return is_in(module, name); });
  }

  /// Of its adapter; 0: it gets none.
  [[nodiscard]] std::int64_t rank(const Tensor& tensor) const {
    if (is_saved(tensor) || !is_adapted(tensor)) return 0;
    const std::string module = numbered(module_of(tensor.name), number_);
    for (const auto& [pattern, rank] : lora_.ranks) {
      if (pattern.is_all_of(module)) return rank;
    }
    const bool fused =
        lora_.all_linear && tensor.shape.size() > 2 && tensor.name.ends_with("gate_up_proj");
    return fused ? 2 * lora_.rank : lora_.rank;
  }

  [[nodiscard]] bool trains_bias(const Tensor& tensor) const {
    if (!tensor.name.ends_with(".bias") || lora_.biases == TrainedBiases::kNone) return false;
    if (lora_.biases == TrainedBiases::kAll) return true;
    const std::string_view module = module_of_any(tensor.name);
    return std::any_of(layer_.tensors.begin(), layer_.tensors.end(), [&](const Tensor& other) {
      return &other != &tensor && module_of(other.name) == module && rank(other) > 0;
    });
  }

  /// Equal for layers that are changed alike.
  [[nodiscard]] std::string key() const {
    std::string text;
    for (const Tensor& tensor : layer_.tensors) {
      const char mark = is_saved(tensor) ? 's' : trains_bias(tensor) ? 'b' : '-';
      text += mark + std::to_string(rank(tensor)) + ' ';
    }
    return text;
  }

 private:
  [[nodiscard]] bool is_adapted(const Tensor& weight) const {
    if (weight.shape.size() < 2) return false;
    const std::string module = numbered(module_of(weight.name), number_);
    const Linear* const product = product_of(layer_, weight);
    const bool of_experts = product != nullptr && (product->count > 1 || is_router(*product));
    // Neither exclude_modules nor layers_to_transform is asked for parameters.
    if (names_any(numbered(weight.name, number_), lora_.target_parameters)) return true;
    if (lora_.all_linear && of_experts) return converted_;
    if (lora_.excluded.has(module)) return false;
    const bool stacked = weight.shape.size() > 2;
    if (!stacked && lora_.targets.has_whole(module)) return true;
    if (!is_in_chosen_layer(weight)) return false;
    if (!lora_.all_linear) return !stacked && lora_.targets.has(module);
    // In a head, one without a product here is of a token a sequence; else it is an embedding.
    if (product == nullptr) return !stacked && layer_.name == "head";
    if (gives_logits(*product)) return false;
    // The names of what is stacked now no longer mean modules.
    const bool renamed = converted_ && (product->name == "gate_proj" ||
                                        product->name == "up_proj" || product->name == "down_proj");
    return !stacked && !renamed;
  }

  /// Of a vocabulary: a classifier gets adapters like any other product.
  [[nodiscard]] bool gives_logits(const Linear& product) const {
    return number_ < 0 && product.out == vocabulary_ && vocabulary_ == outputs_;
  }

  [[nodiscard]] bool is_in_chosen_layer(const Tensor& weight) const {
    if (lora_.layers.empty()) return true;
    const std::size_t at = weight.name.find(".{}");
    if (at == std::string::npos) return false;
    if (std::find(lora_.layers.begin(), lora_.layers.end(), number_) == lora_.layers.end()) {
      return false;
    }
    return lora_.stacks.empty() || names_any(weight.name.substr(0, at), lora_.stacks);
  }

  const LoraSettings& lora_;
  const Layer& layer_;
  std::int64_t number_;
  bool converted_;
  std::int64_t outputs_;
  std::int64_t vocabulary_;
};

class LayerAdapter {
 public:
  LayerAdapter(Layer& layer, const LoraSettings& lora, const LayerPlan& plan)
      : layer_(layer), lora_(lora), plan_(plan) {}

  void adapt() {
    std::vector<Tensor> added;
    std::set<std::int32_t> read;  // inputs that adapters keep
    std::vector<bool> biases;
    for (const Tensor& tensor : layer_.tensors) biases.push_back(plan_.trains_bias(tensor));
    for (std::size_t i = 0; i < layer_.tensors.size(); ++i) {
      Tensor& tensor = layer_.tensors[i];
      tensor.trained = biases[i];
      Linear* product = product_of(layer_, tensor);
      if (plan_.is_saved(tensor)) {
        Tensor copy = tensor;
        tensor.trained = false;
        copy.trained = true;
        copy.name += " (saved module)";
        added.push_back(std::move(copy));
        if (product != nullptr) saved_.insert(product);
        continue;
      }
      const std::int64_t rank = plan_.rank(tensor);
      if (rank == 0) continue;
      if (product != nullptr && product->input >= 0) read.insert(product->input);
      add_tensors(tensor, product, rank, added);
    }
    freeze_products(read);
    for (Tensor& tensor : added) layer_.tensors.push_back(std::move(tensor));
    for (Linear& product : adapters_) layer_.products.push_back(std::move(product));
  }

 private:
  void add_tensors(const Tensor& weight, const Linear* product, std::int64_t rank,
                   std::vector<Tensor>& added) {
    const std::string module(module_of(weight.name));
    const std::int64_t experts = weight.shape.size() > 2 ? weight.shape.front() : 1;
    const Widths width = product != nullptr ? Widths{product->in, product->out}
                                            : Widths{weight.shape.front(), weight.columns()};
    const char* const kind = product != nullptr ? ".lora_" : ".lora_embedding_";
    added.push_back(
        {module + kind + "A" + (product != nullptr ? ".weight" : ""), {experts * rank, width.in}});
    added.push_back(
        {module + kind + "B" + (product != nullptr ? ".weight" : ""), {width.out, experts * rank}});
    if (lora_.adapter_bias && product != nullptr) {
      added.push_back({module + ".lora_B.bias", {width.out}});
    }
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
  const LayerPlan& plan_;
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

/// The name of a head that has the token embedding's weight: "lm_head"; empty if there is none.
std::string tied_head(const ModelSpec& model) {
  for (const Linear& product : model.head.products) {
    const bool gives_logits = product.out == model.vocab && model.vocab == model.outputs;
    if (!gives_logits) continue;
    return model.head.tensor_ending(product.name + ".weight") == nullptr ? product.name : "";
  }
  return "";
}

bool adapts_tied_head(const ModelSpec& model, const LoraSettings& lora) {
  const std::string head = tied_head(model);
  return !head.empty() && lora.targets.has(head) && !lora.excluded.has(head);
}

/// The tied head as a tensor of its own, for as long as adapters are added. PEFT copies the module
/// if it is saved, and so unties it.
class UntiedHead {
 public:
  explicit UntiedHead(ModelSpec& model) : model_(model) {
    const std::string name = tied_head(model);
    for (const Linear& product : model.head.products) {
      if (name.empty() || product.name != name) continue;
      tensor_ = name + ".weight";
      model.head.tensors.push_back({tensor_, {product.out, product.in}});
    }
  }
  ~UntiedHead() {
    std::erase_if(model_.head.tensors,
                  [this](const Tensor& tensor) { return tensor.name == tensor_; });
  }
  UntiedHead(const UntiedHead&) = delete;
  UntiedHead& operator=(const UntiedHead&) = delete;

 private:
  ModelSpec& model_;
  std::string tensor_;  // empty: the head is not tied
};

/// The last parts of the names of modules that match, experts' old ones among them.
ModuleNames leaves_of(const ModelSpec& model, const NamePattern& pattern) {
  const ExpertNames old = expert_names(model);
  std::set<std::string> leaves;
  const auto probe = [&](const std::string& module) {
    if (pattern.is_all_of(module)) leaves.insert(module.substr(module.rfind('.') + 1));
  };
  for_each_part(model, [&](const Layer& layer, std::int64_t number) {
    for (const Tensor& tensor : layer.tensors) {
      const std::string module = numbered(module_of(tensor.name), number);
      const std::string parent = module.substr(0, module.rfind('.') + 1);
      probe(module);
      if (module.ends_with(".gate_up_proj")) {
        for (const std::string_view name : {old.gate, old.up}) probe(parent + std::string(name));
      } else if (module.ends_with(".down_proj")) {
        probe(parent + std::string(old.down));
      }
    }
  });
  return {.ends = {leaves.begin(), leaves.end()}};
}

/// The first tensor of so many dimensions, or more, that would get adapters.
const Tensor* find_adapted(const ModelSpec& model, const LoraSettings& lora,
                           std::size_t dimensions) {
  const Tensor* found = nullptr;
  for_each_part(model, [&](const Layer& layer, std::int64_t number) {
    const LayerPlan plan(model, lora, layer, number);
    for (const Tensor& tensor : layer.tensors) {
      if (found != nullptr || tensor.shape.size() < dimensions) continue;
      if (plan.rank(tensor) > 0) found = &tensor;
    }
  });
  return found;
}

}  // namespace

double stored_bytes(BaseStorage storage) {
  switch (storage) {
    case BaseStorage::kTrainingType:
      return 0;
    case BaseStorage::kNf4:
      // Scales of blocks of 64, themselves in 8 bits with one of fp32 for each 256 of them.
      return 0.5 + 1.0 / 64 + 4.0 / (64 * 256);
    case BaseStorage::kNf4Single:
      return 0.5 + 4.0 / 64;
    case BaseStorage::kInt8:
      return 1;
    case BaseStorage::kFp8:
      return 1 + 4.0 / (128 * 128);
    case BaseStorage::kMxfp4:
      return 0.5 + 1.0 / 32;
    case BaseStorage::kGptq:
      return grouped_bytes(4, 128);
  }
  return 0;
}

double grouped_bytes(std::int64_t bits, double group) {
  const double element = static_cast<double>(bits) / 8;
  return element + (2 + element) / group;
}

bool ModuleNames::has_whole(std::string_view module) const {
  return std::find(ends.begin(), ends.end(), module) != ends.end();
}

bool ModuleNames::has(std::string_view module) const {
  return names_any(module, ends) || (pattern && pattern->is_all_of(module));
}

void name_stacked_experts(const ModelSpec& model, LoraSettings& lora) {
  if (!is_converted(model) || lora.all_linear) return;
  const ExpertNames old = expert_names(model);
  if (lora.targets.pattern) lora.targets = leaves_of(model, *lora.targets.pattern);
  const auto take = [&lora](std::string_view name) {
    return std::erase_if(lora.targets.ends,
                         [name](const std::string& target) { return names(target, name); }) > 0;
  };
  if (take("gate")) lora.target_parameters.emplace_back("gate.weight");
  if (take(old.down)) lora.target_parameters.emplace_back("down_proj");
  const bool gate = take(old.gate);
  const bool up = take(old.up);
  if (gate != up) {
    throw Error(ErrorKind::kInput,
                fmt::format("expected {0} beside {1}: one tensor of the stacked experts has both",
                            gate ? old.up : old.gate, gate ? old.gate : old.up));
  }
  if (!gate) return;
  lora.target_parameters.emplace_back("gate_up_proj");
  lora.ranks.emplace_back(NamePattern(".*\\.gate_up_proj"), 2 * lora.rank);
}

std::string unmatched_target(const ModelSpec& model, const LoraSettings& lora) {
  const auto in_model = [&model](const std::string& target, const auto& matches) {
    bool found = false;
    for_each_part(model, [&](const Layer& layer, std::int64_t number) {
      found =
          found || std::any_of(layer.tensors.begin(), layer.tensors.end(), [&](const Tensor& t) {
            return matches(numbered(t.name, number), target);
          });
    });
    return found;
  };
  const auto by_module = [](const std::string& tensor, const std::string& target) {
    return names(module_of(tensor), target) || names(tensor, target);
  };
  const auto by_parent = [](const std::string& tensor, const std::string& target) {
    return is_in(module_of(tensor), target);
  };
  for (const std::string& target : lora.targets.ends) {
    if (target == tied_head(model)) continue;
    if (!in_model(target, by_module)) return target;
  }
  for (const std::string& target : lora.target_parameters) {
    if (!in_model(target, by_module)) return target;
  }
  for (const std::string& target : lora.saved_modules) {
    if (target == tied_head(model)) continue;
    if (!in_model(target, by_parent)) return target;
  }
  return "";
}

const Tensor* adapted_stack(const ModelSpec& model, const LoraSettings& lora) {
  return find_adapted(model, lora, 3);
}

bool adapts_anything(const ModelSpec& model, const LoraSettings& lora) {
  return find_adapted(model, lora, 0) != nullptr || adapts_tied_head(model, lora);
}

void add_lora(ModelSpec& model, const LoraSettings& lora) {
  const auto adapt = [&](Layer& layer, std::int64_t number) {
    const Layer before = layer;
    const LayerPlan plan(model, lora, before, number);
    LayerAdapter(layer, lora, plan).adapt();
  };
  adapt(model.embedding, -1);
  {
    const UntiedHead untied(model);
    adapt(model.head, -1);
  }
  split_kinds(
      model,
      [&](const Layer& layer, std::int64_t number) {
        return LayerPlan(model, lora, layer, number).key();
      },
      adapt);
}

std::int64_t freeze(ModelSpec& model, const std::function<bool(std::string_view)>& frozen) {
  std::int64_t count = 0;
  const auto is_frozen = [&frozen](const Tensor& tensor, std::int64_t number) {
    return frozen(numbered(tensor.name, number));
  };
  const auto in_layer = [&](Layer& layer, std::int64_t number) {
    for (Tensor& tensor : layer.tensors) {
      if (!is_frozen(tensor, number)) continue;
      tensor.trained = false;
      if (Linear* product = product_of(layer, tensor)) product->trained = false;
    }
  };
  const auto marks = [&](const Layer& layer, std::int64_t number) {
    std::string text;
    for (const Tensor& tensor : layer.tensors) text += is_frozen(tensor, number) ? 'f' : '-';
    count += std::count(text.begin(), text.end(), 'f');
    return text;
  };
  marks(model.embedding, -1);
  marks(model.head, -1);
  in_layer(model.embedding, -1);
  in_layer(model.head, -1);
  split_kinds(model, marks, in_layer);
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

void quantise_base(ModelSpec& model, BaseStorage storage,
                   const std::function<bool(std::string_view)>& kept, double bytes) {
  if (bytes == 0) bytes = stored_bytes(storage);
  const auto is_narrowed = [&](const Layer& layer, const Tensor& tensor, std::int64_t number) {
    if (tensor.trained || tensor.shape.size() < 2) return false;
    const Linear* const product = product_of(layer, tensor);
    if (product == nullptr || is_router(*product)) return false;
    // bitsandbytes and GPTQ know modules only, MXFP4 is of stacked experts.
    const bool stacked = tensor.shape.size() > 2;
    const bool any = storage == BaseStorage::kFp8;
    if (!any && stacked != (storage == BaseStorage::kMxfp4)) return false;
    return !kept || !kept(numbered(module_of(tensor.name), number));
  };
  split_kinds(
      model,
      [&](const Layer& layer, std::int64_t number) {
        std::string text;
        for (const Tensor& tensor : layer.tensors) {
          text += is_narrowed(layer, tensor, number) ? 'q' : '-';
        }
        return text;
      },
      [&](Layer& layer, std::int64_t number) {
        for (Tensor& tensor : layer.tensors) {
          if (!is_narrowed(layer, tensor, number)) continue;
          tensor.stored_bytes = bytes;
          product_of(layer, tensor)->stored_bytes = bytes;
        }
      });
}

}  // namespace zenflow::sim
