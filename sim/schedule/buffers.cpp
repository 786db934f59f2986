#include "sim/schedule/buffers.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "sim/memory/activation_memory.h"

namespace zenflow::sim {
namespace {

void add_model_symbols(const Job& job, std::vector<MemorySymbol>& symbols) {
  const ModelSpec& model = job.scenario.model;
  const auto all = static_cast<double>(model.trained());
  const auto matrix = static_cast<double>(model.trained_in_matrices());
  const double frozen =
      model.frozen_bytes(static_cast<double>(bytes_per_element(job.scenario.training.dtype)));
  symbols.push_back({"P", all, frozen > 0 ? "trained parameters" : "parameters"});
  if (frozen > 0) symbols.push_back({"F", frozen, "bytes of frozen weights"});
  symbols.push_back({"P2", matrix, "parameters of matrices, of which columns are selected"});
  symbols.push_back({"P1", all - matrix, "other parameters"});
  symbols.push_back({"N", static_cast<double>(job.scenario.ranks()), "ranks"});
  symbols.push_back({"g", static_cast<double>(job.scenario.gpus), "ranks of a node"});
  symbols.push_back({"p", job.partition(), "parameters of one rank, P / N"});
  symbols.push_back({"b", static_cast<double>(bytes_per_element(job.scenario.training.dtype)),
                     "bytes of a weight in " + to_string(job.scenario.training.dtype)});
  symbols.push_back({"n", static_cast<double>(model.layers()), "blocks"});
  symbols.push_back({"t", largest_tensor(model), "parameters of the largest tensor"});
}

void add_plan_symbols(const Job& job, const StepPlan& plan, std::vector<MemorySymbol>& symbols) {
  double layer = 0;
  for (const PlannedLayer& one : plan.layers) layer = std::max(layer, one.parameters);
  double bucket = 0;
  for (const GradientBucket& one : plan.buckets) bucket = std::max(bucket, one.elements);
  const ActivationMemory memory = activation_memory(job.scenario.model, job.scenario.training);
  symbols.push_back({"l", layer, "parameters of the largest layer"});
  symbols.push_back(
      {"R", static_cast<double>(job.deepspeed.reduce_bucket_size), "reduce_bucket_size"});
  symbols.push_back({"B", bucket, "elements of the largest bucket"});
  const std::vector<double> groups = sub_group_elements(job);
  symbols.push_back(
      {"s", *std::max_element(groups.begin(), groups.end()), "elements of the largest sub-group"});
  double kept = 0;
  double recomputed = 0;
  const ModelSpec& model = job.scenario.model;
  const std::vector<std::int64_t> counts = model.kind_counts();
  for (std::size_t kind = 0; kind < counts.size(); ++kind) {
    kept += static_cast<double>(counts[kind]) * memory.layer[kind].value();
    recomputed = std::max(recomputed, memory.recomputed[kind].value());
  }
  std::string what = counts.size() == 1 ? "activations kept of a block"
                                        : "activations kept of a block in the mean";
  if (job.scenario.training.activation_checkpointing) what += ": its input";
  symbols.push_back({"A", kept / static_cast<double>(model.layers()), std::move(what)});
  symbols.push_back({"Ar", recomputed, "activations recomputed for one block"});
  symbols.push_back({"Ae", memory.embedding.value(), "kept of the embedding"});
  symbols.push_back(
      {"Z", memory.logits_forward.value(), "logits after forward, and the head's input"});
  symbols.push_back({"Zb", memory.logits_backward.value(), "and besides in backward"});
  symbols.push_back({"C", job.scenario.hardware.gpu.context_memory.value(), "gpu.context_memory"});
}

}  // namespace

void for_each_tensor(const ModelSpec& model, const std::function<void(double)>& visit) {
  for (std::int64_t part = 0; part <= model.layers() + 1; ++part) {
    for (const Tensor& tensor : model.part(part).tensors) {
      if (tensor.trained) visit(static_cast<double>(tensor.parameters()));
    }
  }
}

std::string to_string(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::kWeights:
      return "weights";
    case MemoryCategory::kGradients:
      return "gradients";
    case MemoryCategory::kOptimizerState:
      return "optimizer_state";
    case MemoryCategory::kSelectedState:
      return "selected_state";
    case MemoryCategory::kParameterBuffer:
      return "parameter_buffer";
    case MemoryCategory::kActivations:
      return "activations";
    case MemoryCategory::kLogits:
      return "logits";
    case MemoryCategory::kStaging:
      return "staging";
    case MemoryCategory::kContext:
      return "context";
  }
  return "";
}

