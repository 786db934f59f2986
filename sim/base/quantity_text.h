/// Sizes and numbers as people read them, to four digits.
#pragma once

#include <cstdint>
#include <string>

namespace zenflow {

/// "512 B", "1.5 GiB": units of 1024.
[[nodiscard]] std::string size_text(std::uint64_t bytes);
/// "870", "3.04 million", "6.7 billion".
[[nodiscard]] std::string count_text(double count);

}  // namespace zenflow
