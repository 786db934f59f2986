/// Reads a network that is described tensor by tensor, as script/describe-model writes it for
/// models of which no row knows the family.
#pragma once

#include <string>

#include "sim/config/document.h"
#include "sim/model/model_spec.h"

namespace zenflow::sim::hub {

/// Whether the document is a description rather than a config.json.
[[nodiscard]] bool is_description(const Node& root);

/// Throws Error(kInput), located, for a missing or unknown key, a size out of range, a kind that
/// `order` names and that is not there, and tensors that do not add up to `parameters`.
[[nodiscard]] ModelSpec read_description(const Node& root, const std::string& name);

}  // namespace zenflow::sim::hub
