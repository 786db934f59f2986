#include "sim/deepspeed/lint.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "tools/commands/commands.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

using sim::Finding;
using sim::Severity;

struct Counts {
  std::size_t errors = 0;
  std::size_t warnings = 0;
  std::size_t notes = 0;
};

Counts count(const std::vector<Finding>& findings) {
  Counts counts;
  for (const Finding& finding : findings) {
    switch (finding.severity) {
      case Severity::kError:
        ++counts.errors;
        break;
      case Severity::kWarning:
        ++counts.warnings;
        break;
      case Severity::kNote:
        ++counts.notes;
        break;
    }
  }
  return counts;
}

sim::LintOptions lint_options(const LintCommandOptions& given) {
  sim::LintOptions options;
  if (given.deepspeed_version) options.version = sim::parse_version(*given.deepspeed_version);
  options.target = sim::parse_target(given.target);
  options.world_size = given.world_size;
  options.cores_per_node = given.cores_per_node;
  options.gpus_per_node = given.gpus_per_node;
  options.omp_num_threads = given.omp_num_threads;
  options.bind_cores_to_rank = given.bind_cores_to_rank;
  options.notes = given.notes;
  return options;
}

std::string plural(std::size_t number, const char* word) {
  return fmt::format("{} {}{}", number, word, number == 1 ? "" : "s");
}

std::string severity_text(Severity severity, bool color) {
  const std::string word(to_string(severity));
  if (!color) return word;
  const int code = severity == Severity::kError ? 31 : severity == Severity::kWarning ? 35 : 36;
  return fmt::format("\x1b[1;{}m{}\x1b[0m", code, word);
}

/// Reads like a compiler: one finding a line.
std::string as_text(const Finding& finding, bool color) {
  return fmt::format("{}: {}: {}{}: {} -> {} [{}]\n", finding.at.text(),
                     severity_text(finding.severity, color), finding.code,
                     finding.path.empty() ? "" : " " + finding.path, finding.what, finding.instead,
                     finding.reference);
}

nlohmann::ordered_json as_json(const Finding& finding) {
  nlohmann::ordered_json map;
  map["code"] = finding.code;
  map["severity"] = to_string(finding.severity);
  map["line"] = finding.at.line;
  map["column"] = finding.at.column;
  map["path"] = finding.path;
  map["what"] = finding.what;
  map["instead"] = finding.instead;
  map["rejected_by"] = to_string(finding.rejected_by);
  map["reference"] = finding.reference;
  map["fixable"] = finding.fixable;
  return map;
}

/// What --fix did.
struct Fixed {
  std::string file;
  std::vector<std::string> changes;
  Counts left;
};

Fixed write_fix(const sim::DsDocument& document, const sim::LintOptions& options,
                const std::filesystem::path& output, bool overwrite) {
  const sim::LintFix fix = sim::fix(document, options);
  const std::string text = sim::render_json(fix.root);
  const sim::DsDocument written = sim::parse_ds_document(text, output.string());
  Fixed fixed{output.string(), fix.changes, count(sim::lint(written, options))};
  write_output(output, text, overwrite);
  return fixed;
}

std::string text_report(const LintCommandOptions& given, const sim::LintOptions& options,
                        const std::vector<Finding>& findings, const std::optional<Fixed>& fixed,
                        bool color) {
  std::string text;
  for (const Finding& finding : findings) text += as_text(finding, color);
  if (fixed) {
    text +=
        fmt::format("{}: written with {}\n", fixed->file, plural(fixed->changes.size(), "change"));
    for (const std::string& change : fixed->changes) text += "  " + change + "\n";
  }
  const Counts counts = count(findings);
  text += fmt::format("{}: {}, {}{} (DeepSpeed {}, target {})\n", given.file.string(),
                      plural(counts.errors, "error"), plural(counts.warnings, "warning"),
                      options.notes ? ", " + plural(counts.notes, "note") : "",
                      to_string(options.version), to_string(options.target));
  if (fixed) {
    text += fmt::format("{}: {}, {} left\n", fixed->file, plural(fixed->left.errors, "error"),
                        plural(fixed->left.warnings, "warning"));
  }
  return text;
}

std::string json_report(const LintCommandOptions& given, const sim::LintOptions& options,
                        const std::vector<Finding>& findings, const std::optional<Fixed>& fixed) {
  nlohmann::ordered_json document;
  document["schema_version"] = 1;
  document["tool"] = "zenflow-sim";
  document["version"] = kVersion;
  document["file"] = given.file.string();
  document["target"] = to_string(options.target);
  document["deepspeed_version"] = to_string(options.version);
  document["findings"] = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) document["findings"].push_back(as_json(finding));
  const Counts counts = count(findings);
  document["errors"] = counts.errors;
  document["warnings"] = counts.warnings;
  document["notes"] = counts.notes;
  if (fixed) {
    document["fix"] = {{"file", fixed->file},
                       {"changes", fixed->changes},
                       {"errors_left", fixed->left.errors},
                       {"warnings_left", fixed->left.warnings}};
  }
  return document.dump(2) + "\n";
}

}  // namespace

int lint_command(const CommonOptions& common, const LintCommandOptions& given) {
  if (given.fix && !given.output) {
    throw Error(ErrorKind::kInput, "lint: --fix needs a file to write: --fix -o FILE");
  }
  const sim::LintOptions options = lint_options(given);
  if (given.output) {
    std::error_code missing;
    if (std::filesystem::equivalent(given.file, *given.output, missing)) {
      throw Error(ErrorKind::kInput,
                  "lint: --fix writes elsewhere, not over its input " + given.file.string());
    }
    check_output(*given.output, common.overwrite);
  }
  const sim::DsDocument document = sim::load_ds_document(given.file);
  const std::vector<Finding> findings = sim::lint(document, options);
  std::optional<Fixed> fixed;
  if (given.fix) fixed = write_fix(document, options, *given.output, common.overwrite);
  print(common.json ? json_report(given, options, findings, fixed)
                    : text_report(given, options, findings, fixed, colored(common)));
  const std::size_t errors = fixed ? fixed->left.errors : count(findings).errors;
  return errors > 0 ? 1 : 0;
}

}  // namespace zenflow::tools
