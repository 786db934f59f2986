// A model's weights in one file or several: names, shapes, and what Hugging Face's files hold
// besides.
#include "runtime/model/weight_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/support/model_step.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::model_config;
using testing::TemporaryFolder;
using testing::TensorStore;

const char* const kLlama = R"({"model_type": "llama", "vocab_size": 8, "hidden_size": 4,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 6,
    "max_position_embeddings": 16})";
const char* const kGpt2 = R"({"model_type": "gpt2", "vocab_size": 8, "n_embd": 4, "n_layer": 1,
    "n_head": 2, "n_positions": 16})";

/// A model's tensors as a list that a test can change before it is written.
class Checkpoint {
 public:
  explicit Checkpoint(TransformerConfig config)
      : config_(std::move(config)),
        table_(parameter_table(config_.model, config_.task)),
        weights_(table_, ElementType::kFloat32) {
    ThreadPool pool(1);
    for (std::size_t i = 0; i < table_.parameters.size(); ++i) {
      const Parameter& p = table_.parameters[i];
      runtime::initialize(config_, p, 1, ElementType::kFloat32, weights_.pointers()[i], pool);
      const void* const values = weights_.constant()[i];
      tensors.push_back({p.name,
                         p.is_matrix ? std::vector<std::int64_t>{p.rows, p.columns}
                                     : std::vector<std::int64_t>{p.columns},
                         [values] { return values; }});
    }
  }
  void add(const std::string& name, std::vector<std::int64_t> shape) {
    tensors.push_back({name, std::move(shape), [this] { return zeros_.data(); }});
  }
  TensorToWrite& tensor(const std::string& name) {
    for (TensorToWrite& t : tensors) {
      if (t.name == name) return t;
    }
    throw std::out_of_range(name);
  }
  void write(const fs::path& path) const {
    write_safetensors(path, ElementType::kFloat32, tensors, true);
  }
  /// Writes, reads everything back and compares; the parameters that are missing.
  [[nodiscard]] std::vector<std::size_t> round_trip(const fs::path& path) const {
    const WeightFile file(path, config_, table_);
    TensorStore found(table_, ElementType::kFloat32);
    for (std::size_t i = 0; i < table_.parameters.size(); ++i) {
      const auto& missing = file.missing();
      if (std::find(missing.begin(), missing.end(), i) != missing.end()) continue;
      file.read(i, ElementType::kFloat32, found.pointers()[i]);
      EXPECT_EQ(found.bytes()[i], weights_.bytes()[i]) << table_.parameters[i].name;
    }
    return file.missing();
  }
  [[nodiscard]] std::string error(const fs::path& path) const {
    try {
      const WeightFile file(path, config_, table_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    ADD_FAILURE() << path << " was accepted";
    return "";
  }
  [[nodiscard]] const ParameterTable& table() const { return table_; }

  std::vector<TensorToWrite> tensors;

 private:
  TransformerConfig config_;
  ParameterTable table_;
  TensorStore weights_;
  std::vector<float> zeros_ = std::vector<float>(1024);
};

TEST(WeightFile, ReadsWhatWriteWeightsWrites) {
  const TemporaryFolder folder;
  const TransformerConfig config = model_config(kGpt2);
  const ParameterTable table = parameter_table(config.model, config.task);
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    testing::ModelUnderTest model(config, 1, 4, type);
    model.initialize(type);
    write_weights(
        folder / "model.safetensors", table, type,
        [&](std::size_t i) { return model.weights.constant()[i]; }, true);
    const WeightFile file(folder.path(), config, table);
    TensorStore found(table, type);
    for (std::size_t i = 0; i < table.parameters.size(); ++i) {
      file.read(i, type, found.pointers()[i]);
    }
    EXPECT_EQ(found.bytes(), model.weights.bytes());
  }
}

TEST(WeightFile, AcceptsNamesOfTheBaseModelAndItsBuffers) {
  const TemporaryFolder folder;
  Checkpoint gpt2(model_config(kGpt2));
  for (TensorToWrite& tensor : gpt2.tensors) {
    if (tensor.name.starts_with("transformer.")) tensor.name = tensor.name.substr(12);
  }
  gpt2.add("h.0.attn.bias", {1, 1, 16, 16});
  gpt2.add("h.0.attn.masked_bias", {});
  TensorToWrite copy = gpt2.tensor("wte.weight");  // tied, and stored all the same
  copy.name = "lm_head.weight";
  gpt2.tensors.push_back(copy);
  gpt2.write(folder / "model.safetensors");
  EXPECT_TRUE(gpt2.round_trip(folder.path()).empty());

  Checkpoint llama(model_config(kLlama));
  llama.add("model.layers.0.self_attn.rotary_emb.inv_freq", {1});
  llama.write(folder / "llama.safetensors");
  EXPECT_TRUE(llama.round_trip(folder / "llama.safetensors").empty());
}

TEST(WeightFile, RefusesATiedHeadThatIsNotTheEmbedding) {
  const TemporaryFolder folder;
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{8, 4}, {4, 8}}) {
    Checkpoint gpt2(model_config(kGpt2));
    gpt2.add("lm_head.weight", shape);
    gpt2.write(folder / "model.safetensors");
    EXPECT_THAT(gpt2.error(folder.path()),
                HasSubstr("tensor \"lm_head.weight\": differs from transformer.wte.weight"));
  }
  // A classification has no such head.
  Checkpoint classes(model_config(kGpt2, Task::classification(3)));
  classes.add("lm_head.weight", {8, 4});
  classes.write(folder / "classes.safetensors");
  EXPECT_TRUE(classes.round_trip(folder / "classes.safetensors").empty());
}

