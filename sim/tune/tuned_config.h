/// The DeepSpeed configuration that a setting stands for: the user's document with what differs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/deepspeed/ds_document.h"
#include "sim/deepspeed/lint.h"
#include "sim/schedule/job.h"
#include "sim/tune/setting.h"

namespace zenflow::sim {

struct TunedConfig {
  Node root;
  std::vector<Edit> edits;  ///< of the user's document, in order
  /// What DeepSpeed or the launcher would not run as meant whatever is changed: "ZF042: ..."; empty
  /// if nothing.
  std::string refusal;
};

/// What the setting changes, whatever DeepSpeed may think of it. `document`: the user's, as strict
/// JSON would read it. `own`: the user's job, of that document. `accumulation`:
/// gradient_accumulation_steps of the setting.
[[nodiscard]] TunedConfig changed_config(const Node& document, const Job& own,
                                         const Setting& setting, std::int64_t accumulation);
/// Besides, errors that the linter can correct in keys that the setting does not decide are
/// corrected, and the first that is left is the refusal.
[[nodiscard]] TunedConfig tuned_config(const Node& document, const Job& own, const Setting& setting,
                                       std::int64_t accumulation);

/// OMP_NUM_THREADS of the command: an equal part of the cores where the launcher's default, or what
/// the scenario says, leaves some idle; else what the scenario says. Empty: the default does.
[[nodiscard]] std::optional<std::int64_t> tuned_threads(const Job& own, const Setting& setting);

/// How the linter is asked of the setting's configuration.
[[nodiscard]] LintOptions lint_options(const Job& own, const Setting& setting);

}  // namespace zenflow::sim
