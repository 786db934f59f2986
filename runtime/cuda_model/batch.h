/// A batch on the device: tokens, targets, and the order in which the embedding's gradient sums.
#pragma once

#include <cstdint>

#include "kernels/embedding/embedding.h"
#include "runtime/cuda_model/arena.h"
#include "runtime/device/device.h"
#include "runtime/model/transformer.h"

namespace zenflow::runtime {

class CudaBatch {
 public:
  /// For at most `sequences` of `length` tokens. Memory: about 24 bytes a token, twice.
  CudaBatch(Device& device, std::int64_t sequences, std::int64_t length);

  /// Takes a batch that has been checked. Waits until the last batch's copy is done.
  void take(const Batch& batch);
  /// Enqueues the copy.
  void upload(Stream& stream);

  struct Arrays {
    Arrays(std::int64_t sequences, std::int64_t length, Arena& arena);

    std::int32_t* ids;        ///< [tokens]
    std::int32_t* classes;    ///< targets: [tokens], or of a classification [sequences]
    float* values;            ///< of a regression, [sequences]
    std::int32_t* last;       ///< token of the batch that ends each sequence, [sequences]
    std::uint32_t* counting;  ///< 0, 1, ... [sequences + 1]
    std::int32_t* word;       ///< order_by_word: [words], [words + 1], [tokens]
    std::uint32_t* first;
    std::uint32_t* token;
  };
  [[nodiscard]] const Arrays& on_device() const { return on_device_; }
  [[nodiscard]] kernels::WordOrderView order() const {
    return {on_device_.word, on_device_.first, on_device_.token, words_};
  }
  [[nodiscard]] std::int64_t sequences() const { return sequences_; }
  [[nodiscard]] std::int64_t length() const { return length_; }
  /// Targets that are not ignored, or sequences of a classification.
  [[nodiscard]] std::int64_t counted() const { return counted_; }

 private:
  Device& device_;
  Buffer device_memory_;
  Buffer host_memory_;
  Arrays on_device_;
  Arrays on_host_;
  Event uploaded_;
  std::size_t words_ = 0;
  std::int64_t sequences_ = 0;
  std::int64_t length_ = 0;
  std::int64_t counted_ = 0;
};

}  // namespace zenflow::runtime
