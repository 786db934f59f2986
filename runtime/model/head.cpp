#include "runtime/model/head.h"

#include <algorithm>

namespace zenflow::runtime {
namespace {

/// That of a tied head is the embedding, which is stored [vocabulary, hidden] like an untied one.
std::string projection_name(const TransformerConfig& config) {
  if (config.task.is_classification()) return "score";
  return config.has_tied_head() ? std::string(config.names.embedding) : "lm_head";
}

}  // namespace

template <class Element>
Head<Element>::Head(const TransformerConfig& config, const ParameterTable& table,
                    const TransformerSettings& settings, const OperationMemory& memory,
                    Arena& arena)
    : task_(config.task),
      hidden_(config.model.hidden),
      norm_(config.norm, find_norm(table, std::string(config.names.final_norm)),
            {.columns = config.model.hidden}),
      logit_cap_(config.task.is_classification() ? 0.0F : static_cast<float>(config.logit_cap)),
      row_loss_bytes_(memory.row_loss_bytes) {
  const std::int64_t tokens = settings.tokens();
  const std::int64_t sequences = settings.max_sequences;
  const std::int64_t outputs = task_.is_classification() ? task_.labels : config.model.vocab;
  projection_ = find_linear(table, projection_name(config), {hidden_, outputs});
  logit_stride_ =
      (outputs + memory.logit_multiple - 1) / memory.logit_multiple * memory.logit_multiple;
  const auto row_bytes = logit_stride_ * static_cast<std::int64_t>(sizeof(Element));
  const std::int64_t sums = memory.sums_parts_apart ? outputs * hidden_ : 0;
  const auto sums_bytes = sums * static_cast<std::int64_t>(sizeof(float));
  chunk_ = task_.is_classification() ? sequences : tokens;
  if (chunk_ * row_bytes > memory.logit_bytes + sums_bytes && !task_.is_classification()) {
    constexpr std::int64_t kFewest = 64;  // below, products are inefficient
    chunk_ = std::min(chunk_, std::max(kFewest, memory.logit_bytes / row_bytes));
  }
  normed_ = arena.take<Element>(tokens * hidden_);
  mean_ = arena.take<float>(tokens);
  inverse_ = arena.take<float>(tokens);
  last_ = arena.take<Element>(sequences * hidden_);
  logits_ = arena.take<Element>(std::max(chunk_, sequences) * logit_stride_);
  losses_ = arena.take<std::byte>(tokens * row_loss_bytes_);
  const bool is_chunked = !task_.is_classification() && chunk_ < tokens;
  chunked_gradient_ = is_chunked && sums > 0 ? arena.take<float>(sums) : nullptr;
}

template <class Element>
void Head<Element>::project(Operations<Element>& run, const Pass& pass, std::int64_t rows,
                            const Element* x) const {
  run.linear(projection_, pass.weights, rows, x, {logits_, logit_stride_});
}

/// Rows [first, first + rows) of the losses, from the logits.
template <class Element>
void Head<Element>::lose(Operations<Element>& run, const Pass& pass, std::int64_t first,
                         std::int64_t rows, LossPass what) const {
  const BatchArrays& batch = pass.batch.at;
  run.loss({.logits = {logits_, logit_stride_},
            .rows = rows,
            .outputs = outputs(),
            .classes = batch.classes + first,
            .values = task_.labels == 1 ? batch.values : nullptr,
            .losses = losses_ + first * row_loss_bytes_,
            .scale = pass.gradient_scale,
            .cap = logit_cap_},
           what);
}

template <class Element>
void Head<Element>::forward(Operations<Element>& run, const Pass& pass,
                            const ResidualStream<Element>& in, kernels::LossSum* sum) const {
  norm_.forward(run, pass, in, normed_, {mean_, inverse_});
  const std::int64_t rows = task_.is_classification() ? pass.batch.sequences : pass.tokens();
  const LossPass what =
      pass.trains && rows <= chunk_ ? LossPass::kLossAndGradient : LossPass::kLoss;
  if (task_.is_classification()) {
    run.gather_last(pass.batch, as_size(hidden_), normed_, last_);
    project(run, pass, rows, last_);
    lose(run, pass, 0, rows, what);
  } else {
    for (std::int64_t first = 0; first < rows; first += chunk_) {
      const std::int64_t count = std::min(chunk_, rows - first);
      project(run, pass, count, normed_ + first * hidden_);
      lose(run, pass, first, count, what);
    }
  }
  run.sum_losses(losses_, as_size(rows), sum);
}

template <class Element>
void Head<Element>::backward_tokens(Operations<Element>& run, const Pass& pass,
                                    GradientPointers gradients, Element* d_normed) const {
  const std::int64_t tokens = pass.tokens();
  const RowsView<const Element> d_logits = {logits_, logit_stride_};
  for (std::int64_t first = 0; first < tokens; first += chunk_) {
    const std::int64_t rows = std::min(chunk_, tokens - first);
    const Element* const normed = normed_ + first * hidden_;
    if (tokens > chunk_) {
      project(run, pass, rows, normed);
      lose(run, pass, first, rows, LossPass::kGradientAgain);
    }
    run.linear_weight_gradients(projection_, gradients, rows, normed, d_logits, pass.adds,
                                {first == 0, first + rows == tokens, chunked_gradient_});
    run.linear_input_gradient(projection_, pass.weights, rows, d_logits, d_normed + first * hidden_,
                              false);
  }
}

template <class Element>
void Head<Element>::backward_sequences(Operations<Element>& run, const Pass& pass,
                                       GradientPointers gradients, Element* d_normed) const {
  const RowsView<const Element> d_logits = {logits_, logit_stride_};
  run.linear_weight_gradients(projection_, gradients, pass.batch.sequences, last_, d_logits,
                              pass.adds);
  // The gathered rows are not needed any more: their place takes their gradients.
  run.linear_input_gradient(projection_, pass.weights, pass.batch.sequences, d_logits, last_,
                            false);
  run.scatter_last(pass.batch, as_size(hidden_), last_, d_normed);
}

template <class Element>
void Head<Element>::backward(Operations<Element>& run, const Pass& pass, GradientPointers gradients,
                             const Element* x, Element* dx, Element* hidden) const {
  if (task_.is_classification()) {
    backward_sequences(run, pass, gradients, hidden);
  } else {
    backward_tokens(run, pass, gradients, hidden);
  }
  norm_.backward(run, pass, gradients, {x, nullptr, mean_, inverse_, hidden, dx, false});
}

template <class Element>
RowsView<const Element> Head<Element>::last_logits(Operations<Element>& run,
                                                   const Pass& pass) const {
  run.gather_last(pass.batch, as_size(hidden_), normed_, last_);
  project(run, pass, pass.batch.sequences, last_);
  return {logits_, logit_stride_};
}

template class Head<float>;
template class Head<kernels::Bf16>;
template class Head<kernels::WideBf16>;

}  // namespace zenflow::runtime
