#include "runtime/model/output_head.h"

#include <algorithm>

namespace zenflow::runtime {
namespace {

/// Of a tied head the embedding's, which is stored [vocabulary, hidden] like an untied one.
std::string projection_name(const TransformerConfig& config) {
  if (config.task.is_classification()) return "score";
  if (!config.has_tied_head()) return "lm_head";
  return config.is_llama_like() ? "model.embed_tokens" : "transformer.wte";
}

std::span<const std::int32_t> part(std::span<const std::int32_t> all, std::int64_t first,
                                   std::int64_t count) {
  return all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

}  // namespace

OutputHead::OutputHead(const TransformerConfig& config, const ParameterTable& table,
                       std::int64_t sequences, std::int64_t tokens)
    : task_(config.task), norm_(norm_shape(config)) {
  const std::int64_t outputs = task_.is_classification() ? task_.labels : config.model.vocab;
  norm_places_ = find_norm(table, config.is_llama_like() ? "model.norm" : "transformer.ln_f");
  projection_ = find_linear(table, projection_name(config), {config.model.hidden, outputs});
  const auto rows = static_cast<std::size_t>(tokens);
  const auto hidden = static_cast<std::size_t>(config.model.hidden);
  normed_.resize(rows * hidden);
  mean_.resize(rows);
  inverse_deviation_.resize(rows);
  last_.resize(static_cast<std::size_t>(sequences) * hidden);
  const std::int64_t held =
      task_.is_classification() ? sequences : std::min(tokens, rows_per_chunk());
  logits_.resize(static_cast<std::size_t>(std::max(held, sequences) * outputs));
  losses_.resize(rows);
}

std::int64_t OutputHead::rows_per_chunk() const {
  constexpr std::int64_t kLogits = std::int64_t{1} << 24;  // 64 MiB
  constexpr std::int64_t kFewest = 64;                     // below, the products are inefficient
  return std::max(kFewest, kLogits / projection_.shape.out);
}

void OutputHead::project(const Execution& run, WeightPointers weights, std::int64_t rows,
                         const float* x, BlockWorkspace& work) {
  linear_forward(run, projection_.shape, {weights[projection_.weight]}, rows, {x, norm_.columns},
                 {logits_.data(), projection_.shape.out}, work.linear);
}

void OutputHead::gather_last(TokenGrid grid, std::span<const std::int32_t> last) {
  for (std::int64_t s = 0; s < grid.sequences; ++s) {
    const std::int64_t token = s * grid.length + last[static_cast<std::size_t>(s)];
    std::copy_n(normed_.data() + token * norm_.columns, norm_.columns,
                last_.data() + s * norm_.columns);
  }
}

double OutputHead::sum_rows(std::size_t rows) {
  double sum = 0.0;
  for (std::size_t r = 0; r < rows; ++r) {
    sum += losses_[r].loss;
    correct_ += losses_[r].is_correct ? 1 : 0;
  }
  return sum / static_cast<double>(counted_);
}

double OutputHead::forward_tokens(const Execution& run, TokenGrid grid, WeightPointers weights,
                                  const Targets& targets, BlockWorkspace& work) {
  const std::int64_t tokens = grid.tokens();
  for (std::int64_t first = 0; first < tokens; first += rows_per_chunk()) {
    const std::int64_t rows = std::min(rows_per_chunk(), tokens - first);
    project(run, weights, rows, normed_.data() + first * norm_.columns, work);
    cross_entropy(run, projection_.shape.out, logits_.data(), part(targets.classes, first, rows),
                  std::span(losses_).subspan(static_cast<std::size_t>(first),
                                             static_cast<std::size_t>(rows)));
  }
  counted_ = static_cast<std::int64_t>(targets.classes.size()) -
             std::count(targets.classes.begin(), targets.classes.end(), kIgnoredTarget);
  return sum_rows(static_cast<std::size_t>(tokens));
}

double OutputHead::forward_sequences(const Execution& run, TokenGrid grid, WeightPointers weights,
                                     const Targets& targets, BlockWorkspace& work) {
  gather_last(grid, targets.last);
  project(run, weights, grid.sequences, last_.data(), work);
  counted_ = grid.sequences;
  const auto rows = static_cast<std::size_t>(grid.sequences);
  if (task_.labels == 1) {
    return mean_squared_error(std::span(logits_).first(rows), targets.values);
  }
  cross_entropy(run, task_.labels, logits_.data(), targets.classes, std::span(losses_).first(rows));
  return sum_rows(rows);
}

double OutputHead::forward(const Execution& run, TokenGrid grid, WeightPointers weights,
                           const Targets& targets, const float* x, BlockWorkspace& work) {
  counted_ = 0;
  correct_ = 0;
  stored_norm_forward(run, norm_, norm_places_, weights, grid.tokens(), x, normed_.data(),
                      {mean_.data(), inverse_deviation_.data()}, work);
  return task_.is_classification() ? forward_sequences(run, grid, weights, targets, work)
                                   : forward_tokens(run, grid, weights, targets, work);
}

void OutputHead::backward_tokens(const Execution& run, TokenGrid grid, WeightPointers weights,
                                 GradientPointers gradients, const Targets& targets,
                                 BlockWorkspace& work) {
  const std::int64_t tokens = grid.tokens();
  const std::int64_t outputs = projection_.shape.out;
  const std::int64_t hidden = norm_.columns;
  void* const stored = gradients[projection_.weight];
  float* const gradient = gradient_in_float(run, stored, outputs * hidden, work.linear.gradient);
  const double weight = targets.weight / static_cast<double>(counted_);
  for (std::int64_t first = 0; first < tokens; first += rows_per_chunk()) {
    const std::int64_t rows = std::min(rows_per_chunk(), tokens - first);
    const float* const normed = normed_.data() + first * hidden;
    project(run, weights, rows, normed, work);
    cross_entropy_gradient(
        run, outputs, weight, part(targets.classes, first, rows),
        std::span(losses_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(rows)),
        logits_.data());
    gemm(run.pool, {outputs, hidden, rows}, {logits_.data(), outputs, Transposed::kYes},
         {normed, hidden}, {gradient, hidden}, first > 0);
    linear_backward_input(run, projection_.shape, weights[projection_.weight], rows,
                          {logits_.data(), outputs}, {work.hidden.data() + first * hidden, hidden},
                          Store::kWrite, work.linear);
  }
  store_gradient(run, gradient, outputs * hidden, stored);
}

void OutputHead::backward_sequences(const Execution& run, TokenGrid grid, WeightPointers weights,
                                    GradientPointers gradients, const Targets& targets,
                                    BlockWorkspace& work) {
  const auto rows = static_cast<std::size_t>(grid.sequences);
  project(run, weights, grid.sequences, last_.data(), work);
  if (task_.labels == 1) {
    mean_squared_error_gradient(run, targets.weight, std::span(logits_).first(rows),
                                targets.values);
  } else {
    cross_entropy_gradient(run, task_.labels, targets.weight / static_cast<double>(counted_),
                           targets.classes, std::span(losses_).first(rows), logits_.data());
  }
  const ConstMatrix d_logits = {logits_.data(), projection_.shape.out};
  const ConstMatrix last = {last_.data(), norm_.columns};
  linear_backward_weights(run, projection_.shape, {gradients[projection_.weight]}, grid.sequences,
                          last, d_logits, work.linear);
  // The gathered rows are not needed any more: their place takes their gradients.
  linear_backward_input(run, projection_.shape, weights[projection_.weight], grid.sequences,
                        d_logits, {last_.data(), norm_.columns}, Store::kWrite, work.linear);
  std::fill_n(work.hidden.data(), grid.tokens() * norm_.columns, 0.0F);
  for (std::int64_t s = 0; s < grid.sequences; ++s) {
    const std::int64_t token = s * grid.length + targets.last[static_cast<std::size_t>(s)];
    std::copy_n(last_.data() + s * norm_.columns, norm_.columns,
                work.hidden.data() + token * norm_.columns);
  }
}

void OutputHead::backward(const Execution& run, TokenGrid grid, WeightPointers weights,
                          GradientPointers gradients, const Targets& targets, const float* x,
                          float* dx, BlockWorkspace& work) {
  if (task_.is_classification()) {
    backward_sequences(run, grid, weights, gradients, targets, work);
  } else {
    backward_tokens(run, grid, weights, gradients, targets, work);
  }
  std::fill_n(dx, grid.tokens() * norm_.columns, 0.0F);
  stored_norm_backward(run, norm_, norm_places_, weights, gradients, grid.tokens(), x,
                       {mean_.data(), inverse_deviation_.data()}, work.hidden.data(), dx, work);
}

std::vector<float> OutputHead::last_logits(const Execution& run, TokenGrid grid,
                                           WeightPointers weights,
                                           std::span<const std::int32_t> last,
                                           BlockWorkspace& work) {
  gather_last(grid, last);
  project(run, weights, grid.sequences, last_.data(), work);
  return {logits_.begin(), logits_.begin() + grid.sequences * projection_.shape.out};
}

}  // namespace zenflow::runtime
