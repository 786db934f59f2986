// Weights on disk against the model that the config.json beside them describes: which differences
// of names pass, and that no other difference does.
#include "sim/config/hub/weight_check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/config/hub/hub_model.h"
#include "sim/config/hub/model_files.h"
#include "sim/config/reader.h"
#include "tests/support/sparse_weights.h"

namespace zenflow::sim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::SparseTensor;
using testing::TemporaryFolder;
using testing::write_sparse;
using Tensors = std::vector<SparseTensor>;

constexpr const char* kLlama = R"({"model_type": "llama", "hidden_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 96, "vocab_size": 100, "max_position_embeddings": 128)";

std::string llama(const std::string& more = "") {
  return kLlama + more + "}";
}

Tensors tensors_of(const std::string& config) {
  return testing::tensors_of(read_model(parse_json(config, "config.json"), "test"));
}

/// What is said of a folder with this configuration and these weights; "" if they fit.
std::string said_of(const std::string& config, const Tensors& tensors) {
  const TemporaryFolder folder;
  folder.write("config.json", config);
  write_sparse(folder, "model.safetensors", tensors);
  try {
    static_cast<void>(load_model_files(folder.path()));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

SparseTensor& find(Tensors& tensors, std::string_view name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [name](const SparseTensor& one) { return one.name == name; });
  EXPECT_NE(found, tensors.end()) << name;
  return *found;
}

void drop(Tensors& tensors, std::string_view name) {
  std::erase_if(tensors, [name](const SparseTensor& one) { return one.name == name; });
}

void rename(Tensors& tensors, const std::string& from, const std::string& to) {
  for (SparseTensor& one : tensors) {
    const std::size_t at = one.name.find(from);
    if (at != std::string::npos) one.name.replace(at, from.size(), to);
  }
}

/// Stacks, [experts, out, in], as one matrix an expert.
void store_apart(Tensors& tensors, const std::string& stack,
                 const std::vector<std::string>& parts) {
  Tensors apart;
  for (SparseTensor& one : tensors) {
    const std::size_t at = one.name.find(stack);
    if (at == std::string::npos) {
      apart.push_back(one);
      continue;
    }
    const auto pieces = static_cast<std::int64_t>(parts.size());
    for (std::int64_t i = 0; i < one.shape[0]; ++i) {
      for (const std::string& part : parts) {
        apart.push_back({fmt::format("{}experts.{}.{}.weight", one.name.substr(0, at), i, part),
                         {one.shape[1] / pieces, one.shape[2]}});
      }
    }
  }
  tensors = std::move(apart);
}

// Every family, under the names of its classes: as it is; and with the k-th tensor left out, longer
// by one, or one layer more, another k for each.
TEST(WeightCheck, OfEveryFamilyFindsWhatDiffers) {
  const Node models =
      load_document(std::string(ZENFLOW_SOURCE_DIR) + "/tests/data/hub_models.json");
  std::size_t k = 0;
  for (const Node& entry : models.items) {
    const ModelSpec model = read_model(*entry.find("config"), "test");
    if (model.layers() > 16) continue;
    SCOPED_TRACE(entry.find("name")->scalar);
    const Tensors tensors = testing::tensors_of(model);
    const auto check = [&model](const Tensors& stored) -> std::string {
      const auto [bytes, size] = testing::sparse_bytes(stored);
      const std::vector<SafetensorsHeader> files = {
          {"w.safetensors", 8,
           parse_safetensors_header(std::string_view(bytes).substr(8), "w", size - bytes.size())}};
      try {
        hub::check_weights(model, files, {"w.safetensors", "config.json", 0});
      } catch (const Error& error) {
        return error.what();
      }
      return "";
    };
    EXPECT_EQ(check(tensors), "");
    // In a layer, where nothing may be left out.
    k = (7 * k + 3) % tensors.size();
    while (tensors[k].name.find(".0.") == std::string::npos) k = (k + 1) % tensors.size();
    Tensors changed = tensors;
    changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(k));
    EXPECT_THAT(check(changed), HasSubstr(tensors[k].name + "\" ["));
    changed = tensors;
    ++changed[k].shape.back();
    EXPECT_THAT(check(changed), HasSubstr(tensors[k].name + "\" has the shape "));
    changed.push_back(tensors[k]);
    changed.back().name.replace(changed.back().name.find(".0."), 3, ".77.");
    EXPECT_THAT(check(changed), HasSubstr(changed.back().name));
  }
}

TEST(WeightCheck, PassesWhatCheckpointsHaveBesides) {
  Tensors tensors = tensors_of(llama());
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {8}, "F32"});
  tensors.push_back({"model.embeddings.position_ids", {1, 128}, "I64"});
  EXPECT_EQ(said_of(llama(), tensors), "");
  rename(tensors, "model.", "");  // of the base model
  EXPECT_EQ(said_of(llama(), tensors), "");
  tensors.push_back({"score.weight", {2, 64}});
  EXPECT_EQ(said_of(llama(), tensors), "");
}

