// Low-rank adapters and frozen tensors, counted by hand on a small Llama.
#include "sim/model/adapters.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/config/adapter_reader.h"
#include "sim/config/hub/hub_model.h"
#include "sim/config/reader.h"
#include "sim/cost/gpu_cost.h"
#include "sim/memory/activation_memory.h"
#include "tests/support/error_of.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using ::testing::HasSubstr;
using testing::round_node;
using testing::tiny_llama;

// h 32, 4 heads of 8, 2 key-value heads, f 64, 256 words.
constexpr std::int64_t kHidden = 32;
constexpr std::int64_t kKeys = 16;
constexpr std::int64_t kInner = 64;

LoraSettings lora(std::int64_t rank) {
  LoraSettings settings;
  settings.rank = rank;
  settings.all_linear = true;
  return settings;
}

ModelSpec adapted(const LoraSettings& settings) {
  ModelSpec model = tiny_llama();
  add_lora(model, settings);
  drop_what_is_not_trained(model);
  return model;
}

// PEFT: A is [r, in], B [out, r].
TEST(Lora, AddsTwoMatricesToEveryProductButTheHead) {
  const ModelSpec base = tiny_llama();
  const ModelSpec model = adapted(lora(4));
  const std::int64_t widths =
      (kHidden + kHidden) * 2 + (kHidden + kKeys) * 2 + (kHidden + kInner) * 3;
  EXPECT_EQ(model.trained(), model.layers() * 4 * widths);
  EXPECT_EQ(model.parameters(), base.parameters() + model.trained());
  EXPECT_EQ(model.trained_tensors(), model.layers() * 14);
  EXPECT_EQ(model.frozen_bytes(2), 2.0 * static_cast<double>(base.parameters()));
}

TEST(Lora, OfNamedModules) {
  LoraSettings settings;
  settings.rank = 4;
  settings.targets.ends = {"q_proj", "mlp.down_proj"};
  EXPECT_EQ(unmatched_target(tiny_llama(), settings), "");
  const ModelSpec model = adapted(settings);
  EXPECT_EQ(model.trained(), model.layers() * 4 * (2 * kHidden + kHidden + kInner));
  settings.targets.ends = {"proj"};  // the end of a name, but not a part of it
  EXPECT_EQ(unmatched_target(tiny_llama(), settings), "proj");
}

TEST(Lora, OfSomeLayersMakesTwoKinds) {
  LoraSettings settings = lora(4);
  settings.layers = {1};
  const ModelSpec model = adapted(settings);
  ASSERT_EQ(model.kinds.size(), 2U);
  EXPECT_EQ(model.layer(0).trained(), 0);
  EXPECT_GT(model.layer(1).trained(), 0);
  // Nothing before it is trained: backward ends above.
  EXPECT_FALSE(model.layer(0).runs_backward);
  EXPECT_TRUE(model.layer(1).runs_backward);
  EXPECT_EQ(model.layer(0).saved.elements, 0);
}

TEST(Lora, OfModulesByAPatternOfTheirNamesWithNumbers) {
  LoraSettings settings;
  settings.rank = 4;
  settings.targets.pattern.emplace("model\\.layers\\.1\\..*(?:q|k)_proj");
  const ModelSpec model = adapted(settings);
  EXPECT_EQ(model.layer(0).trained(), 0);
  EXPECT_EQ(model.trained(), 4 * (2 * kHidden + kHidden + kKeys));
  settings.targets.pattern.emplace("q_proj");  // of the whole name
  EXPECT_EQ(adapted(settings).trained(), 0);
  settings.targets = {.ends = {"layers.0.self_attn.q_proj"}};
  EXPECT_EQ(adapted(settings).trained(), 4 * 2 * kHidden);
}

TEST(Lora, LeavesOutExcludedModulesAndOtherStacks) {
  LoraSettings settings = lora(4);
  settings.excluded.ends = {"down_proj"};
  EXPECT_EQ(adapted(lora(4)).trained() - adapted(settings).trained(),
            tiny_llama().layers() * 4 * (kHidden + kInner));
  settings = lora(4);
  settings.layers = {0};
  settings.stacks = {"layers"};
  const std::int64_t one = adapted(settings).trained();
  EXPECT_EQ(one * tiny_llama().layers(), adapted(lora(4)).trained());
  settings.stacks = {"blocks"};
  EXPECT_EQ(adapted(settings).trained(), 0);
}

