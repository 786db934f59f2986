#include "sim/deepspeed/python_batch.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "sim/deepspeed/lax_values.h"

namespace zenflow::sim {
namespace {

__extension__ using Wide = __int128;

/// A Python number: int (exact) or float.
struct Number {
  bool is_float = false;
  Wide whole = 0;
  double real = 0;

  [[nodiscard]] double as_double() const { return is_float ? real : static_cast<double>(whole); }
};

Number whole(Wide value) {
  return {.is_float = false, .whole = value, .real = 0};
}
Number real(double value) {
  return {.is_float = true, .whole = 0, .real = value};
}

/// Digits as JSON writes them, a minus before them allowed.
std::optional<Wide> exact(const std::string& digits) {
  constexpr std::size_t kMostDigits = 36;
  if (digits.size() > kMostDigits) return std::nullopt;
  Wide value = 0;
  for (const char c : digits) {
    if (c != '-') value = value * 10 + (c - '0');
  }
  return digits.starts_with('-') ? -value : value;
}

std::optional<Number> read(const Node& node) {
  if (is_boolean(node)) return whole(node.scalar == "true" ? 1 : 0);
  if (!is_number(node)) return std::nullopt;
  if (node.scalar.find_first_of(".eE") == std::string::npos) {
    const auto value = exact(node.scalar);
    if (value) return whole(*value);
  }
  return real(*lax_number(node));
}

Number product(const Number& a, const Number& b) {
  Wide exact = 0;
  const bool overflows = __builtin_mul_overflow(a.whole, b.whole, &exact);
  if (!a.is_float && !b.is_float && !overflows) return whole(exact);
  return real(a.as_double() * b.as_double());
}

/// a // b for b > 0.
Number floor_quotient(const Number& a, const Number& b) {
  if (a.is_float || b.is_float) return real(std::floor(a.as_double() / b.as_double()));
  const Wide quotient = a.whole / b.whole;
  return whole(a.whole % b.whole < 0 ? quotient - 1 : quotient);
}

bool equal(const Number& a, const Number& b) {
  if (a.is_float || b.is_float) return a.as_double() == b.as_double();
  return a.whole == b.whole;
}

bool positive(const Number& a) {
  return a.is_float ? a.real > 0 : a.whole > 0;
}

std::string shown(const Number& a) {
  constexpr Wide kLimit = std::numeric_limits<std::int64_t>::max();
  if (a.is_float || a.whole > kLimit || a.whole < -kLimit) return fmt::format("{}", a.as_double());
  return fmt::format("{}", static_cast<std::int64_t>(a.whole));
}

struct Batch {
  std::optional<Number> train;
  std::optional<Number> micro;
  std::optional<Number> steps;
};

/// False: a division by zero or by a negative size; either way the assertion fails.
bool fill(Batch& batch, const Number& ranks) {
  for (const auto* size : {&batch.train, &batch.micro, &batch.steps}) {
    if (*size && !positive(**size)) return false;
  }
  if (batch.train && batch.micro) {
    if (!batch.steps)
      batch.steps = floor_quotient(floor_quotient(*batch.train, *batch.micro), ranks);
  } else if (batch.train) {
    const Number per_rank = floor_quotient(*batch.train, ranks);
    batch.micro = batch.steps ? floor_quotient(per_rank, *batch.steps) : per_rank;
    if (!batch.steps) batch.steps = whole(1);
  } else {
    const Number given = batch.steps ? product(*batch.micro, *batch.steps) : *batch.micro;
    batch.train = product(given, ranks);
    if (!batch.steps) batch.steps = whole(1);
  }
  return true;
}

}  // namespace

std::optional<BatchOutcome> complete_batch(const BatchNodes& written, std::int64_t ranks) {
  Batch batch;
  const auto take = [](const Node* node, std::optional<Number>& size) {
    if (node == nullptr) return true;
    size = read(*node);
    return size.has_value();
  };
  if (!take(written.train, batch.train) || !take(written.micro, batch.micro) ||
      !take(written.steps, batch.steps)) {
    return std::nullopt;
  }
  if (!batch.train && !batch.micro) return std::nullopt;
  const bool filled = fill(batch, whole(ranks));
  const auto text = [](const std::optional<Number>& size) { return size ? shown(*size) : "?"; };
  BatchOutcome outcome{text(batch.train), text(batch.micro), text(batch.steps)};
  outcome.holds = filled && positive(*batch.train) && positive(*batch.micro) &&
                  positive(*batch.steps) &&
                  equal(*batch.train, product(product(*batch.micro, *batch.steps), whole(ranks)));
  return outcome;
}

}  // namespace zenflow::sim
