/// Checks as text and as JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/doctor/check.h"

namespace zenflow::runtime {

[[nodiscard]] std::size_t count(const std::vector<Check>& checks, CheckStatus status);

/// A line a check, with what was expected and what to do below it, and a last line that counts.
[[nodiscard]] std::string checks_text(const std::vector<Check>& checks);

/// {"schema_version": 1, "tool": "zenflow-calibrate doctor", "version": ..., "checks": [{"id",
/// "status", "found", "expected", "advice"}], "counts": {"ok", "warn", "fail", "unknown"}}.
[[nodiscard]] std::string checks_json(const std::vector<Check>& checks, std::string_view version);

}  // namespace zenflow::runtime
