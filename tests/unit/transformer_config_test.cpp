// What training reads from a config.json, and that the parameters are those the simulator counts.
#include "runtime/model_config/transformer_config.h"

#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/config/document.h"
#include "tests/support/model_step.h"

namespace zenflow::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::model_config;

std::string llama(const std::string& more) {
  return R"({"model_type": "llama", "vocab_size": 8, "hidden_size": 8, "num_hidden_layers": 2,
"num_attention_heads": 2, "intermediate_size": 8, "max_position_embeddings": 16)" +
         more + "}";
}
std::string gpt2(const std::string& more) {
  return R"({"model_type": "gpt2", "vocab_size": 8, "n_embd": 8, "n_layer": 2, "n_head": 2,
"n_positions": 16)" +
         more + "}";
}
std::string mistral(const std::string& more) {
  std::string text = llama(more);
  // Without the key these families have a number of their own.
  return text.replace(text.find("llama\""), 6, R"(mistral", "num_key_value_heads": 2)");
}
std::string qwen2(const std::string& more) {
  std::string text = llama(more);
  // Without the key these families have a number of their own.
  return text.replace(text.find("llama\""), 6, R"(qwen2", "num_key_value_heads": 2)");
}

std::string opt(const std::string& more) {
  return R"({"model_type": "opt", "vocab_size": 8, "hidden_size": 8, "num_hidden_layers": 1,
"num_attention_heads": 1, "ffn_dim": 8, "max_position_embeddings": 8)" +
         more + "}";
}
std::string gemma3(const std::string& more) {
  return R"({"model_type": "gemma3_text", "vocab_size": 8, "hidden_size": 8, "head_dim": 4,
"num_hidden_layers": 6, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 8,
"max_position_embeddings": 16)" +
         more + "}";
}

std::string phi3(const std::string& more) {
  std::string text = llama(more);
  return text.replace(text.find("llama\""), 6, R"(phi3", "num_key_value_heads": 2)");
}

