// A model that no row knows, from headers alone: what is exact, what is estimated and said to be,
// and which files are refused.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "sim/base/error.h"
#include "sim/config/hub/hub_model.h"
#include "sim/config/hub/model_files.h"
#include "sim/config/reader.h"
#include "sim/cost/gpu_cost.h"
#include "sim/memory/activation_memory.h"
#include "sim/model/adapters.h"
#include "tests/support/error_of.h"
#include "tests/support/sparse_weights.h"

namespace zenflow::sim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::SparseTensor;
using ::testing::StartsWith;
using testing::TemporaryFolder;
using testing::write_sparse;

TrainingSettings short_training() {
  TrainingSettings training;
  training.sequence_length = 32;
  return training;
}

double flops_of(const ModelSpec& model) {
  return model_flops(model, short_training()).value();
}

double kept_of(const ModelSpec& model) {
  const ActivationMemory memory = activation_memory(model, short_training());
  const std::vector<std::int64_t> counts = model.kind_counts();
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    sum += memory.layer[i].value() * static_cast<double>(counts[i]);
  }
  return sum;
}

/// The same model, but with nothing known of it besides `facts` and its tensors.
ModelSpec from_headers(const ModelSpec& model, const std::string& facts = "") {
  const TemporaryFolder folder;
  write_sparse(folder, "model.safetensors", testing::tensors_of(model));
  if (!facts.empty()) folder.write("config.json", facts);
  return load_model(folder.path());
}

ModelSpec listed(const std::string& type, const std::string& more) {
  return read_model(
      parse_json(R"({"model_type": ")" + type + R"(", "hidden_size": 64, "num_hidden_layers": 3,
          "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
          "vocab_size": 100, "max_position_embeddings": 128)" +
                     more + "}",
                 "config.json"),
      "test");
}

TEST(WeightModel, OfADecoderIsTheOneOfItsRow) {
  for (const char* type : {"llama", "qwen2", "qwen3"}) {
    const ModelSpec known = listed(type, R"(, "head_dim": 16)");
    const ModelSpec model =
        from_headers(known, R"({"model_type": "new", "num_attention_heads": 4, "head_dim": 16})");
    EXPECT_EQ(model.type, "new");
    EXPECT_EQ(model.parameters(), known.parameters());
    EXPECT_EQ(model.layers(), known.layers());
    EXPECT_EQ(model.kinds.size(), 1U);
    EXPECT_EQ(flops_of(model), flops_of(known)) << type;
    EXPECT_EQ(kept_of(model), kept_of(known)) << type;
    EXPECT_EQ(model.vocab, 100);
    EXPECT_EQ(model.outputs, 100);
  }
}

TEST(WeightModel, OfExpertsIsTheOneOfItsRow) {
  const ModelSpec known =
      listed("mixtral", R"(, "num_local_experts": 4, "num_experts_per_tok": 2)");
  const ModelSpec model =
      from_headers(known, R"({"num_attention_heads": 4, "num_experts_per_tok": 2})");
  EXPECT_EQ(model.parameters(), known.parameters());
  EXPECT_EQ(flops_of(model), flops_of(known));
  EXPECT_EQ(kept_of(model), kept_of(known));
  EXPECT_THAT(from_headers(known).estimate, HasSubstr("2 of 4 experts a token"));
}

// All tensors of every family: none is lost, and none counted twice.
TEST(WeightModel, HasEveryParameterOfEveryFamily) {
  const Node models =
      load_document(std::string(ZENFLOW_SOURCE_DIR) + "/tests/data/hub_models.json");
  for (const Node& entry : models.items) {
    const ModelSpec known = read_model(*entry.find("config"), "test");
    const std::string name = entry.find("name")->scalar;
    if (known.layers() > 16 || known.type == "albert") continue;  // one layer, run many times
    SCOPED_TRACE(name);
    const ModelSpec model = from_headers(known);
    std::int64_t statistics = 0;  // parameters of transformers' class, but nobody's gradient
    for (std::int64_t i = 0; i < known.layers(); ++i) {
      for (const Tensor& tensor : known.layer(i).tensors) {
        const bool is_one = tensor.name.ends_with("e_score_correction_bias") ||
                            tensor.name.ends_with("expert_bias");
        if (is_one) statistics += tensor.parameters();
      }
    }
    EXPECT_EQ(model.parameters(), known.parameters() - statistics);
    EXPECT_GT(flops_of(model), 0);
    EXPECT_GT(kept_of(model), 0);
  }
}

