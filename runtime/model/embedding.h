/// Rows of a table looked up by token, and by position in GPT-2.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/model/linear.h"
#include "runtime/model/numerics.h"

namespace zenflow::runtime {

/// The tokens of a batch, [sequences * length], all within the vocabulary.
struct Tokens {
  std::span<const std::int32_t> ids;
  std::int64_t length;
};

/// y[tokens, columns] = words[id] + positions[place in the sequence]; `positions` may be null.
void embedding_forward(const Execution& run, Tokens tokens, std::int64_t columns, const void* words,
                       const void* positions, float* y);

/// gradient[vocabulary, columns] = or += the sum of dy over the tokens of each word, in the order
/// of the batch; rows without tokens get 0 or nothing. Sums are double.
void word_gradient(const Execution& run, Tokens tokens, std::int64_t columns, const float* dy,
                   std::int64_t vocabulary, void* gradient, Store store);

/// gradient[places, columns] = the sum of dy over the sequences, 0 beyond their length; stored as
/// `run` says.
void position_gradient(const Execution& run, Tokens tokens, std::int64_t columns, const float* dy,
                       std::int64_t places, void* gradient);

}  // namespace zenflow::runtime
