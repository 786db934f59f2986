#include "runtime/model/transformer.h"

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
  State(TransformerConfig configuration, std::int64_t max_sequences, std::int64_t max_length,
        ElementType element_type, std::size_t threads)
      : config(std::move(configuration)),
        table(parameter_table(config.model, config.task)),
        limits{max_sequences, max_length},
        type(element_type),
        pool(threads),
        head(config, table, max_sequences, max_sequences * max_length),
        work(config, max_sequences * max_length) {
    const std::int64_t tokens = max_sequences * max_length;
    for (std::int64_t layer = 0; layer < config.model.layers; ++layer) {
      blocks.emplace_back(config, table, layer);
      kept.emplace_back(config, tokens);
    }
    streams.resize(size(config.model.layers + 1));
    for (std::vector<float>& stream : streams) stream.resize(size(tokens * config.model.hidden));
    d_stream.resize(size(tokens * config.model.hidden));
    if (config.is_llama_like()) {
      rotary = RotaryTable(config.rotary, config.model.head_dim, max_length, type);
    }
  }

  [[nodiscard]] Execution execution() { return {pool, type}; }
  [[nodiscard]] TokenGrid grid() const { return {batch.sequences, batch.length}; }
  [[nodiscard]] Tokens tokens() const { return {batch.inputs, batch.length}; }
  [[nodiscard]] Targets targets() const { return {batch.targets, batch.values, last}; }
  [[nodiscard]] bool is_head(std::size_t group) const { return group + 1 == table.groups.size(); }

  /// The embedding group: token embeddings, then GPT-2's positions.
  void embed(WeightPointers weights) {
    const void* const positions = config.model.learned_positions ? weights[1] : nullptr;
    embedding_forward(execution(), tokens(), config.model.hidden, weights[0], positions,
                      streams[0].data());
  }
  void embed_backward(GradientPointers gradients) {
    word_gradient(execution(), tokens(), config.model.hidden, d_stream.data(), config.model.vocab,
                  gradients[0], config.has_tied_head() ? Store::kAdd : Store::kWrite);
    if (!config.model.learned_positions) return;
    position_gradient(execution(), tokens(), config.model.hidden, d_stream.data(),
                      config.model.max_positions, gradients[1]);
  }

  TransformerConfig config;
  ParameterTable table;
  BatchLimits limits;
  ElementType type;
  ThreadPool pool;
  RotaryTable rotary;
  std::vector<DecoderBlock> blocks;
  std::vector<BlockActivations> kept;  // of every block
  std::vector<std::vector<float>>
      streams;  // [tokens, hidden]: before each block, and after the last
  std::vector<float> d_stream;
  OutputHead head;
  BlockWorkspace work;
  Batch batch;
  std::vector<std::int32_t> last;  // place of each sequence's last token
  double loss = 0.0;
  PassOrder order{table.groups.size()};
};

HostTransformer::HostTransformer(TransformerConfig config, std::int64_t max_sequences,
                                 std::int64_t max_length, ElementType type, std::size_t threads) {
  check_length(config, max_length);
  state_ = std::make_unique<State>(std::move(config), max_sequences, max_length, type, threads);
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
  return state_->loss;
}

void HostTransformer::begin(const Batch& batch) {
  check_batch(batch, state_->config, state_->limits);
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
    const std::size_t layer = group - 1;
    state.blocks[layer].forward(state.execution(), state.grid(), state.rotary, weights,
                                state.streams[layer].data(), state.streams[layer + 1].data(),
                                state.kept[layer], state.work);
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
    const std::size_t layer = group - 1;
    state.blocks[layer].backward(state.execution(), state.grid(), state.rotary, weights, gradients,
                                 state.streams[layer].data(), state.d_stream.data(),
                                 state.kept[layer], state.work);
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
