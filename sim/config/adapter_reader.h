/// What a scenario says of training only a part of its model.
#pragma once

#include <string>
#include <vector>

#include "sim/config/document.h"
#include "sim/config/reader.h"
#include "sim/model/model_spec.h"

namespace zenflow::sim {

/// Reads `adapter` (a PEFT adapter_config.json that stands in the tree in place of its name), or
/// `training.lora` and `training.freeze`, and makes the model what is trained then. `config`: the
/// model's config.json, of which a quantised base is read. What a user should know goes to `notes`.
///
///   training:
///     lora: {r: 16, targets: all-linear, dropout: 0.05, base: nf4}
///     freeze: ["model.vision_tower.*"]
///
/// Throws Error(kInput), located, for a target that no module has, another kind of adapter, both
/// ways of saying it, weights quantised so that only adapters can be trained without any, and a
/// model of which nothing is trained.
void read_adapters(MapReader& root, MapReader& training, const Node& config, ModelSpec& model,
                   std::vector<std::string>& notes);

}  // namespace zenflow::sim
