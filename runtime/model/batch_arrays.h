/// A batch as operations read it: tokens, targets, and the order in which the embedding's gradient
/// sums.
#pragma once

#include <cstdint>

#include "kernels/embedding/embedding.h"
#include "runtime/model/arena.h"
#include "runtime/model/transformer.h"

namespace zenflow::runtime {

/// On the host or on a device, about 24 bytes a token.
struct BatchArrays {
  /// For at most `sequences` of `length` tokens.
  BatchArrays(std::int64_t sequences, std::int64_t length, Arena& arena);
  /// What they take.
  [[nodiscard]] static std::size_t bytes(std::int64_t sequences, std::int64_t length);

  std::int32_t* ids;        ///< [tokens]
  std::int32_t* classes;    ///< targets: [tokens], or of a classification [sequences]
  float* values;            ///< of a regression, [sequences]
  std::int32_t* last;       ///< token of the batch that ends each sequence, [sequences]
  std::uint32_t* counting;  ///< 0, 1, ... [sequences + 1]
  std::int32_t* word;       ///< order_by_word: [words], [words + 1], [tokens]
  std::uint32_t* first;
  std::uint32_t* token;
};

struct BatchView {
  BatchArrays at;
  std::int64_t sequences = 0;
  std::int64_t length = 0;
  std::int64_t counted = 0;  ///< targets that are not ignored, or sequences of a classification
  std::size_t words = 0;

  [[nodiscard]] std::int64_t tokens() const { return sequences * length; }
  [[nodiscard]] kernels::WordOrderView order() const {
    return {at.word, at.first, at.token, words};
  }
};

/// The batch, which has been checked, in arrays on the host.
[[nodiscard]] BatchView store_batch(const Batch& batch, const BatchArrays& arrays);

}  // namespace zenflow::runtime
