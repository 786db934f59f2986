/// The rules of the linter by topic.
#pragma once

#include <span>
#include <string_view>

#include "sim/deepspeed/ds_fields.h"
#include "sim/deepspeed/lint_context.h"

namespace zenflow::sim {

[[nodiscard]] std::span<const Rule> structure_rules();
[[nodiscard]] std::span<const Rule> zenflow_rules();
[[nodiscard]] std::span<const Rule> zenflow_behaviour_rules();
[[nodiscard]] std::span<const Rule> offload_rules();
[[nodiscard]] std::span<const Rule> batch_rules();
[[nodiscard]] std::span<const Rule> launcher_rules();
[[nodiscard]] std::span<const Rule> optimizer_rules();

/// Whether the type makes an optimizer that ZeRO takes only with zero_allow_untested_optimizer.
[[nodiscard]] bool is_untested_optimizer(std::string_view type);

}  // namespace zenflow::sim
