// The transformer on the CUDA device, on the emulator's asynchronous streams: late, with host code
// kept from device memory, and without the default stream.
#include <cstring>

#include <gtest/gtest.h>

#include "runtime/cuda/cuda_stream.h"
#include "runtime/cuda_model/transformer.h"
#include "runtime/offload/engine.h"
#include "runtime/trace/recorder.h"
#include "tests/emulator/kernel_gemm.h"
#include "tests/support/closeness.h"
#include "tests/support/model_step.h"
#include "tests/support/test_device.h"

namespace zenflow::runtime {
namespace {

constexpr const char* kModel = R"({"model_type": "gpt2", "vocab_size": 31, "n_embd": 64,
  "n_layer": 2, "n_head": 1, "n_inner": 48, "n_positions": 16, "layer_norm_epsilon": 1e-5,
  "activation_function": "gelu_new", "initializer_range": 0.1, "resid_pdrop": 0.0,
  "embd_pdrop": 0.0, "attn_pdrop": 0.0})";

Batch some_batch(std::uint32_t seed) {
  Batch batch{2, 9, {}, {}, {}, {}};
  for (std::uint32_t i = 0; i < 18; ++i) {
    const auto words = philox({i, 0, 0, 0}, {seed, 0});
    batch.inputs.push_back(static_cast<std::int32_t>(words[0] % 31));
    batch.targets.push_back(static_cast<std::int32_t>(words[1] % 31));
  }
  return batch;
}

/// A table's tensors in one buffer on the device, and where they come from and go to.
struct Tensors {
  Tensors(Device& on, Stream& by, const zenflow::testing::TensorStore& values)
      : device(on), stream(by) {
    for (const auto& bytes : values.bytes()) {
      buffers.push_back(device.allocate(MemoryKind::kDevice, bytes.size(), "tensor"));
      pinned.push_back(device.allocate(MemoryKind::kPinnedHost, bytes.size(), "tensor"));
      std::memcpy(pinned.back().data(), bytes.data(), bytes.size());
      device.copy(stream, buffers.back().data(), pinned.back().data(), bytes.size(),
                  CopyDirection::kHostToDevice, Traffic::kInitial, {});
      pointers.push_back(buffers.back().data());
      constant.push_back(buffers.back().data());
    }
  }
  void read_into(zenflow::testing::TensorStore& values) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      device.copy(stream, pinned[i].data(), buffers[i].data(), buffers[i].bytes(),
                  CopyDirection::kDeviceToHost, Traffic::kInitial, {});
    }
    stream.record().wait();
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      std::memcpy(values.pointers()[i], pinned[i].data(), buffers[i].bytes());
    }
  }
  Device& device;
  Stream& stream;
  std::vector<Buffer> buffers;
  std::vector<Buffer> pinned;
  std::vector<void*> pointers;
  std::vector<const void*> constant;
};

class CudaModelAsync : public ::testing::TestWithParam<ElementType> {};

TEST_P(CudaModelAsync, StepsAgreeWithTheHostHoweverLateStreamsAre) {
  const TransformerConfig config = zenflow::testing::model_config(kModel);
  zenflow::testing::ModelUnderTest host(config, 2, 9, GetParam());
  host.initialize(GetParam());
  Recorder recorder{false};
  const auto device = runtime::testing::make_test_device({.lazy_streams = {"compute"}}, recorder);
  const std::unique_ptr<Stream> compute = device->make_stream("compute");
  CudaTransformer model(config, {{2, 9, GetParam()}}, *device,
                        std::make_unique<zenflow::testing::KernelGemm>(true), &handle_of);
  Tensors weights(*device, *compute, host.weights);
  zenflow::testing::TensorStore found(model.parameters(), GetParam());
  Tensors gradients(*device, *compute, found);
  const std::size_t groups = model.parameters().groups.size();
  const std::uint64_t allocations = device->memory_use(MemoryKind::kDevice).allocations;
  for (const std::uint32_t seed : {1U, 2U, 3U}) {
    model.begin(some_batch(seed), {});
    for (std::size_t g = 0; g < groups; ++g) model.forward(g, weights.constant, *compute);
    for (std::size_t g = groups; g-- > 0;) {
      model.backward(g, weights.constant, gradients.pointers, *compute);
    }
    gradients.read_into(found);
    const double expected = host.step(some_batch(seed));
    const bool is_narrow = GetParam() == ElementType::kBfloat16;
    EXPECT_NEAR(model.loss() / expected, 1.0, is_narrow ? 1e-3 : 1e-6);
    for (std::size_t i = 0; i < found.bytes().size(); ++i) {
      kernels::testing::expect_close(found.values(i), host.gradients.values(i),
                                     is_narrow ? kernels::testing::Bounds{0x1p-5, 0x1p-4}
                                               : kernels::testing::Bounds{1e-5, 1e-5},
                                     model.parameters().parameters[i].name.c_str());
    }
  }
  EXPECT_EQ(device->memory_use(MemoryKind::kDevice).allocations, allocations);
  const Evaluation evaluation = model.evaluate(some_batch(4), weights.constant, *compute);
  const Evaluation of_host = host.model.evaluate(some_batch(4), host.weights.constant());
  EXPECT_NEAR(evaluation.loss, of_host.loss, 1e-2);
}

