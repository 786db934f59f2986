/// Any bytes as the file that zenflow-train reads: tokens within the vocabulary, or an input error.
/// The first byte chooses: a text, a token file as it is, one whose checksums are put right, or
/// examples.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/example_sequences.h"
#include "runtime/data/packed_sequences.h"
#include "runtime/data/token_file.h"
#include "runtime/data/token_source.h"
#include "sim/base/crc32.h"
#include "tests/fuzz/expect_input_error.h"
#include "tests/fuzz/scratch_folder.h"

namespace {

using namespace zenflow;

void put_checksums_right(std::string& bytes) {
  constexpr std::size_t kTokensAt = 24;
  constexpr std::size_t kHeaderAt = 28;
  if (bytes.size() < runtime::TokenFileHeader::kBytes) return;
  const auto put = [&bytes](std::size_t at, std::size_t first, std::size_t last) {
    const auto all = std::as_bytes(std::span(bytes));
    const std::uint32_t sum = crc32(0, all.subspan(first, last - first));
    std::memcpy(bytes.data() + at, &sum, sizeof sum);
  };
  put(kTokensAt, runtime::TokenFileHeader::kBytes, bytes.size());
  put(kHeaderAt, 0, kHeaderAt);
}

constexpr std::int64_t kLength = 4;

/// Tokens are in the vocabulary, targets too, or they do not count.
void check(const runtime::Sequences& sequences, std::int64_t vocabulary) {
  using fuzz::require;
  require(sequences.training_count() > 0 && sequences.validation_count() > 0,
          "both have their share");
  std::vector<std::uint64_t> all(sequences.training_count());
  std::iota(all.begin(), all.end(), 0);
  const auto is_id = [&](std::int32_t id) { return id >= 0 && id < vocabulary; };
  for (const runtime::TokenBatch& batch :
       {sequences.training_batch(all),
        sequences.validation_batch(0, sequences.validation_count())}) {
    require(batch.inputs.size() == batch.targets.size(), "inputs have targets");
    require(std::all_of(batch.inputs.begin(), batch.inputs.end(), is_id),
            "tokens are in the vocabulary");
    require(std::all_of(batch.targets.begin(), batch.targets.end(),
                        [&](std::int32_t target) {
                          const bool ignored =
                              sequences.has_labels() && target == runtime::kIgnoredLabel;
                          return ignored || is_id(target);
                        }),
            "targets are in the vocabulary");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using fuzz::require;
  if (size == 0) return 0;
  static const fuzz::ScratchFolder kFolder;
  const unsigned choice = data[0];
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (choice % 3 == 2) put_checksums_right(bytes);
  const bool is_examples = choice % 16 == 15;
  const auto file = kFolder.write(is_examples       ? "tokens.safetensors"
                                  : choice % 3 == 0 ? "tokens.txt"
                                                    : "tokens.bin",
                                  bytes);
  fuzz::is_taken([&] {
    const std::int64_t vocabulary = 1 + std::int64_t{choice} * 5;
    if (is_examples) {
      check(runtime::ExampleSequences(file, vocabulary, kLength, 0.25), vocabulary);
      return;
    }
    runtime::TokenSource source(file, vocabulary);
    const std::uint64_t tokens = source.size();
    require(tokens <= bytes.size(), "a token takes a byte");
    const runtime::PackedSequences packed(std::move(source), kLength, 0.25);
    const std::uint64_t sequences = packed.training_count() + packed.validation_count();
    require(sequences * kLength < tokens, "each sequence is in the file");
    check(packed, vocabulary);
  });
  return 0;
}
