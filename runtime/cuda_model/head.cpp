#include "runtime/cuda_model/head.h"

#include <algorithm>

#include "kernels/accumulate/accumulate_cuda.h"
#include "kernels/cast/cast_cuda.h"
#include "kernels/cross_entropy/cross_entropy_cuda.h"
#include "kernels/embedding/embedding_cuda.h"

namespace zenflow::runtime {
namespace {

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

/// Of a tied head the embedding's, which is stored [vocabulary, hidden] like an untied one.
std::string projection_name(const TransformerConfig& config) {
  if (config.task.is_classification()) return "score";
  if (!config.has_tied_head()) return "lm_head";
  return config.is_llama_like() ? "model.embed_tokens" : "transformer.wte";
}

std::int64_t padded(std::int64_t outputs) {
  constexpr std::int64_t kMultiple = 64;
  return (outputs + kMultiple - 1) / kMultiple * kMultiple;
}

template <class Element>
constexpr bool is_narrow() {
  return sizeof(Element) == 2;
}

}  // namespace

template <class Element>
CudaHead<Element>::CudaHead(const TransformerConfig& config, const ParameterTable& table,
                            std::int64_t sequences, std::int64_t tokens, std::int64_t logit_bytes,
                            Arena& arena)
    : task_(config.task),
      hidden_(config.model.hidden),
      is_layer_norm_(!config.is_llama_like()),
      epsilon_(static_cast<float>(config.norm_epsilon)),
      norm_places_(find_norm(table, config.is_llama_like() ? "model.norm" : "transformer.ln_f")) {
  const std::int64_t outputs = task_.is_classification() ? task_.labels : config.model.vocab;
  projection_ = find_linear(table, projection_name(config), {hidden_, outputs});
  logit_stride_ = padded(outputs);
  const auto row_bytes = logit_stride_ * static_cast<std::int64_t>(sizeof(Element));
  const std::int64_t gradient_elements = is_narrow<Element>() ? outputs * hidden_ : 0;
  chunk_ = task_.is_classification() ? sequences : tokens;
  const auto gradient_bytes = gradient_elements * static_cast<std::int64_t>(sizeof(float));
  if (chunk_ * row_bytes > logit_bytes + gradient_bytes && !task_.is_classification()) {
    constexpr std::int64_t kFewest = 64;  // below, products are inefficient
    chunk_ = std::min(chunk_, std::max(kFewest, logit_bytes / row_bytes));
  }
  normed_ = arena.take<Element>(tokens * hidden_);
  mean_ = arena.take<float>(tokens);
  inverse_ = arena.take<float>(tokens);
  last_ = arena.take<Element>(sequences * hidden_);
  logits_ = arena.take<Element>(std::max(chunk_, sequences) * logit_stride_);
  losses_ = arena.take<kernels::RowLoss>(tokens);
  const bool is_chunked = !task_.is_classification() && chunk_ < tokens;
  chunked_gradient_ =
      is_chunked && is_narrow<Element>() ? arena.take<float>(gradient_elements) : nullptr;
}

template <class Element>
kernels::NormShape CudaHead<Element>::norm_shape(TokenGrid grid) const {
  return {size(grid.tokens()), size(hidden_), is_layer_norm_, epsilon_};
}

template <class Element>
void CudaHead<Element>::project(const CudaExecution& run, WeightPointers weights, std::int64_t rows,
                                const Element* x) const {
  cuda_linear_forward<Element>(run, projection_, weights, rows, x, {logits_, logit_stride_});
}

/// Rows [first, first + rows) of the losses, from the logits.
template <class Element>
void CudaHead<Element>::lose(const CudaExecution& run, const CudaTargets& targets,
                             std::int64_t first, std::int64_t rows, bool writes_gradient) const {
  if (task_.labels == 1) {
    kernels::squared_error_cuda<Element>({logits_, size(rows), size(logit_stride_), targets.values,
                                          losses_, targets.scale, writes_gradient},
                                         run.stream);
    return;
  }
  kernels::cross_entropy_cuda<Element>(
      {logits_, size(rows), size(outputs()), size(logit_stride_), targets.classes + first,
       losses_ + first, targets.scale, writes_gradient},
      run.stream);
}

template <class Element>
void CudaHead<Element>::gather_last(const CudaExecution& run, TokenGrid grid,
                                    const std::int32_t* last) const {
  kernels::embedding_cuda<Element>({last, size(grid.sequences), size(grid.length)}, size(hidden_),
                                   normed_, nullptr, last_, run.stream);
}

template <class Element>
void CudaHead<Element>::forward(const CudaExecution& run, TokenGrid grid, WeightPointers weights,
                                const CudaTargets& targets, const ResidualStream<Element>& in,
                                bool trains, kernels::LossSum* sum) const {
  cuda_norm_forward(run, norm_shape(grid), norm_places_, weights, in, normed_, mean_, inverse_);
  const std::int64_t rows = task_.is_classification() ? grid.sequences : grid.tokens();
  if (task_.is_classification()) {
    gather_last(run, grid, targets.last);
    project(run, weights, rows, last_);
    lose(run, targets, 0, rows, trains);
  } else {
    for (std::int64_t first = 0; first < rows; first += chunk_) {
      const std::int64_t count = std::min(chunk_, rows - first);
      project(run, weights, count, normed_ + first * hidden_);
      lose(run, targets, first, count, trains && rows <= chunk_);
    }
  }
  kernels::sum_losses_cuda(losses_, size(rows), sum, run.stream);
}

template <class Element>
void CudaHead<Element>::store_chunked_gradient(const CudaExecution& run, void* gradient) const {
  if constexpr (is_narrow<Element>()) {
    kernels::to_bf16_cuda(chunked_gradient_, size(outputs() * hidden_),
                          static_cast<Element*>(gradient), run.stream);
  }
}

template <class Element>
void CudaHead<Element>::backward_tokens(const CudaExecution& run, TokenGrid grid,
                                        WeightPointers weights, GradientPointers gradients,
                                        bool adds, const CudaTargets& targets,
                                        Element* d_normed) const {
  const std::int64_t tokens = grid.tokens();
  void* const gradient = gradients[projection_.weight];
  // In several chunks of bf16 sums grow in fp32, from what is there if they are added to that.
  const bool sums_apart = chunked_gradient_ != nullptr && tokens > chunk_;
  if (sums_apart && adds) {
    kernels::accumulate_first_cuda(chunked_gradient_, static_cast<const Element*>(gradient), 1.0F,
                                   size(outputs() * hidden_), run.stream);
  }
  for (std::int64_t first = 0; first < tokens; first += chunk_) {
    const std::int64_t rows = std::min(chunk_, tokens - first);
    const Element* const normed = normed_ + first * hidden_;
    if (tokens > chunk_) {
      project(run, weights, rows, normed);
      lose(run, targets, first, rows, true);
    }
    run.gemm.multiply({.m = outputs(),
                       .n = hidden_,
                       .k = rows,
                       .type = element_type<Element>(),
                       .a = {logits_, logit_stride_, true},
                       .b = {normed, hidden_},
                       .c = sums_apart ? chunked_gradient_ : gradient,
                       .c_stride = hidden_,
                       .c_is_float = sums_apart,
                       .adds = adds || first > 0},
                      run.stream);
    cuda_linear_backward_input<Element>(run, projection_, weights, rows, {logits_, logit_stride_},
                                        d_normed + first * hidden_, false);
  }
  if (sums_apart) store_chunked_gradient(run, gradient);
}

template <class Element>
void CudaHead<Element>::backward_sequences(const CudaExecution& run, TokenGrid grid,
                                           WeightPointers weights, GradientPointers gradients,
                                           bool adds, const CudaTargets& targets,
                                           Element* d_normed) const {
  const RowsView<const Element> d_logits = {logits_, logit_stride_};
  cuda_linear_backward_weights(run, projection_, gradients, grid.sequences,
                               static_cast<const Element*>(last_), d_logits, adds);
  // The gathered rows are not needed any more: their place takes their gradients.
  cuda_linear_backward_input(run, projection_, weights, grid.sequences, d_logits, last_, false);
  kernels::word_gradient_cuda<Element>(
      {targets.last, targets.counting, targets.counting, size(grid.sequences)}, size(hidden_),
      last_, size(grid.tokens()), false, d_normed, run.stream);
}

template <class Element>
void CudaHead<Element>::backward(const CudaExecution& run, TokenGrid grid, WeightPointers weights,
                                 GradientPointers gradients, bool adds, const CudaTargets& targets,
                                 const Element* x, Element* dx, Element* hidden) const {
  if (task_.is_classification()) {
    backward_sequences(run, grid, weights, gradients, adds, targets, hidden);
  } else {
    backward_tokens(run, grid, weights, gradients, adds, targets, hidden);
  }
  cuda_norm_backward<Element>(run, norm_shape(grid), norm_places_, weights, gradients,
                              {x, mean_, inverse_, hidden, dx, false, adds});
}

template <class Element>
RowsView<Element> CudaHead<Element>::last_logits(const CudaExecution& run, TokenGrid grid,
                                                 WeightPointers weights,
                                                 const std::int32_t* last) const {
  gather_last(run, grid, last);
  project(run, weights, grid.sequences, last_);
  return {logits_, logit_stride_};
}

template class CudaHead<float>;
template class CudaHead<kernels::Bf16>;

}  // namespace zenflow::runtime
