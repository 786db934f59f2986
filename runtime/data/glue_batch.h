/// GLUE examples as sequences of byte tokens.
///
/// One sentence becomes its bytes and the end token; two become the bytes of the first, the
/// separator, the bytes of the second and the end token. A causal model is read at the end token,
/// the last real one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/glue_reader.h"
#include "runtime/data/glue_task.h"

namespace zenflow::runtime {

inline constexpr std::int32_t kSeparatorToken = 256;
inline constexpr std::int32_t kEndToken = 257;  ///< also fills up short sequences
inline constexpr std::int64_t kGlueVocabulary = 258;

/// [sequences, length], row-major.
struct ClassificationBatch {
  std::int64_t sequences = 0;
  std::int64_t length = 0;
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> lengths;  ///< [sequences]: real tokens, at least 1
  std::vector<std::int32_t> classes;  ///< [sequences], or empty if the task has scores
  std::vector<float> scores;          ///< [sequences], or empty if the task has classes
};

/// The tokens of an example, at most `length`. What is too long is shortened at its end: of two
/// sentences the longer one until both are equally long, then second and first by turns, beginning
/// with the second (BERT's rule, "longest first").
/// Throws Error(kInput) if `length` has no room for a byte of each sentence.
[[nodiscard]] std::vector<std::int32_t> encode(const GlueTaskInfo& task, const GlueExample& example,
                                               std::int64_t length);

/// The examples of these indices, each filled up to `length`. Throws as encode, and Error(kRuntime)
/// if an index is too large.
[[nodiscard]] ClassificationBatch classification_batch(const GlueTaskInfo& task,
                                                       std::span<const GlueExample> examples,
                                                       std::span<const std::uint64_t> indices,
                                                       std::int64_t length);

}  // namespace zenflow::runtime
