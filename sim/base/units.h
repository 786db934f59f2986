/// Strong physical quantities. A `Bytes` cannot be passed where `Seconds` is due.
///
/// Only the products and quotients the models need exist; anything else is a
/// compile error. Representation: double, always in the base unit. Simulated
/// time is `Picoseconds`, an integer: equal times compare equal, no epsilon.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>

namespace zenflow {

template <class Unit>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double base_units) : value_(base_units) {}

  [[nodiscard]] constexpr double value() const { return value_; }

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.value_ + b.value_);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.value_ - b.value_);
  }
  friend constexpr Quantity operator*(double k, Quantity q) { return Quantity(k * q.value_); }
  friend constexpr Quantity operator/(Quantity q, double k) { return Quantity(q.value_ / k); }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }
  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }

 private:
  double value_ = 0.0;
};

struct SecondUnit;
struct ByteUnit;
struct FlopUnit;
template <class Unit>
struct PerSecond;

using Seconds = Quantity<SecondUnit>;
using Bytes = Quantity<ByteUnit>;
using Flops = Quantity<FlopUnit>;
using BytesPerSecond = Quantity<PerSecond<ByteUnit>>;
using FlopsPerSecond = Quantity<PerSecond<FlopUnit>>;

template <class U>
constexpr Seconds operator/(Quantity<U> work, Quantity<PerSecond<U>> rate) {
  return Seconds(work.value() / rate.value());
}
template <class U>
constexpr Quantity<PerSecond<U>> operator/(Quantity<U> work, Seconds time) {
  return Quantity<PerSecond<U>>(work.value() / time.value());
}
template <class U>
constexpr Quantity<U> operator*(Quantity<PerSecond<U>> rate, Seconds time) {
  return Quantity<U>(rate.value() * time.value());
}

/// Simulated time or duration: integer picoseconds, range 106 days.
struct Picoseconds {
  std::int64_t count = 0;

  friend constexpr auto operator<=>(Picoseconds, Picoseconds) = default;
  friend constexpr Picoseconds operator+(Picoseconds a, Picoseconds b) {
    return {a.count + b.count};
  }
  friend constexpr Picoseconds operator-(Picoseconds a, Picoseconds b) {
    return {a.count - b.count};
  }
  constexpr Picoseconds& operator+=(Picoseconds other) {
    count += other.count;
    return *this;
  }
};

/// Rounds half away from zero, once, at the boundary between cost models and engine.
[[nodiscard]] inline Picoseconds to_picoseconds(Seconds time) {
  return {std::llround(time.value() * 1e12)};
}
[[nodiscard]] constexpr Seconds to_seconds(Picoseconds time) {
  return Seconds(static_cast<double>(time.count) * 1e-12);
}
[[nodiscard]] constexpr double to_milliseconds(Picoseconds time) {
  return static_cast<double>(time.count) * 1e-9;
}

namespace literals {
constexpr Bytes operator""_MiB(unsigned long long n) {
  return Bytes(static_cast<double>(n) * 0x1p20);
}
constexpr Bytes operator""_GiB(unsigned long long n) {
  return Bytes(static_cast<double>(n) * 0x1p30);
}
constexpr Seconds operator""_us(long double n) {
  return Seconds(static_cast<double>(n) * 1e-6);
}
constexpr BytesPerSecond operator""_GBps(long double n) {
  return BytesPerSecond(static_cast<double>(n) * 1e9);
}
constexpr FlopsPerSecond operator""_TFLOPS(long double n) {
  return FlopsPerSecond(static_cast<double>(n) * 1e12);
}
}  // namespace literals

}  // namespace zenflow
