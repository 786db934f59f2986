#include "sim/deepspeed/lint.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/json_text.h"
#include "sim/base/output_file.h"
#include "sim/base/table.h"
#include "sim/base/text.h"
#include "sim/config/hub/hub_model.h"
#include "sim/deepspeed/ds_fields.h"
#include "sim/deepspeed/unmodelled_keys.h"
#include "sim/job_files/given_deepspeed.h"
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
  if (given.target) options.target = sim::parse_target(*given.target);
  if (given.torch_version) options.torch_version = sim::parse_torch_version(*given.torch_version);
  options.world_size = given.world_size;
  options.cores_per_node = given.cores_per_node;
  options.gpus_per_node = given.gpus_per_node;
  options.omp_num_threads = given.omp_num_threads;
  options.bind_cores_to_rank = given.bind_cores_to_rank;
  options.notes = given.notes;
  if (given.model) {
    const sim::ModelSpec model = sim::load_model(*given.model);
    if (const sim::Tensor* stacked = model.stacked_tensor()) options.stacked_tensor = *stacked;
  }
  return options;
}

/// One file and what was found in it.
struct Linted {
  std::string file;  ///< whose settings are judged
  sim::DsDocument document;
  sim::LintOptions options;             ///< with what another program's file says
  std::string given{};                  ///< the file that was named, if it is another program's
  std::string program{};                ///< whose it is
  bool judged = true;                   ///< false: nothing in it is for DeepSpeed
  bool of_program = false;              ///< the document is in no file of DeepSpeed's
  std::string how{};                    ///< of another program's file: what is judged
  std::vector<std::string> warnings{};  ///< of what the command line and the files say together
  std::vector<Finding> findings{};
  std::vector<std::string> not_modelled{};
};

std::string severity_text(Severity severity, bool color) {
  const std::string word(to_string(severity));
  if (!color) return word;
  const int code = severity == Severity::kError ? 31 : severity == Severity::kWarning ? 35 : 36;
  return fmt::format("\x1b[1;{}m{}\x1b[0m", code, word);
}

/// Reads like a compiler: one finding a line.
std::string as_text(const Finding& finding, bool color) {
  return fmt::format(
      "{}: {}: {}{}: {} -> {} [{}]\n", finding.at.text(), severity_text(finding.severity, color),
      finding.code, finding.path.empty() ? "" : " " + printable_name(finding.path),
      printable_name(finding.what), printable_name(finding.instead), finding.reference);
}