std::string error_of(const std::string& json) {
  try {
    static_cast<void>(model_config(json));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  ADD_FAILURE() << json << " was accepted";
  return "";
}

TEST(TransformerConfig, HasHuggingFacesDefaults) {
  const TransformerConfig a = model_config(llama(""));
  EXPECT_EQ(a.norm.epsilon, 1e-6);
  EXPECT_EQ(a.initializer_range, 0.02);
  EXPECT_EQ(a.rotary.theta, 10000.0);
  EXPECT_EQ(a.rotary.scaling, RotarySettings::Scaling::kNone);
  EXPECT_EQ(a.activation, Activation::kSilu);
  EXPECT_EQ(a.largest_window(), 0);
  EXPECT_TRUE(a.unapplied_dropouts.empty());
  const TransformerConfig b = model_config(gpt2(""));
  EXPECT_EQ(b.norm.epsilon, 1e-5);
  EXPECT_EQ(b.activation, Activation::kGeluTanh);
  EXPECT_TRUE(b.scales_attention);
  EXPECT_FALSE(b.scales_attention_by_layer);
  EXPECT_EQ(model_config(mistral("")).window(0), 4096);
  EXPECT_EQ(model_config(mistral(R"(, "sliding_window": null)")).window(0), 0);
  EXPECT_EQ(model_config(qwen2(R"(, "sliding_window": 8)")).largest_window(), 0);
  const TransformerConfig late = model_config(
      qwen2(R"(, "sliding_window": 8, "use_sliding_window": true, "max_window_layers": 1)"));
  EXPECT_EQ(late.window(0), 0);
  EXPECT_EQ(late.window(1), 8);
}

TEST(TransformerConfig, ReadsRotarySettingsOfOldAndNewTransformers) {
  const TransformerConfig linear = model_config(
      llama(R"(, "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2})"));
  EXPECT_EQ(linear.rotary.theta, 5e5);
  EXPECT_EQ(linear.rotary.scaling, RotarySettings::Scaling::kLinear);
  EXPECT_EQ(linear.rotary.factor, 2.0);
  const TransformerConfig llama3 = model_config(llama(
      R"(, "rope_parameters": {"rope_type": "llama3", "rope_theta": 3e5, "factor": 8.0,
      "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})"));
  EXPECT_EQ(llama3.rotary.theta, 3e5);
  EXPECT_EQ(llama3.rotary.scaling, RotarySettings::Scaling::kLlama3);
  EXPECT_EQ(llama3.rotary.original_max_positions, 8192.0);
  EXPECT_EQ(model_config(llama(R"(, "rope_scaling": null)")).rotary.scaling,
            RotarySettings::Scaling::kNone);
}

TEST(TransformerConfig, RefusesWhatItWouldComputeWrongly) {
  EXPECT_THAT(error_of(llama(R"(, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0})")),
              HasSubstr("config.json:2:112: rope_scaling.rope_type: rotary scaling \"dynamic\" is "
                        "not supported by the trainer; supported: default, linear, llama3, yarn, "
                        "longrope"));
  EXPECT_THAT(error_of(llama(R"(, "rope_scaling": {"type": "longrope", "short_factor": [1, 2, 3],
                                   "long_factor": [1, 2]})")),
              HasSubstr("rope_scaling: expected 2 factors, one for each pair of columns; found 3"));
  EXPECT_THAT(error_of(llama(R"(, "rope_scaling": {"type": "longrope", "short_factor": [],
                                   "long_factor": []})")),
              HasSubstr("expected 2 factors, one for each pair of columns; found 0"));
  EXPECT_THAT(error_of(R"({"model_type": "gemma3_text", "vocab_size": 32, "hidden_size": 16,
                  "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
                  "head_dim": 4, "intermediate_size": 16, "max_position_embeddings": 32,
                  "rope_parameters": {"full_attention": {"rope_type": "default"},
                    "sliding_attention": {"rope_type": "longrope", "short_factor": [1],
                                          "long_factor": [1]}}})"),
              HasSubstr("expected 2 factors, one for each pair of columns; found 1"));
  EXPECT_THAT(error_of(llama(R"(, "rope_scaling": {"type": "linear"})")), HasSubstr("factor"));
  EXPECT_THAT(error_of(llama(R"(, "hidden_act": "mish")")), HasSubstr("hidden_act"));
  EXPECT_THAT(error_of(llama(R"(, "partial_rotary_factor": 0.5)")),
              HasSubstr("partial_rotary_factor: expected 1, found 0.5: the class of this family "
                        "turns whole heads"));
  EXPECT_THAT(error_of(llama(R"(, "is_causal": false)")),
              HasSubstr("is_causal: attention to later tokens is not trained"));
  EXPECT_THAT(error_of(qwen2(R"(, "layer_types": ["full_attention"])")),
              HasSubstr("layer_types: expected 2 types, one a layer; found 1"));
  EXPECT_THAT(error_of(gemma3(R"(, "rope_parameters": {"rope_theta": 500.0})")),
              HasSubstr("rope_parameters: expected full_attention and sliding_attention in it"));
  EXPECT_THAT(error_of(gemma3(R"(, "rope_scaling": {"type": "linear", "factor": 2.0})")),
              HasSubstr("rope_scaling.type: expected rope_type"));
  EXPECT_THAT(error_of(llama(R"(, "rope_scaling": {"type": "linear", "factor": 2.0},
                                   "rope_parameters": {"rope_theta": 500.0})")),
              HasSubstr("rope_scaling: expected either it or rope_parameters"));
  EXPECT_THAT(error_of(phi3(R"(, "partial_rotary_factor": 0.75)")),
              HasSubstr("expected an even number of rotary columns, found 3"));
  EXPECT_THAT(error_of(llama(R"(, "head_dim": 3)")), HasSubstr("even number"));
  EXPECT_THAT(error_of(gpt2(R"(, "activation_function": "gelu_nwe")")),
              HasSubstr("did you mean \"gelu_new\"?"));
  EXPECT_THAT(
      error_of(R"({"model_type": "bloom", "vocab_size": 8, "hidden_size": 8, "n_layer": 1,
      "n_head": 1})"),
      HasSubstr("config.json:1:16: model_type: bloom is simulated but not trained; families "
                "to train: llama, mistral, qwen2, qwen3, phi3, gemma, gemma2, gemma3_text, "
                "olmo2, olmo3, gpt2, opt"));
  EXPECT_THAT(error_of(opt(R"(, "word_embed_proj_dim": 4)")),
              HasSubstr("word_embed_proj_dim: expected hidden_size (8): projections of embeddings "
                        "are not trained"));
  EXPECT_THAT(error_of(opt(R"(, "do_layer_norm_before": false)")),
              HasSubstr("do_layer_norm_before: norms after the sums"));
  EXPECT_THAT(error_of(gemma3(R"(, "use_bidirectional_attention": true)")),
              HasSubstr("use_bidirectional_attention: attention to later tokens is not trained"));
  EXPECT_THAT(error_of(gemma3(R"(, "sliding_window": null)")),
              HasSubstr("sliding_window: expected a number of tokens"));
}

