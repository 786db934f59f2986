#include "runtime/model/transformer.h"

#include <new>
#include <utility>

#include "runtime/model/batch_arrays.h"
#include "runtime/model/batch_check.h"
#include "runtime/model/host_operations.h"
#include "runtime/model/network.h"
#include "runtime/model/pass_order.h"
#include "runtime/model/rotary.h"

namespace zenflow::runtime {
struct HostTransformer::State {
  /// Uninitialized: what nobody has used yet takes no memory.
  class Memory {
   public:
    explicit Memory(std::size_t bytes)
        : begin_(static_cast<std::byte*>(::operator new(bytes, kAlignment))) {}
    [[nodiscard]] std::byte* data() const { return begin_.get(); }

   private:
    static constexpr std::align_val_t kAlignment{256};
    struct Release {
      void operator()(std::byte* begin) const { ::operator delete(begin, kAlignment); }
    };
    std::unique_ptr<std::byte, Release> begin_;
  };

  [[nodiscard]] static BatchView arrays_in(const Memory& memory,
                                           const TransformerSettings& settings) {
    Arena arena(memory.data());
    return {BatchArrays(settings.max_sequences, settings.max_length, arena)};
  }

  State(TransformerConfig configuration, const TransformerSettings& chosen, std::size_t threads)
      : config(std::move(configuration)),
        table(parameter_table(config.model, config.task)),
        settings(chosen),
        pool(threads),
        kept(memory().kept),
        work(memory().work),
        batch_memory(BatchArrays::bytes(settings.max_sequences, settings.max_length)),
        batch(arrays_in(batch_memory, settings)) {
    if (settings.type == ElementType::kFloat32) {
      make<float>();
    } else {
      make<kernels::WideBf16>();
    }
    if (!config.has_rotary()) return;
    const auto table_of = [this](const RotarySettings& of) {
      return RotaryTable(of, config.rotary_columns, settings.max_length, settings.type);
    };
    rotary = table_of(config.rotary);
    if (config.window_rotary) window_rotary = table_of(*config.window_rotary);
  }

  /// The same for either type: both have fp32 containers.
  [[nodiscard]] NetworkMemory memory() const {
    return network_memory<float>(config, settings, host_operation_memory());
  }
  template <class Element>
  void make() {
    network = make_network<Element>(config, settings, host_operation_memory(),
                                    host_operations<Element>(pool), kept.data(), work.data());
  }
  [[nodiscard]] Pass pass(WeightPointers weights) const {
    return {.batch = batch,
            .weights = weights,
            .gradient_scale = part.weight / static_cast<double>(batch.counted),
            .trains = trains,
            .adds = part.adds,
            .angles = {rotary.cosines().data(), rotary.sines().data()},
            .window_angles = {window_rotary.cosines().data(), window_rotary.sines().data()}};
  }
  [[nodiscard]] double mean_loss() const { return sum.loss / static_cast<double>(batch.counted); }

  TransformerConfig config;
  ParameterTable table;
  TransformerSettings settings;
  ThreadPool pool;
  RotaryTable rotary;
  RotaryTable window_rotary;
  Memory kept;
  Memory work;
  Memory batch_memory;
  BatchView batch;
  std::unique_ptr<Network> network;
  MicroBatch part;
  bool trains = true;
  kernels::LossSum sum{0.0, 0};  // of the batch
  double earlier_loss = 0.0;     // of the step's batches before it
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
  return state_->earlier_loss + state_->part.weight * state_->mean_loss();
}

void HostTransformer::check(const Batch& batch) const {
  check_batch(batch, state_->config, {state_->settings.max_sequences, state_->settings.max_length});
}

void HostTransformer::begin(const Batch& batch, MicroBatch part) {
  check(batch);
  state_->earlier_loss = part.adds ? loss() : 0.0;
  state_->part = part;
  state_->trains = true;
  state_->order.begin();
  state_->batch = store_batch(batch, state_->batch.at);
}

void HostTransformer::forward(std::size_t group, std::span<const void* const> weights) {
  state_->order.forward(group);
  state_->network->forward(state_->pass(weights), group, &state_->sum);
}

void HostTransformer::backward(std::size_t group, std::span<const void* const> weights,
                               std::span<void* const> gradients) {
  state_->order.backward(group);
  state_->network->backward(state_->pass(weights), group, gradients);
}

Evaluation HostTransformer::evaluate(const Batch& batch, std::span<const void* const> weights) {
  begin(batch);
  State& state = *state_;
  state.trains = false;
  for (std::size_t group = 0; group < state.table.groups.size(); ++group) forward(group, weights);
  state.order.end();  // no backward: its logits have gone
  const Network::Logits logits = state.network->last_logits(state.pass(weights));
  const auto* const first = static_cast<const float*>(logits.values);
  return {state.mean_loss(), state.batch.counted, static_cast<std::int64_t>(state.sum.correct),
          capped_logits(state.config, {first, first + state.batch.sequences * logits.stride})};
}

}  // namespace zenflow::runtime