struct Trained {
  std::vector<double> losses;
  std::vector<std::vector<float>> weights;
  TrafficCount traffic;
  std::uint64_t activations = 0;  // bytes on the device
};

/// Two sequences a step, in `count` micro-batches, for two steps of overlapped ZenFlow.
Trained train(ElementType type, std::int64_t count, bool checkpoints) {
  const TransformerConfig config = zenflow::testing::model_config(kModel);
  zenflow::testing::ModelUnderTest initial(config, 1, 9, type);
  initial.initialize(type);
  std::vector<std::vector<float>> weights;
  for (std::size_t p = 0; p < initial.model.parameters().parameters.size(); ++p) {
    weights.push_back(initial.weights.values(p));
  }
  Recorder recorder{false};
  SelfCommunicator self;
  const auto device =
      runtime::testing::make_test_device({.lazy_streams = {"compute", "d2h"}}, recorder);
  CudaTransformer model(config, {{2 / count, 9, type, checkpoints}}, *device,
                        std::make_unique<zenflow::testing::KernelGemm>(true), &handle_of);
  OffloadSettings settings;
  settings.gradient_accumulation_steps = count;
  settings.topk_ratio = 0.25;
  settings.update_interval = 1;
  settings.adamw.learning_rate = 1e-4F;
  OffloadEngine engine(model, type, settings, *device, self, recorder);
  engine.load_weights(weights);
  Trained trained;
  for (std::uint32_t t = 0; t < 2; ++t) {
    const Batch both = some_batch(t);
    std::vector<Batch> micro_batches(static_cast<std::size_t>(count),
                                     {2 / count, 9, {}, {}, {}, {}});
    for (std::size_t token = 0; token < both.inputs.size(); ++token) {
      Batch& part = micro_batches[token * micro_batches.size() / both.inputs.size()];
      part.inputs.push_back(both.inputs[token]);
      part.targets.push_back(both.targets[token]);
    }
    model.begin_step(std::move(micro_batches));
    trained.losses.push_back(engine.step().loss);
  }
  engine.settle();
  trained.weights = engine.weights(true);
  trained.traffic = device->traffic();
  trained.activations = device->memory_use(MemoryKind::kDevice).by_purpose.at("activations");
  return trained;
}

TEST_P(CudaModelAsync, CheckpointingChangesNoBitOfATraining) {
  const Trained kept = train(GetParam(), 2, false);
  const Trained again = train(GetParam(), 2, true);
  EXPECT_EQ(again.losses, kept.losses);
  EXPECT_EQ(again.weights, kept.weights);
  EXPECT_LT(again.activations, kept.activations);
}

TEST_P(CudaModelAsync, MicroBatchesTrainAsTheBatchDoes) {
  const bool is_narrow = GetParam() == ElementType::kBfloat16;
  const Trained whole = train(GetParam(), 1, false);
  const Trained parts = train(GetParam(), 2, false);
  for (std::size_t t = 0; t < parts.losses.size(); ++t) {
    // Sums in another order; in bf16 they also round after every micro-batch.
    EXPECT_NEAR(parts.losses[t] / whole.losses[t], 1, is_narrow ? 1e-2 : 1e-4);
  }
  const auto kind = static_cast<std::size_t>(Traffic::kGradients);
  EXPECT_EQ(parts.traffic.d2h[kind], whole.traffic.d2h[kind]);
}

INSTANTIATE_TEST_SUITE_P(Types, CudaModelAsync,
                         ::testing::Values(ElementType::kFloat32, ElementType::kBfloat16));

}  // namespace
}  // namespace zenflow::runtime
