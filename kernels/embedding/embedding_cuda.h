/// Embeddings on the GPU; the arithmetic is that of embedding.h, bit for bit.
///
/// One thread for up to 16 bytes of a row: of a token's row forward, of a word's or a place's row
/// backward, which reads its tokens' rows one after the other.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/embedding/embedding.h"

namespace zenflow::kernels {

/// Enqueue on `stream` and return; all pointers, those of `order` too, are to device memory. There
/// is Element = float and Bf16. Throw Error(kDevice) if a launch fails.
template <class Element>
void embedding_cuda(const TokenRows& rows, std::size_t columns, const Element* words,
                    const Element* positions, Element* y, cudaStream_t stream);
template <class Element>
void word_gradient_cuda(const WordOrderView& order, std::size_t columns, const Element* dy,
                        std::size_t rows, bool adds, Element* gradient, cudaStream_t stream);
template <class Element>
void position_gradient_cuda(std::size_t tokens, std::size_t length, std::size_t columns,
                            const Element* dy, std::size_t first, std::size_t places, bool adds,
                            Element* gradient, cudaStream_t stream);

}  // namespace zenflow::kernels
