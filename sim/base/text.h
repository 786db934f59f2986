/// Text as other languages write it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace zenflow {

/// A string of JSON; YAML in double quotes reads it alike. What is not ASCII stays, but what a
/// terminal obeys (printable), which is escaped, and what is not UTF-8, which becomes U+FFFD.
[[nodiscard]] std::string json_quoted(std::string_view text);

/// In double quotes, those in it doubled: a name of SQL, a cell of CSV (RFC 4180).
[[nodiscard]] std::string quoted_by_doubling(std::string_view text);

/// A word of a shell, in quotes only where it needs them. What a terminal obeys, and what is not
/// UTF-8, is escaped within $'...', which bash, zsh and POSIX of 2024 read.
[[nodiscard]] std::string shell_word(std::string_view text);

/// Without any of `blanks` around it.
[[nodiscard]] std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r\n");

/// With ASCII's capital letters as small ones.
[[nodiscard]] std::string lower_case(std::string_view text);

/// Whether any of `parts` stands in it, in the same case.
[[nodiscard]] bool contains_any(std::string_view text, std::span<const std::string_view> parts);

/// Bytes of the UTF-8 sequence that `rest` starts with; 0 if it is not one. Precondition: not
/// empty.
[[nodiscard]] std::size_t utf8_length(std::string_view rest);

/// `text` as a terminal may be given it, whoever wrote it: control characters but tabs and ends of
/// lines, and what turns the direction of text, as \uXXXX, so that JSON stays the same JSON (which
/// has such characters inside strings alone); what is not UTF-8 as U+FFFD. With `styled` stay a
/// line in bold, which is a table's header, and a bold and coloured word as ": error: " has it; the
/// styles of names, which could hide what follows, do not.
[[nodiscard]] std::string printable(std::string_view text, bool styled = false);
/// A name within a line or a table: ends of lines and tabs likewise.
[[nodiscard]] std::string printable_name(std::string_view text);

/// As fmt has it, but NaN without a sign, which says nothing.
[[nodiscard]] std::string number_text(double value);

/// Half a surrogate pair becomes three bytes in the pattern of UTF-8.
void append_utf8(std::uint32_t character, std::string& out);

}  // namespace zenflow
