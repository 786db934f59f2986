#include "runtime/data/packed_sequences.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::runtime {

PackedSequences::PackedSequences(TokenSource source, std::int64_t length,
                                 double validation_fraction)
    : Sequences(length, validation_fraction), source_(std::move(source)) {
  const auto step = static_cast<std::uint64_t>(length);
  const std::uint64_t sequences = source_.size() == 0 ? 0 : (source_.size() - 1) / step;
  if (sequences < needed()) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: {} tokens are too few: {} sequence(s) of length {} need {}",
                            source_.path().generic_string(), source_.size(), needed(), length,
                            needed() * step + 1));
  }
  divide(sequences);
}

void PackedSequences::append(std::uint64_t index, TokenBatch& batch) const {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(length()) + 1);
  source_.read(index * static_cast<std::uint64_t>(length()), tokens);
  batch.inputs.insert(batch.inputs.end(), tokens.begin(), tokens.end() - 1);
  batch.targets.insert(batch.targets.end(), tokens.begin() + 1, tokens.end());
}

}  // namespace zenflow::runtime
