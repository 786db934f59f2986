#include "sim/deepspeed/lint.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/config/reader.h"
#include "sim/deepspeed/lint_context.h"
#include "sim/deepspeed/lint_rules.h"

namespace zenflow::sim {

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "note";
  }
  return "";
}

std::string_view to_string(RejectedBy who) {
  switch (who) {
    case RejectedBy::kNobody:
      return "nobody";
    case RejectedBy::kConfig:
      return "config";
    case RejectedBy::kEngine:
      return "engine";
    case RejectedBy::kLauncher:
      return "launcher";
  }
  return "";
}

TorchVersion parse_torch_version(std::string_view text) {
  TorchVersion version;
  const char* end = text.data() + text.size();
  const auto [dot, bad_major] = std::from_chars(text.data(), end, version.major);
  if (bad_major == std::errc() && dot != end && *dot == '.') {
    const auto [rest, bad_minor] = std::from_chars(dot + 1, end, version.minor);
    const bool ends = rest == end || std::string_view(".+").find(*rest) != std::string_view::npos;
    if (bad_minor == std::errc() && ends && version.major >= 0 && version.minor >= 0) {
      return version;
    }
  }
  throw Error(ErrorKind::kInput,
              fmt::format("--torch-version: expected a release such as 2.6.0, found \"{}\"", text));
}

std::vector<Rule> lint_rules() {
  std::vector<Rule> rules;
  for (const auto topic : {structure_rules(), zenflow_rules(), zenflow_behaviour_rules(),
                           offload_rules(), batch_rules(), launcher_rules(), optimizer_rules()}) {
    rules.insert(rules.end(), topic.begin(), topic.end());
  }
  return rules;
}

std::vector<Finding> lint(const DsDocument& document, const LintOptions& options) {
  LintContext context(document, options);
  for (const Rule& rule : lint_rules()) rule.check(context, rule);
  std::vector<Finding> findings = context.take();
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.at.line, a.at.column, a.code) < std::tie(b.at.line, b.at.column, b.code);
  });
  return findings;
}

LintFix fix(const DsDocument& document, const LintOptions& options) {
  LintFix result;
  DsDocument current = document;
  for (const Finding& finding : lint(current, options)) {
    if (!finding.fixable || !finding.edits.empty()) continue;
    result.changes.push_back(
        fmt::format("{} {}: {}", finding.code, finding.at.text(),
                    finding.code == "ZF001" ? "comment removed" : "written as JSON"));
  }
  current.comments.clear();
  current.uses.clear();
  // One rule at a time: its edits may settle what other rules found, or reveal more. The bound
  // only guards against rules that disagree.
  const std::size_t rounds = 4 * lint_rules().size();
  for (std::size_t round = 0; round < rounds; ++round) {
    std::string_view code;
    for (const Finding& finding : lint(current, options)) {
      if (finding.edits.empty() || (!code.empty() && finding.code != code)) continue;
      code = finding.code;
      for (const Edit& edit : finding.edits) {
        apply_edit(current.root, edit);
        result.changes.push_back(fmt::format("{} {}", finding.code, describe(edit)));
      }
    }
    if (code.empty()) break;
  }
  result.root = std::move(current.root);
  return result;
}

}  // namespace zenflow::sim
