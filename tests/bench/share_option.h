/// What the benchmarks on a GPU have in options: numbers, after NAME=.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::bench {

/// The number after `prefix`, which is all of `argument` but that; nothing for anything else.
template <class Number>
std::optional<Number> number_after(std::string_view prefix, std::string_view argument) {
  if (!argument.starts_with(prefix)) return std::nullopt;
  argument.remove_prefix(prefix.size());
  Number number{};
  const auto [end, error] = std::from_chars(argument.begin(), argument.end(), number);
  if (error != std::errc{} || end != argument.end()) return std::nullopt;
  return number;
}

inline constexpr std::string_view kRequire = "--require=";

/// The last --require=SHARE, or `otherwise`. Throws Error(kInput) for anything else, with an
/// `example` of a share.
inline double share_option(int argc, char** argv, double otherwise, std::string_view example) {
  double share = otherwise;
  for (int i = 1; i < argc; ++i) {
    const auto given = number_after<double>(kRequire, argv[i]);
    if (!given) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: expected --require=SHARE, e.g. --require={}", argv[i], example));
    }
    share = *given;
  }
  return share;
}

}  // namespace zenflow::bench
