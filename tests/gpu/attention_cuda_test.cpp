// Both implementations against the reference, which computes in double.
#include "kernels/attention/attention_cuda.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/closeness.h"
#include "tests/support/kernel_inputs.h"
#include "tests/support/on_device.h"

namespace zenflow::kernels {
namespace {

using testing::Bounds;
using testing::expect_close;
using testing::in_every_order;
using testing::NeedsDevice;
using testing::OnDevice;
using testing::ordinary;
using testing::synchronize;

/// Products of bfloat16 with fp32 sums, then one rounding of the result, and with tensor cores one
/// of p and ds before: each errs by 2^-9 of the norm where errors are spread evenly.
template <class Element>
constexpr Bounds bounds() {
  return sizeof(Element) == 2 ? Bounds{0x1p-7, 0x1p-6} : Bounds{4e-6, 1e-5};
}

AttentionShape shape_of(std::size_t sequences, std::size_t length, std::size_t heads,
                        std::size_t kv_heads, std::size_t head_dim) {
  return {sequences, length,   heads,
          kv_heads,  head_dim, 1.0F / std::sqrt(static_cast<float>(head_dim == 0 ? 1 : head_dim))};
}

AttentionShape with(AttentionShape shape, std::size_t window, float cap) {
  shape.window = window;
  shape.cap = cap;
  return shape;
}

class AttentionCuda : public NeedsDevice<::testing::TestWithParam<AttentionShape>> {
 protected:
  template <class Element>
  void check(std::size_t skip);
};

template <class Element>
void AttentionCuda::check(std::size_t skip) {
  const AttentionShape shape = GetParam();
  const std::size_t statistics = shape.tokens() * shape.heads;
  const std::vector<Element> qkv = ordinary<Element>(shape.tokens() * shape.row(), 1);
  const std::vector<Element> d_out = ordinary<Element>(shape.tokens() * shape.out_row(), 2);
  std::vector<Element> out(d_out.size()), d_qkv(qkv.size());
  std::vector<float> lse(statistics), delta(statistics);
  attention_forward_scalar<Element>(shape, {qkv.data(), out.data(), lse.data()});
  attention_backward_scalar<Element>(
      shape, {qkv.data(), out.data(), lse.data(), d_out.data(), delta.data(), d_qkv.data()});
  in_every_order([&] {
    const OnDevice<Element> in(qkv, skip), by_out(d_out, skip), result(out.size(), skip),
        reference_out(out, skip), gradient(qkv.size(), skip);
    const OnDevice<float> l(statistics), d(statistics);
    attention_forward_cuda<Element>(shape, {in.get(), result.get(), l.get()}, nullptr);
    attention_backward_cuda<Element>(
        shape, {in.get(), reference_out.get(), l.get(), by_out.get(), d.get(), gradient.get()},
        nullptr);
    synchronize();
    expect_close(result.read(), out, bounds<Element>(), "out");
    expect_close(l.read(), lse, {2e-6, 4e-6}, "lse");
    expect_close(d.read(), delta, {1e-5, 1e-5}, "delta");
    expect_close(gradient.read(), d_qkv, bounds<Element>(), "d_qkv");
  });
}

TEST_P(AttentionCuda, Fp32MatchesTheReference) {
  check<float>(0);
}
TEST_P(AttentionCuda, Bf16MatchesTheReference) {
  check<Bf16>(0);
}
TEST_P(AttentionCuda, Bf16WithoutTensorCoresMatchesTheReference) {
  check<Bf16>(1);  // not at a multiple of 16 bytes
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionCuda,
    ::testing::Values(
        shape_of(0, 5, 2, 1, 8), shape_of(1, 1, 1, 1, 1), shape_of(3, 10, 4, 2, 4),
        shape_of(2, 33, 3, 3, 20), shape_of(1, 40, 2, 1, 256), shape_of(2, 1, 2, 1, 64),
        shape_of(1, 64, 1, 1, 64), shape_of(2, 65, 1, 1, 64), shape_of(1, 130, 2, 1, 64),
        shape_of(1, 31, 2, 1, 128), shape_of(1, 70, 3, 1, 128),
        // windows within a tile, over several, of the own token
        with(shape_of(2, 33, 2, 1, 20), 7, 0.0F), with(shape_of(2, 130, 2, 1, 64), 5, 0.0F),
        with(shape_of(1, 200, 1, 1, 64), 70, 0.0F), with(shape_of(1, 129, 1, 1, 128), 1, 0.0F),
        with(shape_of(1, 70, 2, 1, 64), 71, 0.0F), with(shape_of(2, 33, 2, 1, 20), 0, 1.5F),
        with(shape_of(1, 130, 2, 1, 64), 100, 1.5F), with(shape_of(1, 70, 2, 1, 128), 0, 0.5F)));

TEST(Attention, TensorCoresServeTheHeadsOfTheBigModels) {
  const Bf16* const aligned = nullptr;
  Bf16* const out = nullptr;
  for (const std::size_t head_dim : {4U, 32U, 64U, 80U, 128U, 256U}) {
    EXPECT_EQ(attention_uses_tensor_cores(shape_of(1, 8, 2, 1, head_dim), {aligned, out, nullptr}),
              head_dim == 64 || head_dim == 128);
  }
}

class AttentionCudaExtremes : public NeedsDevice<::testing::Test> {};

TEST_F(AttentionCudaExtremes, LargeScoresDoNotOverflow) {
  const AttentionShape shape{1, 70, 1, 1, 64, 1.0F};
  std::vector<Bf16> qkv = ordinary<Bf16>(shape.tokens() * shape.row(), 1);
  for (std::size_t i = 0; i < qkv.size(); ++i) {
    if (i % shape.row() < 128) qkv[i] = round_to_bf16(to_float(qkv[i]) * 8.0F);
  }
  std::vector<Bf16> expected(shape.tokens() * 64);
  std::vector<float> lse(shape.tokens());
  attention_forward_scalar<Bf16>(shape, {qkv.data(), expected.data(), lse.data()});
  ASSERT_GT(*std::max_element(lse.begin(), lse.end()), 100.0F);  // exp of it is infinite in fp32
  const OnDevice<Bf16> in(qkv), out(expected.size());
  const OnDevice<float> l(lse.size());
  attention_forward_cuda<Bf16>(shape, {in.get(), out.get(), l.get()}, nullptr);
  synchronize();
  expect_close(out.read(), expected, {0x1p-7, 0x1p-6}, "out");
}

}  // namespace
}  // namespace zenflow::kernels
