/// Loss and gradient of rows of logits in one kernel, the gradient in the logits' place: there is
/// no other copy of them, and none in fp32.
///
/// Arithmetic, in fp32, for row r with target t, from x[c] = z[c], the stored logits, or with a cap
/// x[c] = cap * tanh(z[c] / cap):
///   largest = max over c of x[c],  lse = largest + log(sum over c of exp(x[c] - largest))
///   loss = lse - x[t],  correct = t is the first c with x[c] == largest
///   z[c] becomes stored((exp(x[c] - lse) - (c == t ? 1 : 0)) * scale), with a cap times
///   1 - (x[c] / cap)^2 before it is stored
/// For an ignored target loss is 0, correct is 0 and the gradient is 0. The order of the sum is the
/// implementation's: the reference has it and lse in double, others take it online, within 2^-20
/// relative. exp, log and tanh are the platform's. Source of the cap: Gemma Team 2024 (Gemma 2),
/// section 2.
///
/// Squared errors: loss = (x - v)^2 and x becomes stored(2 (x - v) * scale).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bf16/stored.h"

namespace zenflow::kernels {

/// As in PyTorch and Hugging Face.
inline constexpr std::int32_t kIgnoredClass = -100;

struct RowLoss {
  float loss;
  std::uint32_t correct;  ///< 1 or 0
};

/// logits[rows, classes], rows `stride` elements apart.
template <class Element>
struct LogitRows {
  Element* logits;
  std::size_t rows;
  std::size_t classes;
  std::size_t stride;
  const std::int32_t* targets;  ///< [rows], each a class or kIgnoredClass
  RowLoss* losses;              ///< [rows], written
  float scale;                  ///< of gradients
  bool writes_gradient;         ///< else the logits stay
  float cap = 0.0F;             ///< 0: none
};

/// What `sum_losses` adds up: losses in double, and how many are correct.
struct LossSum {
  double loss;
  std::uint64_t correct;
};

// The references. There is Element = float and Bf16.
template <class Element>
void cross_entropy_scalar(const LogitRows<Element>& rows);

// What the reference of cross entropy does with a row, which are the host's operations, too. There
// is also Element = WideBf16.
struct RowStatistics {
  double lse = 0.0;
  double loss = 0.0;
  bool correct = false;
};
template <class Element>
[[nodiscard]] RowStatistics row_statistics_scalar(const Element* logits, std::size_t classes,
                                                  std::int32_t target, float cap = 0.0F);
template <class Element>
void row_gradient_scalar(Element* logits, std::size_t classes, std::int32_t target, double lse,
                         float scale, float cap = 0.0F);

/// One output in each row, against values[rows].
template <class Element>
struct OutputRows {
  Element* outputs;
  std::size_t rows;
  std::size_t stride;
  const float* values;
  RowLoss* losses;  ///< [rows], written
  float scale;      ///< of gradients
  bool writes_gradient;
};
template <class Element>
void squared_error_scalar(const OutputRows<Element>& rows);
/// 256 sums, of which number k adds the rows k, k + 256, ...; then 8 that add the sums of 32
/// neighbours in pairs 16, 8, 4, 2 and 1 apart; then these in order. Bit for bit the same
/// everywhere.
[[nodiscard]] LossSum sum_losses_scalar(const RowLoss* losses, std::size_t rows);

}  // namespace zenflow::kernels
