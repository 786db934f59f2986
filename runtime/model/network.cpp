#include "runtime/model/network.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "runtime/model/head.h"
#include "sim/base/stop.h"

namespace zenflow::runtime {
namespace {

/// Layers differ in their windows alone.
BlockLayout any_layer(const TransformerConfig& config) {
  return {config, parameter_table(config.model, config.task), 0};
}

/// What is kept from forward to backward.
template <class Element>
struct Kept {
  Kept(const TransformerConfig& config, const TransformerSettings& settings,
       const OperationMemory& memory, Arena& arena) {
    const std::int64_t tokens = settings.tokens();
    const BlockLayout layout = any_layer(config);
    for (std::int64_t layer = 0; layer <= config.model.layers(); ++layer) {
      streams.push_back(arena.take<Element>(tokens * config.model.hidden));
    }
    const std::int64_t whole = settings.checkpoints_activations ? 1 : config.model.layers();
    for (std::int64_t layer = 0; layer < whole; ++layer) {
      blocks.emplace_back(layout, tokens, memory, arena);
    }
  }
  std::vector<Element*> streams;  // [tokens, hidden]: before each block, and after the last
  std::vector<BlockActivations<Element>> blocks;  // one for all if they are computed again
};

/// What one pass after the other uses.
template <class Element>
struct Work {
  Work(const TransformerConfig& config, const ParameterTable& table,
       const TransformerSettings& settings, const OperationMemory& memory, Arena& arena)
      : blocks(any_layer(config), settings.tokens(), memory, arena),
        d_stream(arena.take<Element>(settings.tokens() * config.model.hidden)),
        head(config, table, settings, memory, arena) {}
  BlockWorkspace<Element> blocks;
  Element* d_stream;  // [tokens, hidden]
  Head<Element> head;
};

template <class Element>
class NetworkOf final : public Network {
 public:
  NetworkOf(const TransformerConfig& config, const TransformerSettings& settings,
            const OperationMemory& memory, std::unique_ptr<Operations<Element>> operations,
            Arena kept, Arena work)
      : config_(config),
        run_(std::move(operations)),
        kept_(config, settings, memory, kept),
        work_(config, parameter_table(config.model, config.task), settings, memory, work) {
    const ParameterTable table = parameter_table(config.model, config.task);
    for (std::int64_t layer = 0; layer < config.model.layers(); ++layer) {
      throw_if_stopped();
      blocks_.emplace_back(config, table, layer);
    }
  }

  void forward(const Pass& pass, std::size_t group, kernels::LossSum* sum) override {
    if (group == 0) {
      embed(pass);
    } else if (group <= blocks_.size()) {
      const std::size_t layer = group - 1;
      blocks_[layer].forward(*run_, pass, stream_into(layer), kept_of(layer), work_.blocks,
                             kept_.streams[group]);
      computed_ = layer;
    } else {
      work_.head.forward(*run_, pass, stream_into(blocks_.size()), sum);
    }
  }

  void backward(const Pass& pass, std::size_t group, GradientPointers gradients) override {
    if (group == 0) {
      embed_backward(pass, gradients);
    } else if (group <= blocks_.size()) {
      const std::size_t layer = group - 1;
      compute_again(pass, layer);
      blocks_[layer].backward(*run_, pass, gradients, kept_.streams[layer], work_.d_stream,
                              kept_of(layer), work_.blocks);
    } else {
      work_.head.backward(*run_, pass, gradients, kept_.streams.back(), work_.d_stream,
                          work_.blocks.hidden);
    }
  }

  Logits last_logits(const Pass& pass) override {
    const RowsView<const Element> logits = work_.head.last_logits(*run_, pass);
    return {logits.values, logits.stride};
  }
  [[nodiscard]] void* scratch() const override { return work_.blocks.scratch; }

 private:
  using Stored = kernels::ParameterOf<Element>;

  [[nodiscard]] const BlockActivations<Element>& kept_of(std::size_t layer) const {
    return kept_.blocks[std::min(layer, kept_.blocks.size() - 1)];
  }