TEST(Lora, HasTheRankOfTheFirstPatternThatMatches) {
  LoraSettings settings;
  settings.rank = 4;
  settings.targets.ends = {"q_proj", "o_proj"};
  settings.ranks.emplace_back(NamePattern("(?:.*\\.)?(?:q_proj)"), 16);
  settings.ranks.emplace_back(NamePattern("(?:.*\\.)?(?:.*_proj)"), 2);
  const ModelSpec model = adapted(settings);
  EXPECT_EQ(model.trained(), model.layers() * (16 + 2) * 2 * kHidden);
}

TEST(Lora, TrainsBiases) {
  const ModelSpec base = read_model(parse_json(R"({"model_type": "qwen2", "hidden_size": 32,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "intermediate_size": 64, "vocab_size": 256, "max_position_embeddings": 128})",
                                               "qwen2.json"),
                                    "qwen2");
  const auto trained = [&base](const LoraSettings& settings) {
    ModelSpec model = base;
    add_lora(model, settings);
    return model.trained();
  };
  LoraSettings settings;
  settings.rank = 4;
  settings.targets.ends = {"q_proj"};
  const std::int64_t without = trained(settings);
  settings.biases = TrainedBiases::kOfTargets;
  EXPECT_EQ(trained(settings) - without, base.layers() * kHidden);
  settings.biases = TrainedBiases::kAll;
  EXPECT_EQ(trained(settings) - without, base.layers() * (kHidden + 2 * kKeys));
  settings.biases = TrainedBiases::kNone;
  settings.adapter_bias = true;
  EXPECT_EQ(trained(settings) - without, base.layers() * kHidden);
}

// PEFT copies the head, which is then no longer the embedding's weight.
TEST(Lora, SavesATiedHeadAsAModuleOfItsOwn) {
  ModelSpec tied = read_model(parse_json(R"({"model_type": "llama", "hidden_size": 32,
      "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
      "vocab_size": 256, "max_position_embeddings": 128, "tie_word_embeddings": true})",
                                         "llama.json"),
                              "llama");
  LoraSettings settings = lora(4);
  settings.saved_modules = {"lm_head"};
  EXPECT_EQ(unmatched_target(tied, settings), "");
  ModelSpec with = tied;
  add_lora(with, settings);
  add_lora(tied, lora(4));
  EXPECT_EQ(with.trained() - tied.trained(), 256 * 32);
}

TEST(Lora, TrainsSavedModulesAsWholeCopies) {
  LoraSettings settings = lora(4);
  settings.saved_modules = {"embed_tokens"};
  const ModelSpec model = adapted(settings);
  EXPECT_EQ(model.trained() - adapted(lora(4)).trained(), 256 * kHidden);
  EXPECT_EQ(model.frozen_bytes(2), adapted(lora(4)).frozen_bytes(2));
}

// A copy is trained, so that its weight has a gradient as before.
TEST(Lora, RunsAllThreeProductsOfASavedModule) {
  LoraSettings settings;
  settings.rank = 1;
  settings.targets.ends = {"q_proj"};
  settings.saved_modules = {"mlp"};  // and what stands below it
  const ModelSpec model = adapted(settings);
  for (const Linear& product : model.layer(0).products) {
    const bool in_mlp =
        product.name == "gate_proj" || product.name == "up_proj" || product.name == "down_proj";
    EXPECT_EQ(product.trained, in_mlp || product.name.starts_with("lora_")) << product.name;
  }
}

ModelSpec tiny_experts() {
  return read_model(parse_json(R"({"model_type": "qwen3_moe", "hidden_size": 32,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
      "intermediate_size": 64, "moe_intermediate_size": 16, "num_experts": 8,
      "num_experts_per_tok": 2, "vocab_size": 256, "max_position_embeddings": 128})",
                               "tiny_experts.json"),
                    "tiny_experts");
}

// bitsandbytes knows torch.nn.Linear: neither the stacked experts nor the router, a parameter.
TEST(Quantisation, OfNf4LeavesExpertsAsTheyAre) {
  ModelSpec model = tiny_experts();
  add_lora(model, lora(4));
  quantise_base(model, BaseStorage::kNf4);
  for (const Tensor& tensor : model.layer(0).tensors) {
    if (tensor.trained) continue;
    const bool in_attention = tensor.name.find("_proj.weight") != std::string::npos;
    EXPECT_EQ(tensor.stored_bytes > 0, in_attention) << tensor.name;
  }
}

