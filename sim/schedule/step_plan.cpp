#include "sim/schedule/step_plan.h"

#include <algorithm>
#include <utility>

#include "sim/cost/framework_cost.h"
#include "sim/cost/gpu_cost.h"
#include "sim/memory/activation_memory.h"

namespace zenflow::sim {
namespace {

/// Copying gradients into the bucket and dividing them by the number of ranks: two passes.
Seconds bucketing_time(const Job& job, double gradients) {
  const double bytes = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  return stream_time(job.scenario.hardware.gpu, Bytes(4 * bytes * gradients));
}

/// Tensors that are no bias: the modules with parameters.
double modules(const Layer& layer) {
  const std::vector<Tensor>& tensors = layer.tensors;
  return static_cast<double>(std::count_if(tensors.begin(), tensors.end(), [](const Tensor& one) {
    return !one.name.ends_with("bias");
  }));
}

/// The host's work of a layer: forward, and backward without recomputation.
struct HostTime {
  Seconds forward;
  Seconds backward;
};

/// Kernels enqueued one by one, and DeepSpeed's hooks.
HostTime host_time(const Job& job, const Layer& layer, const LayerTime& time) {
  HostTime host{time.forward_kernels * kKernelDispatch, time.backward_kernels * kKernelDispatch};
  if (job.deepspeed.zero_stage > 0) {
    host.backward += static_cast<double>(layer.trained_tensors()) * kGradientHook;
  }
  if (job.deepspeed.zero_stage == 3) {
    host.forward += modules(layer) * kModuleHooksForward;
    host.backward += modules(layer) * kModuleHooksBackward;
  }
  return host;
}

double frozen_elements(const Job& job, const Layer& layer) {
  const auto b = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  double elements = 0;
  for (const Tensor& tensor : layer.tensors) {
    if (!tensor.trained) elements += static_cast<double>(tensor.parameters()) * tensor.width(b) / b;
  }
  return elements;
}

/// The layer with what its GPU waits for the host. `again`: its forward is run in backward, too.
PlannedLayer planned_layer(const Job& job, const Layer& layer, LayerTime time, bool again = false) {
  PlannedLayer planned;
  planned.parameters = static_cast<double>(layer.trained());
  planned.weights = planned.parameters + frozen_elements(job, layer);
  Seconds backward = time.backward;
  if (planned.parameters > 0) backward += bucketing_time(job, planned.parameters);
  if (again) backward += time.forward;
  HostTime host{};
  if (counts_framework(job)) host = host_time(job, layer, time);
  if (!layer.runs_backward) host.backward = Seconds(0);
  planned.forward = to_picoseconds(std::max(time.forward, host.forward));
  if (again) host.backward += host.forward;
  planned.backward = to_picoseconds(std::max(backward, host.backward));
  planned.launching =
      planned.forward + planned.backward - to_picoseconds(time.forward) - to_picoseconds(backward);
  return planned;
}

class BucketFiller {
 public:
  explicit BucketFiller(double limit) : limit_(limit) {}

  void add(const Tensor& tensor, std::int32_t layer, bool first_of_layer) {
    const double elements = static_cast<double>(tensor.parameters());
    if (open_.elements > 0 && open_.elements + elements > limit_) flush();
    if (open_.elements == 0) {
      open_.first_layer = layer;
      open_.begins_layer = first_of_layer;
    }
    open_.elements += elements;
    if (tensor.is_matrix()) open_.matrix_elements += elements;
    open_.ready_layer = layer;
    ++open_.tensors;
  }
  void flush() {
    if (open_.elements > 0) buckets_.push_back(open_);
    open_ = {};
  }
  std::vector<GradientBucket> take() {
    flush();
    return std::move(buckets_);
  }

 private:
  double limit_;
  GradientBucket open_;
  std::vector<GradientBucket> buckets_;
};

std::vector<GradientBucket> plan_buckets(const Job& job) {
  const ModelSpec& model = job.scenario.model;
  BucketFiller filler(static_cast<double>(job.deepspeed.reduce_bucket_size));
  for (std::int64_t layer = model.layers() + 1; layer >= 0; --layer) {
    const std::vector<Tensor>& tensors = model.part(layer).tensors;
    bool first = true;
    for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor) {
      if (!tensor->trained) continue;
      filler.add(*tensor, static_cast<std::int32_t>(layer), std::exchange(first, false));
    }
  }
  return filler.take();
}

std::int64_t matrix_columns(const ModelSpec& model) {
  std::int64_t columns = 0;
  for (std::int64_t part = 0; part <= model.layers() + 1; ++part) {
    for (const Tensor& tensor : model.part(part).tensors) {
      columns += tensor.trained && tensor.is_matrix() ? tensor.columns() : 0;
    }
  }
  return columns;
}

}  // namespace

bool counts_framework(const Job& job) {
  return job.scenario.hardware.gpu.multiprocessors > 0 && !job.scenario.training.fused_framework;
}

Seconds framework_step_time(const Job& job) {
  if (!counts_framework(job)) return Seconds(0);
  if (casts_weights(job)) return Seconds(0);  // a few fused kernels
  const auto tensors = static_cast<double>(job.scenario.model.trained_tensors());
  if (job.deepspeed.zero_stage == 3) return tensors * kStepOfShard;
  if (job.deepspeed.zero_stage == 0) return tensors * (kStepOfTensor + kGradientHook);
  if (runs_bf16_optimizer(job)) return tensors * kStepOfTensor;  // norm and clipping of all of them
  const bool offloaded = job.deepspeed.offload_optimizer != OffloadDevice::kNone;
  return tensors / static_cast<double>(job.scenario.ranks()) *
         (offloaded ? kStepOfOffloadedTensor : kStepOfTensor);
}

StepPlan plan_step(const Job& job) {
  const ModelSpec& model = job.scenario.model;
  const TrainingSettings& training = job.scenario.training;
  const ModelTime time =
      model_time(job.scenario.hardware.gpu, model, training,
                 job.scenario.hardware.gpu.gemm_share_among(job.scenario.ranks()));
  const ActivationMemory memory = activation_memory(model, training);
  StepPlan plan;
  plan.layers.push_back(planned_layer(job, model.embedding, time.embedding));
  plan.layers.back().activation_bytes = memory.embedding.value();
  std::vector<PlannedLayer> kinds;
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    kinds.push_back(
        planned_layer(job, model.kinds[kind], time.kinds[kind],
                      training.activation_checkpointing && model.kinds[kind].runs_backward));
    kinds.back().activation_bytes = memory.layer[kind].value();
    kinds.back().transient_bytes = memory.recomputed[kind].value();
  }
  for (const std::int32_t kind : model.order) {
    plan.layers.push_back(kinds[static_cast<std::size_t>(kind)]);
  }
  plan.layers.push_back(planned_layer(job, model.head, time.head));
  plan.layers.back().logit_bytes = memory.logits_forward.value();
  plan.layers.back().transient_bytes = memory.logits_backward.value();
  plan.buckets = plan_buckets(job);
  plan.matrix_columns = matrix_columns(model);
  return plan;
}

}  // namespace zenflow::sim
