/// Pieces of JSON as written, made into what they mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zenflow::sim {

/// Without white space at the end and without the quotes around a string.
[[nodiscard]] std::string_view bare(std::string_view token);

/// A whole number, quoted or not: 12, "12", 12.0, "0x1f". Nothing for everything else and for what
/// 64 bits do not hold.
[[nodiscard]] std::optional<std::int64_t> whole_number(std::string_view token);

/// What is between a JSON string's quotes, unescaped. Escapes that name no character (half a
/// surrogate pair, too few digits) become U+FFFD.
[[nodiscard]] std::string unescape(std::string_view escaped);

/// JSON whose texts have their control characters escaped: some profilers write names as they are.
[[nodiscard]] std::string with_controls_escaped(std::string_view json);

/// `text` with U+FFFD for every byte that is not part of well-formed UTF-8.
[[nodiscard]] std::string as_utf8(std::string_view text);
[[nodiscard]] bool is_utf8(std::string_view text);

}  // namespace zenflow::sim
