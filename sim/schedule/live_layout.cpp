#include "sim/schedule/live_layout.h"

#include <algorithm>

namespace zenflow::sim {
namespace {

/// By parameter, embedding first.
std::vector<int> owners_of(const ModelSpec& model, int ranks) {
  std::vector<std::int64_t> elements;
  for (std::int64_t part = 0; part <= model.layers() + 1; ++part) {
    for (const Tensor& tensor : model.part(part).tensors) {
      elements.push_back(tensor.rows() * tensor.columns());
    }
  }
  return parameter_owners(elements, ranks);
}

}  // namespace

double LiveLayer::elements() const {
  double sum = 0;
  for (const LiveTensor& tensor : tensors) sum += static_cast<double>(tensor.elements());
  return sum;
}

double LiveLayer::selected_elements() const {
  double sum = 0;
  for (const LiveTensor& tensor : tensors) {
    sum += static_cast<double>(tensor.rows * tensor.selected);
  }
  return sum;
}

std::vector<LiveLayer> live_layers(const ModelSpec& model, double topk_ratio, RankPlace place) {
  const std::vector<int> owners =
      place.ranks > 1 ? owners_of(model, place.ranks) : std::vector<int>();
  std::size_t parameter = 0;
  std::vector<LiveLayer> layers;
  for (std::int64_t part = 0; part <= model.layers() + 1; ++part) {
    LiveLayer& layer = layers.emplace_back();
    for (const Tensor& tensor : model.part(part).tensors) {
      if (place.ranks > 1 && owners[parameter++] != place.rank) continue;
      layer.tensors.push_back(
          split_columns(tensor.rows(), tensor.columns(), tensor.is_matrix(), topk_ratio));
    }
  }
  return layers;
}

std::vector<int> owning_ranks(const ModelSpec& model, int ranks) {
  std::vector<int> owners = owners_of(model, ranks);  // ascending, since they are in order
  owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
  return owners;
}

LiveStaging live_staging(const std::vector<LiveLayer>& layers, double width) {
  constexpr std::int64_t kElementStateBytes = 12;  // fp32 weight and two moments
  LiveStaging staging;
  std::int64_t most_columns = 0;
  std::int64_t most_elements = 0;
  for (const LiveLayer& layer : layers) {
    for (const LiveTensor& tensor : layer.tensors) {
      staging.control += static_cast<double>(8 * tensor.columns + 8 * tensor.selected + 16);
      staging.tensor = std::max(staging.tensor, width * static_cast<double>(tensor.elements()));
      if (tensor.selected == 0) continue;
      const std::int64_t block = std::max(tensor.selected, kExchangeBytes / kElementStateBytes);
      most_columns = std::max(most_columns, tensor.selected);
      most_elements = std::max(most_elements, std::min(block, tensor.rows * tensor.selected));
    }
  }
  staging.exchange = static_cast<double>(8 * most_columns) +
                     (kElementStateBytes + width) * static_cast<double>(most_elements);
  return staging;
}

}  // namespace zenflow::sim
