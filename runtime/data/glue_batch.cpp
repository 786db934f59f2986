#include "runtime/data/glue_batch.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

/// Shortens two texts to `room` bytes together, the longer one first.
void truncate(std::string_view& first, std::string_view& second, std::size_t room) {
  if (first.size() + second.size() <= room) return;
  // Both are cut to half, unless one is shorter and leaves its share to the other. An odd byte
  // stays with the first, since of two equal ones the second is cut.
  const std::size_t half = room / 2;
  if (second.size() <= half) {
    first = first.substr(0, room - second.size());
  } else if (first.size() <= room - half) {
    second = second.substr(0, room - first.size());
  } else {
    first = first.substr(0, room - half);
    second = second.substr(0, half);
  }
}

void append_bytes(std::string_view text, std::vector<std::int32_t>& tokens) {
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
}

}  // namespace

std::vector<std::int32_t> encode(const GlueTaskInfo& task, const GlueExample& example,
                                 std::int64_t length) {
  const std::int64_t special = task.is_pair() ? 2 : 1;
  const std::int64_t least = 2 * special;
  if (length < least) {
    throw Error(ErrorKind::kInput,
                fmt::format("sequence length {} is too short for {}: at least {} is needed", length,
                            task.name, least));
  }
  std::string_view first = example.first;
  std::string_view second = example.second;
  truncate(first, second, static_cast<std::size_t>(length - special));
  std::vector<std::int32_t> tokens;
  append_bytes(first, tokens);
  if (task.is_pair()) {
    tokens.push_back(kSeparatorToken);
    append_bytes(second, tokens);
  }
  tokens.push_back(kEndToken);
  return tokens;
}

ClassificationBatch classification_batch(const GlueTaskInfo& task,
                                         std::span<const GlueExample> examples,
                                         std::span<const std::uint64_t> indices,
                                         std::int64_t length) {
  ClassificationBatch batch;
  batch.length = length;
  for (const std::uint64_t index : indices) {
    if (index >= examples.size()) {
      throw Error(ErrorKind::kRuntime,
                  fmt::format("example {} of {} was asked for", index, examples.size()));
    }
    const GlueExample& example = examples[static_cast<std::size_t>(index)];
    std::vector<std::int32_t> tokens = encode(task, example, length);
    batch.lengths.push_back(static_cast<std::int32_t>(tokens.size()));
    tokens.resize(static_cast<std::size_t>(length), kEndToken);
    batch.inputs.insert(batch.inputs.end(), tokens.begin(), tokens.end());
    if (task.is_regression()) {
      batch.scores.push_back(example.score);
    } else {
      batch.classes.push_back(example.category);
    }
    ++batch.sequences;
  }
  return batch;
}

}  // namespace zenflow::runtime