// PEFT adapts stacked experts by a product of rank r for each, of 2 r where two are fused.
TEST(Lora, AdaptsStackedExperts) {
  const ModelSpec base = tiny_experts();
  const ModelSpec model = [] {
    ModelSpec with = tiny_experts();
    add_lora(with, lora(4));
    return with;
  }();
  const std::int64_t attention = 2 * (32 + 32) + 2 * (32 + 16);
  const std::int64_t router = 32 + 8;
  const std::int64_t experts = 2 * 8 * (32 + 32) + 8 * (16 + 32);
  EXPECT_EQ(model.trained(), base.layers() * 4 * (attention + router + experts));
}

TEST(Lora, OfDoraHasAMagnitudeForEachOutput) {
  LoraSettings settings = lora(4);
  settings.dora = true;
  const std::int64_t outputs = 2 * kHidden + 2 * kKeys + 2 * kInner + kHidden;
  const ModelSpec model = adapted(settings);
  EXPECT_EQ(model.trained() - adapted(lora(4)).trained(), model.layers() * outputs);
}

// Forward, and the gradient of the input: of the frozen products there is no third one.
TEST(Lora, TakesTwoPassesOfFrozenProductsInPlaceOfThree) {
  const TrainingSettings training{.micro_batch_size_per_gpu = 2, .sequence_length = 64};
  const ModelSpec base = tiny_llama();
  const ModelSpec model = adapted(lora(4));
  const double tokens = 128;
  const double head = 3 * 2 * tokens * 256 * kHidden;
  const double weights =
      2 * (2.0 * kHidden * kHidden + 2.0 * kHidden * kKeys + 3.0 * kHidden * kInner);
  const double adapters = static_cast<double>(model.trained());
  const double attention = model_flops(base, training).value() - 3 * 2 * tokens * weights - head;
  EXPECT_DOUBLE_EQ(model_flops(model, training).value(),
                   2 * 2 * tokens * weights + head * 2 / 3 + 3 * 2 * tokens * adapters + attention);
}

// Without adapters on a product nobody keeps its input; norms keep no normalised input.
TEST(Lora, KeepsLessOfFrozenLayers) {
  const TrainingSettings training{.micro_batch_size_per_gpu = 2, .sequence_length = 64};
  LoraSettings settings;
  settings.rank = 4;
  settings.targets.ends = {"q_proj", "v_proj"};
  const ModelSpec model = adapted(settings);
  // A token in bf16, of 1,232 B (activation_memory_test): without both norms' normalised input
  // (2 x 64), the MLP's input (64) and down_proj's (128); with what q's and v's A return (2 x 8).
  const ActivationMemory memory = activation_memory(model, training);
  EXPECT_EQ(memory.layer[0].value(), (1232 - 128 - 64 - 128 + 16) * 128);
}

TEST(Quantisation, OfTheBaseStoresProductsOfLayersNarrow) {
  ModelSpec model = tiny_llama();
  add_lora(model, lora(4));
  quantise_base(model, BaseStorage::kNf4);
  drop_what_is_not_trained(model);
  const double products =
      2 * (2.0 * kHidden * kHidden + 2.0 * kHidden * kKeys + 3.0 * kHidden * kInner);
  const double rest = static_cast<double>(tiny_llama().parameters()) - products;
  // 4 bits, an 8-bit scale a block of 64 and an fp32 one for each 256 of these.
  EXPECT_DOUBLE_EQ(model.frozen_bytes(2), products * (0.5 + 1.0 / 64 + 1.0 / 4096) + 2 * rest);
}

// Sizes of AutoGPTQ's buffers of Llama-3.1-8B: 9.25 GB at 8 bits in groups of 128, 4.10 at 2 bits
// in groups of 64; bitsandbytes' 0.5625 and 0.5159 bytes an element.
TEST(Quantisation, TakesWhatItsBitsAndScalesTake) {
  EXPECT_DOUBLE_EQ(stored_bytes(BaseStorage::kNf4Single), 0.5625);
  EXPECT_NEAR(stored_bytes(BaseStorage::kNf4), 0.515869, 1e-6);
  EXPECT_DOUBLE_EQ(stored_bytes(BaseStorage::kGptq), 0.5 + 2.5 / 128);
  EXPECT_DOUBLE_EQ(grouped_bytes(8, 128), 1 + 3.0 / 128);
  EXPECT_DOUBLE_EQ(grouped_bytes(2, 64), 0.25 + 2.25 / 64);
}

