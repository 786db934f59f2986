#include "runtime/train/initial_weights.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "runtime/model/initialize.h"
#include "runtime/model/weight_file.h"
#include "sim/base/error.h"
#include "sim/base/large_array.h"
#include "sim/base/stop.h"
#include "sim/base/text.h"

namespace zenflow::runtime {
namespace {

void check_finite(const std::filesystem::path& path, const std::string& name,
                  const std::vector<float>& values) {
  const auto bad = std::find_if_not(values.begin(), values.end(),
                                    [](float value) { return std::isfinite(value); });
  if (bad == values.end()) return;
  throw Error(ErrorKind::kInput, fmt::format("{}: {}: element {} is {}", path.generic_string(),
                                             name, bad - values.begin(), number_text(*bad)));
}

}  // namespace

std::vector<std::vector<float>> initial_weights(
    const TransformerConfig& config, const ParameterTable& table,
    const std::optional<std::filesystem::path>& path, std::uint64_t seed, ThreadPool& pool,
    const std::function<void(const std::string&)>& note) {
  std::optional<WeightFile> file;
  if (path) file.emplace(*path, config, table);
  std::vector<std::vector<float>> weights;
  for (std::size_t i = 0; i < table.parameters.size(); ++i) {
    throw_if_stopped();
    fill_with_zeros(weights.emplace_back(),
                    static_cast<std::size_t>(table.parameters[i].elements()));
    const bool missing = !file || std::count(file->missing().begin(), file->missing().end(), i) > 0;
    if (missing) {
      initialize(config, table.parameters[i], seed, ElementType::kFloat32, weights.back().data(),
                 pool);
      if (file) note(table.parameters[i].name + " is not in the weights: initialised by seed");
    } else {
      file->read(i, ElementType::kFloat32, weights.back().data());
      check_finite(*path, table.parameters[i].name, weights.back());
    }
  }
  return weights;
}

}  // namespace zenflow::runtime
