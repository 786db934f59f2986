#include "sim/schedule/step_plan.h"

#include <algorithm>

#include "sim/cost/framework_cost.h"
#include "sim/cost/gpu_cost.h"
#include "sim/memory/activation_memory.h"

namespace zenflow::sim {
namespace {

double parameters(const std::vector<Tensor>& tensors) {
  double total = 0;
  for (const Tensor& tensor : tensors) total += static_cast<double>(tensor.parameters());
  return total;
}

/// Copying gradients into the bucket and dividing them by the number of ranks: two passes.
Seconds bucketing_time(const Job& job, double gradients) {
  const double bytes = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  return stream_time(job.scenario.hardware.gpu, Bytes(4 * bytes * gradients));
}

/// Tensors that are no bias: the modules with parameters.
double modules(const std::vector<Tensor>& tensors) {
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
HostTime host_time(const Job& job, const std::vector<Tensor>& tensors, const LayerTime& time) {
  HostTime host{time.forward_kernels * kKernelDispatch, time.backward_kernels * kKernelDispatch};
  if (job.deepspeed.zero_stage > 0) {
    host.backward += static_cast<double>(tensors.size()) * kGradientHook;
  }
  if (job.deepspeed.zero_stage == 3) {
    host.forward += modules(tensors) * kModuleHooksForward;
    host.backward += modules(tensors) * kModuleHooksBackward;
  }
  return host;
}

/// The layer with what its GPU waits for the host. `again`: its forward is run in backward, too.
PlannedLayer planned_layer(const Job& job, const std::vector<Tensor>& tensors, LayerTime time,
                           bool again = false) {
  PlannedLayer layer;
  layer.parameters = parameters(tensors);
  Seconds backward = time.backward + bucketing_time(job, layer.parameters);
  if (again) backward += time.forward;
  HostTime host{};
  if (counts_framework(job)) host = host_time(job, tensors, time);
  layer.forward = to_picoseconds(std::max(time.forward, host.forward));
  if (again) host.backward += host.forward;
  layer.backward = to_picoseconds(std::max(backward, host.backward));
  return layer;
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
    if (tensor.is_matrix) open_.matrix_elements += elements;
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

const std::vector<Tensor>& tensors_of(const ModelSpec& model, std::int64_t layer) {
  if (layer == 0) return model.embedding;
  return layer <= model.layers ? model.block : model.head;
}

std::vector<GradientBucket> plan_buckets(const Job& job) {
  const ModelSpec& model = job.scenario.model;
  BucketFiller filler(static_cast<double>(job.deepspeed.reduce_bucket_size));
  for (std::int64_t layer = model.layers + 1; layer >= 0; --layer) {
    const std::vector<Tensor>& tensors = tensors_of(model, layer);
    for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor) {
      filler.add(*tensor, static_cast<std::int32_t>(layer), tensor == tensors.rbegin());
    }
  }
  return filler.take();
}

std::int64_t matrix_columns(const std::vector<Tensor>& tensors) {
  std::int64_t columns = 0;
  for (const Tensor& tensor : tensors) columns += tensor.is_matrix ? tensor.columns : 0;
  return columns;
}

}  // namespace

bool counts_framework(const Job& job) {
  return job.scenario.hardware.gpu.multiprocessors > 0 && !job.scenario.training.fused_framework;
}

Seconds framework_step_time(const Job& job) {
  if (!counts_framework(job)) return Seconds(0);
  const ModelSpec& model = job.scenario.model;
  const auto tensors =
      static_cast<double>(std::ssize(model.embedding) + model.layers * std::ssize(model.block) +
                          std::ssize(model.head));
  if (job.deepspeed.zero_stage == 3) return tensors * kStepOfShard;
  if (job.deepspeed.zero_stage == 0) return tensors * (kStepOfTensor + kGradientHook);
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
  PlannedLayer planned =
      planned_layer(job, model.block, time.block, training.activation_checkpointing);
  planned.activation_bytes = memory.block.value();
  planned.transient_bytes = memory.recomputed.value();
  plan.layers.insert(plan.layers.end(), static_cast<std::size_t>(model.layers), planned);
  plan.layers.push_back(planned_layer(job, model.head, time.head));
  plan.layers.back().logit_bytes = memory.logits_forward.value();
  plan.layers.back().transient_bytes = memory.logits_backward.value();
  plan.buckets = plan_buckets(job);
  plan.matrix_columns = matrix_columns(model.embedding) +
                        model.layers * matrix_columns(model.block) + matrix_columns(model.head);
  return plan;
}

}  // namespace zenflow::sim