TEST(TransformerConfig, HasTheSettingsOfOtherFamilies) {
  const TransformerConfig gemma = model_config(gemma3(R"(, "query_pre_attn_scalar": 64)"));
  EXPECT_EQ(gemma.norm.offset, 1.0);
  EXPECT_EQ(gemma.embedding_scale, std::sqrt(8.0));
  EXPECT_EQ(gemma.attention_scale, 0.125);
  EXPECT_EQ(gemma.logit_cap, 0.0);
  EXPECT_EQ(gemma.rotary.theta, 1e6);
  ASSERT_TRUE(gemma.window_rotary);
  EXPECT_EQ(gemma.window_rotary->theta, 1e4);
  EXPECT_EQ(gemma.window(0), 4096);
  EXPECT_EQ(gemma.window(5), 0);
  EXPECT_EQ(model_config(opt("")).first_position, 2);
  EXPECT_EQ(model_config(opt(R"(, "init_std": 0.5)")).initializer_range, 0.5);
  const TransformerConfig half = model_config(phi3(R"(, "partial_rotary_factor": 0.5)"));
  EXPECT_EQ(half.rotary_columns, 2);
  // Phi3's class knows its original positions, and its layers do not look at their types.
  const TransformerConfig scaled = model_config(
      phi3(R"(, "sliding_window": 8, "layer_types": ["full_attention", "full_attention"],
          "rope_scaling": {"type": "longrope", "short_factor": [1, 2], "long_factor": [3, 4]})"));
  EXPECT_EQ(scaled.rotary.original_max_positions, 4096.0);
  EXPECT_EQ(scaled.window(0), 8);
}

TEST(TransformerConfig, SaysWhichDropoutsAreNotApplied) {
  EXPECT_THAT(model_config(llama(R"(, "attention_dropout": 0.25)")).unapplied_dropouts,
              ElementsAre(HasSubstr("attention_dropout: a dropout of 0.25 is not applied")));
  EXPECT_THAT(model_config(gpt2(R"(, "resid_pdrop": 0.0, "embd_pdrop": 0.2)")).unapplied_dropouts,
              ElementsAre(HasSubstr("embd_pdrop: a dropout of 0.2 is not applied"),
                          HasSubstr("attn_pdrop: a dropout of 0.1 (Hugging Face's default) is not "
                                    "applied")));
}

TEST(ParameterTable, HasGroupsInForwardOrder) {
  const ParameterTable table = parameter_table(
      model_config(llama(R"(, "tie_word_embeddings": true)")).model, Task::language_modelling());
  ASSERT_EQ(table.groups.size(), 4U);
  EXPECT_EQ(table.groups[0].name, "embedding");
  EXPECT_EQ(table.groups[1].name, "layers.0");
  EXPECT_EQ(table.groups[2].name, "layers.1");
  EXPECT_EQ(table.groups[3].name, "head");
  std::size_t next = 0;
  for (std::size_t g = 0; g < table.groups.size(); ++g) {
    EXPECT_EQ(table.groups[g].first, next);
    next += table.groups[g].count;
    for (std::size_t i = table.groups[g].first; i < next; ++i) {
      EXPECT_EQ(table.parameters[i].group, g);
    }
  }
  EXPECT_EQ(next, table.parameters.size());
  EXPECT_EQ(table.parameters[0].name, "model.embed_tokens.weight");
  EXPECT_EQ(table.parameters.back().name, "model.norm.weight");  // tied: no head of its own
  EXPECT_TRUE(table.find("model.layers.1.mlp.down_proj.weight"));
  EXPECT_FALSE(table.find("model.layers.2.mlp.down_proj.weight"));
}

TEST(ParameterTable, OfAClassificationHasAScoreInPlaceOfTheHead) {
  for (const char* tied : {"false", "true"}) {
    const TransformerConfig config =
        model_config(llama(std::string(R"(, "tie_word_embeddings": )") + tied));
    const ParameterTable table = parameter_table(config.model, Task::classification(3));
    EXPECT_FALSE(table.find("lm_head.weight"));
    const Parameter& score = table.parameters.back();
    EXPECT_EQ(score.name, "score.weight");
    EXPECT_EQ(score.rows, 3);
    EXPECT_EQ(score.columns, 8);
    EXPECT_TRUE(score.is_matrix);
    EXPECT_EQ(table.groups[score.group].name, "head");
  }
}

/// The simulator and the runtime have to mean the same model.
TEST(ParameterTable, HasAsManyElementsAsTheSimulatorCounts) {
  std::size_t models = 0;
  const std::filesystem::path folder =
      std::filesystem::path(ZENFLOW_SOURCE_DIR) / "scenarios/models";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const Node root = load_document(entry.path());
    const std::string type = root.find("model_type")->scalar;
    static const std::set<std::string> kTrained = {"llama", "mistral", "qwen2",  "qwen3",
                                                   "phi3",  "gemma",   "gemma2", "gemma3_text",
                                                   "olmo2", "olmo3",   "gpt2"};
    if (!kTrained.contains(type)) continue;
    const TransformerConfig config =
        load_transformer_config(entry.path(), Task::language_modelling());
    EXPECT_EQ(parameter_table(config.model, config.task).elements(), config.model.parameters())
        << entry.path();
    ++models;
  }
  EXPECT_GT(models, 10U);
}

}  // namespace
}  // namespace zenflow::runtime
