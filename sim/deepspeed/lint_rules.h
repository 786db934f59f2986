/// The rules of the linter by topic.
#pragma once

#include <span>

#include "sim/deepspeed/ds_fields.h"
#include "sim/deepspeed/lint_context.h"

namespace zenflow::sim {

[[nodiscard]] std::span<const Rule> structure_rules();
[[nodiscard]] std::span<const Rule> zenflow_rules();
[[nodiscard]] std::span<const Rule> zenflow_behaviour_rules();
[[nodiscard]] std::span<const Rule> offload_rules();
[[nodiscard]] std::span<const Rule> batch_rules();
[[nodiscard]] std::span<const Rule> launcher_rules();

}  // namespace zenflow::sim