TEST(WeightFile, OfALanguageModelStartsAClassification) {
  const TemporaryFolder folder;
  const Checkpoint language(model_config(kLlama));
  language.write(folder / "model.safetensors");
  const TransformerConfig config = model_config(kLlama, Task::classification(3));
  const ParameterTable table = parameter_table(config.model, config.task);
  const WeightFile file(folder.path(), config, table);
  EXPECT_THAT(file.missing(), ElementsAre(table.find("score.weight").value()));
}

TEST(WeightFile, RefusesWhatIsNotTheModel) {
  const TemporaryFolder folder;
  const fs::path path = folder / "x.safetensors";
  const auto error_after = [&](const std::function<void(Checkpoint&)>& change) {
    Checkpoint checkpoint(model_config(kLlama));
    change(checkpoint);
    checkpoint.write(path);
    return checkpoint.error(path);
  };
  const std::string prefix = path.generic_string() + ": tensor ";
  EXPECT_EQ(error_after([](Checkpoint& c) { c.tensors.erase(c.tensors.begin()); }),
            prefix + "\"model.embed_tokens.weight\": is missing");
  EXPECT_EQ(error_after([](Checkpoint& c) {
              c.tensor("lm_head.weight").shape = {4, 8};
            }),
            prefix + "\"lm_head.weight\": expected the shape [8, 4], found [4, 8]");
  EXPECT_EQ(error_after([](Checkpoint& c) {
              c.tensor("model.norm.weight").shape = {1, 4};
            }),
            prefix + "\"model.norm.weight\": expected the shape [4], found [1, 4]");
  EXPECT_EQ(error_after([](Checkpoint& c) { c.add("model.layers.1.mlp.up_proj.weight", {2}); }),
            prefix + "\"model.layers.1.mlp.up_proj.weight\": is not part of the model tiny");
  // A buffer of the other family is not one of this model's.
  EXPECT_THAT(error_after([](Checkpoint& c) { c.add("h.0.attn.bias", {2}); }),
              HasSubstr("\"h.0.attn.bias\": is not part of the model"));
  EXPECT_THAT(
      error_after([](Checkpoint& c) { c.tensor("lm_head.weight").name = "lm_haed.weight"; }),
      HasSubstr("\"lm_head.weight\": is missing"));
}

TEST(WeightFile, RefusesIntegersAsWeights) {
  const TemporaryFolder folder;
  Checkpoint checkpoint(model_config(kLlama));
  checkpoint.write(folder / "x.safetensors");
  std::string bytes(fs::file_size(folder / "x.safetensors"), '\0');
  std::ifstream(folder / "x.safetensors", std::ios::binary)
      .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.replace(bytes.find("F32"), 3, "I32");
  folder.write("x.safetensors", bytes);
  EXPECT_THAT(
      checkpoint.error(folder / "x.safetensors"),
      HasSubstr("tensor \"model.embed_tokens.weight\": expected F32, BF16 or F16, found I32"));
}

/// Two files and the entries of an index, for a test to change.
struct Shards {
  Shards() : all(model_config(kLlama)) {
    const auto middle = all.tensors.begin() + 5;
    write_safetensors(folder / "a.safetensors", ElementType::kFloat32,
                      std::vector<TensorToWrite>(all.tensors.begin(), middle), true);
    write_safetensors(folder / "b.safetensors", ElementType::kFloat32,
                      std::vector<TensorToWrite>(middle, all.tensors.end()), true);
    for (std::size_t i = 0; i < all.tensors.size(); ++i) {
      entries.emplace_back(all.tensors[i].name, i < 5 ? "a.safetensors" : "b.safetensors");
    }
  }
  void write_index() const {
    std::string text;
    for (const auto& [name, file] : entries) {
      text += (text.empty() ? "\"" : ",\n\"") + name + "\": \"" + file + "\"";
    }
    folder.write("model.safetensors.index.json",
                 "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {" + text + "}}");
  }

  TemporaryFolder folder;
  Checkpoint all;
  std::vector<std::pair<std::string, std::string>> entries;
};

TEST(WeightFile, ReadsShards) {
  const Shards shards;
  shards.write_index();
  EXPECT_TRUE(shards.all.round_trip(shards.folder.path()).empty());
  EXPECT_TRUE(shards.all.round_trip(shards.folder / "model.safetensors.index.json").empty());
}

TEST(WeightFile, RefusesAnIndexThatDoesNotFit) {
  Shards shards;
  const auto error = [&] {
    shards.write_index();
    return shards.all.error(shards.folder.path());
  };
  shards.entries[0].second = "b.safetensors";
  EXPECT_THAT(error(), HasSubstr("tensor \"model.embed_tokens.weight\" is not in b.safetensors"));
  shards.entries[0].second = "../a.safetensors";
  EXPECT_THAT(error(), HasSubstr("expected the name of a file beside the index"));
  shards.entries[0].second = "c.safetensors";
  EXPECT_THAT(error(), HasSubstr("c.safetensors: cannot read"));
  shards.entries.erase(shards.entries.begin());
  EXPECT_THAT(error(), HasSubstr("a.safetensors: has 5 tensors, of which "
                                 "model.safetensors.index.json names 4"));
  shards.entries.clear();
  EXPECT_THAT(error(), HasSubstr("expected the tensors' files, found none"));
  fs::remove(shards.folder / "model.safetensors.index.json");
  EXPECT_THAT(shards.all.error(shards.folder.path()),
              HasSubstr("has neither model.safetensors nor model.safetensors.index.json"));
}

}  // namespace
}  // namespace zenflow::runtime
