/// Pieces of a training log's lines.
#pragma once

#include <optional>
#include <string_view>

namespace zenflow::sim {

/// Around a line's parts: a line may begin behind a carriage return.
inline constexpr std::string_view kBlanks = " \t";

/// A number at the start of `text`, finite and not negative; takes it.
[[nodiscard]] std::optional<double> take_milliseconds(std::string_view& text);

/// Beyond it three timers of a step would be more than what Picoseconds can say.
inline constexpr double kLongestMilliseconds = 26.0 * 86'400e3;

}  // namespace zenflow::sim
