/// Text from files as a page may hold it, whoever wrote it.
#pragma once

#include <string>
#include <string_view>

namespace zenflow::sim {

/// JSON as the content of a script element: `<` within its strings becomes \u003c, so that nothing
/// in it ends the element or begins another, and likewise control characters and what turns the
/// direction of text. Precondition: `json` is JSON, in which they are in strings alone.
[[nodiscard]] std::string json_in_script(std::string_view json);

/// As the content of an element or of an attribute in quotes. Control characters but tabs and ends
/// of lines, what turns the direction of text, and what is not UTF-8, become U+FFFD.
[[nodiscard]] std::string html_text(std::string_view text);

}  // namespace zenflow::sim