nlohmann::ordered_json as_json(const Finding& finding, const Linted& linted) {
  const bool of_given = finding.at.file != nullptr && *finding.at.file == linted.given;
  nlohmann::ordered_json map;
  map["file"] = of_given ? linted.given : linted.file;
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

std::string fix_text(const Fixed& fixed) {
  std::string text = fmt::format("{}: written with {}\n", fixed.file,
                                 sim::counted(fixed.changes.size(), "change"));
  for (const std::string& change : fixed.changes) text += "  " + change + "\n";
  return text;
}

/// What the command line says holds.
void take_launch(const sim::GivenDeepSpeed& given, bool has_target, Linted& linted) {
  sim::LintOptions& options = linted.options;
  if (!has_target) options.target = given.target;
  if (given.processes && options.world_size && *options.world_size != *given.processes) {
    linted.warnings.push_back(
        fmt::format("{}: starts {} processes; judged for the {} of --world-size", linted.file,
                    *given.processes, *options.world_size));
  }
  if (!options.world_size) options.world_size = given.processes;
  if (!options.gpus_per_node && given.processes) {
    options.gpus_per_node = std::max<std::int64_t>(1, *options.world_size / given.machines);
  }
  options.beside_file = given.refused;
  options.arguments = given.arguments;
}

/// What another program gives to DeepSpeed by its own file.
void read_given(const Node& root, sim::TrainingProgram program, bool has_target, Linted& linted) {
  sim::GivenDeepSpeed given = sim::given_deepspeed(root, program, linted.file);
  take_launch(given, has_target, linted);
  linted.given = linted.file;
  linted.program = to_string(program);
  linted.of_program = !given.file;
  linted.judged = given.document.has_value();
  if (!given.document) {
    linted.how = fmt::format("without {}: nothing of DeepSpeed's to check", given.key);
    return;
  }
  linted.document = *std::move(given.document);
  if (given.file) linted.file = given.file->string();
  if (!given.built_in.empty()) linted.file = given.built_in;
  linted.how = linted.file == linted.given ? "judged is its " + given.key
                                           : "which names " + linted.file + ": judged is that";
}

/// Whether the first thing that is no comment cannot begin a YAML block: JSON or Hjson, whatever
/// the file is called.
bool begins_as_json(std::string_view text) {
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (!text.starts_with('#')) return text.starts_with('{') || text.starts_with('/');
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
}

/// A model's config.json is a likely mistake. Anything that DeepSpeed knows makes it a
/// configuration.
void refuse_model(const Node& root) {
  if (root.find("model_type") == nullptr && root.find("architectures") == nullptr) return;
  for (const sim::TopLevelKey& known : sim::top_level_keys()) {
    if (root.find(known.key) != nullptr) return;
  }
  for (const sim::RemovedBlock& removed : sim::removed_blocks()) {
    if (root.find(removed.key) != nullptr) return;
  }
  fail_at(root.at, "", "expected a DeepSpeed configuration, found the config.json of a model");
}

/// Whose file it is, if DeepSpeed does not read it itself.
std::optional<sim::TrainingProgram> other_program(const Node& root) {
  const auto program = sim::recognise_training_file(root);
  // Descriptions of models have gradient_checkpointing as Trainer's arguments do; model_type is a
  // key of axolotl and ms-swift, too.
  if (program == sim::TrainingProgram::kTrainer) refuse_model(root);
  return program == sim::TrainingProgram::kDeepSpeed ? std::nullopt : program;
}

Linted lint_file(const std::filesystem::path& path, const sim::LintOptions& options,
                 bool has_target) {
  const bool standard_input = path == "-";
  Linted linted{standard_input ? "<stdin>" : path.string(), {}, options};
  const std::string text =
      standard_input ? read_standard_input(kMaxFileMebibytes) : read_text_file(path);
  const bool yaml = path.extension() == ".yaml" || path.extension() == ".yml";
  const Node root =
      yaml && !begins_as_json(text) ? parse_yaml_with_aliases(text, linted.file) : Node{};
  if (root.find("training") != nullptr || root.find("schedules") != nullptr) {
    fail_at(root.at, "", "expected DeepSpeed's or accelerate's configuration, found a scenario");
  }
  if (const auto program = other_program(root)) {
    read_given(root, *program, has_target, linted);
  } else {
    linted.document = sim::parse_ds_document(text, linted.file);
    if (const auto other = other_program(linted.document.root)) {
      const Node given = std::exchange(linted.document, {}).root;
      read_given(given, *other, has_target, linted);
    }
  }
  if (!linted.judged) return linted;
  refuse_model(linted.document.root);
  linted.findings = sim::lint(linted.document, linted.options);
  for (sim::UnmodelledKey& key : sim::unmodelled_keys(linted.document.root)) {
    linted.not_modelled.push_back(std::move(key.path));
  }
  return linted;
}

std::string text_report(const std::vector<Linted>& files, const std::optional<Fixed>& fixed,
                        bool color) {
  std::string text;
  for (const Linted& linted : files) {
    if (!linted.program.empty()) {
      text += fmt::format("{}: a file of {}{} {}\n", linted.given, linted.program,
                          linted.judged ? "," : "", linted.how);
    }
    if (!linted.judged) continue;
    for (const Finding& finding : linted.findings) text += as_text(finding, color);
    if (fixed) text += fix_text(*fixed);
    if (!linted.not_modelled.empty()) {
      text += linted.file + ": " + sim::unmodelled_note(linted.not_modelled) + "\n";
    }
    const sim::LintOptions& options = linted.options;
    const Counts counts = count(linted.findings);
    text +=
        fmt::format("{}: {}, {}{} (DeepSpeed {}, target {})\n", linted.file,
                    sim::counted(counts.errors, "error"), sim::counted(counts.warnings, "warning"),
                    options.notes ? ", " + sim::counted(counts.notes, "note") : "",
                    to_string(options.version), to_string(options.target));
  }
  if (fixed) {
    text += fmt::format("{}: {}, {} left\n", fixed->file, sim::counted(fixed->left.errors, "error"),
                        sim::counted(fixed->left.warnings, "warning"));
  }
  return text;
}

std::string json_report(const std::vector<Linted>& files, const std::optional<Fixed>& fixed) {
  const sim::LintOptions& options = files.front().options;
  nlohmann::ordered_json document;
  document["schema_version"] = 1;
  document["tool"] = "zenflow-sim";
  document["version"] = kVersion;
  document["files"] = nlohmann::ordered_json::array();
  document["target"] = to_string(options.target);
  document["deepspeed_version"] = to_string(options.version);
  document["findings"] = nlohmann::ordered_json::array();
  Counts total;
  for (const Linted& linted : files) {
    document["files"].push_back(linted.file);
    for (const Finding& finding : linted.findings) {
      document["findings"].push_back(as_json(finding, linted));
    }
    const Counts counts = count(linted.findings);
    total.errors += counts.errors;
    total.warnings += counts.warnings;
    total.notes += counts.notes;
  }
  for (const Linted& linted : files) {
    if (linted.program.empty()) continue;
    nlohmann::ordered_json one;
    one["file"] = linted.given;
    one["program"] = linted.program;
    one["judged"] = linted.judged ? nlohmann::ordered_json(linted.file) : nullptr;
    document["read_as"].push_back(std::move(one));
  }
  for (const Linted& linted : files) {
    if (!linted.not_modelled.empty()) document["not_modelled"][linted.file] = linted.not_modelled;
  }
  for (const Linted& linted : files) {
    for (const std::string& one : linted.warnings) document["assumptions"].push_back(one);
  }
  document["errors"] = total.errors;
  document["warnings"] = total.warnings;
  document["notes"] = total.notes;
  if (fixed) {
    document["fix"] = {{"file", fixed->file},
                       {"changes", fixed->changes},
                       {"errors_left", fixed->left.errors},
                       {"warnings_left", fixed->left.warnings}};
  }
  return json_text(document);
}

}  // namespace

