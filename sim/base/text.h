/// Text as other languages write it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace zenflow {

/// A string of JSON; YAML in double quotes and Graphviz read it alike. What is not ASCII stays.
[[nodiscard]] std::string json_quoted(std::string_view text);

/// In double quotes, those in it doubled: a name of SQL, a cell of CSV (RFC 4180).
[[nodiscard]] std::string quoted_by_doubling(std::string_view text);

/// A word of a POSIX shell, in quotes only where it needs them.
[[nodiscard]] std::string shell_word(std::string_view text);

/// Without any of `blanks` around it.
[[nodiscard]] std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r\n");

/// Half a surrogate pair becomes three bytes in the pattern of UTF-8.
void append_utf8(std::uint32_t character, std::string& out);

}  // namespace zenflow
