#include "sim/model/model_spec.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/config/hub/hub_model.h"

namespace zenflow::sim {
namespace {

std::filesystem::path model_path(const std::string& name) {
  return std::filesystem::path(ZENFLOW_SOURCE_DIR) / "scenarios" / "models" / (name + ".json");
}

ModelSpec model_of(const std::string& text) {
  return read_model(parse_json(text, "config.json"), "test");
}

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(model_of(text));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
    return error.what();
  }
  return "(no error)";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

const Tensor* find_tensor(const Layer& layer, const std::string& name) {
  for (const Tensor& tensor : layer.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

struct Published {
  const char* name;
  std::int64_t parameters;
  std::int64_t matrix_parameters;
};

void PrintTo(const Published& model, std::ostream* out) {
  *out << model.name;
}

// Source: shared/facts/published.md section 4, which computed them independently and
// compared the totals with the Hugging Face hub's.
constexpr Published kPublished[] = {
    {"opt_125m", 125'239'296, 125'117'952},
    {"opt_350m", 331'196'416, 330'876'928},
    {"opt_1_3b", 1'315'758'080, 1'315'115'008},
    {"opt_2_7b", 2'651'596'800, 2'650'526'720},
    {"opt_6_7b", 6'658'473'984, 6'656'761'856},
    {"opt_13b", 12'853'473'280, 12'850'800'640},
    {"opt_30b", 29'974'540'288, 29'970'053'120},
    {"gpt2", 124'439'808, 124'318'464},
    {"gpt2_medium", 354'823'168, 354'501'632},
    {"gpt2_large", 774'030'080, 773'428'480},
    {"gpt2_xl", 1'557'611'200, 1'556'609'600},
    {"llama2_7b", 6'738'415'616, 6'738'149'376},
    {"llama2_13b", 13'015'864'320, 13'015'449'600},
    {"llama2_70b", 68'976'648'192, 68'975'329'280},
    {"llama3_8b", 8'030'261'248, 8'029'995'008},
    {"llama3_70b", 70'553'706'496, 70'552'387'584},
    {"mistral_7b_v0_1", 7'241'732'096, 7'241'465'856},
    {"mistral_7b_v0_3", 7'248'023'552, 7'247'757'312},
    {"qwen2_5_0_5b", 494'032'768, 493'961'216},
    {"qwen2_5_1_5b", 1'543'714'304, 1'543'569'408},
    {"qwen2_5_3b", 3'085'938'688, 3'085'697'024},
    {"qwen2_5_7b", 7'615'616'512, 7'615'283'200},
    {"qwen2_5_14b", 14'770'033'664, 14'769'192'960},
    {"qwen2_5_32b", 32'763'876'352, 32'762'757'120},
    {"qwen2_5_72b", 72'706'203'648, 72'704'065'536},
};

class PublishedModel : public testing::TestWithParam<Published> {};

TEST_P(PublishedModel, HasItsPublishedParameterCounts) {
  const ModelSpec model = load_model(model_path(GetParam().name));
  EXPECT_EQ(model.name, GetParam().name);
  EXPECT_EQ(model.parameters(), GetParam().parameters);
  EXPECT_EQ(model.trained_in_matrices(), GetParam().matrix_parameters);
}

// Every product's weight is in the checkpoint, except the vocabulary projection of a tied model.
TEST_P(PublishedModel, ProductsAgreeWithTensors) {
  const ModelSpec model = load_model(model_path(GetParam().name));
  std::int64_t block = 0;
  for (const Linear& linear : model.layer(0).products) block += linear.in * linear.out;
  std::int64_t block_matrices = 0;
  for (const Tensor& tensor : model.layer(0).tensors) {
    EXPECT_TRUE(tensor.is_matrix() || tensor.rows() == 1) << tensor.name;
    block_matrices += tensor.is_matrix() ? tensor.parameters() : 0;
  }
  EXPECT_EQ(block, block_matrices);

  std::int64_t head = 0;
  for (const Linear& linear : model.head.products) head += linear.in * linear.out;
  if (model.tied_embeddings) head -= model.vocab * model.embedding_dim;
  std::int64_t head_matrices = 0;
  for (const Tensor& tensor : model.head.tensors)
    head_matrices += tensor.is_matrix() ? tensor.parameters() : 0;
  EXPECT_EQ(head, head_matrices);
  EXPECT_EQ(model.head.products.back().name, "lm_head");
  EXPECT_EQ(model.head.products.back().out, model.outputs);
  EXPECT_EQ(model.outputs, model.vocab);
}

INSTANTIATE_TEST_SUITE_P(Facts, PublishedModel, testing::ValuesIn(kPublished),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ModelSpec, TenBillionGpt2OfTheZeroOffloadPaper) {
  const ModelSpec model = load_model(model_path("gpt2_10b"));
  EXPECT_EQ(model.layers(), 50);
  // 50 blocks of 12 h^2 + 13 h, both embeddings and the final norm.
  const std::int64_t h = 4096;
  EXPECT_EQ(model.parameters(), 50 * (12 * h * h + 13 * h) + (50257 + 1024) * h + 2 * h);
}

const char* const kLlama =
    "{\"model_type\": \"llama\",\n"
    " \"hidden_size\": 64,\n"
    " \"num_hidden_layers\": 2,\n"
    " \"num_attention_heads\": 4,\n"
    " \"intermediate_size\": 96,\n"
    " \"vocab_size\": 100,\n"
    " \"max_position_embeddings\": 128}\n";

const char* const kGpt2 =
    "{\"model_type\": \"gpt2\", \"n_embd\": 8, \"n_layer\": 3, \"n_head\": 2, \"vocab_size\": 20, "
    "\"n_positions\": 16}";

const char* const kOpt =
    "{\"model_type\": \"opt\", \"hidden_size\": 8, \"num_hidden_layers\": 3, "
    "\"num_attention_heads\": 2, \"ffn_dim\": 32, \"vocab_size\": 20, "
    "\"max_position_embeddings\": 16}";

TEST(ModelSpec, LlamaDefaultsOfOldConfigs) {
  const ModelSpec model = model_of(kLlama);
  EXPECT_EQ(model.kv_heads, 4);
  EXPECT_EQ(model.head_dim, 16);
  EXPECT_FALSE(model.tied_embeddings);
  EXPECT_TRUE(model.gated_mlp);
  EXPECT_FALSE(model.learned_positions);
  EXPECT_EQ(model.layer(0).tensors.size(), 9U);
  const Tensor* up = find_tensor(model.layer(0), "model.layers.{}.mlp.up_proj.weight");
  ASSERT_NE(up, nullptr);
  EXPECT_EQ(up->rows(), 96);  // torch.nn.Linear stores [out, in]
  EXPECT_EQ(up->columns(), 64);
  EXPECT_NE(find_tensor(model.head, "lm_head.weight"), nullptr);
}

TEST(ModelSpec, HeadDimMayDifferFromHiddenByHeads) {
  const ModelSpec model = model_of(replaced(
      kLlama, "\"vocab_size\"", "\"head_dim\": 32, \"num_key_value_heads\": 2, \"vocab_size\""));
  EXPECT_EQ(model.head_dim, 32);
  EXPECT_EQ(find_tensor(model.layer(0), "model.layers.{}.self_attn.q_proj.weight")->rows(), 4 * 32);
  EXPECT_EQ(find_tensor(model.layer(0), "model.layers.{}.self_attn.k_proj.weight")->rows(), 2 * 32);
  EXPECT_EQ(find_tensor(model.layer(0), "model.layers.{}.self_attn.o_proj.weight")->columns(),
            4 * 32);
  EXPECT_EQ(
      model_of(replaced(kLlama, "\"vocab_size\"", "\"head_dim\": null, \"vocab_size\"")).head_dim,
      16);
}

TEST(ModelSpec, BiasesFollowTheFamily) {
  const std::string llama = replaced(
      kLlama, "\"vocab_size\"", "\"attention_bias\": true, \"mlp_bias\": true, \"vocab_size\"");
  const std::int64_t plain = model_of(kLlama).layer(0).parameters();
  EXPECT_EQ(model_of(llama).layer(0).parameters(), plain + 4 * 64 + 2 * 96 + 64);
  // Mistral's classes have no such switches; Qwen2 always has biases on q, k and v. Both have a
  // default of their own for a missing number of key-value heads.
  const std::string heads =
      replaced(llama, "\"vocab_size\"", "\"num_key_value_heads\": 4, \"vocab_size\"");
  EXPECT_EQ(model_of(replaced(heads, "llama", "mistral")).layer(0).parameters(), plain);
  EXPECT_EQ(model_of(replaced(heads, "llama", "qwen2")).layer(0).parameters(), plain + 3 * 64);
}

TEST(ModelSpec, Gpt2InnerSizeMayBeNull) {
  EXPECT_EQ(model_of(kGpt2).intermediate, 32);
  EXPECT_EQ(model_of(replaced(kGpt2, "\"n_embd\"", "\"n_inner\": null, \"n_embd\"")).intermediate,
            32);
  EXPECT_EQ(model_of(replaced(kGpt2, "\"n_embd\"", "\"n_inner\": 24, \"n_embd\"")).intermediate,
            24);
  const ModelSpec model = model_of(kGpt2);
  EXPECT_TRUE(model.tied_embeddings);
  EXPECT_TRUE(model.learned_positions);
  const Tensor* qkv = find_tensor(model.layer(0), "transformer.h.{}.attn.c_attn.weight");
  ASSERT_NE(qkv, nullptr);
  EXPECT_EQ(qkv->rows(), 8);  // Conv1D stores [in, out]
  EXPECT_EQ(qkv->columns(), 24);
}

TEST(ModelSpec, TiedAndUntiedHeads) {
  EXPECT_EQ(model_of(kGpt2).head.parameters(), 16);
  EXPECT_EQ(model_of(replaced(kGpt2, "\"n_embd\"", "\"tie_word_embeddings\": false, \"n_embd\""))
                .head.parameters(),
            16 + 160);
  EXPECT_EQ(
      model_of(replaced(kLlama, "\"vocab_size\"", "\"tie_word_embeddings\": true, \"vocab_size\""))
          .head.parameters(),
      64);
}

TEST(ModelSpec, OptVariants) {
  const ModelSpec model = model_of(kOpt);
  EXPECT_EQ(find_tensor(model.embedding, "model.decoder.embed_positions.weight")->rows(), 18);
  EXPECT_FALSE(model.post_norm);
  EXPECT_EQ(model.embedding_dim, 8);
  const auto with = [](const std::string& setting) {
    return model_of(replaced(kOpt, "\"ffn_dim\"", setting + ", \"ffn_dim\""));
  };
  EXPECT_EQ(with("\"enable_bias\": false").layer(0).parameters(), 2 * 16 + 4 * 64 + 2 * 256);
  EXPECT_TRUE(with("\"do_layer_norm_before\": false").post_norm);
  EXPECT_EQ(with("\"do_layer_norm_before\": false").head.parameters(), 0);
  EXPECT_EQ(with("\"_remove_final_layer_norm\": true").head.parameters(), 0);
  const ModelSpec projected = with("\"word_embed_proj_dim\": 4");
  EXPECT_EQ(projected.embedding.parameters(), 20 * 4 + 18 * 8 + 4 * 8);
  ASSERT_EQ(projected.head.products.size(), 2U);
  EXPECT_EQ(projected.head.products[0].name, "project_out");
  EXPECT_EQ(projected.head.products[0].in, 8);
  EXPECT_EQ(projected.head.products[0].out, 4);
  EXPECT_EQ(projected.head.products[1].in, 4);
}

// Another architecture is no spelling of this one: Mixtral read as Mistral would be 7 of 47
// billion.
TEST(ModelSpec, UnknownTypeNamesTheKnownOnesAndSuggestsNone) {
  const std::string error = error_of("{\"model_type\":\n  \"mixtrall\"}");
  EXPECT_EQ(error.find("config.json:2:3: model_type: unknown model_type \"mixtrall\": "), 0U)
      << error;
  EXPECT_NE(error.find(", mixtral, "), std::string::npos);
  EXPECT_EQ(error.find("did you mean"), std::string::npos);
  EXPECT_EQ(error_of("{\"hidden_size\": 4}"), "config.json:1:1: model_type: required, but missing");
  EXPECT_EQ(error_of("[]"), "config.json:1:1: expected a map, found a sequence");
}

TEST(ModelSpec, TakesItsNameFromTheFileOrFromTheFolderOfAConfigJson) {
  EXPECT_EQ(model_name("models/llama2_7b.json"), "llama2_7b");
  EXPECT_EQ(model_name("hub/Llama-2-7b-hf/config.json"), "Llama-2-7b-hf");
  EXPECT_EQ(model_name("config.json"), "config");
  EXPECT_EQ(model_name("../config.json"), "config");
}

TEST(ModelSpec, ErrorsAreLocated) {
  const std::vector<std::pair<std::pair<std::string, std::string>, std::string>> cases = {
      {{"\"hidden_size\": 64", "\"hidden_size\": \"64\""},
       "config.json:2:17: hidden_size: expected a whole number from 1 to 262144, found the string "
       "\"64\""},
      {{"\"hidden_size\": 64", "\"hidden_sizes\": 64"},
       "config.json:2:2: hidden_sizes: unknown key (did you mean \"hidden_size\"?)"},
      {{"\"hidden_size\": 64", "\"hidden_size\": 66"},
       "config.json:2:17: hidden_size: expected a multiple of num_attention_heads (4), found 66"},
      {{"\"num_attention_heads\": 4", "\"num_attention_heads\": 4, \"num_key_value_heads\": 3"},
       "config.json:4:51: num_key_value_heads: expected a divisor of num_attention_heads (4), "
       "found "
       "3"},
      {{"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 0"},
       "config.json:3:23: num_hidden_layers: expected a whole number from 1 to 4096, found \"0\""},
      {{"\"vocab_size\": 100", "\"vocab_size\": 9e18"},
       "config.json:6:16: vocab_size: expected a whole number from 1 to 16777216, found \"9e18\""},
      {{"\"vocab_size\": 100", "\"vocab_size\": 100, \"tie_word_embeddings\": 1"},
       "config.json:6:44: tie_word_embeddings: expected true or false, found \"1\""}};
  for (const auto& [change, message] : cases) {
    EXPECT_EQ(error_of(replaced(kLlama, change.first, change.second)), message);
  }
  EXPECT_EQ(error_of(replaced(kGpt2, "\"n_embd\": 8", "\"n_embd\": 9")),
            "config.json:1:34: n_embd: expected a multiple of n_head (2), found 9");
}

TEST(ModelSpec, EveryLimitAtOnceDoesNotOverflow) {
  EXPECT_EQ(
      error_of("{\"model_type\": \"llama\", \"hidden_size\": 262144, \"num_hidden_layers\": 4096, "
               "\"num_attention_heads\": 4096, \"head_dim\": 4096, \"intermediate_size\": "
               "4194304, \"vocab_size\": 16777216, \"max_position_embeddings\": 67108864}")
          .substr(0, 66),
      "config.json:1:1: expected a model of at most 1000000000000000 para");
}

TEST(ModelSpec, ConfigCutAtAnyByteIsAnError) {
  const std::string text = read_text_file(model_path("llama3_8b"));
  const std::size_t end = text.rfind('}');
  ASSERT_NE(end, std::string::npos);
  for (std::size_t length = 0; length <= end; ++length) {
    EXPECT_EQ(error_of(text.substr(0, length)).rfind("config.json:", 0), 0U) << length;
  }
  EXPECT_EQ(error_of(text), "(no error)");
}

TEST(ModelSpec, NameIsTheFilesStem) {
  EXPECT_EQ(load_model(model_path("llama2_7b")).name, "llama2_7b");
  EXPECT_THROW(static_cast<void>(load_model(model_path("no_such_model"))), Error);
}

}  // namespace
}  // namespace zenflow::sim
