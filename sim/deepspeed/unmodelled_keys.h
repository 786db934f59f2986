/// Which keys of a DeepSpeed configuration a simulation passes over, by the table of ds_fields.h.
#pragma once

#include <string>
#include <vector>

#include "sim/config/document.h"

namespace zenflow::sim {

/// A key of a file that has an effect on time or memory, and is not modelled.
struct UnmodelledKey {
  std::string path;  ///< "zero_optimization.round_robin_gradients"
  Location at;       ///< of the key
};

/// Those that are written with a value that counts, in the file's order: not "auto", nor null, nor
/// where stage, device or "enabled" make them idle. `root`: the document. Keys that DeepSpeed does
/// not know are another matter (`DeepSpeedConfig::warnings`).
[[nodiscard]] std::vector<UnmodelledKey> unmodelled_keys(const Node& root);

/// "not modelled, as if not written: a, b": what results say of them. Precondition: there are any.
[[nodiscard]] std::string unmodelled_note(const std::vector<std::string>& paths);

}  // namespace zenflow::sim
