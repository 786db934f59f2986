#include "sim/config/hub/layer_builder.h"

#include <cmath>
#include <iterator>

#include <fmt/format.h>

namespace zenflow::sim::hub {
namespace {

std::string last_part(std::string_view name) {
  constexpr std::string_view kWeight = ".weight";
  if (name.ends_with(kWeight)) name.remove_suffix(kWeight.size());
  const std::size_t dot = name.rfind('.');
  return std::string(dot == std::string_view::npos ? name : name.substr(dot + 1));
}

}  // namespace

LayerBuilder::LayerBuilder(std::string name, std::string prefix, std::int64_t width)
    : prefix_(std::move(prefix)) {
  layer_.name = std::move(name);
  layer_.width = width;
}

void LayerBuilder::tensor(std::string_view name, std::vector<std::int64_t> shape) {
  layer_.tensors.push_back({prefix_ + std::string(name), std::move(shape)});
}

void LayerBuilder::norm(Norm kind, std::string_view name, std::int64_t size, NormFeeds feeds) {
  head_norm(kind, name, size, 1);
  if (feeds == NormFeeds::kSum) {
    keep(-as_double(size), 0);
  } else {
    begin_input(as_double(size));
  }
}

void LayerBuilder::head_norm(Norm kind, std::string_view name, std::int64_t size,
                             std::int64_t heads) {
  const double width = as_double(size * heads);
  const bool has_weight =
      kind != Norm::kNoParameters && kind != Norm::kRmsNoParameters && kind != Norm::kLayerInFp32;
  if (has_weight) {
    tensor(fmt::format("{}.weight", name), {size});
  }
  if (kind == Norm::kLayer) tensor(fmt::format("{}.bias", name), {size});
  switch (kind) {
    case Norm::kRms:
      // The fp32 input, the normalised input and the result in the training type.
      chain(ChainKind::kRmsNorm, width);
      keep(2 * width, 4 * width);
      layer_.for_weights.norms.elements += width;
      break;
    case Norm::kRmsNoParameters:
      // The fp32 input, and the result in the training type.
      chain(ChainKind::kRmsNorm, width);
      keep(width, 4 * width);
      break;
    case Norm::kGemmaRms:
      // The input and the normalised input in fp32, and the result.
      chain(ChainKind::kRmsNorm, width);
      keep(width, 8 * width);
      layer_.for_weights.norms.bytes += 4 * width;
      break;
    case Norm::kWideLayer:
      // The input less its mean, that normalised, and its square's root in fp32; the result.
      chain(ChainKind::kRmsNorm, width);
      keep(width, 12 * width);
      layer_.for_weights.norms.bytes += 4 * width;
      break;
    case Norm::kLayerInFp32:
      chain(ChainKind::kLayerNorm, width);
      keep(width, 4 * width);
      break;
    case Norm::kLayer:
    case Norm::kLayerNoBias:
    case Norm::kNoParameters:
      chain(ChainKind::kLayerNorm, width);
      keep(2 * width, 0);  // input and result
      break;
  }
}

void LayerBuilder::linear(std::string_view name, std::int64_t in, std::int64_t out, bool has_bias,
                          Sharing sharing) {
  tensor(fmt::format("{}.weight", name), {out, in});
  if (has_bias) tensor(fmt::format("{}.bias", name), {out});
  product(name, in, out, sharing);
}

void LayerBuilder::conv1d(std::string_view name, std::int64_t in, std::int64_t out) {
  tensor(fmt::format("{}.weight", name), {in, out});
  tensor(fmt::format("{}.bias", name), {out});
  product(name, in, out);
}

void LayerBuilder::product(std::string_view name, std::int64_t in, std::int64_t out,
                           Sharing sharing) {
  Linear product{last_part(name), in, out, sharing.count, sharing.share, sharing.needed};
  // Experts read their input once for each token that they see.
  const double times = input_ / as_double(in);
  if (input_ > 0 && times == std::floor(times)) {
    product.input = static_cast<std::int32_t>(layer_.for_weights.inputs.size()) - 1;
  }
  layer_.products.push_back(std::move(product));
}

void LayerBuilder::begin_input(double elements) {
  layer_.for_weights.inputs.push_back(elements);
  input_ = elements;
}

void LayerBuilder::chain(ChainKind kind, double width) {
  layer_.chains.push_back({kind, width});
}

void LayerBuilder::dropout(double width) {
  chain(ChainKind::kDropout, width);
  keep(0, width);
}

void LayerBuilder::attention(const Attention& attention) {
  layer_.attention.push_back(attention);
  const double queries = as_double(attention.heads * attention.head_dim);
  const double results = as_double(attention.heads * attention.value_dim);
  const double keys = as_double(attention.kv_heads * (attention.head_dim + attention.value_dim));
  keep(queries + keys + results, 4 * as_double(attention.heads));
}

void LayerBuilder::gate(double width) {
  chain(ChainKind::kGate, width);
  keep(4 * width, 0);
  begin_input(width);
}

void LayerBuilder::activation(ChainKind kind, double width, double kept) {
  chain(kind, width);
  keep(kept * width, 0);
  if (kept >= 2) {
    begin_input(width);
  } else {
    input_ = 0;  // what ReLU returns is kept for its own gradient
  }
}

void LayerBuilder::routing(std::int64_t experts, double seen, std::int64_t width) {
  chain(ChainKind::kRouting, as_double(experts));
  chain(ChainKind::kEmbedding, seen * as_double(width));
  chain(ChainKind::kResidual, seen * as_double(width));
  keep(2 * seen * as_double(width), 4 * as_double(experts));
}

void LayerBuilder::keep(double elements, double bytes) {
  layer_.saved.elements += elements;
  layer_.saved.bytes += bytes;
}

void append_part(Layer& layer, Layer part) {
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  for (Linear& product : part.products) {
    if (product.input >= 0)
      product.input += static_cast<std::int32_t>(layer.for_weights.inputs.size());
  }
  append(layer.for_weights.inputs, part.for_weights.inputs);
  layer.for_weights.norms.elements += part.for_weights.norms.elements;
  layer.for_weights.norms.bytes += part.for_weights.norms.bytes;
  append(layer.tensors, part.tensors);
  append(layer.products, part.products);
  append(layer.attention, part.attention);
  append(layer.chains, part.chains);
  layer.saved.elements += part.saved.elements;
  layer.saved.bytes += part.saved.bytes;
  layer.saved.pair_bytes += part.saved.pair_bytes;
}

}  // namespace zenflow::sim::hub
