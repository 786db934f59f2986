#include "sim/schedule/live_memory.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "sim/memory/trainer_activations.h"
#include "sim/offload/offload_rule.h"

namespace zenflow::sim {
namespace {

void declare_activations(const Job& job, const LiveSettings& live, ProgramBuilder& builder) {
  const ModelSpec& model = job.scenario.model;
  const TrainingSettings& training = job.scenario.training;
  const TrainerActivations bytes =
      job.scenario.hardware.gpu.runs_on_host()
          ? host_trainer_activations(model, training, live.gradient_accumulation_steps > 1)
          : trainer_activations(model, training);
  builder.symbol({"K", bytes.kept.value(), "activations kept from forward to backward"});
  builder.symbol({"W", bytes.work.value(), "what one block, or the head, works with"});
  builder.buffer({.name = "activations kept",
                  .formula = "K",
                  .category = MemoryCategory::kActivations,
                  .resident = bytes.kept.value()});
  builder.buffer({.name = "model workspace",
                  .formula = "W",
                  .category = MemoryCategory::kActivations,
                  .resident = bytes.work.value()});
}

/// The host's are those of all ranks, as if all had the fullest one's.
void declare_staging(const LiveStaging& staging, double ranks, ProgramBuilder& builder) {
  builder.symbol({"Ct", staging.control, "bytes of indices, norms and corrections of columns"});
  builder.symbol({"Ex", staging.exchange, "bytes for columns that change place"});
  builder.symbol({"Wt", staging.tensor, "bytes of the largest tensor"});
  for (const MemoryHome home : {MemoryHome::kGpu, MemoryHome::kPinned}) {
    const bool is_host = home == MemoryHome::kPinned;
    const char* side = is_host ? ", host" : "";
    const double times = is_host ? ranks : 1;
    const std::string prefix = is_host && ranks > 1 ? "R " : "";
    builder.buffer({.name = std::string("indices, norms, corrections of columns") + side,
                    .formula = prefix + "Ct",
                    .home = home,
                    .category = MemoryCategory::kStaging,
                    .resident = times * staging.control});
    builder.buffer({.name = std::string("columns that change place") + side,
                    .formula = prefix + "Ex",
                    .home = home,
                    .category = MemoryCategory::kStaging,
                    .resident = times * staging.exchange});
  }
  builder.buffer({.name = "a tensor that is loaded or written",
                  .formula = ranks > 1 ? "R Wt" : "Wt",
                  .home = MemoryHome::kPinned,
                  .category = MemoryCategory::kStaging,
                  .resident = ranks * staging.tensor});
}

/// Elements of a rank's layers.
struct Elements {
  double all = 0;
  double selected = 0;
  double largest_deferred = 0;  ///< of a layer

  explicit Elements(const std::vector<LiveLayer>& layers) {
    for (const LiveLayer& layer : layers) {
      all += layer.elements();
      selected += layer.selected_elements();
      largest_deferred = std::max(largest_deferred, layer.deferred_elements());
    }
  }
};

/// `layers` with `selected`(columns) in place of what a matrix of which columns are chosen has.
template <class Selected>
std::vector<LiveLayer> with_selected(std::vector<LiveLayer> layers, const Selected& selected) {
  for (LiveLayer& layer : layers) {
    for (LiveTensor& tensor : layer.tensors) {
      if (tensor.selectable()) tensor.selected = selected(tensor.columns);
    }
  }
  return layers;
}

/// What memory is for, of a rank's layers: any matrix may have all columns but one of either kind
/// where those of all compete, but no more are selected than of the model.
struct WidestLayers {
  std::vector<LiveLayer> selected;  ///< at their widest
  std::vector<LiveLayer> deferred;  ///< likewise
  double most_selected = 0;         ///< elements