int lint_command(const CommonOptions& common, const LintCommandOptions& given) {
  if (given.fix && !given.output) {
    throw Error(ErrorKind::kInput, "lint: --fix needs a file to write: --fix -o FILE");
  }
  if (given.fix && given.files.size() > 1) {
    throw Error(ErrorKind::kInput, "lint: --fix corrects one file at a time");
  }
  const sim::LintOptions options = lint_options(given);
  if (given.output) {
    std::error_code missing;
    if (std::filesystem::equivalent(given.files[0], *given.output, missing)) {
      throw Error(ErrorKind::kInput,
                  "lint: --fix writes elsewhere, not over its input " + given.files[0].string());
    }
    check_output(*given.output, common.overwrite);
  }
  // All are read before anything is printed: one that cannot be read is exit code 2 and no report.
  std::vector<Linted> files;
  for (const std::filesystem::path& path : given.files) {
    files.push_back(lint_file(path, options, given.target.has_value()));
  }
  for (const Linted& linted : files) {
    for (const std::string& warning : linted.warnings) {
      if (!common.quiet) complain("zenflow-sim: " + warning + "\n");
    }
  }
  std::optional<Fixed> fixed;
  if (given.fix && files[0].of_program) {
    throw Error(ErrorKind::kInput,
                fmt::format("lint: --fix corrects a file of DeepSpeed's, and {} is one of {} that "
                            "names none",
                            files[0].given, files[0].program));
  }
  if (given.fix) {
    fixed = write_fix(files[0].document, files[0].options, *given.output, common.overwrite);
  }
  print(common.json ? json_report(files, fixed) : text_report(files, fixed, colored(common)));
  if (fixed) return fixed->left.errors > 0 ? 1 : 0;
  const bool broken = std::any_of(files.begin(), files.end(), [](const Linted& linted) {
    return count(linted.findings).errors > 0;
  });
  return broken ? 1 : 0;
}

}  // namespace zenflow::tools
