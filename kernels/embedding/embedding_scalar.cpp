#include <algorithm>
#include <numeric>

#include "kernels/embedding/embedding.h"

namespace zenflow::kernels {
namespace {

template <class Element>
void add_row(const Element* row, std::vector<double>& sum) {
  for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += static_cast<double>(to_float(row[c]));
}

template <class Parameter>
void store_row(const std::vector<double>& sum, float scale, bool adds, Parameter* row) {
  for (std::size_t c = 0; c < sum.size(); ++c) {
    const float rounded = static_cast<float>(sum[c]) * scale;
    row[c] = as_element<Parameter>(adds ? to_float(row[c]) + rounded : rounded);
  }
}

}  // namespace

WordOrder order_by_word(std::span<const std::int32_t> ids) {
  WordOrder order;
  order.token.resize(ids.size());
  std::iota(order.token.begin(), order.token.end(), 0U);
  std::stable_sort(order.token.begin(), order.token.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return ids[a] < ids[b]; });
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int32_t word = ids[order.token[i]];
    if (!order.word.empty() && order.word.back() == word) continue;
    order.word.push_back(word);
    order.first.push_back(static_cast<std::uint32_t>(i));
  }
  order.first.push_back(static_cast<std::uint32_t>(ids.size()));
  return order;
}

template <class Element>
void embedding_scalar(const TokenRows& rows, std::size_t columns, const ParameterOf<Element>* words,
                      const ParameterOf<Element>* positions, Element* y, Range tokens) {
  for (std::size_t t = tokens.first; t < tokens.end(rows.tokens); ++t) {
    const auto* const word = words + static_cast<std::size_t>(rows.ids[t]) * columns;
    Element* const out = y + t * columns;
    if (positions == nullptr) {
      for (std::size_t c = 0; c < columns; ++c) {
        out[c] = as_element<Element>(rows.scale * to_float(word[c]));
      }
      continue;
    }
    const auto* const place = positions + t % rows.length * columns;
    for (std::size_t c = 0; c < columns; ++c) {
      const float scaled = rounded_to<Element>(rows.scale * to_float(word[c]));
      out[c] = as_element<Element>(scaled + to_float(place[c]));
    }
  }
}

template <class Element>
void word_gradient_scalar(const WordOrderView& order, std::size_t columns, const Element* dy,
                          std::size_t rows, bool adds, ParameterOf<Element>* gradient) {
  if (!adds) std::fill_n(gradient, rows * columns, ParameterOf<Element>{});
  present_word_gradient_scalar(order, columns, dy, adds, gradient);
}

template <class Element>
void present_word_gradient_scalar(const WordOrderView& order, std::size_t columns,
                                  const Element* dy, bool adds, ParameterOf<Element>* gradient,
                                  Range words) {
  std::vector<double> sum(columns);
  for (std::size_t w = words.first; w < words.end(order.words); ++w) {
    std::fill(sum.begin(), sum.end(), 0.0);
    for (std::uint32_t i = order.first[w]; i < order.first[w + 1]; ++i) {
      add_row(dy + order.token[i] * columns, sum);
    }
    store_row(sum, order.scale, adds, gradient + static_cast<std::size_t>(order.word[w]) * columns);
  }
}

template <class Element>
void position_gradient_scalar(std::size_t tokens, std::size_t length, std::size_t columns,
                              const Element* dy, std::size_t first, std::size_t places, bool adds,
                              ParameterOf<Element>* gradient, Range range) {
  std::vector<double> sum(columns);
  for (std::size_t place = range.first; place < range.end(places); ++place) {
    std::fill(sum.begin(), sum.end(), 0.0);
    if (place >= first && place - first < length) {
      for (std::size_t t = place - first; t < tokens; t += length) add_row(dy + t * columns, sum);
    }
    store_row(sum, 1.0F, adds, gradient + place * columns);
  }
}

#define ZENFLOW_EMBEDDINGS(Element)                                                             \
  template void embedding_scalar(const TokenRows&, std::size_t, const ParameterOf<Element>*,    \
                                 const ParameterOf<Element>*, Element*, Range);                 \
  template void word_gradient_scalar(const WordOrderView&, std::size_t, const Element*,         \
                                     std::size_t, bool, ParameterOf<Element>*);                 \
  template void present_word_gradient_scalar(const WordOrderView&, std::size_t, const Element*, \
                                             bool, ParameterOf<Element>*, Range);               \
  template void position_gradient_scalar(std::size_t, std::size_t, std::size_t, const Element*, \
                                         std::size_t, std::size_t, bool, ParameterOf<Element>*, \
                                         Range);
ZENFLOW_EMBEDDINGS(float)
ZENFLOW_EMBEDDINGS(Bf16)
ZENFLOW_EMBEDDINGS(WideBf16)
#undef ZENFLOW_EMBEDDINGS

}  // namespace zenflow::kernels