TEST(WeightCheck, OfTiedHeadsTakesACopyOfTheTableOnly) {
  const std::string config = llama(R"(, "tie_word_embeddings": true)");
  Tensors tensors = tensors_of(config);
  EXPECT_EQ(said_of(config, tensors), "");
  tensors.push_back({"lm_head.weight", {100, 64}});
  EXPECT_EQ(said_of(config, tensors), "");
  tensors.back().shape = {101, 64};
  EXPECT_THAT(said_of(config, tensors), HasSubstr("\"lm_head.weight\" [101, 64]"));
  // And one that is not tied has to be there.
  Tensors untied = tensors_of(llama());
  drop(untied, "lm_head.weight");
  EXPECT_THAT(said_of(llama(), untied), HasSubstr("\"lm_head.weight\" [100, 64] is missing"));
}

TEST(WeightCheck, OfAClassifierTakesTheCheckpointThatItIsTrainedFrom) {
  const std::string config = llama(R"(, "architectures": ["LlamaForSequenceClassification"])");
  EXPECT_EQ(said_of(config, tensors_of(llama())), "");
}

TEST(WeightCheck, NamesWhatDiffersWithShapesAndFile) {
  Tensors tensors = tensors_of(llama());
  find(tensors, "model.layers.1.mlp.up_proj.weight").shape = {128, 64};
  EXPECT_THAT(said_of(llama(), tensors),
              AllOf(HasSubstr("model.safetensors: expected the tensors of "),
                    HasSubstr("config.json (llama), found a difference: "
                              "\"model.layers.1.mlp.up_proj.weight\" has the shape [128, 64], "
                              "expected [96, 64] (model.safetensors)")));
  drop(tensors, "model.layers.0.self_attn.k_proj.weight");
  for (const char* name : {"input_layernorm", "mlp.up_proj", "mlp.down_proj", "mlp.gate_proj"}) {
    tensors.push_back({fmt::format("model.layers.2.{}.weight", name), {64}});
  }
  EXPECT_THAT(
      said_of(llama(), tensors),
      AllOf(HasSubstr("found 6 differences: "),
            HasSubstr("\"model.layers.0.self_attn.k_proj.weight\" [32, 64] is missing; "
                      "\"model.layers.2.input_layernorm.weight\" [64] (model.safetensors) is none "
                      "of the model's"),
            HasSubstr("; and 2 more")));
  // Two shapes that are swapped are no renamed tensors.
  Tensors swapped = tensors_of(llama());
  std::swap(find(swapped, "model.layers.0.mlp.up_proj.weight").shape,
            find(swapped, "model.layers.0.mlp.down_proj.weight").shape);
  EXPECT_THAT(said_of(llama(), swapped), HasSubstr("found 2 differences"));
}

constexpr const char* kMixtral = R"({"model_type": "mixtral", "hidden_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 96, "vocab_size": 100, "max_position_embeddings": 128,
    "num_local_experts": 4, "num_experts_per_tok": 2})";

TEST(WeightCheck, HoldsExpertsThatAreStoredOneByOneAgainstStacks) {
  Tensors tensors = tensors_of(kMixtral);
  store_apart(tensors, "experts.gate_up_proj", {"w1", "w3"});
  store_apart(tensors, "experts.down_proj", {"w2"});
  rename(tensors, ".mlp.", ".block_sparse_moe.");
  EXPECT_EQ(said_of(kMixtral, tensors), "");
  Tensors fewer = tensors;
  drop(fewer, "model.layers.1.block_sparse_moe.experts.2.w3.weight");
  EXPECT_THAT(said_of(kMixtral, fewer),
              HasSubstr("\"model.layers.1.block_sparse_moe.experts.2.w3.weight\" is missing"));
  find(tensors, "model.layers.0.block_sparse_moe.experts.1.w2.weight").shape = {64, 95};
  EXPECT_THAT(said_of(kMixtral, tensors),
              HasSubstr("experts.1.w2.weight\" has the shape [64, 95], expected [64, 96]"));
}

// Names of transformers 4: prefixes of towers, one matrix for three.
TEST(WeightCheck, PassesOtherNamesOfTheSameTensors) {
  const Node models =
      load_document(std::string(ZENFLOW_SOURCE_DIR) + "/tests/data/hub_models.json");
  const auto entry = std::find_if(models.items.begin(), models.items.end(), [](const Node& one) {
    return one.find("name")->scalar == "llava-0";
  });
  ASSERT_NE(entry, models.items.end());
  const ModelSpec model = read_model(*entry->find("config"), "test");
  Tensors tensors = testing::tensors_of(model);
  rename(tensors, "model.language_model.", "language_model.model.");
  rename(tensors, "model.vision_tower.", "vision_tower.vision_model.");
  rename(tensors, "lm_head", "language_model.lm_head");
  Tensors fused;
  for (const SparseTensor& one : tensors) {
    const bool is_part = one.name.find(".1.self_attn.k_proj.weight") != std::string::npos ||
                         one.name.find(".1.self_attn.v_proj.weight") != std::string::npos;
    if (one.name.starts_with("language_model") && is_part) continue;
    fused.push_back(one);
    if (!one.name.ends_with("language_model.model.layers.1.self_attn.q_proj.weight")) continue;
    fused.back().name.replace(fused.back().name.find("q_proj"), 6, "qkv");
    fused.back().shape[0] += 2 * 16;  // of keys and values
  }
  ASSERT_LT(fused.size(), tensors.size());
  const auto [bytes, size] = testing::sparse_bytes(fused);
  const std::vector<SafetensorsHeader> files = {
      {"w.safetensors", 8,
       parse_safetensors_header(std::string_view(bytes).substr(8), "w", size - bytes.size())}};
  EXPECT_NO_THROW(hub::check_weights(model, files, {"w.safetensors", "config.json", 0}));
}

