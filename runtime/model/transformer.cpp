#include "runtime/model/transformer.h"

#include <algorithm>
#include <utility>

#include "runtime/model/batch_check.h"
#include "runtime/model/decoder_block.h"
#include "runtime/model/embedding.h"
#include "runtime/model/output_head.h"
#include "runtime/model/pass_order.h"
#include "runtime/model/rotary.h"

namespace zenflow::runtime {
namespace {

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

}  // namespace

struct HostTransformer::State {
  State(TransformerConfig configuration, const TransformerSettings& settings, std::size_t threads)
      : config(std::move(configuration)),
        table(parameter_table(config.model, config.task)),
        limits{settings.max_sequences, settings.max_length},
        type(settings.type),
        pool(threads),
        head(config, table, settings.max_sequences, settings.tokens()),
        work(config, settings.tokens()) {
    const std::int64_t tokens = settings.tokens();
    for (std::int64_t layer = 0; layer < config.model.layers; ++layer) {
      blocks.emplace_back(config, table, layer);
    }
    const std::int64_t whole = settings.checkpoints_activations ? 1 : config.model.layers;
    for (std::int64_t layer = 0; layer < whole; ++layer) kept.emplace_back(config, tokens);
    streams.resize(size(config.model.layers + 1));
    for (std::vector<float>& stream : streams) stream.resize(size(tokens * config.model.hidden));
    d_stream.resize(size(tokens * config.model.hidden));
    if (config.is_llama_like()) {
      rotary = RotaryTable(config.rotary, config.model.head_dim, settings.max_length, type);
    }
  }

  [[nodiscard]] Execution execution() {
    return {pool, type, part.adds ? Store::kAdd : Store::kWrite};
  }
  [[nodiscard]] TokenGrid grid() const { return {batch.sequences, batch.length}; }
  [[nodiscard]] Tokens tokens() const { return {batch.inputs, batch.length}; }
  [[nodiscard]] Targets targets() const { return {batch.targets, batch.values, last, part.weight}; }
  [[nodiscard]] bool is_head(std::size_t group) const { return group + 1 == table.groups.size(); }

  /// The embedding group: token embeddings, then GPT-2's positions.
  void embed(WeightPointers weights) {
    const void* const positions = config.model.learned_positions ? weights[1] : nullptr;
    embedding_forward(execution(), tokens(), config.model.hidden, weights[0], positions,
                      streams[0].data());
  }
  void embed_backward(GradientPointers gradients) {
    word_gradient(execution(), tokens(), config.model.hidden, d_stream.data(), config.model.vocab,
                  gradients[0], config.has_tied_head() ? Store::kAdd : execution().gradients);
    if (!config.model.learned_positions) return;
    position_gradient(execution(), tokens(), config.model.hidden, d_stream.data(),
                      config.model.max_positions, gradients[1]);
  }

  [[nodiscard]] BlockActivations& kept_of(std::size_t layer) {
    return kept[std::min(layer, kept.size() - 1)];
  }
  void block_forward(std::size_t layer, WeightPointers weights) {
    blocks[layer].forward(execution(), grid(), rotary, weights, streams[layer].data(),
                          streams[layer + 1].data(), kept_of(layer), work);
    computed = layer;
  }
  void block_backward(std::size_t layer, WeightPointers weights, GradientPointers gradients) {
    // Blocks that share a place: the same operations on the same input leave the same bits.
    if (kept.size() < blocks.size() && computed != layer) block_forward(layer, weights);
    blocks[layer].backward(execution(), grid(), rotary, weights, gradients, streams[layer].data(),
                           d_stream.data(), kept_of(layer), work);
  }

  TransformerConfig config;
  ParameterTable table;
  BatchLimits limits;
  ElementType type;
  ThreadPool pool;
  RotaryTable rotary;
  std::vector<DecoderBlock> blocks;
  std::vector<BlockActivations> kept;  // of every block, or one for all if they are computed again
  std::size_t computed = 0;            // the block that filled it
  std::vector<std::vector<float>>
      streams;  // [tokens, hidden]: before each block, and after the last
  std::vector<float> d_stream;
  OutputHead head;
  BlockWorkspace work;
  Batch batch;
  MicroBatch part;
  std::vector<std::int32_t> last;  // place of each sequence's last token
  double loss = 0.0;               // of the batch
  double earlier_loss = 0.0;       // of the step's batches before it
  PassOrder order{table.groups.size()};
};

HostTransformer::HostTransformer(TransformerConfig config, const TransformerSettings& settings,
                                 std::size_t threads) {
  check_length(config, settings.max_length);
  state_ = std::make_unique<State>(std::move(config), settings, threads);
}

HostTransformer::~HostTransformer() = default;
HostTransformer::HostTransformer(HostTransformer&&) noexcept = default;
HostTransformer& HostTransformer::operator=(HostTransformer&&) noexcept = default;

const ParameterTable& HostTransformer::parameters() const {
  return state_->table;
}
const TransformerConfig& HostTransformer::config() const {
  return state_->config;
}
double HostTransformer::loss() const {
  return state_->earlier_loss + state_->part.weight * state_->loss;
}

void HostTransformer::check(const Batch& batch) const {
  check_batch(batch, state_->config, state_->limits);
}

void HostTransformer::begin(const Batch& batch, MicroBatch part) {
  check(batch);
  state_->earlier_loss = part.adds ? loss() : 0.0;
  state_->part = part;
  state_->order.begin();
  state_->batch = batch;
  state_->last.assign(size(batch.sequences), static_cast<std::int32_t>(batch.length - 1));
  for (std::size_t s = 0; s < batch.lengths.size(); ++s) state_->last[s] = batch.lengths[s] - 1;
}

void HostTransformer::forward(std::size_t group, std::span<const void* const> weights) {
  State& state = *state_;
  state.order.forward(group);
  if (group == 0) {
    state.embed(weights);
  } else if (state.is_head(group)) {
    state.loss = state.head.forward(state.execution(), state.grid(), weights, state.targets(),
                                    state.streams.back().data(), state.work);
  } else {
    state.block_forward(group - 1, weights);
  }
}

void HostTransformer::backward(std::size_t group, std::span<const void* const> weights,
                               std::span<void* const> gradients) {
  State& state = *state_;
  state.order.backward(group);
  if (group == 0) {
    state.embed_backward(gradients);
  } else if (state.is_head(group)) {
    state.head.backward(state.execution(), state.grid(), weights, gradients, state.targets(),
                        state.streams.back().data(), state.d_stream.data(), state.work);
  } else {
    state.block_backward(group - 1, weights, gradients);
  }
}

Evaluation HostTransformer::evaluate(const Batch& batch, std::span<const void* const> weights) {
  begin(batch);
  for (std::size_t group = 0; group < state_->table.groups.size(); ++group) {
    forward(group, weights);
  }
  State& state = *state_;
  state.order.end();  // no backward: its logits have gone
  return {state.loss, state.head.counted(), state.head.correct(),
          state.head.last_logits(state.execution(), state.grid(), weights, state.last, state.work)};
}

}  // namespace zenflow::runtime
