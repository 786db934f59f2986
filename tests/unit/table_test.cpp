// Numbers and tables as people read them.
#include "sim/base/table.h"

#include <gtest/gtest.h>

#include "sim/base/text.h"

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

TEST(Printable, EscapesWhatATerminalObeys) {
  EXPECT_EQ(printable("plain, \xC3\xA9 \xE2\x86\x92\n\tx"), "plain, \xC3\xA9 \xE2\x86\x92\n\tx");
  EXPECT_EQ(printable("\x1B[2J\x07\x7F\r"), "\\u001b[2J\\u0007\\u007f\\u000d");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\u009b31m");  // C1
  EXPECT_EQ(printable("a\xE2\x80\xAE"
                      "b\xE2\x81\xA6"),
            "a\\u202eb\\u2066");                                 // direction
  EXPECT_EQ(printable("\xFF\x9B"), "\xEF\xBF\xBD\xEF\xBF\xBD");  // no UTF-8
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\u0000b");
}

TEST(Quoted, IsStillTheSameJson) {
  EXPECT_EQ(json_quoted("a\"\\\n\xC3\xA9"), "\"a\\\"\\\\\\n\xC3\xA9\"");
  EXPECT_EQ(json_quoted("\x1B[2J\x7F\xC2\x9B\xE2\x80\xAE"), "\"\\u001b[2J\\u007f\\u009b\\u202e\"");
  EXPECT_EQ(json_quoted("\xFF"), "\"\xEF\xBF\xBD\"");
}

TEST(Quoted, IsOneWordOfAShell) {
  EXPECT_EQ(shell_word("a/b-c.json"), "a/b-c.json");
  EXPECT_EQ(shell_word("it's $HOME"), "'it'\\''s $HOME'");
  EXPECT_EQ(shell_word("\x1B[2J1'\\\n\xC2\x9B\xFF\xC3\xA9"),
            "$'\\033[2J1\\'\\\\\\012\\302\\233\\377\xC3\xA9'");
}

TEST(Printable, KeepsColoursAloneWhereTheyAreMeant) {
  const std::string header = format_table({"a", "b"}, {{"1", "2"}}, true);
  EXPECT_EQ(printable("x\n  " + header, true), "x\n  " + header);
  EXPECT_EQ(printable("\033[1ma\x07\033[0m", true), "\033[1ma\\u0007\033[0m");
  const std::string finding = "f:1:2: \033[1;31merror\033[0m: x\n";
  EXPECT_EQ(printable(finding, true), finding);
  EXPECT_EQ(printable("\033[1;31mx\033[0m\033[2J", true), "\\u001b[1;31mx\\u001b[0m\\u001b[2J");
  // A name would hide the rest of its line, or look like a finding.
  EXPECT_EQ(printable("\033[8mn: job", true), "\\u001b[8mn: job");
  EXPECT_EQ(printable("\033[1mn\033[0m: job", true), "\\u001b[1mn\\u001b[0m: job");
  EXPECT_EQ(printable("\033[1mn\n\033[0m", true), "\\u001b[1mn\n\\u001b[0m");
  EXPECT_EQ(printable("n: \033[1;31mA B\033[0m: x", true), "n: \\u001b[1;31mA B\\u001b[0m: x");
  EXPECT_EQ(printable("\033[1mx"), "\\u001b[1mx");
  EXPECT_EQ(printable("\033[1", true), "\\u001b[1");
}

TEST(Printable, NamesStayWithinTheirLine) {
  EXPECT_EQ(printable_name("a\nb\tc"), "a\\u000ab\\u0009c");
  EXPECT_EQ(format_table({"name"}, {{"a\nb"}}), "name\na\\u000ab\n");
}

}  // namespace
}  // namespace zenflow::sim
