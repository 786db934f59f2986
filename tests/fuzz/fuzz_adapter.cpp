/// Any bytes as PEFT's adapter_config.json or, if they do not begin as JSON, as a scenario's
/// `training` block with `lora` and `freeze`: a model of which something is trained, or an input
/// error.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/config/adapter_reader.h"
#include "sim/config/document.h"
#include "sim/config/hub/hub_model.h"
#include "tests/fuzz/expect_input_error.h"

namespace {

using namespace zenflow;

/// Two layers, and the same with stacked experts.
const Node& config_of(bool has_experts) {
  static const Node kLlama = parse_json(R"({"model_type": "llama", "hidden_size": 8,
      "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12, "vocab_size": 10,
      "max_position_embeddings": 32})",
                                        "config.json");
  static const Node kMixtral = parse_json(R"({"model_type": "mixtral", "hidden_size": 8,
      "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
      "intermediate_size": 12, "vocab_size": 10, "max_position_embeddings": 32,
      "num_local_experts": 4, "num_experts_per_tok": 2,
      "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true}})",
                                          "config.json");
  return has_experts ? kMixtral : kLlama;
}

const sim::ModelSpec& model_of(bool has_experts) {
  static const sim::ModelSpec kLlama = sim::read_model(config_of(false), "llama");
  static const sim::ModelSpec kMixtral = sim::read_model(config_of(true), "mixtral");
  return has_experts ? kMixtral : kLlama;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool has_experts = size % 2 == 1;
  fuzz::is_taken([&] {
    const bool is_peft = text.starts_with('{');
    Node read = is_peft ? parse_json(text, "adapter_config.json") : parse_yaml(text, "fuzz.yaml");
    Node root = map_node(read.at);
    const Node none = map_node(read.at);
    if (is_peft) root.entries.push_back({"adapter", read.at, std::move(read)});
    MapReader top(root, "");
    MapReader training(is_peft ? none : read, "training");
    sim::ModelSpec model = model_of(has_experts);
    std::vector<std::string> notes;
    sim::read_adapters(top, training, config_of(has_experts), model, notes);
    fuzz::require(model.trained() > 0 && model.trained() <= model.parameters(),
                  "something is trained, of what there is");
    fuzz::require(model.trained_in_matrices() <= model.trained(), "matrices are part of it");
    fuzz::require(model.parameters() >= model_of(has_experts).parameters(), "nothing is taken out");
  });
  return 0;
}