std::string to_string(MemoryHome home) {
  switch (home) {
    case MemoryHome::kGpu:
      return "gpu";
    case MemoryHome::kPageable:
      return "pageable";
    case MemoryHome::kPinned:
      return "pinned";
    case MemoryHome::kShared:
      return "/dev/shm";
    case MemoryHome::kNvme:
      return "nvme";
  }
  return "";
}

MemoryPlace place_of(MemoryHome home) {
  switch (home) {
    case MemoryHome::kGpu:
      return MemoryPlace::kGpu;
    case MemoryHome::kNvme:
      return MemoryPlace::kNvme;
    case MemoryHome::kPageable:
    case MemoryHome::kPinned:
    case MemoryHome::kShared:
      break;
  }
  return MemoryPlace::kHost;
}

std::vector<MemorySymbol> memory_symbols(const Job& job, const StepPlan& plan) {
  std::vector<MemorySymbol> symbols;
  add_model_symbols(job, symbols);
  add_plan_symbols(job, plan, symbols);
  if (job.deepspeed.zenflow) {
    symbols.push_back({"k", job.deepspeed.zenflow->topk_ratio, "topk_ratio"});
  }
  symbols.push_back(
      {"q", static_cast<double>(job.deepspeed.buffer_count), "offload_optimizer.buffer_count"});
  return symbols;
}

double pinned_block_bytes(double bytes) {
  if (bytes == 0) return 0;
  return static_cast<double>(std::bit_ceil(static_cast<std::uint64_t>(std::ceil(bytes))));
}

double pinned_rounding(std::span<const double> blocks) {
  double added = 0;
  for (const double bytes : blocks) added += pinned_block_bytes(bytes) - bytes;
  return added;
}

std::vector<double> sub_group_elements(const Job& job) {
  const auto ranks = static_cast<double>(job.scenario.ranks());
  const auto size = static_cast<double>(job.deepspeed.sub_group_size);
  if (size >= job.partition()) return {job.partition()};
  std::vector<double> groups;
  double open = 0;
  for_each_tensor(job.scenario.model, [&](double elements) {
    open += elements / ranks;
    if (open < size) return;
    groups.push_back(open);
    open = 0;
  });
  if (open > 0) groups.push_back(open);
  return groups;
}

double largest_tensor(const ModelSpec& model) {
  double largest = 0;
  for_each_tensor(model, [&](double elements) { largest = std::max(largest, elements); });
  return largest;
}

double share_in_tensors_from(const ModelSpec& model, double elements) {
  double all = 0;
  double large = 0;
  for_each_tensor(model, [&](double one) {
    all += one;
    if (one >= elements) large += one;
  });
  return all > 0 ? large / all : 0;
}

std::vector<std::vector<double>> tensors_by_rank(const ModelSpec& model, std::int64_t ranks) {
  std::vector<std::vector<double>> tensors(static_cast<std::size_t>(ranks));
  const double part = static_cast<double>(model.trained()) / static_cast<double>(ranks);
  double begin = 0;
  for_each_tensor(model, [&](double elements) {
    const double end = begin + elements;
    for (std::size_t r = 0; r < tensors.size(); ++r) {
      const double from = part * static_cast<double>(r);
      // Half an element: parts need not be whole numbers.
      if (begin + 0.5 < from + part && end > from + 0.5) tensors[r].push_back(elements);
    }
    begin = end;
  });
  return tensors;
}

}  // namespace zenflow::sim
