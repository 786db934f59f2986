#include <algorithm>

#include <fmt/format.h>

#include "sim/base/text.h"
#include "sim/config/document.h"
#include "sim/config/reader.h"
#include "sim/job_files/job_facts.h"
#include "sim/job_files/job_inputs.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTable = "hub_names.yaml";

std::string without_owner(const std::string& name) {
  return name.substr(name.find('/') + 1);
}

}  // namespace

std::vector<std::pair<std::string, fs::path>> named_models(
    const std::vector<fs::path>& directories) {
  std::vector<std::pair<std::string, fs::path>> names;
  for (const fs::path& folder : directories) {
    std::error_code missing;
    if (!fs::is_regular_file(folder / kTable, missing)) continue;
    const Node table = load_document(folder / kTable);
    MapReader map(table, "");
    for (const std::string& file : map.keys()) {
      for (const ValueReader& name : map.require(file).items()) {
        names.emplace_back(name.string(), folder / (file + ".json"));
      }
    }
    break;  // all ship with the same table
  }
  std::sort(names.begin(), names.end());
  return names;
}

fs::path find_named_model(const std::string& text, const std::vector<fs::path>& directories,
                          const Location& at) {
  std::error_code missing;
  if (fs::exists(text, missing)) return fs::absolute(text);
  for (const fs::path& folder : directories) {  // "llama2_7b", as scenarios name it
    const fs::path listed = folder / (text + ".json");
    if (fs::is_regular_file(listed, missing)) return fs::absolute(listed);
  }
  const auto names = named_models(directories);
  const std::string wanted = lower_case(text);
  std::vector<fs::path> found;
  std::vector<std::string> known;
  for (const auto& [name, file] : names) {
    known.insert(known.end(), {name, without_owner(name), file.stem().string()});
    const bool whole = lower_case(name) == wanted;
    if (!whole && lower_case(without_owner(name)) != wanted) continue;
    if (whole) return fs::absolute(file);
    if (std::find(found.begin(), found.end(), file) == found.end()) found.push_back(file);
  }
  if (found.size() == 1) return fs::absolute(found.front());
  fail_at(at, "model",
          fmt::format("no such file or folder, and no description of \"{}\" ships with this "
                      "program{}; fetch config.json of that model's repository on the Hub and give "
                      "its path (zenflow-sim list hub-models has {} names)",
                      text, suggestion(text, known), names.size()));
}

}  // namespace zenflow::sim
