#include "runtime/cuda_model/transformer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/attention/attention_cuda.h"
#include "kernels/bf16/bf16.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "runtime/cuda_model/batch.h"
#include "runtime/cuda_model/operations.h"
#include "runtime/model/batch_check.h"
#include "runtime/model/pass_order.h"
#include "runtime/model/rotary.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

/// Checked before anything is allocated for it.
const TransformerConfig& checked(const TransformerConfig& config,
                                 const CudaTransformerSettings& settings) {
  check_length(config, settings.max_length);
  constexpr auto kLargest = static_cast<std::int64_t>(kernels::kLargestHeadDim);
  if (config.model.head_dim > kLargest) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: expected heads of at most {} columns on a GPU, found {}",
                            config.model.name, kLargest, config.model.head_dim));
  }
  return config;
}

template <class Element>
NetworkMemory memory_of(const TransformerConfig& config, const CudaTransformerSettings& settings) {
  return network_memory<Element>(
      config, settings,
      cuda_operation_memory<Element>(config.model, settings.tokens(), settings.logit_bytes));
}

template <class Element>
std::unique_ptr<Network> network_of(const TransformerConfig& config,
                                    const CudaTransformerSettings& settings,
                                    const CudaExecution& run, const Buffer& kept,
                                    const Buffer& work) {
  return make_network<Element>(
      config, settings,
      cuda_operation_memory<Element>(config.model, settings.tokens(), settings.logit_bytes),
      cuda_operations<Element>(run), kept.data(), work.data());
}

/// Rotary angles on the device; none with learned positions. Those of layers with a window follow
/// the others.
Buffer upload_angles(const TransformerConfig& config, const CudaTransformerSettings& settings,
                     Device& device) {
  if (!config.has_rotary()) return {};
  std::vector<float> table;
  const auto append = [&](const RotarySettings& of) {
    const RotaryTable rotary(of, config.rotary_columns, settings.max_length, settings.type);
    table.insert(table.end(), rotary.cosines().begin(), rotary.cosines().end());
    table.insert(table.end(), rotary.sines().begin(), rotary.sines().end());
  };
  append(config.rotary);
  if (config.window_rotary) append(*config.window_rotary);
  const std::size_t bytes = table.size() * sizeof(float);
  Buffer on_device = device.allocate(MemoryKind::kDevice, bytes, "rotary angles");
  const Buffer host = device.allocate(MemoryKind::kPinnedHost, bytes, "rotary angles");
  std::copy(table.begin(), table.end(), host.as<float>());
  const std::unique_ptr<Stream> stream = device.make_stream("model set-up");
  device.copy(*stream, on_device.data(), host.data(), bytes, CopyDirection::kHostToDevice,
              Traffic::kInitial, {Operation::kRotaryAngles});
  stream->record().wait();
  return on_device;
}

}  // namespace

NetworkMemory cuda_transformer_memory(const TransformerConfig& config,
                                      const CudaTransformerSettings& settings) {
  if (settings.type == ElementType::kBfloat16) return memory_of<kernels::Bf16>(config, settings);
  return memory_of<float>(config, settings);
}

struct CudaTransformer::State {
  State(const TransformerConfig& configuration, const CudaTransformerSettings& chosen, Device& on,
        std::unique_ptr<DeviceGemm> products, StreamHandle handle)
      : config(checked(configuration, chosen)),
        table(parameter_table(config.model, config.task)),
        settings(chosen),
        device(on),
        gemm(std::move(products)),
        handle_of(handle),
        kept(device.allocate(MemoryKind::kDevice, cuda_transformer_memory(config, settings).kept,
                             "activations")),
        work(device.allocate(MemoryKind::kDevice, cuda_transformer_memory(config, settings).work,
                             "model workspace")),
        angles(upload_angles(config, settings, device)),
        batch(device, settings.max_sequences, settings.max_length),
        sum_on_device(device.allocate(MemoryKind::kDevice, sizeof(kernels::LossSum), "loss")),
        sum_on_host(device.allocate(MemoryKind::kPinnedHost, sizeof(kernels::LossSum), "loss")),
        order(table.groups.size()) {
    network = settings.type == ElementType::kBfloat16
                  ? network_of<kernels::Bf16>(config, settings, run, kept, work)
                  : network_of<float>(config, settings, run, kept, work);
    run = {gemm.get(), nullptr, network->scratch()};
  }

  [[nodiscard]] bool is_head(std::size_t group) const { return group + 1 == table.groups.size(); }
  [[nodiscard]] const kernels::LossSum& sum() const {
    return *sum_on_host.as<const kernels::LossSum>();
  }
  /// The last batch's alone, once its forward pass has been waited for.
  [[nodiscard]] double mean_loss() const {
    return sum().loss / static_cast<double>(batch.on_device().counted);
  }

  void check(const Batch& next) const {
    check_batch(next, config, {settings.max_sequences, settings.max_length});
  }

  void begin(const Batch& next, MicroBatch micro, bool for_training) {
    check(next);
    if (micro.adds) {
      sum_arrived.wait();
      earlier_loss += part.weight * mean_loss();
    } else {
      earlier_loss = 0.0;
    }
    batch.take(next);
    part = micro;
    trains = for_training;
    order.begin();
  }

