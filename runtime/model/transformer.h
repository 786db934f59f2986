/// A decoder-only transformer on the host: forward and backward, one parameter group at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/model_config/parameters.h"
#include "runtime/model_config/transformer_config.h"

namespace zenflow::runtime {

/// A target that does not count, as in PyTorch and Hugging Face.
inline constexpr std::int32_t kIgnoredTarget = -100;

/// Sequences of one length, padded on the right: causal attention keeps what follows a sequence
/// from its tokens, so there is no mask. (Padding on the left is not the same and not supported.)
struct Batch {
  std::int64_t sequences = 0;
  std::int64_t length = 0;
  std::vector<std::int32_t> inputs;  ///< token ids, [sequences * length]; any valid id as padding
  /// Language modelling: the token to predict at each place, that is the next one, or
  /// kIgnoredTarget, [sequences * length]. Classification: the label, [sequences]; empty for a
  /// regression.
  std::vector<std::int32_t> targets;
  std::vector<float> values;  ///< of a regression (labels == 1), [sequences]
  /// Tokens that are not padding, [sequences]; a classification is made from the last of them.
  /// Empty: every sequence is full.
  std::vector<std::int32_t> lengths;

  /// Of targets; for a regression, which has none, 0.
  [[nodiscard]] std::int64_t counted_targets() const {
    return std::ssize(targets) - std::count(targets.begin(), targets.end(), kIgnoredTarget);
  }
};

/// One of the batches whose gradients a step sums up.
struct MicroBatch {
  bool adds = false;    ///< to the gradients and the loss of those before; false: the first
  double weight = 1.0;  ///< of its mean loss in the step's: the weights of a step sum to 1
};

/// What a forward pass alone says of a batch.
struct Evaluation {
  double loss = 0.0;
  std::int64_t targets = 0;  ///< that count: not ignored
  std::int64_t correct = 0;  ///< of these, the largest logit is the target's; 0 for a regression
  /// The last token's, for every sequence: [sequences, vocabulary or labels].
  std::vector<float> logits;
};

/// What a transformer on any device is made for.
struct TransformerSettings {
  std::int64_t max_sequences;
  std::int64_t max_length;
  ElementType type = ElementType::kFloat32;
  /// Blocks keep their input alone, and backward runs their forward again: the same bits.
  bool checkpoints_activations = false;

  [[nodiscard]] std::int64_t tokens() const { return max_sequences * max_length; }
};

/// Synchronous on the calling thread and `threads` - 1 of its own; instances share nothing. Results
/// have the same bits for any number of threads. What element types mean for intermediate values is
/// in numerics.h.
///
/// Products are oneDNN's, so bits do depend on the instruction set of the machine.
///
/// Differences to Hugging Face in training: no dropout (TransformerConfig::unapplied_dropouts), and
/// the embedding of a padding token is trained like any other.
class HostTransformer {
 public:
  /// Throws Error(kInput) if `max_length` exceeds the model's positions.
  /// Memory: sim/memory/trainer_activations.h.
  /// Preconditions: the sizes and `threads` are at least 1.
  HostTransformer(TransformerConfig config, const TransformerSettings& settings,
                  std::size_t threads = 1);
  ~HostTransformer();
  HostTransformer(HostTransformer&&) noexcept;
  HostTransformer& operator=(HostTransformer&&) noexcept;

  [[nodiscard]] const ParameterTable& parameters() const;
  [[nodiscard]] const TransformerConfig& config() const;

  /// Throws Error(kInput) naming the sequence and position of a token outside the vocabulary, or
  /// what else does not fit together.
  void check(const Batch& batch) const;
  /// Takes the next batch. Throws as `check`; nothing has changed then.
  void begin(const Batch& batch, MicroBatch part = {});

  /// `weights[i]` is parameter i of the whole table, in the element type, row-major and contiguous.
  /// Read are those of the group, and by a tied head the token embedding.
  /// Throws Error(kRuntime) unless, after `begin`, groups come in the order 0, 1, ..., each once.
  void forward(std::size_t group, std::span<const void* const> weights);

  /// `gradients[i]` belongs to parameter i, as weights do; those of the group are overwritten, or
  /// where the batch adds, added to in fp32 and stored in the element type. A tied head does that
  /// to the embedding's with its part, and the embedding's backward adds to that. Throws
  /// Error(kRuntime) unless, after the forward of all groups, they come in reverse order, each
  /// once. Precondition: the weights of the forward pass.
  void backward(std::size_t group, std::span<const void* const> weights,
                std::span<void* const> gradients);

  /// After the forward of the last group: cross-entropy averaged over the targets that are not
  /// ignored, or the mean squared error of a regression; the weighted sum over the batches that
  /// were added up.
  [[nodiscard]] double loss() const;

  /// `begin` and `forward` of all groups; ends a step that has not run its backward.
  [[nodiscard]] Evaluation evaluate(const Batch& batch, std::span<const void* const> weights);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zenflow::runtime
