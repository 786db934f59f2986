#include "runtime/train/data_feed.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "runtime/data/example_sequences.h"
#include "runtime/data/glue_batch.h"
#include "runtime/data/glue_reader.h"
#include "runtime/data/metrics.h"
#include "runtime/data/packed_sequences.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

Batch to_batch(TokenBatch tokens) {
  return {.sequences = tokens.sequences,
          .length = tokens.length,
          .inputs = std::move(tokens.inputs),
          .targets = std::move(tokens.targets),
          .values = {},
          .lengths = {}};
}

Batch to_batch(ClassificationBatch examples) {
  return {.sequences = examples.sequences,
          .length = examples.length,
          .inputs = std::move(examples.inputs),
          .targets = std::move(examples.classes),
          .values = std::move(examples.scores),
          .lengths = std::move(examples.lengths)};
}

SampleStream share_of(std::uint64_t samples, const FeedOptions& options) {
  return {samples, options.seed, static_cast<std::uint64_t>(options.rank),
          static_cast<std::uint64_t>(options.ranks)};
}

class TextFeed final : public DataFeed {
 public:
  TextFeed(std::unique_ptr<Sequences> sequences, std::int64_t batch, const FeedOptions& options)
      : sequences_(std::move(sequences)),
        batch_(static_cast<std::uint64_t>(batch)),
        stream_(share_of(sequences_->training_count(), options)) {}

  [[nodiscard]] std::uint64_t training_samples() const override {
    return sequences_->training_count();
  }
  [[nodiscard]] Batch next() override {
    return to_batch(sequences_->training_batch(stream_.next(batch_)));
  }
  [[nodiscard]] bool has_labels() const override { return sequences_->has_labels(); }
  [[nodiscard]] DataPosition position() const override { return stream_.position(); }
  void seek(DataPosition position) override { stream_.seek(position); }
  [[nodiscard]] Fingerprint fingerprint() const override { return sequences_->fingerprint(); }
  [[nodiscard]] std::size_t validation_batches() const override {
    return (sequences_->validation_count() + batch_ - 1) / batch_;
  }
  [[nodiscard]] Batch validation(std::size_t index) const override {
    const std::uint64_t first = index * batch_;
    return to_batch(sequences_->validation_batch(
        first, std::min(batch_, sequences_->validation_count() - first)));
  }
  [[nodiscard]] std::vector<NamedValue> metrics(
      const std::vector<std::vector<float>>&) const override {
    return {};
  }

 private:
  std::unique_ptr<Sequences> sequences_;
  std::uint64_t batch_;
  SampleStream stream_;
};

class GlueFeed final : public DataFeed {
 public:
  GlueFeed(const GlueTaskInfo& task, GlueData training, std::vector<GlueExample> validation,
           const sim::TrainingSettings& batches, const FeedOptions& options)
      : task_(task),
        training_(std::move(training)),
        validation_(std::move(validation)),
        length_(batches.sequence_length),
        batch_(static_cast<std::uint64_t>(batches.micro_batch_size_per_gpu)),
        stream_(share_of(training_.examples.size(), options)) {}

  [[nodiscard]] std::uint64_t training_samples() const override {
    return training_.examples.size();
  }
  [[nodiscard]] Batch next() override {
    return to_batch(classification_batch(task_, training_.examples, stream_.next(batch_), length_));
  }
  [[nodiscard]] bool has_labels() const override { return false; }
  [[nodiscard]] DataPosition position() const override { return stream_.position(); }
  void seek(DataPosition position) override { stream_.seek(position); }
  [[nodiscard]] Fingerprint fingerprint() const override { return training_.fingerprint; }
  [[nodiscard]] std::size_t validation_batches() const override {
    return (validation_.size() + batch_ - 1) / batch_;
  }
  [[nodiscard]] Batch validation(std::size_t index) const override {
    std::vector<std::uint64_t> indices(std::min(batch_, validation_.size() - index * batch_));
    std::iota(indices.begin(), indices.end(), index * batch_);
    return to_batch(classification_batch(task_, validation_, indices, length_));
  }
  [[nodiscard]] std::vector<NamedValue> metrics(
      const std::vector<std::vector<float>>& logits) const override;

 private:
  const GlueTaskInfo& task_;
  GlueData training_;
  std::vector<GlueExample> validation_;
  std::int64_t length_;
  std::uint64_t batch_;
  SampleStream stream_;
};

