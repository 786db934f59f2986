#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>

#include "runtime/probe/comparison.h"
#include "sim/base/error.h"
#include "tools/calibrate/calibrate.h"
#include "tools/environment.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

using runtime::Agreement;

struct CompareOptions {
  std::filesystem::path first;
  std::filesystem::path second;
  bool json = false;
};

int compare(const CompareOptions& options) {
  // One after the other: of two wrong files the first is named.
  const std::vector<runtime::Figure> first = runtime::read_figures(options.first);
  const std::vector<runtime::Figure> second = runtime::read_figures(options.second);
  const runtime::ProbeComparison comparison = runtime::compare_probes(first, second);
  if (comparison.pairs.empty()) {
    throw Error(ErrorKind::kInput, options.first.string() + " and " + options.second.string() +
                                       ": no figure that both have");
  }
  print(options.json ? runtime::comparison_json(comparison, kVersion)
                     : runtime::comparison_text(comparison));
  return comparison.count(Agreement::kApart) > 0 ? static_cast<int>(ErrorKind::kTolerance) : 0;
}

}  // namespace

void add_compare(CLI::App& app, Command& chosen) {
  const auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand(
      "compare", "say whether two probes of a machine agree within their spreads; exit 4 if not");
  command->add_option("first", options->first, "what the first probe --json printed")->required();
  command->add_option("second", options->second, "what the second one printed")->required();
  command->add_flag("--json", options->json, "print one document on standard output");
  command->callback([options, &chosen] { chosen = [options] { return compare(*options); }; });
}

}  // namespace zenflow::tools