TEST(Quantisation, LeavesOutModulesThatAreKept) {
  ModelSpec all = tiny_llama();
  add_lora(all, lora(4));
  ModelSpec some = all;
  quantise_base(all, BaseStorage::kInt8);
  quantise_base(some, BaseStorage::kInt8,
                [](std::string_view module) { return module == "model.layers.1.mlp.down_proj"; });
  EXPECT_EQ(some.frozen_bytes(2) - all.frozen_bytes(2), kHidden * kInner);
}

TEST(Quantisation, IsUndoneForEachUseOfAWeight) {
  const TrainingSettings training{.micro_batch_size_per_gpu = 2, .sequence_length = 64};
  ModelSpec plain = adapted(lora(4));
  ModelSpec narrow = plain;
  quantise_base(narrow, BaseStorage::kNf4);
  const GpuProfile gpu = round_node().gpu;
  const LayerTime before = model_time(gpu, plain, training).kinds[0];
  const LayerTime after = model_time(gpu, narrow, training).kinds[0];
  // Seven weights, read at 0.5159 B and written at 2 B an element at 800 GB/s; 5 us each.
  const double weights = 2.0 * kHidden * kHidden + 2.0 * kHidden * kKeys + 3.0 * kHidden * kInner;
  const double time = weights * (stored_bytes(BaseStorage::kNf4) + 2) / 800e9 + 7 * 5e-6;
  EXPECT_NEAR((after.forward - before.forward).value(), time, 1e-12);
  EXPECT_NEAR((after.backward - before.backward).value(), time, 1e-12);
}

TEST(Freezing, OfTheFirstLayersEndsBackwardThere) {
  ModelSpec model = tiny_llama();
  EXPECT_EQ(freeze(model, [](std::string_view name) { return name.starts_with("model.embed"); }),
            1);
  drop_what_is_not_trained(model);
  EXPECT_FALSE(model.embedding.runs_backward);
  EXPECT_TRUE(model.layer(0).runs_backward);
  EXPECT_EQ(model.trained(), tiny_llama().parameters() - 256 * kHidden);
  EXPECT_EQ(freeze(model, [](std::string_view name) { return name.starts_with("model.layers."); }),
            9 * model.layers());
  drop_what_is_not_trained(model);
  EXPECT_FALSE(model.layer(0).runs_backward);
  EXPECT_EQ(model.layer(0).saved.elements, 0);
}

TEST(Freezing, OfSomeLayersMakesTwoKinds) {
  ModelSpec model = tiny_llama();
  EXPECT_EQ(
      freeze(model, [](std::string_view name) { return name.starts_with("model.layers.0."); }), 9);
  ASSERT_EQ(model.kinds.size(), 2U);
  EXPECT_EQ(model.layer(0).trained(), 0);
  EXPECT_EQ(model.layer(1).trained(), tiny_llama().layer(1).trained());
}

/// `text`: keys of a scenario about adapters, in YAML.
ModelSpec with_adapter(const std::string& text, ModelSpec model = tiny_llama()) {
  const Node root = parse_yaml(text, "s.yaml");
  MapReader map(root, "");
  const Node none = parse_yaml("{}", "s.yaml");
  auto given = map.optional_map("training");
  MapReader training = given ? *given : MapReader(none, "training");
  std::vector<std::string> notes;
  read_adapters(map, training, none, model, notes);
  return model;
}
std::string adapter_error(const std::string& text, const ModelSpec& model = tiny_llama()) {
  return zenflow::testing::error_of([&] { static_cast<void>(with_adapter(text, model)); }).second;
}

constexpr const char* kPeft = "adapter: {peft_type: LORA, r: 4, ";

TEST(AdapterReader, ReadsWhatPeftWrites) {
  const std::string peft = kPeft;
  const std::int64_t square = 4 * 2 * kHidden;
  EXPECT_EQ(with_adapter(peft + "target_modules: [q_proj, o_proj], lora_bias: true}").trained(),
            2 * (2 * square + 2 * kHidden));
  EXPECT_EQ(with_adapter(peft + "target_modules: '.*\\.0\\..*q_proj'}").trained(), square);
  EXPECT_EQ(
      with_adapter(peft + "target_modules: [q_proj, o_proj], rank_pattern: {o_proj: 8}}").trained(),
      2 * 3 * square);
  EXPECT_EQ(
      with_adapter(peft + "target_modules: [q_proj, o_proj], exclude_modules: [o_proj]}").trained(),
      2 * square);
  EXPECT_EQ(with_adapter(peft + "target_modules: [q_proj], layers_to_transform: [1], "
                                "layers_pattern: layers}")
                .trained(),
            square);
  EXPECT_EQ(with_adapter(peft + "target_modules: [q_proj, absent], bias: none}").trained(),
            2 * square);
}