TEST(WeightModel, SaysWhatIsEstimatedAndAssumed) {
  const ModelSpec model = from_headers(listed("llama", R"(, "tie_word_embeddings": true)"));
  EXPECT_THAT(model.estimate,
              AllOf(HasSubstr("model.safetensors: a model that no row knows, 0.000198 GB of BF16: "
                              "tensors and parameters are those of the headers"),
                    HasSubstr("is estimated from their shapes, assuming attention heads of 32 "
                              "columns, causal attention, a head tied to the embedding")));
  EXPECT_TRUE(model.tied_embeddings);
}

TEST(WeightModel, TakesAdaptersAsAnyOther) {
  ModelSpec known = listed("llama", "");
  ModelSpec model = from_headers(known);
  LoraSettings lora;
  lora.rank = 8;
  lora.all_linear = true;
  add_lora(known, lora);
  add_lora(model, lora);
  EXPECT_GT(model.trained(), 0);
  EXPECT_EQ(model.trained(), known.trained());
}

/// What is said of the file, without its folder.
std::string refused(const TemporaryFolder& folder, const std::string& name) {
  try {
    static_cast<void>(load_model(folder / name));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    const std::string what = error.what();
    const std::string prefix = folder.path().generic_string() + "/";
    return what.starts_with(prefix) ? what.substr(prefix.size()) : what;
  }
  ADD_FAILURE() << name << " was taken";
  return "";
}

TEST(WeightModel, OfWhatIsNoModelIsRefused) {
  const TemporaryFolder folder;
  write_sparse(folder, "none.safetensors", {{"a.weight", {4, 4}}});
  EXPECT_THAT(refused(folder, "none.safetensors"),
              StartsWith("none.safetensors: expected layers, numbered from 0"));
  const std::vector<SparseTensor> far = {{"model.layers.0.mlp.up.weight", {4, 4}},
                                         {"model.layers.1000000000.mlp.up.weight", {4, 4}}};
  write_sparse(folder, "far.safetensors", far);
  EXPECT_THAT(refused(folder, "far.safetensors"),
              StartsWith("far.safetensors: the layers \"model.layers.N\" are numbered up to "
                         "1000000000, and there are 2 of them"));
  write_sparse(folder, "gptq.safetensors",
               {{"model.layers.0.up.qweight", {8, 64}, "I32"},
                {"model.layers.0.up.qzeros", {2, 8}, "I32"},
                {"model.layers.0.up.scales", {2, 64}, "F16"}});
  EXPECT_THAT(refused(folder, "gptq.safetensors"),
              StartsWith("gptq.safetensors: tensor \"model.layers.0.up.weight\" is quantised "
                         "(GPTQ)"));
  write_sparse(folder, "packed.safetensors", {{"model.layers.0.up.weight", {8, 64}, "U8"}});
  EXPECT_THAT(refused(folder, "packed.safetensors"), HasSubstr("is stored as U8"));
  ASSERT_EQ(::mkfifo((folder / "pipe.safetensors").c_str(), 0600), 0);
  EXPECT_EQ(refused(folder, "pipe.safetensors"), "pipe.safetensors: is not a regular file");
  folder.write("huge.safetensors", std::string(7, '\0') + "\x80" + "{}");  // 2^63 bytes of header
  EXPECT_THAT(refused(folder, "huge.safetensors"),
              HasSubstr("header of 9223372036854775808 bytes"));
  // No bytes, and 2^105 elements if the zero is not seen.
  write_sparse(
      folder, "none_of_many.safetensors",
      {{"model.layers.0.x_blocks", {0, 1, std::int64_t{1} << 52, std::int64_t{1} << 52}, "U8"}});
  EXPECT_THAT(refused(folder, "none_of_many.safetensors"),
              StartsWith("none_of_many.safetensors: "));
  folder.write("config.json", R"({"num_hidden_layers": 12})");
  write_sparse(folder, "part.safetensors", {{"model.layers.0.mlp.up.weight", {4, 4}}});
  EXPECT_THAT(refused(folder, "part.safetensors"), HasSubstr("expected the 12 layers"));
}

