#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/embedding/embedding_cuda.h"

namespace zenflow::kernels {
namespace {

constexpr unsigned kBlockSize = 128;

template <unsigned kWidth, class Element>
__global__ void __launch_bounds__(kBlockSize)
    embedding_kernel(TokenRows rows, std::size_t columns, const Element* words,
                     const Element* positions, Element* y) {
  const std::size_t packs = columns / kWidth;
  const std::size_t token = thread_number() / packs;
  if (token >= rows.tokens) return;
  const std::size_t column = thread_number() % packs * kWidth;
  auto pack =
      load_pack<kWidth>(words + static_cast<std::size_t>(rows.ids[token]) * columns + column);
#pragma unroll
  for (unsigned i = 0; i < kWidth; ++i) {
    pack.at[i] = stored<Element>(rows.scale * to_float(pack.at[i]));
  }
  if (positions != nullptr) {
    const auto place = load_pack<kWidth>(positions + token % rows.length * columns + column);
#pragma unroll
    for (unsigned i = 0; i < kWidth; ++i) {
      pack.at[i] = stored<Element>(to_float(pack.at[i]) + to_float(place.at[i]));
    }
  }
  store_pack(y + token * columns + column, pack);
}

template <unsigned kWidth, class Element>
struct RowSum {
  double sums[kWidth] = {};

  __device__ void add(const Element* row) {
    const auto pack = load_pack<kWidth>(row);
#pragma unroll
    for (unsigned i = 0; i < kWidth; ++i) sums[i] += static_cast<double>(to_float(pack.at[i]));
  }
  __device__ void store(float scale, bool adds, Element* row) const {
    Pack<Element, kWidth> pack{};
    if (adds) pack = load_pack<kWidth>(row);
#pragma unroll
    for (unsigned i = 0; i < kWidth; ++i) {
      const float sum = static_cast<float>(sums[i]) * scale;
      pack.at[i] = stored<Element>(adds ? to_float(pack.at[i]) + sum : sum);
    }
    store_pack(row, pack);
  }
};

template <unsigned kWidth, class Element>
__global__ void __launch_bounds__(kBlockSize) zero_kernel(std::size_t packs, Element* values) {
  if (thread_number() < packs)
    store_pack(values + thread_number() * kWidth, Pack<Element, kWidth>{});
}

template <unsigned kWidth, class Element>
__global__ void __launch_bounds__(kBlockSize)
    word_gradient_kernel(WordOrderView order, std::size_t columns, const Element* dy, bool adds,
                         Element* gradient) {
  const std::size_t packs = columns / kWidth;
  const std::size_t word = thread_number() / packs;
  if (word >= order.words) return;
  const std::size_t column = thread_number() % packs * kWidth;
  RowSum<kWidth, Element> sum;
#pragma unroll 4
  for (std::size_t i = order.first[word]; i < order.first[word + 1]; ++i) {
    sum.add(dy + order.token[i] * columns + column);
  }
  sum.store(order.scale, adds,
            gradient + static_cast<std::size_t>(order.word[word]) * columns + column);
}

template <unsigned kWidth, class Element>
__global__ void __launch_bounds__(kBlockSize)
    position_gradient_kernel(std::size_t tokens, std::size_t length, std::size_t columns,
                             const Element* dy, std::size_t first, std::size_t places, bool adds,
                             Element* gradient) {
  const std::size_t packs = columns / kWidth;
  const std::size_t place = thread_number() / packs;
  if (place >= places) return;
  const std::size_t column = thread_number() % packs * kWidth;
  RowSum<kWidth, Element> sum;
  if (place >= first && place - first < length) {
#pragma unroll 4
    for (std::size_t t = place - first; t < tokens; t += length) sum.add(dy + t * columns + column);
  }
  sum.store(1.0F, adds, gradient + place * columns + column);
}

}  // namespace

template <class Element>
void embedding_cuda(const TokenRows& rows, std::size_t columns, const Element* words,
                    const Element* positions, Element* y, cudaStream_t stream) {
  if (rows.tokens == 0 || columns == 0) return;
  with_row_packs<Element>(
      columns,
      [&]<unsigned kWidth>() {
        launch(embedding_kernel<kWidth, Element>,
               blocks_of(rows.tokens * (columns / kWidth), kBlockSize), kBlockSize, 0, stream, rows,
               columns, words, positions, y);
      },
      words, positions, y);
}

template <class Element>
void word_gradient_cuda(const WordOrderView& order, std::size_t columns, const Element* dy,
                        std::size_t rows, bool adds, Element* gradient, cudaStream_t stream) {
  if (columns == 0) return;
  with_row_packs<Element>(
      columns,
      [&]<unsigned kWidth>() {
        const std::size_t packs = columns / kWidth;
        if (!adds && rows > 0) {
          launch(zero_kernel<kWidth, Element>, blocks_of(rows * packs, kBlockSize), kBlockSize, 0,
                 stream, rows * packs, gradient);
        }
        if (order.words == 0) return;
        launch(word_gradient_kernel<kWidth, Element>, blocks_of(order.words * packs, kBlockSize),
               kBlockSize, 0, stream, order, columns, dy, adds, gradient);
      },
      dy, gradient);
}

template <class Element>
void position_gradient_cuda(std::size_t tokens, std::size_t length, std::size_t columns,
                            const Element* dy, std::size_t first, std::size_t places, bool adds,
                            Element* gradient, cudaStream_t stream) {
  if (places == 0 || columns == 0) return;
  with_row_packs<Element>(
      columns,
      [&]<unsigned kWidth>() {
        launch(position_gradient_kernel<kWidth, Element>,
               blocks_of(places * (columns / kWidth), kBlockSize), kBlockSize, 0, stream, tokens,
               length, columns, dy, first, places, adds, gradient);
      },
      dy, gradient);
}

#define ZENFLOW_EMBEDDINGS(Element)                                                                \
  template void embedding_cuda(const TokenRows&, std::size_t, const Element*, const Element*,      \
                               Element*, cudaStream_t);                                            \
  template void word_gradient_cuda(const WordOrderView&, std::size_t, const Element*, std::size_t, \
                                   bool, Element*, cudaStream_t);                                  \
  template void position_gradient_cuda(std::size_t, std::size_t, std::size_t, const Element*,      \
                                       std::size_t, std::size_t, bool, Element*, cudaStream_t);
ZENFLOW_EMBEDDINGS(float)
ZENFLOW_EMBEDDINGS(Bf16)
#undef ZENFLOW_EMBEDDINGS

}  // namespace zenflow::kernels
