#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/bf16/stored.h"
#include "kernels/cross_entropy/cross_entropy.h"

namespace zenflow::kernels {
namespace {

template <class Element>
void one_row(const LogitRows<Element>& all, std::size_t row) {
  Element* const x = all.logits + row * all.stride;
  const std::int32_t target = all.targets[row];
  std::size_t best = 0;
  for (std::size_t c = 1; c < all.classes; ++c) {
    if (to_float(x[c]) > to_float(x[best])) best = c;
  }
  const float largest = to_float(x[best]);
  double sum = 0.0;
  for (std::size_t c = 0; c < all.classes; ++c) {
    sum += std::exp(static_cast<double>(to_float(x[c]) - largest));
  }
  const double lse = static_cast<double>(largest) + std::log(sum);
  const bool counts = target != kIgnoredClass;
  const auto place = static_cast<std::size_t>(counts ? target : 0);
  all.losses[row] = {0.0F, 0};
  if (counts) {
    all.losses[row] = {static_cast<float>(lse - static_cast<double>(to_float(x[place]))),
                       place == best ? 1U : 0U};
  }
  if (!all.writes_gradient) return;
  for (std::size_t c = 0; c < all.classes; ++c) {
    const double p = std::exp(static_cast<double>(to_float(x[c])) - lse);
    const double gradient = counts ? p - (c == place ? 1.0 : 0.0) : 0.0;
    x[c] = as_element<Element>(static_cast<float>(gradient * static_cast<double>(all.scale)));
  }
}

}  // namespace

template <class Element>
void cross_entropy_scalar(const LogitRows<Element>& rows) {
  for (std::size_t r = 0; r < rows.rows; ++r) one_row(rows, r);
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

template void cross_entropy_scalar(const LogitRows<float>&);
template void cross_entropy_scalar(const LogitRows<Bf16>&);
template void squared_error_scalar(const OutputRows<float>&);
template void squared_error_scalar(const OutputRows<Bf16>&);

}  // namespace zenflow::kernels
