#include "sim/deepspeed/python_batch.h"

#include <cmath>
#include <cstdlib>
#include <utility>

#include <boost/multiprecision/cpp_int.hpp>
#include <fmt/format.h>

#include "sim/deepspeed/lax_values.h"

namespace zenflow::sim {
namespace {

using Whole = boost::multiprecision::cpp_int;

/// A Python number: int (exact, of any size) or float.
struct Number {
  bool is_float = false;
  Whole whole;
  double real = 0;
};

Number whole(Whole value) {
  return {.is_float = false, .whole = std::move(value), .real = 0};
}
Number real(double value) {
  return {.is_float = true, .whole = 0, .real = value};
}

/// Python raises OverflowError where an int becomes a float that cannot hold it.
struct Overflow {};

double as_double(const Number& a) {
  if (a.is_float) return a.real;
  const double value = std::strtod(a.whole.str().c_str(), nullptr);
  if (std::isinf(value)) throw Overflow{};
  return value;
}

std::optional<Number> read(const Node& node) {
  if (is_boolean(node)) return whole(node.scalar == "true" ? 1 : 0);
  if (!is_number(node)) return std::nullopt;
  if (node.scalar.find_first_of(".eE") == std::string::npos) return whole(Whole(node.scalar));
  const double value = *lax_number(node);
  return is_hjson_integer(node) ? whole(Whole(value)) : real(value);
}

Number product(const Number& a, const Number& b) {
  if (!a.is_float && !b.is_float) return whole(a.whole * b.whole);
  return real(as_double(a) * as_double(b));
}

/// a // b for positive numbers; of floats as CPython's float_floor_div.
Number floor_quotient(const Number& a, const Number& b) {
  if (!a.is_float && !b.is_float) return whole(a.whole / b.whole);
  const double dividend = as_double(a);
  const double divisor = as_double(b);
  const double quotient = (dividend - std::fmod(dividend, divisor)) / divisor;
  const double below = std::floor(quotient);
  return real(quotient - below > 0.5 ? below + 1 : below);
}

/// Python compares an int with a float exactly.
bool equal(const Number& a, const Number& b) {
  if (a.is_float && b.is_float) return a.real == b.real;
  if (!a.is_float && !b.is_float) return a.whole == b.whole;
  const double fraction = a.is_float ? a.real : b.real;
  return std::isfinite(fraction) && fraction == std::floor(fraction) &&
         Whole(fraction) == (a.is_float ? b.whole : a.whole);
}

bool positive(const Number& a) {
  return a.is_float ? a.real > 0 : a.whole > 0;
}

std::string shown(const Number& a) {
  constexpr std::size_t kMostDigits = 20;
  if (a.is_float) return fmt::format("{}", a.real);
  const std::string digits = a.whole.str();
  return digits.size() <= kMostDigits ? digits
                                      : fmt::format("(a number of {} digits)", digits.size());
}

struct Batch {
  std::optional<Number> train;
  std::optional<Number> micro;
  std::optional<Number> steps;
};

Number at_least_one(const Number& size) {
  return (size.is_float ? size.real < 1 : size.whole < 1) ? whole(1) : size;
}

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

/// Fills in the batch and judges it.
BatchOutcome judged(Batch& batch, const Number& ranks) {
  const bool filled = fill(batch, ranks);
  const auto text = [](const std::optional<Number>& size) { return size ? shown(*size) : "?"; };
  BatchOutcome outcome{text(batch.train), text(batch.micro), text(batch.steps), "", false};
  if (!filled) return outcome;
  const Number per_rank = product(at_least_one(*batch.micro), at_least_one(*batch.steps));
  outcome.due = shown(product(per_rank, ranks));
  outcome.holds = positive(*batch.train) && positive(*batch.micro) && positive(*batch.steps) &&
                  equal(*batch.train, product(product(*batch.micro, *batch.steps), ranks));
  return outcome;
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
  try {
    return judged(batch, whole(ranks));
  } catch (const Overflow&) {
    return BatchOutcome{"?", "?", "?", "", false};
  }
}

}  // namespace zenflow::sim
