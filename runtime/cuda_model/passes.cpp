#include "runtime/cuda_model/passes.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "kernels/embedding/embedding_cuda.h"

namespace zenflow::runtime {
namespace {

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

/// What is kept from forward to backward.
template <class Element>
struct Kept {
  Kept(const TransformerConfig& config, const CudaTransformerSettings& settings, Arena& arena) {
    const std::int64_t tokens = settings.tokens();
    for (std::int64_t layer = 0; layer <= config.model.layers; ++layer) {
      streams.push_back(arena.take<Element>(tokens * config.model.hidden));
    }
    const std::int64_t whole = settings.checkpoints_activations ? 1 : config.model.layers;
    for (std::int64_t layer = 0; layer < whole; ++layer) {
      blocks.emplace_back(config, tokens, arena);
    }
  }
  std::vector<Element*> streams;  // [tokens, hidden]: before each block, and after the last
  std::vector<CudaBlockActivations<Element>> blocks;  // one for all if they are computed again
};

/// What one pass after the other uses.
template <class Element>
struct Work {
  Work(const TransformerConfig& config, const ParameterTable& table,
       const CudaTransformerSettings& settings, Arena& arena)
      : blocks(config, settings.tokens(), arena),
        d_stream(arena.take<Element>(settings.tokens() * config.model.hidden)),
        head(config, table, settings.max_sequences, settings.tokens(), settings.logit_bytes,
             arena) {}
  CudaWorkspace<Element> blocks;
  Element* d_stream;  // [tokens, hidden]
  CudaHead<Element> head;
};

template <class Element>
CudaTransformerMemory memory_of(const TransformerConfig& config,
                                const CudaTransformerSettings& settings) {
  const ParameterTable table = parameter_table(config.model, config.task);
  Arena kept(nullptr);
  const Kept<Element> keeps(config, settings, kept);
  Arena work(nullptr);
  const Work<Element> works(config, table, settings, work);
  return {kept.bytes(), work.bytes()};
}

std::vector<float> angle_table(const RotaryTable& rotary) {
  std::vector<float> both = rotary.cosines();
  both.insert(both.end(), rotary.sines().begin(), rotary.sines().end());
  return both;
}

template <class Element>
class PassesOf final : public CudaPasses {
 public:
  PassesOf(const TransformerConfig& config, const ParameterTable& table,
           const CudaTransformerSettings& settings, Device& device)
      : config_(config) {
    const CudaTransformerMemory memory = memory_of<Element>(config, settings);
    kept_memory_ = device.allocate(MemoryKind::kDevice, memory.kept, "activations");
    work_memory_ = device.allocate(MemoryKind::kDevice, memory.work, "model workspace");
    Arena kept(kept_memory_.data());
    kept_.emplace(config, settings, kept);
    Arena work(work_memory_.data());
    work_.emplace(config, table, settings, work);
    for (std::int64_t layer = 0; layer < config.model.layers; ++layer) {
      blocks_.emplace_back(config, table, layer);
    }
    if (config.is_llama_like()) upload_angles(settings, device);
  }

  void forward(const CudaPass& pass, std::size_t group, kernels::LossSum* sum) override {
    if (group == 0) {
      embed(pass);
    } else if (group <= blocks_.size()) {
      const std::size_t layer = group - 1;
      blocks_[layer].forward(pass.run, pass.grid(), angles_, pass.weights, stream_into(layer),
                             kept_of(layer), work_->blocks, false);
      computed_ = layer;
    } else {
      work_->head.forward(pass.run, pass.grid(), pass.weights, targets(pass),
                          stream_into(blocks_.size()), pass.trains, sum);
    }
  }

  void backward(const CudaPass& pass, std::size_t group, GradientPointers gradients) override {
    if (group == 0) {
      embed_backward(pass, gradients);
    } else if (group <= blocks_.size()) {
      const std::size_t layer = group - 1;
      compute_again(pass, layer);
      blocks_[layer].backward(pass.run, pass.grid(), angles_, pass.weights, gradients, pass.adds,
                              kept_->streams[layer], work_->d_stream, kept_of(layer),
                              work_->blocks);
    } else {
      work_->head.backward(pass.run, pass.grid(), pass.weights, gradients, pass.adds, targets(pass),
                           kept_->streams.back(), work_->d_stream, work_->blocks.hidden);
    }
  }

  Logits last_logits(const CudaPass& pass) override {
    const auto logits =
        work_->head.last_logits(pass.run, pass.grid(), pass.weights, pass.batch.on_device().last);
    return {logits.values, logits.stride};
  }
  [[nodiscard]] void* scratch() const override { return work_->blocks.scratch; }

