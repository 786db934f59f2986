#include "tools/validate/store.h"

#include <fmt/format.h>

#include "sim/accuracy/page.h"
#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "sim/base/text.h"
#include "tools/environment.h"
#include "tools/validate/validate.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

namespace fs = std::filesystem;

std::string document_name(const ValidateOptions& options) {
  return !options.name.empty() ? options.name
                               : sim::document_name(options.scenario.stem().string(), options.live,
                                                    options.link_bandwidth);
}

fs::path document_file(const ValidateOptions& options) {
  return sim::page_data(options.page) / (document_name(options) + ".json");
}

}  // namespace

void check_store(const ValidateOptions& options) {
  if (options.page.extension() != ".md") {
    throw Error(ErrorKind::kInput, fmt::format("--write {}: expected the name of a page, *.md",
                                               options.page.generic_string()));
  }
  check_output(options.page, options.overwrite);
  const fs::path data = sim::page_data(options.page);
  if (!fs::exists(data / "page.yaml")) {
    throw Error(ErrorKind::kInput,
                fmt::format("--write {}: its data, {}, is not there", options.page.generic_string(),
                            (data / "page.yaml").generic_string()));
  }
  const bool stores = options.live || !options.traces.empty();
  if (!stores) return;
  check_output(document_file(options), options.overwrite);
  if (!sim::is_document_name(document_name(options))) {
    throw Error(ErrorKind::kInput,
                fmt::format("--name {}: expected small letters, digits and underscores",
                            document_name(options)));
  }
}

void store(const ValidateOptions& options, const sim::ValidationDocument& document) {
  const fs::path file = document_file(options);
  if (fs::exists(file)) {
    for (const std::string& remark : sim::read_document(file).origin.remarks) {
      complain(fmt::format("note: {}: a remark of the result before is not in this one: {}\n",
                           file.generic_string(), remark));
    }
  }
  write_output(file, sim::document_json(document), true);
}

void write_page(const ValidateOptions& options) {
  const sim::AccuracyPage page = sim::accuracy_page(sim::page_data(options.page), kVersion);
  write_output(options.page, printable(page.text), true);
}

}  // namespace zenflow::tools
