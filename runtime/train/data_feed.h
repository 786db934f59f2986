/// Where batches come from: a language modelling file or a GLUE task, in an order that a seed
/// fixes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/sample_order.h"
#include "runtime/data/token_source.h"
#include "runtime/model/transformer.h"
#include "sim/offload/training_setup.h"

namespace zenflow::runtime {

/// A named number of an evaluation, e.g. {"accuracy", 0.9}.
struct NamedValue {
  std::string name;
  double value = 0;
};

class DataFeed {
 public:
  virtual ~DataFeed() = default;

  [[nodiscard]] virtual std::uint64_t training_samples() const = 0;
  [[nodiscard]] virtual Batch next() = 0;
  /// Whether in some batches fewer targets count than in others.
  [[nodiscard]] virtual bool has_labels() const = 0;
  [[nodiscard]] virtual DataPosition position() const = 0;
  virtual void seek(DataPosition position) = 0;
  [[nodiscard]] virtual Fingerprint fingerprint() const = 0;

  /// Batches of the validation set, in order; the last one may be smaller.
  [[nodiscard]] virtual std::size_t validation_batches() const = 0;
  [[nodiscard]] virtual Batch validation(std::size_t index) const = 0;
  /// The task's metrics from the logits of all validation batches, in order. None for text.
  [[nodiscard]] virtual std::vector<NamedValue> metrics(
      const std::vector<std::vector<float>>& logits) const = 0;
};

struct FeedOptions {
  std::uint64_t seed = 0;
  double validation_fraction = 0.05;  ///< of a text file
  bool byte_tokens = false;           ///< bytes of a text, whatever the vocabulary
  bool skip_malformed_rows = false;   ///< of GLUE files
  /// Is told what of the files is not used. May be empty.
  std::function<void(const std::string&)> note{};
  int rank = 0;  ///< reads every `ranks`-th micro-batch, from this one on
  int ranks = 1;
};

/// Tokens of `path` (token_format says of which kind), of a model with `vocabulary` ids, in
/// micro-batches of `training`. Throws as TokenSource, PackedSequences and ExampleSequences, and
/// Error(kInput) at a text unless the vocabulary is one of bytes, or they are asked for.
[[nodiscard]] std::unique_ptr<DataFeed> open_text(const std::filesystem::path& path,
                                                  std::int64_t vocabulary,
                                                  const sim::TrainingSettings& training,
                                                  const FeedOptions& options);
/// GLUE's `folder`, with train.tsv and the task's validation files. Throws as read_glue; the
/// vocabulary must have GLUE's byte tokens.
[[nodiscard]] std::unique_ptr<DataFeed> open_glue(const std::string& task,
                                                  const std::filesystem::path& folder,
                                                  std::int64_t vocabulary,
                                                  const sim::TrainingSettings& training,
                                                  const FeedOptions& options);

}  // namespace zenflow::runtime
