// What is read from config.json files against the parameters of transformers' own classes
// (tests/data/hub_models.json: names, shapes and counts by transformers 5.23, of what it does not
// have 5.24, on the meta device).
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "sim/base/crc32.h"
#include "sim/base/error.h"
#include "sim/config/hub/hub_model.h"
#include "sim/config/reader.h"

namespace zenflow::sim {
namespace {

Node hub_models() {
  return load_document(std::filesystem::path(ZENFLOW_SOURCE_DIR) / "tests/data/hub_models.json");
}

std::int64_t whole(const Node& entry, std::string_view key) {
  return ValueReader(*entry.find(key), std::string(key)).integer(0, std::int64_t{1} << 53);
}

/// A sum over the model's tensors, in any order, of the checksums of "NAME 4096,11008".
class Checksum {
 public:
  void add(const Layer& layer) {
    const std::string stack = layer.tensors.empty() ? ""
                                                    : layer.tensors.front().name.substr(
                                                          0, layer.tensors.front().name.find("{}"));
    const std::int64_t number = next_[stack]++;
    for (const Tensor& tensor : layer.tensors) {
      std::string name = tensor.name;
      if (const std::size_t at = name.find("{}"); at != std::string::npos) {
        name.replace(at, 2, std::to_string(number));
      }
      const std::string line = fmt::format("{} {}", name, fmt::join(tensor.shape, ","));
      sum_ += crc32(0, std::as_bytes(std::span(line)));
      ++tensors_;
    }
  }
  [[nodiscard]] std::int64_t sum() const { return sum_; }
  [[nodiscard]] std::int64_t tensors() const { return tensors_; }

