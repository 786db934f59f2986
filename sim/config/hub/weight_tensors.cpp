#include "sim/config/hub/weight_tensors.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::sim::hub {
namespace {

constexpr std::int64_t kWordBits = 32;
constexpr std::size_t kMaxName = 1024;  // names are compared part by part

/// Files' tensors by name.
class Stored {
 public:
  explicit Stored(std::span<const SafetensorsHeader> files) {
    for (const SafetensorsHeader& file : files) {
      for (const StoredTensor& tensor : file.tensors) all_.push_back({&tensor, &file});
    }
    std::sort(all_.begin(), all_.end(),
              [](const Place& a, const Place& b) { return a.tensor->name < b.tensor->name; });
  }

  struct Place {
    const StoredTensor* tensor;
    const SafetensorsHeader* file;
  };
  [[nodiscard]] const std::vector<Place>& all() const { return all_; }
  [[nodiscard]] const StoredTensor* find(std::string_view name) const {
    const auto place = std::lower_bound(
        all_.begin(), all_.end(), name,
        [](const Place& one, std::string_view wanted) { return one.tensor->name < wanted; });
    return place != all_.end() && place->tensor->name == name ? place->tensor : nullptr;
  }
  [[nodiscard]] bool has(std::string_view base, std::string_view ending) const {
    return find(std::string(base) + std::string(ending)) != nullptr;
  }

 private:
  std::vector<Place> all_;
};

/// An ending that a tensor has beside a weight, and those of which one is the weight's.
struct Companion {
  std::string_view ending;
  std::array<std::string_view, 3> weights;
};
constexpr auto kCompanions = std::to_array<Companion>({
    {".absmax", {"", "", ""}},
    {".quant_map", {"", "", ""}},
    {".nested_absmax", {"", "", ""}},
    {".nested_quant_map", {"", "", ""}},
    {".SCB", {".weight", "", ""}},
    {".weight_format", {".weight", "", ""}},
    {".qzeros", {".qweight", "", ""}},
    {".scales", {".qweight", "", ""}},
    {".g_idx", {".qweight", "", ""}},
    {"_scale_inv", {"", "", ""}},
    {".weight_scale", {".weight", ".weight_packed", ""}},
    {".weight_scale_2", {".weight", ".weight_packed", ""}},
    {".weight_shape", {".weight_packed", "", ""}},
    {".weight_zero_point", {".weight", ".weight_packed", ""}},
    {".weight_g_idx", {".weight_packed", "", ""}},
    {".weight_global_scale", {".weight_packed", "", ""}},
    {".input_global_scale", {".weight_packed", "", ""}},
    {".input_scale", {".weight", ".weight_packed", ".qweight"}},
    {".output_scale", {".weight", ".weight_packed", ".qweight"}},
    {".activation_scale", {".weight", "", ""}},
    {"_scales", {"_blocks", "", ""}},
});

/// Whether it is part of how another tensor is stored.
bool is_companion(const Stored& stored, std::string_view name) {
  constexpr std::string_view kState = ".quant_state.";
  if (const std::size_t at = name.find(kState); at != std::string_view::npos) {
    return stored.has(name.substr(0, at), "");
  }
  return std::any_of(kCompanions.begin(), kCompanions.end(), [&](const Companion& one) {
    if (!name.ends_with(one.ending)) return false;
    const std::string_view base = name.substr(0, name.size() - one.ending.size());
    return std::any_of(one.weights.begin(), one.weights.end(),
                       [&](std::string_view weight) { return stored.has(base, weight); });
  });
}

std::string without(std::string_view name, std::string_view ending) {
  return std::string(name.substr(0, name.size() - ending.size()));
}

/// 32-bit words of 2 to 8 bits a value: GPTQ packs rows of [in, out], AWQ columns.
std::string unpack_words(const Stored& stored, WeightTensor& tensor) {
  const std::string base = without(tensor.name, ".qweight");
  const StoredTensor* zeros = stored.find(base + ".qzeros");
  const StoredTensor* scales = stored.find(base + ".scales");
  if (tensor.shape.size() != 2 || zeros == nullptr || zeros->shape.size() != 2 ||
      scales == nullptr || scales->shape.size() != 2 || scales->shape[1] == 0 ||
      zeros->shape[1] == 0) {
    return "";
  }
  const std::int64_t out = scales->shape[1];
  const bool by_rows = tensor.shape[1] == out;  // GPTQ
  // Zero points are packed along `out` in both.
  const std::int64_t in = by_rows ? tensor.shape[0] * out / zeros->shape[1] : tensor.shape[0];
  tensor.name = base + ".weight";
  tensor.shape = {out, in};
  return by_rows ? "GPTQ" : "AWQ";
}

/// The name, and the shape before it was quantised. Returns how it is stored, or "".
std::string restore(const Stored& stored, WeightTensor& tensor) {
  const std::string name = tensor.name;
  if (name.ends_with(".qweight")) return unpack_words(stored, tensor);
  if (stored.has(name, ".absmax")) {  // two values a byte, their shape in a tensor of its own
    tensor.elements *= 2;
    tensor.shape.clear();
    return "bitsandbytes";
  }
  if (name.ends_with(".weight_packed") && tensor.shape.size() == 2) {
    // compressed-tensors: eight 4-bit values a word, two a byte.
    tensor.name = without(name, "_packed");
    tensor.shape[1] *= tensor.type == "I32" ? kWordBits / 4 : 2;
    return "compressed-tensors";
  }
  if (name.ends_with("_blocks") && tensor.shape.size() == 4) {  // 16 bytes of 32 values
    tensor.name = without(name, "_blocks");
    tensor.shape = {tensor.shape[0], tensor.shape[1], tensor.shape[2] * tensor.shape[3] * 2};
    return "MXFP4";
  }
  if (!name.ends_with(".weight")) return "";
  const std::string base = without(name, ".weight");
  if (tensor.type == "I8" && stored.has(base, ".SCB")) return "bitsandbytes";
  if (tensor.type == "U8" && tensor.shape.size() == 2 && stored.has(base, ".weight_scale_2")) {
    tensor.shape[1] *= 2;
    return "NVFP4";
  }
  if (tensor.type.starts_with("F8_")) return "FP8";
  if (tensor.type == "I8" && stored.has(base, ".weight_scale")) return "compressed-tensors";
  return "";
}

/// Of a tensor that exists; what claims to be larger than any is kMostElements.
std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 53;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (elements > kMostElements / size) return kMostElements;
    elements *= size;
  }
  return elements;
}

