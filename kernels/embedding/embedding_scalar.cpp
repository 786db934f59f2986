#include <algorithm>
#include <numeric>

#include "kernels/bf16/stored.h"
#include "kernels/embedding/embedding.h"

namespace zenflow::kernels {
namespace {

template <class Element>
Element summed(bool adds, Element before, double sum) {
  const auto rounded = static_cast<float>(sum);
  return as_element<Element>(adds ? to_float(before) + rounded : rounded);
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
void embedding_scalar(const TokenRows& rows, std::size_t columns, const Element* words,
                      const Element* positions, Element* y) {
  for (std::size_t t = 0; t < rows.tokens; ++t) {
    const Element* const word = words + static_cast<std::size_t>(rows.ids[t]) * columns;
    for (std::size_t c = 0; c < columns; ++c) {
      Element& out = y[t * columns + c];
      out = word[c];
      if (positions == nullptr) continue;
      out = as_element<Element>(to_float(out) + to_float(positions[t % rows.length * columns + c]));
    }
  }
}

template <class Element>
void word_gradient_scalar(const WordOrderView& order, std::size_t columns, const Element* dy,
                          std::size_t rows, bool adds, Element* gradient) {
  if (!adds) std::fill_n(gradient, rows * columns, as_element<Element>(0.0F));
  for (std::size_t w = 0; w < order.words; ++w) {
    Element* const row = gradient + static_cast<std::size_t>(order.word[w]) * columns;
    for (std::size_t c = 0; c < columns; ++c) {
      double sum = 0.0;
      for (std::uint32_t i = order.first[w]; i < order.first[w + 1]; ++i) {
        sum += static_cast<double>(to_float(dy[order.token[i] * columns + c]));
      }
      row[c] = summed(adds, row[c], sum);
    }
  }
}

template <class Element>
void position_gradient_scalar(std::size_t tokens, std::size_t length, std::size_t columns,
                              const Element* dy, std::size_t places, bool adds, Element* gradient) {
  for (std::size_t place = 0; place < places; ++place) {
    for (std::size_t c = 0; c < columns; ++c) {
      double sum = 0.0;
      for (std::size_t t = place; place < length && t < tokens; t += length) {
        sum += static_cast<double>(to_float(dy[t * columns + c]));
      }
      Element& value = gradient[place * columns + c];
      value = summed(adds, value, sum);
    }
  }
}

#define ZENFLOW_EMBEDDINGS(Element)                                                             \
  template void embedding_scalar(const TokenRows&, std::size_t, const Element*, const Element*, \
                                 Element*);                                                     \
  template void word_gradient_scalar(const WordOrderView&, std::size_t, const Element*,         \
                                     std::size_t, bool, Element*);                              \
  template void position_gradient_scalar(std::size_t, std::size_t, std::size_t, const Element*, \
                                         std::size_t, bool, Element*);
ZENFLOW_EMBEDDINGS(float)
ZENFLOW_EMBEDDINGS(Bf16)
#undef ZENFLOW_EMBEDDINGS

}  // namespace zenflow::kernels
