/// What a transformer consists of, read from an unmodified Hugging Face config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/config/document.h"

namespace zenflow::sim {

enum class ModelFamily { kLlama, kMistral, kQwen2, kOpt, kGpt2 };
[[nodiscard]] std::string to_string(ModelFamily family);

/// A parameter tensor. Vectors (biases, norms) have rows == 1 and are never selected by ZenFlow.
struct Tensor {
  std::string name;  ///< Hugging Face's name with the layer number as "{}"
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  bool is_matrix = false;

  [[nodiscard]] std::int64_t parameters() const { return rows * columns; }
};

/// A matrix product applied to every token: [tokens, in] x [in, out].
struct Linear {
  std::string name;
  std::int64_t in = 0;
  std::int64_t out = 0;
};

struct ModelSpec {
  std::string name;  ///< the file's stem, e.g. "llama2_7b"
  ModelFamily family = ModelFamily::kLlama;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate = 0;
  std::int64_t vocab = 0;
  std::int64_t embedding_dim =
      0;  ///< width of the token embedding; differs from hidden in OPT-350M
  std::int64_t max_positions = 0;
  bool tied_embeddings = false;
  bool gated_mlp = false;  ///< SwiGLU: three matrices
  bool learned_positions = false;
  bool post_norm = false;  ///< OPT-350M

  std::vector<Tensor> embedding;  ///< token and position embeddings, projections into the stack
  std::vector<Tensor> block;      ///< one decoder block; all blocks are alike
  std::vector<Tensor> head;       ///< final norm, projections out, untied LM head
  std::vector<Linear> block_linears;
  std::vector<Linear> head_linears;  ///< ends with the vocabulary projection, tied or not

  [[nodiscard]] std::int64_t embedding_parameters() const;
  [[nodiscard]] std::int64_t block_parameters() const;
  [[nodiscard]] std::int64_t head_parameters() const;
  [[nodiscard]] std::int64_t parameters() const;
  /// Parameters in matrices, those ZenFlow may select.
  [[nodiscard]] std::int64_t matrix_parameters() const;
};

/// Reads a config.json. Unknown keys are allowed (the format is not ours); missing or
/// ill-typed ones that the family needs are errors.
/// Throws Error(kInput) with file:line:column and path, also for an unknown `model_type`
/// (with the known ones), a hidden size the heads do not divide, kv heads that do not divide heads.
[[nodiscard]] ModelSpec load_model(const std::filesystem::path& path);
/// The file's stem; for Hugging Face's "config.json" the name of its folder, if it has one.
[[nodiscard]] std::string model_name(const std::filesystem::path& path);
[[nodiscard]] ModelSpec read_model(const Node& root, const std::string& name);

}  // namespace zenflow::sim
