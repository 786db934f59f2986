#include "kernels/dispatch.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace zenflow::kernels {
namespace {

TEST(Dispatch, ReferencesAreAlwaysThereAndTheBestComesLast) {
  const auto isas = available_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.front(), Isa::kScalar);
  EXPECT_TRUE(std::is_sorted(isas.begin(), isas.end()));
  EXPECT_EQ(isas.back(), best_isa());
}

TEST(Dispatch, NamesAreDistinct) {
  EXPECT_STREQ(to_string(Isa::kScalar), "scalar");
  EXPECT_STREQ(to_string(Isa::kAvx2), "avx2");
  EXPECT_STREQ(to_string(Isa::kAvx512), "avx512");
}

}  // namespace
}  // namespace zenflow::kernels