// EXAONE's, as its repository calls them. A second table of that shape is a copy of the first.
TEST(WeightCheck, KnowsTheTableOfTokensByAnotherName) {
  for (const std::string& config : {llama(), llama(R"(, "tie_word_embeddings": true)")}) {
    Tensors tensors = tensors_of(config);
    rename(tensors, "model.embed_tokens.", "transformer.wte.");
    rename(tensors, "model.layers.", "transformer.h.");
    EXPECT_EQ(said_of(config, tensors), "");
    find(tensors, "transformer.wte.weight").shape = {101, 64};
    EXPECT_THAT(said_of(config, tensors),
                HasSubstr("\"model.embed_tokens.weight\" [100, 64] is missing"));
    drop(tensors, "transformer.wte.weight");
    EXPECT_THAT(said_of(config, tensors),
                HasSubstr("\"model.embed_tokens.weight\" [100, 64] is missing"));
  }
}

// Of layers that predict further tokens, as DeepSeek-V3's.
TEST(WeightCheck, PassesLayersThatAreNotLoaded) {
  Tensors tensors = tensors_of(llama());
  tensors.push_back({"model.layers.2.eh_proj.weight", {64, 128}});
  EXPECT_THAT(said_of(llama(), tensors), HasSubstr("\"model.layers.2.eh_proj.weight\" [64, 128]"));
  EXPECT_EQ(said_of(llama(R"(, "num_nextn_predict_layers": 1)"), tensors), "");
}

/// Every matrix in layers stored as `parts` of its name, shape and type.
Tensors quantised(const std::function<Tensors(const std::string& module, std::int64_t out,
                                              std::int64_t in)>& parts) {
  Tensors stored;
  for (const SparseTensor& one : tensors_of(llama())) {
    const bool is_product = one.shape.size() == 2 && one.name.find("proj") != std::string::npos;
    if (!is_product) {
      stored.push_back(one);
      continue;
    }
    const std::string module = one.name.substr(0, one.name.rfind('.'));
    for (SparseTensor& part : parts(module, one.shape[0], one.shape[1])) {
      part.name = module + part.name;
      stored.push_back(std::move(part));
    }
  }
  return stored;
}

TEST(WeightCheck, SeesThroughQuantisedWeights) {
  const auto bitsandbytes = [](const std::string&, std::int64_t out, std::int64_t in) {
    return Tensors{{".weight", {out * in / 2, 1}, "U8"},
                   {".weight.absmax", {out * in / 64}, "U8"},
                   {".weight.nested_absmax", {1}, "F32"},
                   {".weight.quant_map", {16}, "F32"},
                   {".weight.nested_quant_map", {256}, "F32"},
                   {".weight.quant_state.bitsandbytes__nf4", {80}, "U8"}};
  };
  const auto gptq = [](const std::string&, std::int64_t out, std::int64_t in) {
    return Tensors{{".qweight", {in / 8, out}, "I32"},
                   {".qzeros", {in / 32, out / 8}, "I32"},
                   {".scales", {in / 32, out}, "F16"},
                   {".g_idx", {in}, "I32"}};
  };
  const auto awq = [](const std::string&, std::int64_t out, std::int64_t in) {
    return Tensors{{".qweight", {in, out / 8}, "I32"},
                   {".qzeros", {in / 32, out / 8}, "I32"},
                   {".scales", {in / 32, out}, "F16"}};
  };
  const auto fp8 = [](const std::string&, std::int64_t out, std::int64_t in) {
    return Tensors{{".weight", {out, in}, "F8_E4M3"}, {".weight_scale_inv", {1, 1}, "F32"}};
  };
  EXPECT_EQ(said_of(llama(), quantised(bitsandbytes)), "");
  EXPECT_EQ(said_of(llama(), quantised(gptq)), "");
  EXPECT_EQ(said_of(llama(), quantised(awq)), "");
  EXPECT_EQ(said_of(llama(), quantised(fp8)), "");
  EXPECT_THAT(
      said_of(llama(), quantised([&](const std::string& module, std::int64_t out, std::int64_t in) {
                return gptq(module, out, module.ends_with("up_proj") ? 2 * in : in);
              })),
      HasSubstr("mlp.up_proj.weight\" has the shape [96, 128], expected [96, 64]"));
}

}  // namespace
}  // namespace zenflow::sim
