/// The passes of a whole transformer, over the operations of any device: what they keep, and which
/// block, embedding or head a group is.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/model/block.h"

namespace zenflow::runtime {

class Network {
 public:
  virtual ~Network() = default;
  /// The head's writes *sum.
  virtual void forward(const Pass& pass, std::size_t group, kernels::LossSum* sum) = 0;
  virtual void backward(const Pass& pass, std::size_t group, GradientPointers gradients) = 0;
  /// [sequences, outputs], rows `stride` elements apart, where the operations have them, before
  /// they are capped.
  struct Logits {
    const void* values;
    std::int64_t stride;
  };
  virtual Logits last_logits(const Pass& pass) = 0;
  /// OperationMemory::scratch_bytes of memory.
  [[nodiscard]] virtual void* scratch() const = 0;
};

/// Bytes of memory for what is kept from forward to backward, and for what one pass after the other
/// uses: logits, and the arrays of one block or of the head.
struct NetworkMemory {
  std::size_t kept;
  std::size_t work;
};
template <class Element>
[[nodiscard]] NetworkMemory network_memory(const TransformerConfig& config,
                                           const TransformerSettings& settings,
                                           const OperationMemory& memory);

/// `kept` and `work` are as large as network_memory says, and live as long.
template <class Element>
[[nodiscard]] std::unique_ptr<Network> make_network(const TransformerConfig& config,
                                                    const TransformerSettings& settings,
                                                    const OperationMemory& memory,
                                                    std::unique_ptr<Operations<Element>> operations,
                                                    std::byte* kept, std::byte* work);

/// Logits as the model gives them, from those that last_logits has.
[[nodiscard]] std::vector<float> capped_logits(const TransformerConfig& config,
                                               std::vector<float> logits);

}  // namespace zenflow::runtime
