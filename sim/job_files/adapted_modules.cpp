#include "sim/job_files/adapted_modules.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/text.h"

namespace zenflow::sim {
namespace {

/// "model.visual." for "model.visual.blocks.{}.norm1.weight"; empty: of the text's part.
std::string tower_of(const std::string& tensor) {
  for (const std::string_view part : {"visual.", "vision_tower.", "vision_model.", "audio_tower.",
                                      "multi_modal_projector.", "connector."}) {
    const std::size_t at = tensor.find(part);
    if (at != std::string::npos) return tensor.substr(0, at + part.size());
  }
  return "";
}

std::set<std::string> towers_of(const ModelSpec& model) {
  std::set<std::string> towers;
  for (std::int64_t i = 0; i < model.layers() + 2; ++i) {
    for (const Tensor& tensor : model.part(i).tensors) towers.insert(tower_of(tensor.name));
  }
  towers.erase("");
  return towers;
}

/// "q_proj", ... of the layers of a model with experts; empty: it has none.
std::set<std::string> linear_names(const ModelSpec& model) {
  std::set<std::string> names;
  bool has_experts = false;
  for (const Layer& layer : model.kinds) {
    for (const Linear& product : layer.products) {
      const bool is_stack = product.count > 1;
      const bool is_router = product.name == "gate" || product.name == "router";
      has_experts = has_experts || is_stack;
      if (!is_stack && !is_router) {
        names.insert(product.name.substr(product.name.rfind('.') + 1));
      }
    }
  }
  return has_experts ? names : std::set<std::string>();
}

std::string quoted_list(const std::set<std::string>& names) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back(json_quoted(name));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

}  // namespace

void settle_adapted_modules(const ModelSpec& model, JobFacts& facts) {
  const std::optional<JobFact> frozen = facts.take(kTowersFrozen);
  const bool by_name = facts.take(kLinearByName).has_value();
  if (facts.find("adapter") != nullptr) return;
  const std::set<std::string> towers = frozen ? towers_of(model) : std::set<std::string>();
  const JobFact* const lora = facts.find("training.lora");
  if (lora == nullptr) {
    if (towers.empty()) return;
    std::set<std::string> names;
    for (const std::string& tower : towers) names.insert(tower + "*");
    return facts.state("training.freeze", quoted_list(names), frozen->source);
  }
  constexpr std::string_view kAll = "targets: all-linear";
  std::string text = lora->value;
  const std::size_t at = text.find(kAll);
  const std::set<std::string> names = by_name ? linear_names(model) : std::set<std::string>();
  if (at == std::string::npos || (towers.empty() && names.empty())) return;
  // All linear ones are in layers; in a regular expression a dot is any character.
  const std::string targets =
      towers.empty() ? quoted_list(names)
                     : json_quoted(fmt::format(
                           "(?!{}).*[.]layers[.].*{}", fmt::join(towers, "|"),
                           names.empty() ? "" : fmt::format("[.]({})", fmt::join(names, "|"))));
  text.replace(at, kAll.size(), fmt::format("targets: {}", targets));
  facts.replace("training.lora", std::move(text), lora->source);
}

}  // namespace zenflow::sim