// A result that reads all columns of the fused matrix leaves none to keys.
TEST(WeightModel, OfAttentionWithoutKeysIsOfProductsOnly) {
  for (const auto& [fused, output] :
       {std::pair<std::int64_t, std::int64_t>{17, 17}, {2, 2}, {7, 7}}) {
    const TemporaryFolder folder;
    std::vector<SparseTensor> tensors;
    for (const std::string layer : {"0", "1"}) {
      tensors.push_back({"layers." + layer + ".attn.qkv.weight", {fused, fused}});
      tensors.push_back({"layers." + layer + ".attn.o_proj.weight", {32, output}});
    }
    write_sparse(folder, "model.safetensors", tensors);
    const ModelSpec model = load_model(folder.path());
    EXPECT_EQ(model.parameters(), 2 * (fused * fused + 32 * output));
    EXPECT_GT(flops_of(model), 0);
  }
}

TEST(WeightModel, OfManyTensorsEndsAtOnce) {
  const TemporaryFolder folder;
  std::string header = "{";
  for (int i = 0; i < 200'000; ++i) {
    header += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                          i == 0 ? "" : ",", i);
  }
  folder.write("many.safetensors", testing::safetensors_bytes(header + "}", 0));
  EXPECT_THAT(refused(folder, "many.safetensors"), HasSubstr("values"));
}

TEST(WeightModel, OfOneShardIsRefused) {
  const TemporaryFolder folder;
  write_sparse(folder, "model-00001-of-00002.safetensors",
               testing::tensors_of(listed("llama", "")));
  const auto [kind, what] = zenflow::testing::error_of(
      [&] { static_cast<void>(load_model(folder.path() / "model-00001-of-00002.safetensors")); });
  EXPECT_EQ(kind, ErrorKind::kInput);
  EXPECT_THAT(what, HasSubstr("is one of several files: expected model.safetensors.index.json"));
  for (const char* whole :
       {"best-of-breed.safetensors", "a-1-of-b.safetensors", "-of-2.safetensors"}) {
    write_sparse(folder, whole, testing::tensors_of(listed("llama", "")));
    EXPECT_GT(load_model(folder.path() / whole).parameters(), 0) << whole;
  }
}

TEST(WeightModel, OfShardsNeedsAllOfThem) {
  const ModelSpec known = listed("llama", "");
  std::vector<SparseTensor> tensors = testing::tensors_of(known);
  const std::vector<SparseTensor> first(tensors.begin(), tensors.begin() + 9);
  const std::vector<SparseTensor> second(tensors.begin() + 9, tensors.end());
  const TemporaryFolder folder;
  const auto index = [&](const std::string& other) {
    std::string text;
    for (const SparseTensor& one : first) {
      text += fmt::format(R"("{}": "model-1-of-2.safetensors", )", one.name);
    }
    for (const SparseTensor& one : second) {
      text += fmt::format(R"({}"{}": "{}")", &one == second.data() ? "" : ", ", one.name, other);
    }
    folder.write("model.safetensors.index.json", R"({"weight_map": {)" + text + "}}");
  };
  write_sparse(folder, "model-1-of-2.safetensors", first);
  EXPECT_THAT(refused(folder, "."),
              HasSubstr("expected model.safetensors.index.json beside model-1-of-2.safetensors"));
  index("model-2-of-2.safetensors");
  EXPECT_THAT(refused(folder, "."),
              HasSubstr("model-2-of-2.safetensors: cannot read: No such file or directory"));
  write_sparse(folder, "model-2-of-2.safetensors", second);
  EXPECT_EQ(load_model(folder.path()).parameters(), known.parameters());
  EXPECT_EQ(load_model(folder / "model.safetensors.index.json").parameters(), known.parameters());
  std::vector<SparseTensor> twice = second;
  twice.push_back(first.front());
  write_sparse(folder, "model-2-of-2.safetensors", twice);
  EXPECT_THAT(refused(folder, "."), HasSubstr("model-2-of-2.safetensors: has "));
  index("../model-2-of-2.safetensors");
  EXPECT_THAT(refused(folder, "."), HasSubstr("expected the name of a file beside the index"));
}

}  // namespace
}  // namespace zenflow::sim
