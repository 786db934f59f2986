/// What the rules of the linter see of a configuration: values as DeepSpeed would take them,
/// whatever their types, and where they stand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/deepspeed/lax_values.h"
#include "sim/deepspeed/lint.h"

namespace zenflow::sim {

[[nodiscard]] bool is_auto(const Node& node);
/// Short text of a value, for messages.
[[nodiscard]] std::string shown(const Node& node);

/// The settings that rules reason about, with the defaults of the version. "auto" counts as unset.
struct LintSettings {
  std::int64_t stage = 0;
  bool zenflow = false;
  std::optional<std::int64_t> update_interval;  ///< nothing: "auto"
  std::optional<std::int64_t> select_interval;  ///< as written; nothing: "auto"
  std::string select_strategy = "auto";
  bool overlap_step = false;
  std::int64_t warm_up = 0;
  std::string offload = "none";        ///< device of offload_optimizer
  std::string offload_param = "none";  ///< device of offload_param
  double ratio = 1;
  bool super_offload = false;
  bool overlap_comm = false;
  bool bf16 = false;
  bool fp16 = false;
  std::string optimizer;    ///< type in lower case; empty: none in the file
  bool torch_adam = false;  ///< PyTorch's Adam in place of DeepSpeed's
  double gradient_clipping = 0;
  std::optional<std::int64_t> train_batch_size;
  std::optional<std::int64_t> micro_batch_size;
  std::optional<std::int64_t> accumulation_steps;
};

/// Whether the optimizer is DeepSpeed's own Adam: DeepSpeedCPUAdam where it is offloaded.
[[nodiscard]] bool makes_deepspeed_adam(const LintSettings& settings);

/// select_interval as 16 update windows; nothing if update_interval is no number or too large.
[[nodiscard]] std::vector<Edit> select_every_16_windows(const LintSettings& settings);

class LintContext {
 public:
  LintContext(const DsDocument& document, const LintOptions& options);

  [[nodiscard]] const DsDocument& document() const { return *document_; }
  [[nodiscard]] const LintOptions& options() const { return *options_; }
  [[nodiscard]] const LintSettings& settings() const { return settings_; }
  [[nodiscard]] bool has(Change change) const { return has_change(options_->version, change); }
  [[nodiscard]] bool plain() const { return options_->target == LaunchTarget::kDeepSpeed; }

  /// The value at a dotted path, or nullptr; `set` also refuses null and "auto".
  [[nodiscard]] const Node* find(std::string_view path) const;
  [[nodiscard]] const Node* set(std::string_view path) const;
  /// The value at a path; where it is "auto", what Trainer is known to fill in.
  [[nodiscard]] const Node* filled(std::string_view path) const;
  /// What Trainer is given for one of its arguments, "learning_rate"; nullptr: nobody says it.
  [[nodiscard]] const Node* stated(std::string_view argument) const;
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view path) const;
  [[nodiscard]] std::optional<double> number(std::string_view path) const;
  [[nodiscard]] bool flag(std::string_view path, bool fallback) const;
  /// What Python's `if` makes of the value; of none: false.
  [[nodiscard]] bool is_true(std::string_view path) const;
  /// A flag of fp16 or bf16, false unless written: before kStrictPrecision whatever Python takes
  /// for true, "auto" too.
  [[nodiscard]] bool precision_flag(std::string_view path) const;
  [[nodiscard]] std::string text(std::string_view path, std::string_view fallback) const;

  struct Message {
    std::string path{};
    std::string what{};
    std::string instead{};
    std::vector<Edit> edits{};
    bool fixable = false;                     ///< without edits; with edits it is implied
    std::optional<Location> at{};             ///< else where `path` or its nearest parent stands
    std::optional<Severity> severity{};       ///< else the rule's
    std::optional<RejectedBy> rejected_by{};  ///< else the rule's
    std::string_view reference{};             ///< else the rule's
  };
  void report(const Rule& rule, Message message);
  [[nodiscard]] std::vector<Finding> take() { return std::move(findings_); }

 private:
  [[nodiscard]] Location location(std::string_view path) const;
  void read_zero();
  void read_zenflow();
  void read_rest();

  const DsDocument* document_;
  const LintOptions* options_;
  LintSettings settings_;
  std::vector<Finding> findings_;
};

}  // namespace zenflow::sim
