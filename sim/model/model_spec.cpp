#include "sim/model/model_spec.h"

#include <algorithm>

namespace zenflow::sim {
namespace {

/// Of embedding, layers and head, what `of_layer` says.
template <typename OfLayer>
auto total(const ModelSpec& model, OfLayer of_layer) {
  auto sum = of_layer(model.embedding) + of_layer(model.head);
  using Number = decltype(sum);
  const std::vector<std::int64_t> counts = model.kind_counts();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    sum += static_cast<Number>(counts[i]) * of_layer(model.kinds[i]);
  }
  return sum;
}

}  // namespace

std::int64_t Tensor::parameters() const {
  return rows() * columns();
}

std::int64_t Tensor::rows() const {
  std::int64_t product = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) product *= shape[i];
  return product;
}

double Attention::pairs(double length) const {
  if (linear) return 0;
  const double keys = key_tokens > 0 ? static_cast<double>(key_tokens) : length;
  const auto back = static_cast<double>(window);
  const bool whole = window == 0 || back >= keys;
  if (!causal) return length * (whole ? keys : std::min(keys, 2 * back));
  return whole ? length * keys / 2 : back * (length - back / 2);
}

std::int64_t Layer::parameters() const {
  std::int64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += tensor.parameters();
  return sum;
}

const Tensor* Layer::tensor_ending(std::string_view ending) const {
  const auto at = std::find_if(tensors.begin(), tensors.end(), [ending](const Tensor& tensor) {
    return tensor.name.ends_with(ending);
  });
  return at == tensors.end() ? nullptr : &*at;
}

std::int64_t Layer::trained() const {
  std::int64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += tensor.trained ? tensor.parameters() : 0;
  return sum;
}

std::int64_t Layer::trained_tensors() const {
  return std::count_if(tensors.begin(), tensors.end(),
                       [](const Tensor& tensor) { return tensor.trained; });
}

std::int64_t Layer::trained_in_matrices() const {
  std::int64_t sum = 0;
  for (const Tensor& tensor : tensors) {
    sum += tensor.trained && tensor.is_matrix() ? tensor.parameters() : 0;
  }
  return sum;
}

const Layer& ModelSpec::part(std::int64_t i) const {
  if (i == 0) return embedding;
  return i <= layers() ? layer(i - 1) : head;
}

std::vector<std::int64_t> ModelSpec::kind_counts() const {
  std::vector<std::int64_t> counts(kinds.size());
  for (const std::int32_t kind : order) ++counts[static_cast<std::size_t>(kind)];
  return counts;
}

std::int64_t ModelSpec::parameters() const {
  return total(*this, [](const Layer& layer) { return layer.parameters(); });
}

std::int64_t ModelSpec::trained() const {
  return total(*this, [](const Layer& layer) { return layer.trained(); });
}

std::int64_t ModelSpec::trained_in_matrices() const {
  return total(*this, [](const Layer& layer) { return layer.trained_in_matrices(); });
}

double ModelSpec::frozen_bytes(double b) const {
  return total(*this, [b](const Layer& layer) {
    double sum = 0;
    for (const Tensor& tensor : layer.tensors) {
      if (tensor.trained) continue;
      sum += tensor.width(b) * static_cast<double>(tensor.parameters());
    }
    return sum;
  });
}

const Tensor* ModelSpec::stacked_tensor() const {
  const auto in_layer = [](const Layer& layer) -> const Tensor* {
    for (const Tensor& tensor : layer.tensors) {
      if (tensor.shape.size() > 2) return &tensor;
    }
    return nullptr;
  };
  if (const Tensor* found = in_layer(embedding)) return found;
  for (const Layer& kind : kinds) {
    if (const Tensor* found = in_layer(kind)) return found;
  }
  return in_layer(head);
}

std::int64_t ModelSpec::trained_tensors() const {
  return total(*this, [](const Layer& layer) { return layer.trained_tensors(); });
}

}  // namespace zenflow::sim