 private:
  std::map<std::string, std::int64_t> next_;  ///< layers of a stack are numbered from 0
  std::int64_t sum_ = 0;
  std::int64_t tensors_ = 0;
};

TEST(HubModels, HaveTheTensorsOfTransformers) {
  for (const Node& entry : hub_models().items) {
    const std::string name = entry.find("name")->scalar;
    SCOPED_TRACE(name);
    try {
      const ModelSpec model = read_model(*entry.find("config"), name);
      Checksum checksum;
      checksum.add(model.embedding);
      for (std::int64_t i = 0; i < model.layers(); ++i) checksum.add(model.layer(i));
      checksum.add(model.head);
      EXPECT_EQ(model.parameters(), whole(entry, "parameters"));
      EXPECT_EQ(checksum.tensors(), whole(entry, "tensors"));
      EXPECT_EQ(checksum.sum(), whole(entry, "checksum"));
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

/// Families without a row that another one's tests do not go through.
TEST(HubModels, OfEveryTypeThatIsReadAreThere) {
  std::set<std::string> tested;
  for (const Node& entry : hub_models().items) {
    const Node& config = *entry.find("config");
    tested.insert(config.find("model_type")->scalar);
    const Node* text = config.find("text_config");
    if (text == nullptr) continue;
    if (const Node* type = text->find("model_type")) tested.insert(type->scalar);
  }
  tested.insert("internlm");  // of which transformers has no class: below
  for (const std::string& type : known_model_types()) EXPECT_TRUE(tested.contains(type)) << type;
}

TEST(HubModels, OfInternLmIsALlamaWithBiases) {
  const ModelSpec model =
      read_model(parse_json(R"({"model_type": "internlm", "architectures": ["InternLMForCausalLM"],
          "auto_map": {"AutoModelForCausalLM": "modeling_internlm.InternLMForCausalLM"},
          "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "bias": true,
          "intermediate_size": 11008, "vocab_size": 103168, "max_position_embeddings": 2048})",
                            "config.json"),
                 "internlm_7b");
  const std::int64_t h = 4096;
  const std::int64_t block = 4 * h * h + 4 * h + 3 * h * 11008 + 2 * h;
  EXPECT_EQ(model.parameters(), 32 * block + 2 * 103168 * h + h);
}

// Whatever is described has to be complete enough for costs and memory.
TEST(HubModels, DescribeWhatCostsAreComputedFrom) {
  for (const Node& entry : hub_models().items) {
    const std::string name = entry.find("name")->scalar;
    SCOPED_TRACE(name);
    const ModelSpec model = read_model(*entry.find("config"), name);
    ASSERT_GT(model.layers(), 0);
    EXPECT_GT(model.hidden, 0);
    EXPECT_GT(model.max_positions, 0);
    for (const Layer& kind : model.kinds) {
      EXPECT_GE(kind.saved.elements, 0) << kind.name;
      EXPECT_GE(kind.saved.bytes, 0) << kind.name;
      EXPECT_GT(kind.width, 0) << kind.name;
      for (const Linear& product : kind.products) {
        EXPECT_GT(product.in, 0) << product.name;
        EXPECT_GT(product.out, 0) << product.name;
        EXPECT_GT(product.share, 0) << product.name;
        EXPECT_LE(product.active(), static_cast<double>(product.in * product.out * product.count))
            << product.name;
      }
    }
  }
}

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(read_model(parse_json(text, "config.json"), "test"));
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

constexpr const char* kLlama =
    "\"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
    "\"intermediate_size\": 96, \"vocab_size\": 100, \"max_position_embeddings\": 128";

std::string llama_with(const std::string& more) {
  return fmt::format("{{\"model_type\": \"llama\",\n{},\n{}}}", more, kLlama);
}

// Read as a plain Llama each of these would have a wrong count, and nobody would be told.
TEST(HubModels, OfAnotherArchitectureAreRefused) {
  const auto expect_refused = [](const std::string& more, const std::string& at) {
    EXPECT_EQ(error_of(llama_with(more)).find("config.json:2:" + at), 0U)
        << error_of(llama_with(more));
  };
  expect_refused("\"num_local_experts\": 8", "22: num_local_experts: ");
  expect_refused("\"n_routed_experts\": 64", "21: n_routed_experts: ");
  expect_refused("\"kv_lora_rank\": 512", "17: kv_lora_rank: ");
  expect_refused("\"text_config\": {\"hidden_size\": 4}", "16: text_config: ");
  expect_refused("\"vision_config\": {}", "18: vision_config: ");
  expect_refused("\"architectures\": [\"MixtralForCausalLM\"]", "19: architectures");
  expect_refused("\"architectures\": [\"LlamaForRewardModel\"]", "19: architectures");
  expect_refused("\"auto_map\": {\"AutoModelForCausalLM\": \"modeling_new.NewForCausalLM\"}",
                 "38: auto_map.AutoModelForCausalLM: ");
  EXPECT_EQ(error_of(llama_with("\"num_local_experts\": 1, \"kv_lora_rank\": null, "
                                "\"architectures\": [\"LlamaForCausalLM\"], \"auto_map\": "
                                "{\"AutoModelForCausalLM\": \"modeling.LlamaForCausalLM\"}")),
            "(no error)");
}

// transformers reads it with Llama's classes, and its repositories have code of their own.
TEST(HubModels, OfInternLm3HaveClassesOfTwoNames) {
  const auto error_with = [](const std::string& more) {
    return error_of(fmt::format("{{\"model_type\": \"internlm3\",\n{},\n{}}}", more, kLlama));
  };
  const auto mapped = [](const std::string& name) {
    return fmt::format("\"auto_map\": {{\"AutoModelForCausalLM\": \"modeling.{}\"}}", name);
  };
  for (const std::string name : {"LlamaForCausalLM", "InternLM3ForCausalLM", "LlamaModel"}) {
    EXPECT_EQ(error_with(fmt::format("\"architectures\": [\"{}\"]", name)), "(no error)");
    EXPECT_EQ(error_with(mapped(name)), "(no error)");
  }
  for (const std::string name : {"Llama4ForCausalLM", "MistralForCausalLM"}) {
    const std::string error = error_with(fmt::format("\"architectures\": [\"{}\"]", name));
    EXPECT_EQ(error.find("config.json:2:19: architectures[0]: "), 0U) << error;
    EXPECT_NE(error.find("InternLM3ForCausalLM"), std::string::npos) << error;
    EXPECT_NE(error.find("LlamaForCausalLM"), std::string::npos) << error;
  }
  EXPECT_EQ(error_with(mapped("MistralForCausalLM")).find("config.json:2:38: auto_map."), 0U);
}

std::int64_t outputs_of(const std::string& classes) {
  return read_model(
             parse_json(llama_with("\"num_labels\": 3, \"architectures\": [\"" + classes + "\"]"),
                        "config.json"),
             "test")
      .outputs;
}

TEST(HubModels, HaveTheHeadThatTheirClassSays) {
  EXPECT_EQ(outputs_of("LlamaForCausalLM"), 100);
  EXPECT_EQ(outputs_of("LlamaForSequenceClassification"), 3);
  EXPECT_EQ(outputs_of("LlamaForTokenClassification"), 3);
  EXPECT_EQ(outputs_of("LlamaForQuestionAnswering"), 2);
  EXPECT_EQ(outputs_of("LlamaModel"), 0);
}

TEST(HubModels, OfHostileSizesEndAtOnce) {
  for (const char* size : {"1000000000", "4611686018427387904", "-1", "0", "1e30", "\"many\""}) {
    for (const char* key : {"num_hidden_layers", "vocab_size", "hidden_size", "intermediate_size",
                            "num_attention_heads"}) {
      std::string text = llama_with("\"architectures\": []");
      const std::size_t at = text.find(fmt::format("\"{}\": ", key)) + std::string(key).size() + 4;
      text.replace(at, text.find_first_of(",}", at) - at, size);
      EXPECT_EQ(error_of(text).find("config.json:"), 0U) << key << " " << size;
    }
  }
}

}  // namespace
}  // namespace zenflow::sim
