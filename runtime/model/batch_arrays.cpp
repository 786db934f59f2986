#include "runtime/model/batch_arrays.h"

#include <algorithm>
#include <numeric>

namespace zenflow::runtime {

BatchArrays::BatchArrays(std::int64_t sequences, std::int64_t length, Arena& arena)
    : ids(arena.take<std::int32_t>(sequences * length)),
      classes(arena.take<std::int32_t>(sequences * length)),
      values(arena.take<float>(sequences)),
      last(arena.take<std::int32_t>(sequences)),
      counting(arena.take<std::uint32_t>(sequences + 1)),
      word(arena.take<std::int32_t>(sequences * length)),
      first(arena.take<std::uint32_t>(sequences * length + 1)),
      token(arena.take<std::uint32_t>(sequences * length)) {}

std::size_t BatchArrays::bytes(std::int64_t sequences, std::int64_t length) {
  Arena arena(nullptr);
  const BatchArrays arrays(sequences, length, arena);
  return arena.bytes();
}

BatchView store_batch(const Batch& batch, const BatchArrays& arrays) {
  std::copy(batch.inputs.begin(), batch.inputs.end(), arrays.ids);
  std::copy(batch.targets.begin(), batch.targets.end(), arrays.classes);
  std::copy(batch.values.begin(), batch.values.end(), arrays.values);
  for (std::int64_t s = 0; s < batch.sequences; ++s) {
    const std::int64_t tokens =
        batch.lengths.empty() ? batch.length : batch.lengths[static_cast<std::size_t>(s)];
    arrays.last[s] = static_cast<std::int32_t>(s * batch.length + tokens - 1);
  }
  std::iota(arrays.counting, arrays.counting + batch.sequences + 1, 0U);
  const kernels::WordOrder order = kernels::order_by_word(batch.inputs);
  std::copy(order.word.begin(), order.word.end(), arrays.word);
  std::copy(order.first.begin(), order.first.end(), arrays.first);
  std::copy(order.token.begin(), order.token.end(), arrays.token);
  const std::int64_t counted = batch.targets.empty() ? batch.sequences : batch.counted_targets();
  return {arrays, batch.sequences, batch.length, counted, order.word.size()};
}

}  // namespace zenflow::runtime
