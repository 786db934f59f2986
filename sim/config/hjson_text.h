/// The characters of Hjson: white space, numbers, code points.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace zenflow {

/// Without what Python's str.strip() takes for white space, in UTF-8.
[[nodiscard]] std::string_view without_space(std::string_view text);
[[nodiscard]] std::string_view without_trailing_space(std::string_view text);

/// Each half of a surrogate pair as "\uD83D"; all else stays.
[[nodiscard]] std::string halves_escaped(std::string_view text);

/// Characters of `text` that make a JSON number, from its start; 0 if there is none.
/// RFC 8259: -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?
[[nodiscard]] std::size_t json_number_length(std::string_view text);

}  // namespace zenflow