std::vector<NamedValue> GlueFeed::metrics(const std::vector<std::vector<float>>& logits) const {
  const std::size_t labels = task_.is_regression() ? 1 : task_.classes.size();
  std::vector<std::int32_t> classes;
  std::vector<float> scores;
  for (const std::vector<float>& batch : logits) {
    for (std::size_t at = 0; at + labels <= batch.size(); at += labels) {
      const auto begin = batch.begin() + static_cast<std::ptrdiff_t>(at);
      if (task_.is_regression()) {
        scores.push_back(*begin);
      } else {
        const auto largest = std::max_element(begin, begin + static_cast<std::ptrdiff_t>(labels));
        classes.push_back(static_cast<std::int32_t>(largest - begin));
      }
    }
  }
  std::vector<std::int32_t> true_classes;
  std::vector<float> true_scores;
  for (const GlueExample& example : validation_) {
    true_classes.push_back(example.category);
    true_scores.push_back(example.score);
  }
  const std::vector<MetricValue> values = task_.is_regression()
                                              ? evaluate(task_, scores, true_scores)
                                              : evaluate(task_, classes, true_classes);
  std::vector<NamedValue> named;
  for (const MetricValue& value : values) {
    named.push_back({std::string(name_of(value.metric)), value.value});
  }
  return named;
}

}  // namespace

namespace {

/// The largest vocabulary of which bytes may be meant to be the tokens: 256, and a few for what
/// stands between texts.
constexpr std::int64_t kMostByteVocabulary = 260;

void refuse_bytes(const std::filesystem::path& path, std::int64_t vocabulary) {
  const std::string name = path.generic_string();
  const bool is_rows = path.extension() == ".jsonl";
  throw Error(ErrorKind::kInput,
              fmt::format("{}: each byte of a text is a token, but the model's {} ids are a "
                          "tokenizer's: make tokens of it first (script/tokenize --tokenizer "
                          "tokenizer.json {} -o data.{}), or give --byte-tokens",
                          name, vocabulary, name, is_rows ? "safetensors" : "bin"));
}

std::unique_ptr<Sequences> open_examples(const std::filesystem::path& path, std::int64_t vocabulary,
                                         std::int64_t length, const FeedOptions& options) {
  auto examples =
      std::make_unique<ExampleSequences>(path, vocabulary, length, options.validation_fraction);
  const std::uint64_t used = examples->training_count() + examples->validation_count();
  if (options.note && examples->left_out() > 0) {
    options.note(
        fmt::format("{}: {} examples without a label that counts within {} tokens are left "
                    "out; {} are used",
                    path.generic_string(), examples->left_out(), length, used));
  }
  if (options.note && examples->cut() > 0) {
    options.note(fmt::format("{}: {} of {} examples are longer than --sequence-length {}, and cut",
                             path.generic_string(), examples->cut(), used, length));
  }
  return examples;
}

/// A few rows by name, the rest by number.
void note_skipped(const GlueData& data, const FeedOptions& options) {
  constexpr std::size_t kNamed = 10;
  if (!options.note) return;
  for (std::size_t i = 0; i < std::min(kNamed, data.skipped.size()); ++i) {
    options.note("left out " + data.skipped[i]);
  }
  if (data.skipped.size() > kNamed) {
    options.note(fmt::format("left out {} rows more", data.skipped.size() - kNamed));
  }
}

}  // namespace

std::unique_ptr<DataFeed> open_text(const std::filesystem::path& path, std::int64_t vocabulary,
                                    const sim::TrainingSettings& training,
                                    const FeedOptions& options) {
  const TokenFormat format = token_format(path);
  std::unique_ptr<Sequences> sequences;
  if (format == TokenFormat::kExamples) {
    sequences = open_examples(path, vocabulary, training.sequence_length, options);
  } else {
    const bool is_bytes = format == TokenFormat::kBytes;
    TokenSource source(path, vocabulary);
    if (is_bytes && vocabulary > kMostByteVocabulary && !options.byte_tokens) {
      refuse_bytes(path, vocabulary);
    }
    if (path.extension() == ".jsonl" && options.note) {
      options.note(path.generic_string() +
                   ": taken for a text, braces and all; script/tokenize makes examples of it");
    }
    sequences = std::make_unique<PackedSequences>(std::move(source), training.sequence_length,
                                                  options.validation_fraction);
  }
  return std::make_unique<TextFeed>(std::move(sequences), training.micro_batch_size_per_gpu,
                                    options);
}

std::unique_ptr<DataFeed> open_glue(const std::string& task, const std::filesystem::path& folder,
                                    std::int64_t vocabulary, const sim::TrainingSettings& training,
                                    const FeedOptions& options) {
  const GlueTaskInfo& known = find_glue_task(task);
  if (vocabulary < kGlueVocabulary) {
    throw Error(ErrorKind::kInput,
                fmt::format("task {}: the model's vocabulary has {} ids, byte tokens need {}",
                            known.name, vocabulary, kGlueVocabulary));
  }
  const MalformedRows rows =
      options.skip_malformed_rows ? MalformedRows::kSkip : MalformedRows::kRefuse;
  GlueData examples = read_glue(known, folder / "train.tsv", rows);
  note_skipped(examples, options);
  // MNLI has two sets; they are read as one.
  std::vector<GlueExample> validation;
  for (const std::string_view file : known.validation_files) {
    GlueData part = read_glue(known, folder / file, rows);
    note_skipped(part, options);
    std::move(part.examples.begin(), part.examples.end(), std::back_inserter(validation));
  }
  return std::make_unique<GlueFeed>(known, std::move(examples), std::move(validation), training,
                                    options);
}

}  // namespace zenflow::runtime