  WidestLayers(const std::vector<LiveLayer>& own, const std::vector<LiveLayer>& model, bool compete)
      : selected(own), deferred(own), most_selected(Elements(own).selected) {
    if (!compete) return;
    selected = with_selected(own, [](std::int64_t columns) { return columns - 1; });
    deferred = with_selected(own, [](std::int64_t) { return std::int64_t{1}; });
    // Without those that are selected whatever happens.
    const auto chosen = [](const std::vector<LiveLayer>& layers) {
      return Elements(layers).selected -
             Elements(with_selected(layers, [](std::int64_t) { return std::int64_t{0}; })).selected;
    };
    most_selected += std::min(chosen(selected), chosen(model)) - chosen(own);
  }
};

/// Layers of the rank that owns most: its device is the fullest. With one rank all layers.
std::vector<LiveLayer> fullest_layers(const Job& job, const LiveSettings& live) {
  const auto ranks = static_cast<int>(job.scenario.ranks());
  std::vector<LiveLayer> fullest = live_layers(job.scenario.model, live.topk_ratio, {0, ranks});
  if (ranks == 1) return fullest;
  for (const int rank : owning_ranks(job.scenario.model, ranks)) {
    std::vector<LiveLayer> layers = live_layers(job.scenario.model, live.topk_ratio, {rank, ranks});
    if (Elements(layers).all > Elements(fullest).all) fullest = std::move(layers);
  }
  return fullest;
}

}  // namespace

void declare_live_memory(const Job& job, const LiveSettings& live, ProgramBuilder& builder) {
  declare_activations(job, live, builder);
  const auto ranks = static_cast<double>(job.scenario.ranks());
  const std::vector<LiveLayer> layers = fullest_layers(job, live);
  const std::vector<LiveLayer> of_model = live_layers(job.scenario.model, live.topk_ratio);
  const WidestLayers widest(layers, of_model, live.topk_is_global);
  const Elements model(WidestLayers(of_model, of_model, live.topk_is_global).deferred);
  const Elements own(widest.deferred);
  const double all = model.all;
  const double selected = widest.most_selected;
  const double largest = own.largest_deferred;
  const double deferred = own.all - own.selected;
  const double deferred_of_all = model.all - model.selected;
  const bool several = ranks > 1;
  if (several) {
    builder.symbol({"R", ranks, "ranks"});
    builder.symbol({"Dr", deferred_of_all, "deferred elements of all ranks"});
  }
  const double b = builder.element_bytes();
  declare_staging(live_staging(widest.selected, b), ranks, builder);
  builder.symbol({"N", selected, "selected elements"});
  builder.symbol({"D", deferred, "deferred elements"});
  builder.symbol({"Dl", largest, "deferred elements of the largest layer"});
  builder.buffer({.name = "weights",
                  .formula = "b P",
                  .category = MemoryCategory::kWeights,
                  .resident = b * all,
                  .model_state = true});
  builder.buffer({.name = "master, m, v of selected columns",
                  .formula = "12 N",
                  .category = MemoryCategory::kSelectedState,
                  .resident = 12 * selected});
  builder.buffer({.name = "gradients of selected columns",
                  .formula = "b N",
                  .category = MemoryCategory::kGradients,
                  .resident = b * selected});
  if (!live.offloads()) return;
  builder.buffer({.name = "gradients leaving",
                  .formula = "b D",
                  .category = MemoryCategory::kGradients,
                  .resident = b * deferred});
  builder.buffer({.name = "weights arriving",
                  .formula = "b Dl",
                  .category = MemoryCategory::kParameterBuffer,
                  .resident = b * largest});
  if (live.overlap_step) {
    builder.buffer({.name = "second weights",
                    .formula = "b P",
                    .category = MemoryCategory::kParameterBuffer,
                    .resident = b * all});
  }
  builder.buffer({.name = "weights, m and v, fp32, of all columns",
                  .formula = "12 P",
                  .home = MemoryHome::kPageable,
                  .category = MemoryCategory::kOptimizerState,
                  .resident = 12 * all,
                  .model_state = true});
  for (const char* name : {"gradients arriving", "weights leaving"}) {
    builder.buffer({.name = name,
                    .formula = several ? "b Dr" : "b D",
                    .home = MemoryHome::kPinned,
                    .category = MemoryCategory::kStaging,
                    .resident = b * deferred_of_all});
  }
  if (live.reads_staging()) return;
  if (live.sums_on_device()) {
    builder.buffer({.name = "fp32 gradient sums on the GPU",
                    .formula = "4 D",
                    .category = MemoryCategory::kGradients,
                    .resident = kSumBytes * deferred});
  }
  builder.buffer({.name = live.overlap_step ? "fp32 gradient sums, two sets" : "fp32 gradient sums",
                  .formula = std::string(live.overlap_step ? "8 D" : "4 D") + (several ? "r" : ""),
                  .home = MemoryHome::kPinned,
                  .category = MemoryCategory::kGradients,
                  .resident = (live.overlap_step ? 2 : 1) * kSumBytes * deferred_of_all});
}

}  // namespace zenflow::sim
