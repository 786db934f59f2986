#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cross_entropy/cross_entropy.h"

namespace zenflow::kernels {
namespace {

float capped(float logit, float cap) {
  return cap > 0.0F ? cap * std::tanh(logit / cap) : logit;
}

}  // namespace

template <class Element>
RowStatistics row_statistics_scalar(const Element* logits, std::size_t classes, std::int32_t target,
                                    float cap) {
  std::size_t best = 0;
  for (std::size_t c = 1; c < classes; ++c) {
    if (to_float(logits[c]) > to_float(logits[best])) best = c;
  }
  const float largest = capped(to_float(logits[best]), cap);
  if (cap > 0.0F) {  // others may have come to the same
    best = 0;
    while (capped(to_float(logits[best]), cap) < largest) ++best;
  }
  double sum = 0.0;
  for (std::size_t c = 0; c < classes; ++c) {
    sum += static_cast<double>(std::exp(capped(to_float(logits[c]), cap) - largest));
  }
  RowStatistics row;
  row.lse = static_cast<double>(largest) + std::log(sum);
  if (target == kIgnoredClass) return row;
  const auto place = static_cast<std::size_t>(target);
  row.loss = row.lse - static_cast<double>(capped(to_float(logits[place]), cap));
  row.correct = place == best;
  return row;
}

template <class Element>
void row_gradient_scalar(Element* logits, std::size_t classes, std::int32_t target, double lse,
                         float scale, float cap) {
  if (target == kIgnoredClass) {
    std::fill_n(logits, classes, as_element<Element>(0.0F));
    return;
  }
  const auto place = static_cast<std::size_t>(target);
  for (std::size_t c = 0; c < classes; ++c) {
    const float x = capped(to_float(logits[c]), cap);
    const auto exponent = static_cast<float>(static_cast<double>(x) - lse);
    const float one_hot = c == place ? 1.0F : 0.0F;
    const float by_x = (std::exp(exponent) - one_hot) * scale;
    const float share = cap > 0.0F ? x / cap : 0.0F;
    logits[c] = as_element<Element>(by_x * (1.0F - share * share));
  }
}

template <class Element>
void cross_entropy_scalar(const LogitRows<Element>& all) {
  for (std::size_t r = 0; r < all.rows; ++r) {
    Element* const logits = all.logits + r * all.stride;
    const RowStatistics row = row_statistics_scalar(logits, all.classes, all.targets[r], all.cap);
    all.losses[r] = {static_cast<float>(row.loss), row.correct ? 1U : 0U};
    if (!all.writes_gradient) continue;
    row_gradient_scalar(logits, all.classes, all.targets[r], row.lse, all.scale, all.cap);
  }
}

template <class Element>
void squared_error_scalar(const OutputRows<Element>& all) {
  for (std::size_t r = 0; r < all.rows; ++r) {
    Element& output = all.outputs[r * all.stride];
    const float error = to_float(output) - all.values[r];
    all.losses[r] = {error * error, 0};
    if (all.writes_gradient) output = as_element<Element>(2.0F * error * all.scale);
  }
}

LossSum sum_losses_scalar(const RowLoss* losses, std::size_t rows) {
  std::array<double, 256> sums{};
  LossSum total{0.0, 0};
  for (std::size_t r = 0; r < rows; ++r) {
    sums[r % 256] += static_cast<double>(losses[r].loss);
    total.correct += losses[r].correct;
  }
  for (std::size_t warp = 0; warp < 256; warp += 32) {
    for (std::size_t apart = 16; apart > 0; apart /= 2) {
      std::array<double, 32> before{};
      std::copy_n(sums.begin() + static_cast<std::ptrdiff_t>(warp), 32, before.begin());
      for (std::size_t lane = 0; lane < 32; ++lane) {
        sums[warp + lane] = before[lane] + before[lane ^ apart];
      }
    }
    total.loss += sums[warp];
  }
  return total;
}

#define ZENFLOW_ROW_LOSSES(Element)                                                               \
  template RowStatistics row_statistics_scalar(const Element*, std::size_t, std::int32_t, float); \
  template void row_gradient_scalar(Element*, std::size_t, std::int32_t, double, float, float);
ZENFLOW_ROW_LOSSES(float)
ZENFLOW_ROW_LOSSES(Bf16)
ZENFLOW_ROW_LOSSES(WideBf16)
#undef ZENFLOW_ROW_LOSSES
template void cross_entropy_scalar(const LogitRows<float>&);
template void cross_entropy_scalar(const LogitRows<Bf16>&);
template void squared_error_scalar(const OutputRows<float>&);
template void squared_error_scalar(const OutputRows<Bf16>&);

}  // namespace zenflow::kernels