constexpr auto kBuffers = std::to_array<std::string_view>(
    {"inv_freq", "original_inv_freq", "position_ids", "token_type_ids", "masked_bias",
     "e_score_correction_bias", "expert_bias", "final_logits_bias", "relative_position_index",
     "slope_rate", "query_decay", "key_decay", "diagonal_decay", "num_batches_tracked",
     "running_mean", "running_var", "k_scale", "v_scale", "version"});

}  // namespace

Weights weight_tensors(std::span<const SafetensorsHeader> files) {
  const Stored stored(files);
  Weights weights;
  for (const auto& [tensor, file] : stored.all()) {
    if (tensor->name.size() > kMaxName) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: expected names of at most {} characters, found \"{}...\" of {}",
                              file->path.generic_string(), kMaxName, tensor->name.substr(0, 64),
                              tensor->name.size()));
    }
    if (is_companion(stored, tensor->name)) continue;
    WeightTensor one{tensor->name, tensor->type, tensor->shape, elements_of(tensor->shape), file};
    // The other numbers of a shape with a zero in it may be of any size.
    const std::string how = one.elements > 0 ? restore(stored, one) : "";
    if (!one.shape.empty()) one.elements = elements_of(one.shape);
    if (weights.quantization.empty() && !how.empty()) {
      weights.quantization = how;
      weights.quantised = one.name;
    }
    weights.tensors.push_back(std::move(one));
  }
  std::sort(weights.tensors.begin(), weights.tensors.end(),
            [](const WeightTensor& a, const WeightTensor& b) { return a.name < b.name; });
  return weights;
}

bool is_buffer(const WeightTensor& tensor) {
  const std::string_view name = tensor.name;
  const std::string_view last = name.substr(name.rfind('.') + 1);
  if (std::find(kBuffers.begin(), kBuffers.end(), last) != kBuffers.end()) return true;
  // Causal masks: [1, 1, positions, positions].
  if (last == "bias" && tensor.shape.size() == 4) return true;
  // Constants of an activation.
  if (name.ends_with("act_fn.beta") || name.ends_with("act_fn.eps")) return true;
  return tensor.type == "I64" || tensor.type == "BOOL";
}

std::optional<NumberedName> split_at_number(std::string_view name, std::size_t from) {
  constexpr std::size_t kMaxDigits = 18;
  for (std::size_t begin = from; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    const bool is_number = !part.empty() && part.size() <= kMaxDigits &&
                           part.find_first_not_of("0123456789") == std::string_view::npos;
    if (is_number) {
      NumberedName split{name.substr(0, begin), 0, name.substr(end)};
      std::from_chars(part.data(), part.data() + part.size(), split.number);
      return split;
    }
    begin = end + 1;
  }
  return std::nullopt;
}

std::vector<std::string_view> components(std::string_view name) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    parts.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool has_component(std::string_view name, std::span<const std::string_view> known) {
  const std::vector<std::string_view> parts = components(name);
  return std::any_of(parts.begin(), parts.end(), [known](std::string_view part) {
    return std::find(known.begin(), known.end(), part) != known.end();
  });
}

bool mentions(std::string_view name, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [name](std::string_view word) {
    return name.find(word) != std::string_view::npos;
  });
}

}  // namespace zenflow::sim::hub
