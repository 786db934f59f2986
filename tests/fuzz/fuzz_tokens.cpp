/// Any bytes as the file that zenflow-train reads: tokens within the vocabulary, or an input error.
/// The first byte chooses: a text, a token file as it is, or one whose checksums are put right.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <vector>

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using fuzz::require;
  if (size == 0) return 0;
  static const fuzz::ScratchFolder kFolder;
  const unsigned choice = data[0];
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (choice % 3 == 2) put_checksums_right(bytes);
  const auto file = kFolder.write(choice % 3 == 0 ? "tokens.txt" : "tokens.bin", bytes);
  fuzz::is_taken([&] {
    const std::int64_t vocabulary = 1 + std::int64_t{choice} * 5;
    runtime::TokenSource source(file, vocabulary);
    const std::uint64_t tokens = source.size();
    require(tokens <= bytes.size(), "a token takes a byte");
    constexpr std::int64_t kLength = 4;
    const runtime::PackedSequences packed(std::move(source), kLength, 0.25);
    const std::uint64_t sequences = packed.training_count() + packed.validation_count();
    require(packed.training_count() > 0 && packed.validation_count() > 0, "both have their share");
    require(sequences * kLength < tokens, "each sequence is in the file");
    std::vector<std::uint64_t> all(packed.training_count());
    std::iota(all.begin(), all.end(), 0);
    for (const runtime::TokenBatch& batch :
         {packed.training_batch(all), packed.validation_batch(0, packed.validation_count())}) {
      require(batch.inputs.size() == batch.targets.size(), "inputs have targets");
      for (const auto& ids : {batch.inputs, batch.targets}) {
        require(std::all_of(ids.begin(), ids.end(),
                            [&](std::int32_t id) { return id >= 0 && id < vocabulary; }),
                "tokens are in the vocabulary");
      }
    }
  });
  return 0;
}