  /// A pass on `compute`, whose stream the operations enqueue on.
  [[nodiscard]] Pass pass(WeightPointers weights, Stream& compute) {
    run.stream = handle_of(compute);
    const BatchView& view = batch.on_device();
    // Cosines, then sines, and the same for layers with a window.
    const auto* const all = angles.as<const float>();
    const std::size_t table_size = angles.bytes() / sizeof(float) / (config.window_rotary ? 4 : 2);
    return {.batch = view,
            .weights = weights,
            .gradient_scale = part.weight / static_cast<double>(view.counted),
            .trains = trains,
            .adds = part.adds,
            .angles = {all, all + table_size},
            .window_angles = {all + 2 * table_size, all + 3 * table_size}};
  }

  void forward(std::size_t group, WeightPointers weights, Stream& compute) {
    order.forward(group);
    if (group == 0) batch.upload(compute);
    network->forward(pass(weights, compute), group, sum_on_device.as<kernels::LossSum>());
    if (!is_head(group)) return;
    device.copy(compute, sum_on_host.data(), sum_on_device.data(), sizeof(kernels::LossSum),
                CopyDirection::kDeviceToHost, Traffic::kControl, {Operation::kLoss});
    sum_arrived = compute.record();
  }

  /// The last tokens' logits, in fp32; waits for them.
  std::vector<float> read_logits(WeightPointers weights, Stream& compute) {
    const Network::Logits logits = network->last_logits(pass(weights, compute));
    const auto sequences = static_cast<std::size_t>(batch.on_device().sequences);
    const std::size_t element = bytes_per_element(settings.type);
    const std::size_t bytes = sequences * static_cast<std::size_t>(logits.stride) * element;
    if (logits_on_host.bytes() < bytes) {
      logits_on_host = device.allocate(MemoryKind::kPinnedHost, bytes, "evaluation logits");
    }
    device.copy(compute, logits_on_host.data(), logits.values, bytes, CopyDirection::kDeviceToHost,
                Traffic::kControl, {Operation::kEvaluationLogits});
    compute.record().wait();
    const auto outputs = static_cast<std::size_t>(
        config.task.is_classification() ? config.task.labels : config.model.vocab);
    std::vector<float> values;
    for (std::size_t s = 0; s < sequences; ++s) {
      for (std::size_t c = 0; c < outputs; ++c) {
        const std::size_t at = s * static_cast<std::size_t>(logits.stride) + c;
        values.push_back(settings.type == ElementType::kFloat32
                             ? logits_on_host.as<float>()[at]
                             : kernels::to_float(logits_on_host.as<kernels::Bf16>()[at]));
      }
    }
    return capped_logits(config, std::move(values));
  }

  TransformerConfig config;
  ParameterTable table;
  CudaTransformerSettings settings;
  Device& device;
  std::unique_ptr<DeviceGemm> gemm;
  StreamHandle handle_of;
  Buffer kept;
  Buffer work;
  Buffer angles;
  CudaBatch batch;
  Buffer sum_on_device;
  Buffer sum_on_host;
  Buffer logits_on_host;  // of an evaluation; grows to the largest
  Event sum_arrived;
  PassOrder order;
  CudaExecution run{};
  std::unique_ptr<Network> network;
  MicroBatch part;
  bool trains = true;
  double earlier_loss = 0.0;  // of the step's micro-batches before this one
};

CudaTransformer::CudaTransformer(const TransformerConfig& config,
                                 const CudaTransformerSettings& settings, Device& device,
                                 std::unique_ptr<DeviceGemm> gemm, StreamHandle handle_of)
    : state_(std::make_unique<State>(config, settings, device, std::move(gemm), handle_of)) {}

CudaTransformer::~CudaTransformer() = default;

void CudaTransformer::begin(const Batch& batch, MicroBatch part) {
  state_->begin(batch, part, true);
}

void CudaTransformer::check(const Batch& batch) const {
  state_->check(batch);
}

const TransformerConfig& CudaTransformer::config() const {
  return state_->config;
}
const ParameterTable& CudaTransformer::parameters() const {
  return state_->table;
}

bool CudaTransformer::shared(std::size_t parameter) const {
  return parameter == 0 && state_->config.has_tied_head();
}

void CudaTransformer::forward(std::size_t group, std::span<const void* const> weights,
                              Stream& compute) {
  state_->forward(group, weights, compute);
}

void CudaTransformer::backward(std::size_t group, std::span<const void* const> weights,
                               std::span<void* const> gradients, Stream& compute) {
  state_->order.backward(group);
  state_->network->backward(state_->pass(weights, compute), group, gradients);
}

double CudaTransformer::loss() const {
  return state_->earlier_loss + state_->part.weight * state_->mean_loss();
}

Evaluation CudaTransformer::evaluate(const Batch& batch, std::span<const void* const> weights,
                                     Stream& compute) {
  State& state = *state_;
  state.begin(batch, {}, false);
  for (std::size_t group = 0; group < state.table.groups.size(); ++group) {
    state.forward(group, weights, compute);
  }
  state.order.end();  // no backward: its logits have gone
  std::vector<float> logits = state.read_logits(weights, compute);
  return {state.mean_loss(), state.batch.on_device().counted,
          static_cast<std::int64_t>(state.sum().correct), std::move(logits)};
}

}  // namespace zenflow::runtime