TEST(AdapterReader, SaysWhatIsWrong) {
  const std::string peft = kPeft;
  EXPECT_THAT(adapter_error(peft + "target_modules: [absent]}"),
              HasSubstr("s.yaml:1:50: adapter.target_modules: \"absent\" is no module of"));
  EXPECT_THAT(adapter_error(peft + "target_modules: q_proj}"),  // PEFT: of the whole name
              HasSubstr("no module of the model gets an adapter"));
  EXPECT_THAT(adapter_error(peft + "target_modules: '(q_proj'}"),
              HasSubstr("\"(q_proj\" is no regular expression"));
  for (const char* count :
       {"q{12345678901234567890}_proj", "q{1,12345678901234567890}", "q\\1234567890"}) {
    EXPECT_THAT(adapter_error(peft + "target_modules: '" + count + "'}"),
                HasSubstr("is a regular expression with a count of ten digits or more"))
        << count;
  }
  EXPECT_THAT(adapter_error(peft + "target_modules: ['.*q_proj']}"),
              HasSubstr("a pattern stands alone"));
  EXPECT_THAT(adapter_error(peft + "target_modules: [q_proj], bias: some}"),
              HasSubstr("adapter.bias"));
  EXPECT_THAT(adapter_error(peft + "target_modules: [q_proj], rank_pattern: {q_proj: 0}}"),
              HasSubstr("adapter.rank_pattern.q_proj"));
  EXPECT_THAT(adapter_error(peft + "target_parameters: [experts.gate_up_proj], use_dora: true}",
                            tiny_experts()),
              HasSubstr("adapter.use_dora: expected false: PEFT has no DoRA for stacked experts"));
  EXPECT_THAT(adapter_error("training: {freeze: ['*.visual.*']}"),
              HasSubstr("training.freeze: \"*.visual.*\" is no tensor of the model, and is no"));
}

TEST(AdapterReader, FreezesByNamesWildcardsAndRegularExpressions) {
  const std::int64_t all = tiny_llama().trained();
  const std::int64_t layer = tiny_llama().layer(0).trained();
  const std::int64_t words = 256 * kHidden;
  EXPECT_EQ(with_adapter("training: {freeze: [model.embed_tokens.weight]}").trained(), all - words);
  EXPECT_EQ(with_adapter("training: {freeze: ['model.layers.{}.*']}").trained(), all - 2 * layer);
  EXPECT_EQ(with_adapter("training: {freeze: ['model.layers.0.*']}").trained(), all - layer);
  EXPECT_EQ(with_adapter("training: {freeze: ['layers\\.(1|2)\\.', embed]}").trained(),
            all - layer - words);
}

TEST(NamePattern, IsPythonsInTimeThatTheNameBounds) {
  const NamePattern ahead("^(model\\.language_model(?=\\.).*\\.(q_proj|k_proj))$");
  EXPECT_TRUE(ahead.is_all_of("model.language_model.layers.3.self_attn.q_proj"));
  EXPECT_FALSE(ahead.is_all_of("model.visual.blocks.3.attn.q_proj"));
  EXPECT_TRUE(NamePattern("layers\\.(0|1)\\.").is_in("model.layers.1.mlp"));
  EXPECT_FALSE(NamePattern("layers\\.(0|1)\\.").is_in("model.layers.11.mlp"));
  // Ways through it are more than there are atoms.
  EXPECT_FALSE(NamePattern("(a|a)*b").is_all_of(std::string(500, 'a')));
  EXPECT_THROW(NamePattern("(a)\\1"), Error);
  EXPECT_THROW(NamePattern("*"), Error);
  const NamePattern wild = NamePattern::of_wildcards("*.layers.{}.mlp+*");
  EXPECT_TRUE(wild.is_all_of("model.layers.17.mlp+x"));
  EXPECT_FALSE(wild.is_all_of("model.layers.x.mlp+x"));
  EXPECT_FALSE(wild.is_all_of("model.layers.17.mlpp"));
}

}  // namespace
}  // namespace zenflow::sim
