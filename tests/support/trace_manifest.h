/// Recorded runs of one machine that predictions are held against: a folder with manifest.json.
///
///   {"scenario": "scenario.yaml", "profile": "NAME.yaml", "device": "cuda",
///    "traces": [{"file": "a.json.gz", "setting": "zenflow:0.1:4", "calibrated": true}, ...]}
///
/// Files are relative to the folder; "profile" may be missing. script/gpu-check writes such
/// folders.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace zenflow::testing {

struct TraceManifest {
  std::filesystem::path folder;
  nlohmann::json content;

  static TraceManifest read(const std::filesystem::path& folder) {
    return {folder, nlohmann::json::parse(file_content(folder / "manifest.json"))};
  }
  [[nodiscard]] std::string device() const { return content.at("device"); }

  /// `program`: zenflow-validate. With limits on the time for a GPU alone: what a busy CPU takes
  /// says little.
  [[nodiscard]] std::vector<std::string> command(const std::string& program) const {
    std::vector<std::string> words = {program,
                                      (folder / content.at("scenario").get<std::string>())};
    std::string settings;
    std::string calibrated;
    for (const auto& one : content.at("traces")) {
      words.insert(words.end(), {"--trace", (folder / one.at("file").get<std::string>())});
      const std::string setting = one.at("setting");
      settings += (settings.empty() ? "" : ",") + setting;
      if (one.at("calibrated")) calibrated += (calibrated.empty() ? "" : ",") + setting;
    }
    words.insert(words.end(), {"--setting", settings, "--calibrate", calibrated, "--json", "-q"});
    if (content.contains("profile")) {
      words.insert(words.end(), {"--profile", (folder / content.at("profile").get<std::string>())});
    }
    if (device() == "cuda") {
      words.insert(words.end(), {"--tolerance", "3", "--worst", "8", "--bytes-tolerance", "0.1"});
    } else {
      words.insert(words.end(),
                   {"--tolerance", "1000", "--worst", "1000", "--bytes-tolerance", "0"});
    }
    // The stall is shown, not judged: the step holds it.
    words.insert(words.end(), {"--stall-tolerance", "any"});
    return words;
  }
};

/// Folders of `root` with a manifest.
inline std::vector<std::filesystem::path> manifest_folders(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> found;
  if (!std::filesystem::exists(root)) return found;
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    if (std::filesystem::exists(entry.path() / "manifest.json")) found.push_back(entry.path());
  }
  return found;
}

}  // namespace zenflow::testing
