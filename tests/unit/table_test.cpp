// Numbers and tables as people read them.
#include "sim/base/table.h"

#include <gtest/gtest.h>

namespace zenflow::sim {
namespace {

TEST(Table, AlignsNamesLeftAndNumbersRight) {
  EXPECT_EQ(format_table({"name", "ms"}, {{"a", "10.0"}, {"longer", "5"}}),
            "name      ms\n"
            "a       10.0\n"
            "longer     5\n");
}

TEST(Table, AlignsAsManyColumnsLeftAsAsked) {
  EXPECT_EQ(format_table({"a", "b", "c"}, {{"xx", "yyy", "1"}}, false, 2),
            "a   b    c\n"
            "xx  yyy  1\n");
}

TEST(Table, HasNoSpacesAtLineEnds) {
  EXPECT_EQ(format_table({"a", "b"}, {{"x", ""}, {"", "yyyy"}}, false, 2),
            "a  b\n"
            "x\n"
            "   yyyy\n");
}

TEST(Table, PrintsTheHeaderBold) {
  EXPECT_EQ(format_table({"a"}, {{"x"}}, true), "\033[1ma\033[0m\nx\n");
}

TEST(Table, OfNoRowsIsItsHeader) {
  EXPECT_EQ(format_table({"a", "b"}, {}), "a  b\n");
}

TEST(Numbers, HaveUnits) {
  EXPECT_EQ(format_milliseconds(1390.24e9), "1390.2");
  EXPECT_EQ(format_seconds(4.604e12), "4.60 s");
  EXPECT_EQ(format_seconds(51.26e9), "51.3 ms");
  EXPECT_EQ(format_seconds(1e12), "1.00 s");
  EXPECT_EQ(format_gib(12.55 * 1073741824), "12.55 GiB");
  EXPECT_EQ(format_percent(0.476), "47.6 %");
}

TEST(Csv, QuotesWhatNeedsIt) {
  EXPECT_EQ(csv_line({"a", "b c", "1.5"}), "a,b c,1.5\n");
  EXPECT_EQ(csv_line({"a,b", "say \"hi\"", "two\nlines", ""}),
            "\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\",\n");
}

}  // namespace
}  // namespace zenflow::sim
