/// Keys of a scenario as flags set them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/scenario.h"

namespace zenflow::sim {

/// `set`: each "PATH=VALUE", split at the first "="; short ZenFlow names become full paths. Release
/// and launcher come last, so that they win. Throws Error(kInput) naming the flag.
[[nodiscard]] std::vector<Override> parse_overrides(
    const std::vector<std::string>& set, const std::optional<std::string>& deepspeed_version = {},
    const std::optional<std::string>& target = {});

[[nodiscard]] bool sets(const std::vector<Override>& overrides, std::string_view path);

}  // namespace zenflow::sim
