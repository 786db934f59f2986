/// A scenario with all the files it names, small enough to simulate in milliseconds.
#pragma once

#include <filesystem>

#include "tests/support/scenario_texts.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::testing {

/// Writes profiles/node.yaml and scenarios/one.yaml with its model and DeepSpeed file.
inline std::filesystem::path write_scenario(const TemporaryFolder& folder) {
  folder.write("profiles/node.yaml", kProfile);
  folder.write("scenarios/models/tiny.json", kModel);
  folder.write("scenarios/ds/zenflow.json", kDeepSpeed);
  return folder.write("scenarios/one.yaml", kScenario);
}

}  // namespace zenflow::testing
