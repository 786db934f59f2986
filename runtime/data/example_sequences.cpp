#include "runtime/data/example_sequences.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "sim/base/crc32.h"

namespace zenflow::runtime {

ExampleSequences::ExampleSequences(const std::filesystem::path& path, std::int64_t vocabulary,
                                   std::int64_t length, double validation_fraction)
    : Sequences(length, validation_fraction),
      file_(path),
      header_(read_safetensors_header(file_)),
      vocabulary_(vocabulary) {
  std::uint32_t crc = 0;
  file_.scan(0, file_.size(),
             [&crc](std::uint64_t, std::span<const std::byte> piece) { crc = crc32(crc, piece); });
  fingerprint_ = {file_.size(), crc};
  read_examples();
  if (examples_.size() < needed()) {
    file_.fail(
        fmt::format("{} example(s) with labels that count within {} tokens are too few: "
                    "expected {} or more",
                    examples_.size(), length, needed()));
  }
  divide(examples_.size());
}

const StoredTensor& ExampleSequences::find(const char* name, const char* type) const {
  const StoredTensor* const tensor = header_.find(name);
  if (tensor == nullptr) {
    file_.fail(
        fmt::format("expected input_ids, labels and offsets, as script/tokenize writes them; "
                    "there is no {}",
                    name));
  }
  if (tensor->type != type || tensor->shape.size() != 1) {
    file_.fail(fmt::format("tensor \"{}\": expected a vector of {}, found {} {}", name, type,
                           tensor->type, shape_text(tensor->shape)));
  }
  return *tensor;
}

void ExampleSequences::read_examples() {
  const StoredTensor& ids = find("input_ids", "I32");
  const StoredTensor& labels = find("labels", "I32");
  const StoredTensor& stored = find("offsets", "I64");
  if (labels.shape != ids.shape) {
    file_.fail(fmt::format("{} input_ids and {} labels", ids.shape[0], labels.shape[0]));
  }
  ids_at_ = header_.data_start + ids.begin;
  labels_at_ = header_.data_start + labels.begin;
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(stored.shape[0]));
  file_.read_at(header_.data_start + stored.begin, std::as_writable_bytes(std::span(offsets)));
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != ids.shape[0] ||
      !std::is_sorted(offsets.begin(), offsets.end())) {
    file_.fail(fmt::format("offsets: expected them to rise from 0 to the {} tokens", ids.shape[0]));
  }
  const auto most = static_cast<std::uint64_t>(length()) + 1;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    const auto tokens = static_cast<std::uint64_t>(offsets[i + 1] - offsets[i]);
    const Example example{static_cast<std::uint64_t>(offsets[i]), std::min(tokens, most)};
    const std::vector<std::int32_t> seen = read(example).labels;
    const bool counts = std::any_of(seen.begin() + std::min<std::ptrdiff_t>(1, std::ssize(seen)),
                                    seen.end(), [](std::int32_t one) { return one >= 0; });
    if (counts) {
      examples_.push_back(example);
      cut_ += tokens > most ? 1 : 0;
    } else {
      ++left_out_;
    }
  }
}

ExampleSequences::Tokens ExampleSequences::read(const Example& example) const {
  Tokens tokens{std::vector<std::int32_t>(example.tokens),
                std::vector<std::int32_t>(example.tokens)};
  const auto fill = [&](std::uint64_t at, std::vector<std::int32_t>& values) {
    file_.read_at(at + example.first * sizeof(std::int32_t),
                  std::as_writable_bytes(std::span(values)));
  };
  fill(ids_at_, tokens.ids);
  fill(labels_at_, tokens.labels);
  const auto is_id = [this](std::int32_t value) { return value >= 0 && value < vocabulary_; };
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const std::int32_t label = tokens.labels[i];
    if (is_id(tokens.ids[i]) && (label == kIgnoredLabel || is_id(label))) continue;
    file_.fail(
        fmt::format("token {} is {} with the label {}; the vocabulary has {} ids, and {} is "
                    "no label",
                    example.first + i, tokens.ids[i], label, vocabulary_, kIgnoredLabel));
  }
  return tokens;
}

void ExampleSequences::append(std::uint64_t index, TokenBatch& batch) const {
  const Tokens tokens = read(examples_[index]);
  const std::size_t end = batch.inputs.size() + static_cast<std::size_t>(length());
  batch.inputs.insert(batch.inputs.end(), tokens.ids.begin(), tokens.ids.end() - 1);
  batch.targets.insert(batch.targets.end(), tokens.labels.begin() + 1, tokens.labels.end());
  batch.inputs.resize(end, 0);
  batch.targets.resize(end, kIgnoredLabel);
}

}  // namespace zenflow::runtime
