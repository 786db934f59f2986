/// Instruction data: examples whose tokens count or do not, one sequence each.
///
/// A safetensors file, as script/tokenize writes it:
///   input_ids  I32 [tokens]        of all examples, one after the other
///   labels     I32 [tokens]        the token itself where it counts, else kIgnoredLabel
///   offsets    I64 [examples + 1]  where each begins; the last is the number of tokens
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "runtime/data/sequences.h"
#include "sim/base/input_file.h"
#include "sim/config/safetensors_header.h"

namespace zenflow::runtime {

/// Of a token that does not count, as in Hugging Face.
inline constexpr std::int32_t kIgnoredLabel = -100;

/// Example i is one sequence: its first L + 1 tokens, L inputs and the labels of those that follow
/// them. A shorter one is filled up on the right, with token 0 and targets that do not count.
/// Examples in which no label counts that far are left out.
class ExampleSequences final : public Sequences {
 public:
  /// `length` is L. Reads the whole file once. Throws Error(kInput) if it cannot be read, is not
  /// such a file, has a token or label that is not below `vocabulary`, with its position, or too
  /// few examples; and as Sequences.
  ExampleSequences(const std::filesystem::path& path, std::int64_t vocabulary, std::int64_t length,
                   double validation_fraction);

  [[nodiscard]] Fingerprint fingerprint() const override { return fingerprint_; }
  [[nodiscard]] bool has_labels() const override { return true; }
  /// Examples that are left out, and those that are longer than a sequence.
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }
  [[nodiscard]] std::uint64_t cut() const { return cut_; }

 private:
  struct Example {
    std::uint64_t first = 0;
    std::uint64_t tokens = 0;
  };
  struct Tokens {
    std::vector<std::int32_t> ids;
    std::vector<std::int32_t> labels;
  };

  /// A vector of this type.
  [[nodiscard]] const StoredTensor& find(const char* name, const char* type) const;
  void read_examples();
  /// Checked against the vocabulary.
  [[nodiscard]] Tokens read(const Example& example) const;
  void append(std::uint64_t index, TokenBatch& batch) const override;

  InputFile file_;
  SafetensorsHeader header_;
  std::int64_t vocabulary_;
  std::uint64_t ids_at_ = 0;  // bytes of the file
  std::uint64_t labels_at_ = 0;
  std::vector<Example> examples_;
  std::uint64_t left_out_ = 0;
  std::uint64_t cut_ = 0;
  Fingerprint fingerprint_;
};

}  // namespace zenflow::runtime
