/// Finds in a DeepSpeed configuration what a release will reject, ignore or do unexpectedly.
///
/// Rules are table entries with stable codes (docs/lint.md); what a rule knows comes from
/// DeepSpeed's source and issues, named in its reference.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/deepspeed/accelerate.h"
#include "sim/deepspeed/ds_document.h"
#include "sim/deepspeed/launch_target.h"
#include "sim/deepspeed/trainer_arguments.h"
#include "sim/deepspeed/versions.h"
#include "sim/model/model_spec.h"

namespace zenflow::sim {

enum class Severity { kError, kWarning, kNote };
[[nodiscard]] std::string_view to_string(Severity severity);

/// Who raises on what a rule finds. kNobody: it runs, and does something else than was meant.
enum class RejectedBy { kNobody, kConfig, kEngine, kLauncher };
[[nodiscard]] std::string_view to_string(RejectedBy who);

/// A PyTorch release as far as DeepSpeed asks for it.
struct TorchVersion {
  int major = 0;
  int minor = 0;
  friend constexpr auto operator<=>(const TorchVersion&, const TorchVersion&) = default;
};
/// "2.6" or "2.6.0+cu124". Throws Error(kInput) if `text` does not start with two numbers.
[[nodiscard]] TorchVersion parse_torch_version(std::string_view text);

struct LintOptions {
  Version version = newest_version();
  LaunchTarget target = LaunchTarget::kDeepSpeed;
  std::optional<std::int64_t> world_size{};      ///< data-parallel ranks
  std::optional<std::int64_t> cores_per_node{};  ///< physical
  std::optional<std::int64_t> gpus_per_node{};
  std::optional<std::int64_t> omp_num_threads{};
  std::optional<TorchVersion> torch_version{};
  bool bind_cores_to_rank = false;
  std::optional<Tensor> stacked_tensor{};   ///< of the model, if there is one
  bool notes = false;                       ///< also what is true of every such configuration
  std::vector<LocatedKey> beside_file{};    ///< what accelerate refuses beside this file
  std::vector<StatedArgument> arguments{};  ///< Trainer's, as far as they are known
};

struct Finding {
  std::string_view code;
  Severity severity = Severity::kError;
  RejectedBy rejected_by = RejectedBy::kNobody;
  Location at;
  std::string path;     ///< of the setting
  std::string what;     ///< what will happen
  std::string instead;  ///< what to write
  std::string_view reference;
  bool fixable = false;
  std::vector<Edit> edits;  ///< of a fixable finding; none: writing the file is enough
};

class LintContext;

struct Rule {
  std::string_view code;
  Severity severity = Severity::kError;
  RejectedBy rejected_by = RejectedBy::kNobody;  ///< findings may say otherwise for some versions
  std::string_view title;
  std::string_view reference;
  void (*check)(LintContext& context, const Rule& rule) = nullptr;
};

/// All rules, by code.
[[nodiscard]] std::vector<Rule> lint_rules();

/// Findings in the order of the file.
[[nodiscard]] std::vector<Finding> lint(const DsDocument& document, const LintOptions& options);

struct LintFix {
  Node root;                         ///< corrected
  std::vector<std::string> changes;  ///< "ZF034 zero_optimization.overlap_comm = true"
};
/// Applies the edits of findings until none with edits is left.
[[nodiscard]] LintFix fix(const DsDocument& document, const LintOptions& options);

}  // namespace zenflow::sim
