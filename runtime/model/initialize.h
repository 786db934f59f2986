/// Initial weights from a seed, by Hugging Face's rules.
///
/// Matrices and embeddings are normal with mean 0 and standard deviation initializer_range (GPT-2's
/// output projections of attention and feed-forward: divided by sqrt(2 * layers)), norms are 1
/// (Gemma's, which scale by 1 + weight, 0), biases 0. Not as there: the row of the padding token,
/// which Hugging Face sets to 0, is like any other.
///
/// Every value is a function of (seed, tensor name, element) alone, whatever the order, the machine
/// or the other tensors: element e of a tensor is number e % 4 of block e / 4, and a block is
/// Philox-4x32-10 (Salmon et al. 2011) with the seed as key and the counter (e / 4, FNV-1a 64-bit
/// hash of the name), low words first. Its words w0..w3 become normals by Box & Muller 1958, in
/// double: with u = (w + 1) / 2^32, v = w' / 2^32: sqrt(-2 ln u) cos(2 pi v), then with the sine,
/// from (w0, w1), then (w2, w3). Rounded to fp32, and from there to the element type.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/model_config/parameters.h"
#include "runtime/model_config/transformer_config.h"
#include "sim/base/thread_pool.h"

namespace zenflow::runtime {

/// Philox-4x32-10: 128 bits from a counter and a key.
[[nodiscard]] std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key);

/// Writes the initial values of `parameter`, rows * columns elements of `type`; `pool` shares them
/// out: one thread draws some 30 million a second. Throws Stopped if the run is to stop.
void initialize(const TransformerConfig& config, const Parameter& parameter, std::uint64_t seed,
                ElementType type, void* values, ThreadPool& pool);

}  // namespace zenflow::runtime
