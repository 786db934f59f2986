#include "runtime/model/embedding.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <type_traits>
#include <vector>

namespace zenflow::runtime {
namespace {

float to_element(float value, float) {
  return value;
}
kernels::Bf16 to_element(float value, kernels::Bf16) {
  return kernels::round_to_bf16(value);
}
using kernels::to_float;

/// Calls work with a null pointer to the type that weights and gradients are stored as.
template <class Work>
void dispatch(ElementType type, const Work& work) {
  if (type == ElementType::kFloat32) return work(static_cast<float*>(nullptr));
  work(static_cast<kernels::Bf16*>(nullptr));
}

std::int64_t count_of(Tokens tokens) {
  return static_cast<std::int64_t>(tokens.ids.size());
}

/// Tokens by word, those of a word in the order of the batch, and where each word's begin.
struct TokensByWord {
  std::vector<std::int64_t> tokens;
  std::vector<std::size_t> first;  // ends with tokens.size()
};

TokensByWord sort_by_word(Tokens tokens) {
  TokensByWord sorted;
  sorted.tokens.resize(tokens.ids.size());
  std::iota(sorted.tokens.begin(), sorted.tokens.end(), 0);
  const auto id = [&](std::int64_t token) { return tokens.ids[static_cast<std::size_t>(token)]; };
  std::stable_sort(sorted.tokens.begin(), sorted.tokens.end(),
                   [&](std::int64_t a, std::int64_t b) { return id(a) < id(b); });
  for (std::size_t i = 0; i < sorted.tokens.size(); ++i) {
    if (i == 0 || id(sorted.tokens[i]) != id(sorted.tokens[i - 1])) sorted.first.push_back(i);
  }
  sorted.first.push_back(sorted.tokens.size());
  return sorted;
}

void add_row(const float* row, std::vector<double>& sum) {
  for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += static_cast<double>(row[c]);
}

/// What is there is added to the row as it would be stored: adding up gradients of micro-batches
/// here or elsewhere gives the same bits.
template <class Element>
void write_row(const std::vector<double>& sum, Store store, Element* row) {
  for (std::size_t c = 0; c < sum.size(); ++c) {
    const auto one = static_cast<float>(sum[c]);
    row[c] = to_element(store == Store::kAdd ? to_float(row[c]) + one : one, Element{});
  }
}

constexpr std::int64_t kWordsPerBlock = 16;

}  // namespace

void embedding_forward(const Execution& run, Tokens tokens, std::int64_t columns, const void* words,
                       const void* positions, float* y) {
  const Rounding rounded = run.rounding();
  dispatch(run.type, [&](auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    const auto* const word_rows = static_cast<const Element*>(words);
    const auto* const place_rows = static_cast<const Element*>(positions);
    for_ranges(run.pool, count_of(tokens), rows_per_block(columns),
               [&](std::int64_t first, std::int64_t last) {
                 for (std::int64_t t = first; t < last; ++t) {
                   const auto* const word =
                       word_rows + tokens.ids[static_cast<std::size_t>(t)] * columns;
                   float* const out = y + t * columns;
                   for (std::int64_t c = 0; c < columns; ++c) out[c] = to_float(word[c]);
                   if (place_rows == nullptr) continue;
                   const auto* const place = place_rows + t % tokens.length * columns;
                   for (std::int64_t c = 0; c < columns; ++c)
                     out[c] = rounded(out[c] + to_float(place[c]));
                 }
               });
  });
}

void word_gradient(const Execution& run, Tokens tokens, std::int64_t columns, const float* dy,
                   std::int64_t vocabulary, void* gradient, Store store) {
  const TokensByWord sorted = sort_by_word(tokens);
  const auto words = static_cast<std::int64_t>(sorted.first.size()) - 1;
  dispatch(run.type, [&](auto* element) {
    auto* const rows = static_cast<decltype(element)>(gradient);
    if (store == Store::kWrite) std::fill_n(rows, vocabulary * columns, to_element(0.0F, *rows));
    for_ranges(run.pool, words, kWordsPerBlock, [&](std::int64_t first, std::int64_t last) {
      std::vector<double> sum(static_cast<std::size_t>(columns));
      for (auto word = static_cast<std::size_t>(first); word < static_cast<std::size_t>(last);
           ++word) {
        std::fill(sum.begin(), sum.end(), 0.0);
        for (std::size_t i = sorted.first[word]; i < sorted.first[word + 1]; ++i) {
          add_row(dy + sorted.tokens[i] * columns, sum);
        }
        const auto id = static_cast<std::size_t>(sorted.tokens[sorted.first[word]]);
        write_row(sum, store, rows + tokens.ids[id] * columns);
      }
    });
  });
}

void position_gradient(const Execution& run, Tokens tokens, std::int64_t columns, const float* dy,
                       std::int64_t places, void* gradient) {
  const std::int64_t count = count_of(tokens);
  dispatch(run.type, [&](auto* element) {
    auto* const rows = static_cast<decltype(element)>(gradient);
    for_ranges(run.pool, places, kWordsPerBlock, [&](std::int64_t first, std::int64_t last) {
      std::vector<double> sum(static_cast<std::size_t>(columns));
      for (std::int64_t place = first; place < last; ++place) {
        std::fill(sum.begin(), sum.end(), 0.0);
        if (place < tokens.length) {
          for (std::int64_t t = place; t < count; t += tokens.length) {
            add_row(dy + t * columns, sum);
          }
        }
        write_row(sum, run.gradients, rows + place * columns);
      }
    });
  });
}

}  // namespace zenflow::runtime
