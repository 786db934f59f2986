#include "sim/schedule/step_plan.h"

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

PlannedLayer planned_layer(const Job& job, const std::vector<Tensor>& tensors, LayerTime time) {
  PlannedLayer layer;
  layer.parameters = parameters(tensors);
  layer.forward = to_picoseconds(time.forward);
  layer.backward = to_picoseconds(time.backward + bucketing_time(job, layer.parameters));
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

StepPlan plan_step(const Job& job) {
  const ModelSpec& model = job.scenario.model;
  const TrainingSettings& training = job.scenario.training;
  const ModelTime time = model_time(job.scenario.hardware.gpu, model, training);
  const ActivationMemory memory = activation_memory(model, training);
  StepPlan plan;
  plan.layers.push_back(planned_layer(job, model.embedding, time.embedding));
  plan.layers.back().activation_bytes = memory.embedding.value();
  LayerTime block = time.block;
  if (training.activation_checkpointing) block.backward += block.forward;
  PlannedLayer planned = planned_layer(job, model.block, block);
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
