/// The one option of the benchmarks on a GPU.
#pragma once

#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::bench {

/// The last --require=SHARE, or `otherwise`. Throws Error(kInput) for anything else, with an
/// `example` of a share.
inline double share_option(int argc, char** argv, double otherwise, std::string_view example) {
  constexpr std::string_view kOption = "--require=";
  double share = otherwise;
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    const bool is_known = argument.starts_with(kOption);
    if (is_known) argument.remove_prefix(kOption.size());
    const auto [end, error] = std::from_chars(argument.begin(), argument.end(), share);
    if (!is_known || error != std::errc{} || end != argument.end()) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: expected --require=SHARE, e.g. --require={}", argv[i], example));
    }
  }
  return share;
}

}  // namespace zenflow::bench
