/// Rows of a table looked up by word, with GPT-2's rows by position, and their gradients.
///
/// Arithmetic: y[t, c] = stored(scale * words[id[t], c]), and with positions stored(that +
/// positions[t % length, c]). The gradient of a row is stored(before + sum), before: what is there,
/// or 0; the sum is in double, over the row's tokens in their order, and rounded to fp32 first;
/// that of a word is multiplied by the scale then. No order is left open, so implementations agree
/// bit for bit, without atomics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/bf16/stored.h"
#include "kernels/range.h"

namespace zenflow::kernels {

/// Ids of [tokens], each below the rows of its table.
struct TokenRows {
  const std::int32_t* ids;
  std::size_t tokens;
  std::size_t length;  ///< of a sequence
  float scale = 1.0F;  ///< of words
};

/// Tokens by word: those of word number i are token[first[i]] to token[first[i + 1] - 1], in
/// ascending order. Made on the host, where batches come from.
struct WordOrder {
  std::vector<std::int32_t> word;    ///< the distinct ids, ascending
  std::vector<std::uint32_t> first;  ///< [words + 1]
  std::vector<std::uint32_t> token;  ///< [tokens]
};
[[nodiscard]] WordOrder order_by_word(std::span<const std::int32_t> ids);

/// The same on the device or the host; [words], [words + 1] and [tokens].
struct WordOrderView {
  const std::int32_t* word;
  const std::uint32_t* first;
  const std::uint32_t* token;
  std::size_t words;
  float scale = 1.0F;  ///< TokenRows's
};

// The references, which are the host's operations, too. There is Element = float, Bf16 and
// WideBf16.
/// y[tokens, columns]; `positions` may be null.
template <class Element>
void embedding_scalar(const TokenRows& rows, std::size_t columns, const ParameterOf<Element>* words,
                      const ParameterOf<Element>* positions, Element* y, Range tokens = {});
/// gradient[rows, columns] of the words' table; rows without tokens get 0 unless `adds`.
template <class Element>
void word_gradient_scalar(const WordOrderView& order, std::size_t columns, const Element* dy,
                          std::size_t rows, bool adds, ParameterOf<Element>* gradient);
/// The same for rows that have tokens: a range of the distinct words.
template <class Element>
void present_word_gradient_scalar(const WordOrderView& order, std::size_t columns,
                                  const Element* dy, bool adds, ParameterOf<Element>* gradient,
                                  Range words = {});
/// gradient[places, columns]; a sequence's first token has place `first`, and places before that
/// and beyond `length` tokens get 0 unless `adds`.
template <class Element>
void position_gradient_scalar(std::size_t tokens, std::size_t length, std::size_t columns,
                              const Element* dy, std::size_t first, std::size_t places, bool adds,
                              ParameterOf<Element>* gradient, Range range = {});

}  // namespace zenflow::kernels
