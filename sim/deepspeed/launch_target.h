/// Who launches the training, and so reads the DeepSpeed file first.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace zenflow::sim {

/// The deepspeed launcher, HF Trainer, or accelerate.
enum class LaunchTarget { kDeepSpeed, kHf, kAccelerate };
[[nodiscard]] std::string_view to_string(LaunchTarget target);
[[nodiscard]] std::optional<LaunchTarget> find_target(std::string_view text);
/// "expected ..., found ...": what to say if find_target finds nothing.
[[nodiscard]] std::string expected_target(std::string_view found);
/// Throws Error(kInput) if `text` is not "deepspeed", "hf" or "accelerate".
[[nodiscard]] LaunchTarget parse_target(std::string_view text);

}  // namespace zenflow::sim