  /// What block `layer`, or after the last the head, reads: the embedding, or the two parts that
  /// the block before has left.
  [[nodiscard]] ResidualStream<Element> stream_into(std::size_t layer) const {
    Element* const stream = kept_.streams[layer];
    if (layer == 0 || blocks_.front().layout().has_norms_after()) return {stream, nullptr, nullptr};
    return {kept_of(layer - 1).middle, work_.blocks.delta, stream};
  }

  /// The same bits as in forward: the same operations on the same inputs.
  void compute_again(const Pass& pass, std::size_t layer) {
    if (kept_.blocks.size() == blocks_.size() || computed_ == layer) return;
    blocks_[layer].forward(*run_, pass, {kept_.streams[layer], nullptr, nullptr}, kept_of(layer),
                           work_.blocks, nullptr);
    computed_ = layer;
  }

  /// In the element type, as Hugging Face multiplies.
  [[nodiscard]] float embedding_scale() const {
    return kernels::rounded_to<Element>(static_cast<float>(config_.embedding_scale));
  }

  void embed(const Pass& pass) const {
    const auto* const positions = config_.model.learned_positions
                                      ? static_cast<const Stored*>(pass.weights[1]) +
                                            config_.first_position * config_.model.hidden
                                      : nullptr;
    run_->embedding(pass.batch, as_size(config_.model.hidden), embedding_scale(),
                    static_cast<const Stored*>(pass.weights[0]), positions, kept_.streams[0]);
  }

  void embed_backward(const Pass& pass, GradientPointers gradients) const {
    const std::size_t columns = as_size(config_.model.hidden);
    run_->word_gradient(pass.batch, columns, embedding_scale(), work_.d_stream,
                        as_size(config_.model.vocab), pass.adds || config_.has_tied_head(),
                        static_cast<Stored*>(gradients[0]));
    if (!config_.model.learned_positions) return;
    const std::int64_t first = config_.first_position;
    run_->position_gradient(pass.batch, columns, work_.d_stream, as_size(first),
                            as_size(first + config_.model.max_positions), pass.adds,
                            static_cast<Stored*>(gradients[1]));
  }

  TransformerConfig config_;
  std::unique_ptr<Operations<Element>> run_;
  Kept<Element> kept_;
  Work<Element> work_;
  std::vector<Block<Element>> blocks_;
  std::size_t computed_ = 0;  // block whose activations are kept, if all share one place
};

}  // namespace

std::vector<float> capped_logits(const TransformerConfig& config, std::vector<float> logits) {
  if (config.task.is_classification() || config.logit_cap <= 0.0) return logits;
  const auto cap = static_cast<float>(config.logit_cap);
  for (float& logit : logits) logit = cap * std::tanh(logit / cap);
  return logits;
}

template <class Element>
NetworkMemory network_memory(const TransformerConfig& config, const TransformerSettings& settings,
                             const OperationMemory& memory) {
  Arena kept(nullptr);
  const Kept<Element> keeps(config, settings, memory, kept);
  Arena work(nullptr);
  const Work<Element> works(config, parameter_table(config.model, config.task), settings, memory,
                            work);
  return {kept.bytes(), work.bytes()};
}

template <class Element>
std::unique_ptr<Network> make_network(const TransformerConfig& config,
                                      const TransformerSettings& settings,
                                      const OperationMemory& memory,
                                      std::unique_ptr<Operations<Element>> operations,
                                      std::byte* kept, std::byte* work) {
  return std::make_unique<NetworkOf<Element>>(config, settings, memory, std::move(operations),
                                              Arena(kept), Arena(work));
}

#define ZENFLOW_NETWORK(Element)                                                     \
  template NetworkMemory network_memory<Element>(                                    \
      const TransformerConfig&, const TransformerSettings&, const OperationMemory&); \
  template std::unique_ptr<Network> make_network(                                    \
      const TransformerConfig&, const TransformerSettings&, const OperationMemory&,  \
      std::unique_ptr<Operations<Element>>, std::byte*, std::byte*);
ZENFLOW_NETWORK(float)
ZENFLOW_NETWORK(kernels::Bf16)
ZENFLOW_NETWORK(kernels::WideBf16)
#undef ZENFLOW_NETWORK

}  // namespace zenflow::runtime