 private:
  void upload_angles(const CudaTransformerSettings& settings, Device& device) {
    const std::vector<float> table = angle_table(
        RotaryTable(config_.rotary, config_.model.head_dim, settings.max_length, settings.type));
    const std::size_t bytes = table.size() * sizeof(float);
    angle_memory_ = device.allocate(MemoryKind::kDevice, bytes, "rotary angles");
    const Buffer host = device.allocate(MemoryKind::kPinnedHost, bytes, "rotary angles");
    std::copy(table.begin(), table.end(), host.as<float>());
    const std::unique_ptr<Stream> stream = device.make_stream("model set-up");
    device.copy(*stream, angle_memory_.data(), host.data(), bytes, CopyDirection::kHostToDevice,
                Traffic::kInitial, {Operation::kRotaryAngles});
    stream->record().wait();
    angles_ = {angle_memory_.as<float>(), angle_memory_.as<float>() + table.size() / 2};
  }

  [[nodiscard]] const CudaBlockActivations<Element>& kept_of(std::size_t layer) const {
    return kept_->blocks[std::min(layer, kept_->blocks.size() - 1)];
  }

  /// What block `layer`, or after the last the head, reads: the embedding, or the two parts that
  /// the block before has left.
  [[nodiscard]] ResidualStream<Element> stream_into(std::size_t layer) const {
    Element* const stream = kept_->streams[layer];
    if (layer == 0) return {stream, nullptr, nullptr};
    return {kept_of(layer - 1).middle, work_->blocks.delta, stream};
  }

  /// The same bits as in forward: the same operations on the same inputs.
  void compute_again(const CudaPass& pass, std::size_t layer) {
    if (kept_->blocks.size() == blocks_.size() || computed_ == layer) return;
    blocks_[layer].forward(pass.run, pass.grid(), angles_, pass.weights,
                           {kept_->streams[layer], nullptr, nullptr}, kept_of(layer), work_->blocks,
                           true);
    computed_ = layer;
  }

  void embed(const CudaPass& pass) const {
    const auto* const positions =
        config_.model.learned_positions ? static_cast<const Element*>(pass.weights[1]) : nullptr;
    kernels::embedding_cuda<Element>(
        {pass.batch.on_device().ids, size(pass.grid().tokens()), size(pass.grid().length)},
        size(config_.model.hidden), static_cast<const Element*>(pass.weights[0]), positions,
        kept_->streams[0], pass.run.stream);
  }

  void embed_backward(const CudaPass& pass, GradientPointers gradients) const {
    const std::size_t columns = size(config_.model.hidden);
    kernels::word_gradient_cuda<Element>(
        pass.batch.order(), columns, work_->d_stream, size(config_.model.vocab),
        pass.adds || config_.has_tied_head(), static_cast<Element*>(gradients[0]), pass.run.stream);
    if (!config_.model.learned_positions) return;
    kernels::position_gradient_cuda<Element>(size(pass.grid().tokens()), size(pass.grid().length),
                                             columns, work_->d_stream,
                                             size(config_.model.max_positions), pass.adds,
                                             static_cast<Element*>(gradients[1]), pass.run.stream);
  }

  [[nodiscard]] static CudaTargets targets(const CudaPass& pass) {
    const CudaBatch::Arrays& arrays = pass.batch.on_device();
    return {arrays.classes, arrays.values, arrays.last, arrays.counting, pass.gradient_scale};
  }

  TransformerConfig config_;
  Buffer kept_memory_;
  Buffer work_memory_;
  Buffer angle_memory_;
  kernels::RotaryAngles angles_{nullptr, nullptr};
  std::optional<Kept<Element>> kept_;
  std::optional<Work<Element>> work_;
  std::vector<CudaBlock<Element>> blocks_;
  std::size_t computed_ = 0;  // block whose activations are kept, if all share one place
};

}  // namespace

std::unique_ptr<CudaPasses> make_cuda_passes(const TransformerConfig& config,
                                             const ParameterTable& table,
                                             const CudaTransformerSettings& settings,
                                             Device& device) {
  if (settings.type == ElementType::kBfloat16) {
    return std::make_unique<PassesOf<kernels::Bf16>>(config, table, settings, device);
  }
  return std::make_unique<PassesOf<float>>(config, table, settings, device);
}

CudaTransformerMemory cuda_transformer_memory(const TransformerConfig& config,
                                              const CudaTransformerSettings& settings) {
  if (settings.type == ElementType::kBfloat16) return memory_of<kernels::Bf16>(config, settings);
  return memory_of<float>(config, settings);
}

}  // namespace zenflow::runtime
