#include "sim/config/hub/model_files.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "sim/base/crc32.h"
#include "sim/config/hub/description.h"
#include "sim/config/hub/hub_config.h"
#include "sim/config/hub/hub_model.h"
#include "sim/config/hub/weight_check.h"
#include "sim/config/hub/weight_model.h"
#include "sim/config/reader.h"
#include "sim/config/weight_headers.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;

struct Source {
  std::optional<fs::path> config;
  std::optional<fs::path> weights;
};

Source find_source(const fs::path& path) {
  std::error_code error;
  const auto config_in = [&error](const fs::path& folder) -> std::optional<fs::path> {
    const fs::path config = folder / "config.json";
    return fs::exists(config, error) ? std::optional(config) : std::nullopt;
  };
  if (is_weight_file(path)) return {config_in(path.parent_path()), path};
  if (!fs::is_directory(path, error)) return {path, std::nullopt};
  Source source{config_in(path), find_weights(path)};
  // Of neither, the error says what a folder is looked through for first.
  if (!source.config && !source.weights) source.config = path / "config.json";
  return source;
}

/// "llama-7b" of llama-7b/model.safetensors, as of llama-7b/config.json.
std::string name_of(const Source& source) {
  if (source.config) return model_name(*source.config);
  const std::string file = source.weights->filename().string();
  const bool named_by_folder = file.starts_with("model.safetensors");
  return model_name(named_by_folder ? source.weights->parent_path() / "config.json"
                                    : *source.weights);
}

bool is_known(const Node& config) {
  if (hub::is_description(config)) return true;
  const Node* type = config.is_map() ? config.find("model_type") : nullptr;
  return type != nullptr && type->is_scalar() && is_known_model_type(type->scalar);
}

/// Layers that predict tokens further ahead, which transformers does not load.
std::int64_t extra_layers(const Node& config) {
  const Node* count = config.find("num_nextn_predict_layers");
  if (count == nullptr || !count->is_scalar()) return 0;
  return ValueReader(*count, "num_nextn_predict_layers").integer(0, hub::kMaxLayers);
}

}  // namespace

std::string ModelWeights::identity() const {
  std::uint32_t sum = 0;
  for (const SafetensorsHeader& file : files) {
    for (const StoredTensor& one : file.tensors) {
      const std::string line = fmt::format("{} {} {}\n", one.name, one.type, shape_text(one.shape));
      sum = crc32(sum, std::as_bytes(std::span(line)));
    }
  }
  return fmt::format("{} {:08x}", path.generic_string(), sum);
}

ModelFiles load_model_files(const fs::path& path) {
  const Source source = find_source(path);
  ModelFiles files{name_of(source), {}, nullptr};
  if (source.config) files.config = load_document(*source.config);
  if (!source.weights) return files;
  ModelWeights weights{*source.weights, read_weight_headers(*source.weights)};
  if (source.config && is_known(files.config)) {
    hub::check_weights(read_model(files.config, files.name), weights.files,
                       {weights.path, *source.config, extra_layers(files.config)});
  } else {
    files.weights = std::make_shared<const ModelWeights>(std::move(weights));
  }
  return files;
}

bool is_model_path(const fs::path& path) {
  if (path.extension() == ".json" || is_weight_file(path)) return true;
  std::error_code error;
  return fs::is_directory(path, error) &&
         (fs::exists(path / "config.json", error) || find_weights(path).has_value());
}

ModelSpec read_model_files(const ModelFiles& files) {
  if (files.weights == nullptr) return read_model(files.config, files.name);
  return hub::read_weight_model(files.config, *files.weights, files.name);
}

}  // namespace zenflow::sim
