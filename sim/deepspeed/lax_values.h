/// Scalars as Python and pydantic (lax mode) take them where a value of a type is due.
///
/// A text may stand for a number: blanks around it, a plus sign, leading zeros and single
/// underscores between digits are allowed. Compared with pydantic 2 by script/interop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/config/document.h"

namespace zenflow::sim {

/// Nothing if pydantic refuses the value, or if it does not fit into 64 bits (see is_whole).
[[nodiscard]] std::optional<std::int64_t> lax_integer(const Node& node);
/// Nothing if pydantic refuses the value, or if it is not finite (see is_non_finite).
[[nodiscard]] std::optional<double> lax_number(const Node& node);
[[nodiscard]] std::optional<bool> lax_boolean(const Node& node);

/// What Python's `if` makes of it.
[[nodiscard]] bool is_true_in_python(const Node& node);

/// Whether pydantic takes it for an integer, of any size.
[[nodiscard]] bool is_whole(const Node& node);
/// "inf" and "nan" as texts, which a field of numbers takes.
[[nodiscard]] bool is_non_finite(const Node& node);
/// true or false, not as a text.
[[nodiscard]] bool is_boolean(const Node& node);
/// A number as JSON writes it, not as a text.
[[nodiscard]] bool is_number(const Node& node);

/// A number that hjson, with which DeepSpeed reads files, makes an int: digits alone, and whole
/// numbers below 10^10 however they are written (4.0, 1e3). json makes floats of the latter.
[[nodiscard]] bool is_hjson_integer(const Node& node);

/// The number that a text stands for as JSON writes it: " +1_000.0 " is 1000 where an integer is
/// due. Nothing if it stands for none, or for one that JSON cannot write.
[[nodiscard]] std::optional<std::string> number_as_json(const Node& node, bool integer);

}  // namespace zenflow::sim
