/// Every version of AdamW against the scalar reference, bit for bit.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/adamw/adamw.h"
#include "tests/support/kernel_inputs.h"

namespace zenflow::kernels {
namespace {

using testing::any_bits;
using testing::comparable;
using testing::kSizes;
using testing::magnitude;
using testing::ordinary;

constexpr AdamWSettings kUsual{
    .learning_rate = 1e-3F, .beta1 = 0.9F, .beta2 = 0.999F, .epsilon = 1e-8F, .weight_decay = 0.1F};
constexpr AdamWSettings kBare{
    .learning_rate = 3.0F, .beta1 = 0.0F, .beta2 = 0.0F, .epsilon = 0.0F, .weight_decay = 0.0F};

struct NoCopyHere {};

constexpr std::uint32_t kSecondMoment = 3;  // its seed

template <class Param, class Moment, class Grad, class Out>
struct Types {
  using ParamType = Param;
  using MomentType = Moment;
  using GradType = Grad;
  using OutType = Out;
};

/// All arrays, one element longer than what is updated in front and behind.
template <class T>
struct Arrays {
  std::vector<typename T::ParamType> p;
  std::vector<typename T::MomentType> m;
  std::vector<typename T::MomentType> v;
  std::vector<typename T::GradType> g;
  std::vector<Bf16> bf16_copy;
  std::vector<float> fp32_copy;

  void update(const AdamWSettings& settings, Isa isa) {
    const std::size_t n = p.size() - 2;
    const AdamWState<typename T::ParamType, typename T::MomentType> state{
        p.data() + 1, m.data() + 1, v.data() + 1};
    const BiasCorrection correction = bias_correction(kUsual, 3);
    const auto* gradient = g.data() + 1;
    if constexpr (std::is_same_v<typename T::OutType, Bf16>) {
      adamw(settings, correction, 0.3F, n, state, gradient, bf16_copy.data() + 1, isa);
    } else if constexpr (std::is_same_v<typename T::OutType, float>) {
      adamw(settings, correction, 0.3F, n, state, gradient, fp32_copy.data() + 1, isa);
    } else {
      adamw(settings, correction, 0.3F, n, state, gradient, isa);
    }
  }

  [[nodiscard]] std::vector<std::uint32_t> bits() const {
    std::vector<std::uint32_t> all;
    const auto append = [&all](const auto& values) {
      const auto more = comparable(values);
      all.insert(all.end(), more.begin(), more.end());
    };
    append(p);
    append(m);
    append(v);
    append(bf16_copy);
    append(fp32_copy);
    return all;
  }
};

template <class T, class Fill>
Arrays<T> filled(std::size_t n, const Fill& fill) {
  Arrays<T> arrays;
  arrays.p = fill.template operator()<typename T::ParamType>(n + 2, 1U);
  arrays.m = fill.template operator()<typename T::MomentType>(n + 2, 2U);
  arrays.v = fill.template operator()<typename T::MomentType>(n + 2, kSecondMoment);
  arrays.g = fill.template operator()<typename T::GradType>(n + 2, 4U);
  arrays.bf16_copy.assign(n + 2, Bf16{0x1234});
  arrays.fp32_copy.assign(n + 2, -1.0F);
  return arrays;
}

constexpr auto kAnyBits = []<class Element>(std::size_t n, std::uint32_t seed) {
  return any_bits<Element>(n, seed);
};
/// Without NaNs: vectors take another way where there are none.
constexpr auto kOrdinary = []<class Element>(std::size_t n, std::uint32_t seed) {
  auto values = ordinary<Element>(n, seed);
  if (seed != kSecondMoment) return values;
  for (Element& value : values) value = magnitude(value);
  return values;
};

template <class T>
class AdamWIsas : public ::testing::Test {};

using AllTypes =
    ::testing::Types<Types<float, float, float, NoCopyHere>, Types<float, float, float, float>,
                     Types<float, float, float, Bf16>, Types<float, float, Bf16, NoCopyHere>,
                     Types<float, float, Bf16, float>, Types<float, float, Bf16, Bf16>,
                     Types<Bf16, float, Bf16, NoCopyHere>, Types<Bf16, Bf16, Bf16, NoCopyHere>>;
TYPED_TEST_SUITE(AdamWIsas, AllTypes);

template <class T, class Fill>
void expect_reference_bits(const Fill& fill, const AdamWSettings& settings) {
  for (const std::size_t n : kSizes) {
    const Arrays<T> start = filled<T>(n, fill);
    Arrays<T> reference = start;
    for (int step = 0; step < 3; ++step) reference.update(settings, Isa::kScalar);
    for (const Isa isa : available_isas()) {
      Arrays<T> arrays = start;
      for (int step = 0; step < 3; ++step) arrays.update(settings, isa);
      EXPECT_EQ(arrays.bits(), reference.bits()) << to_string(isa) << ", n = " << n;
    }
  }
}

TYPED_TEST(AdamWIsas, AgreeOnOrdinaryNumbers) {
  expect_reference_bits<TypeParam>(kOrdinary, kUsual);
}

TYPED_TEST(AdamWIsas, AgreeOnExtremes) {
  expect_reference_bits<TypeParam>(kAnyBits, kUsual);
  expect_reference_bits<TypeParam>(kAnyBits, kBare);
}

/// A caller's threads may cut a range anywhere.
TYPED_TEST(AdamWIsas, CutsDoNotShow) {
  constexpr std::size_t kCount = 200;
  for (const Isa isa : available_isas()) {
    const Arrays<TypeParam> start = filled<TypeParam>(kCount, kAnyBits);
    Arrays<TypeParam> whole = start;
    whole.update(kUsual, isa);
    for (const std::size_t cut : {1U, 16U, 33U, 199U}) {
      Arrays<TypeParam> left = start;
      const auto shorten = [&](auto& values) { values.resize(cut + 2); };
      shorten(left.p), shorten(left.m), shorten(left.v), shorten(left.g);
      shorten(left.bf16_copy), shorten(left.fp32_copy);
      Arrays<TypeParam> right = start;
      const auto drop = [&](auto& values) {
        values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(cut));
      };
      drop(right.p), drop(right.m), drop(right.v), drop(right.g);
      drop(right.bf16_copy), drop(right.fp32_copy);
      left.update(kUsual, isa);
      right.update(kUsual, isa);
      const auto join = [&](const auto& a, const auto& b, const auto& expected) {
        auto joined = a;
        joined.resize(cut + 1);
        joined.insert(joined.end(), b.begin() + 1, b.end());
        EXPECT_EQ(comparable(joined), comparable(expected)) << to_string(isa) << " cut at " << cut;
      };
      join(left.p, right.p, whole.p);
      join(left.m, right.m, whole.m);
      join(left.v, right.v, whole.v);
    }
  }
}

}  // namespace
}  // namespace zenflow::kernels
