// That equal texts are one number and different ones are not.
#include "sim/trace/name_table.h"

#include <string>

#include <gtest/gtest.h>

namespace zenflow::sim {
namespace {

TEST(NameTable, NumbersTextsInOrderOfFirstUse) {
  NameTable names;
  EXPECT_EQ(names.intern(""), kNoName);
  EXPECT_EQ(names.intern("a"), 1U);
  EXPECT_EQ(names.intern("b"), 2U);
  EXPECT_EQ(names.intern("a"), 1U);
  EXPECT_EQ(names[2], "b");
  EXPECT_EQ(names[kNoName], "");
  EXPECT_EQ(names.size(), 3U);
}

TEST(NameTable, KeepsNumbersWhileItGrows) {
  NameTable names;
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(names.intern("name " + std::to_string(i)), static_cast<NameId>(i + 1));
  }
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(names.intern("name " + std::to_string(i)), static_cast<NameId>(i + 1));
  }
}

TEST(NameTable, CopiesAreIndependent) {
  NameTable names;
  names.intern("a");
  NameTable copy = names;
  copy.intern("b");
  EXPECT_EQ(names.intern("c"), 2U);
  EXPECT_EQ(copy.intern("b"), 2U);
  EXPECT_EQ(copy.intern("a"), 1U);
}

}  // namespace
}  // namespace zenflow::sim
