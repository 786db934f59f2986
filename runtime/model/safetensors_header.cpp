#include "runtime/model/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/config/reader.h"

namespace zenflow::runtime {
namespace {

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::int64_t kMaxOffset = std::int64_t{1} << 53;  // JSON readers hold it exactly

struct SizedType {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<SizedType, 15> kTypes = {{{"BOOL", 1},
                                               {"U8", 1},
                                               {"I8", 1},
                                               {"F8_E4M3", 1},
                                               {"F8_E5M2", 1},
                                               {"U16", 2},
                                               {"I16", 2},
                                               {"F16", 2},
                                               {"BF16", 2},
                                               {"U32", 4},
                                               {"I32", 4},
                                               {"F32", 4},
                                               {"U64", 8},
                                               {"I64", 8},
                                               {"F64", 8}}};

/// The bytes of a tensor, or nothing if no file is that large.
std::optional<std::uint64_t> bytes_of(const StoredTensor& tensor) {
  std::uint64_t bytes = bytes_of_type(tensor.type);
  for (const std::int64_t size : tensor.shape) {
    const auto factor = static_cast<std::uint64_t>(size);
    if (factor != 0 && bytes > static_cast<std::uint64_t>(kMaxOffset) / factor) return std::nullopt;
    bytes *= factor;
  }
  return bytes;
}

StoredTensor read_tensor(const Node::Entry& entry) {
  MapReader map(entry.value, entry.key);
  StoredTensor tensor;
  tensor.name = entry.key;
  const ValueReader type = map.require("dtype");
  tensor.type = type.string();
  if (bytes_of_type(tensor.type) == 0) {
    type.fail(fmt::format("unknown element type \"{}\"", tensor.type));
  }
  for (const ValueReader& size : map.require("shape").items()) {
    tensor.shape.push_back(size.integer(0, kMaxOffset));
  }
  const ValueReader range = map.require("data_offsets");
  const std::vector<ValueReader> ends = range.items();
  if (ends.size() != 2) range.fail(fmt::format("expected two offsets, found {}", ends.size()));
  tensor.begin = static_cast<std::uint64_t>(ends[0].integer(0, kMaxOffset));
  tensor.end = static_cast<std::uint64_t>(ends[1].integer(0, kMaxOffset));
  map.reject_unknown_keys();
  const std::optional<std::uint64_t> bytes = bytes_of(tensor);
  if (tensor.end < tensor.begin || !bytes || tensor.end - tensor.begin != *bytes) {
    range.fail(fmt::format("{} {} does not fit the byte range from {} to {}", tensor.type,
                           shape_text(tensor.shape), tensor.begin, tensor.end));
  }
  return tensor;
}

void check_metadata(const Node& node) {
  const MapReader map(node, std::string(kMetadata));
  for (const Node::Entry& entry : node.entries) {
    if (!entry.value.is_scalar() || !entry.value.quoted) {
      map.fail(entry.key, "expected a string");
    }
  }
}

/// That the tensors lie one after the other, from the first byte to the last.
void check_coverage(const std::vector<StoredTensor>& tensors, const std::string& file,
                    std::uint64_t data_bytes) {
  std::vector<const StoredTensor*> by_place;
  for (const StoredTensor& tensor : tensors) by_place.push_back(&tensor);
  std::sort(by_place.begin(), by_place.end(), [](const StoredTensor* a, const StoredTensor* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kInput, fmt::format("{}: {}", file, what));
  };
  std::uint64_t covered = 0;
  for (const StoredTensor* tensor : by_place) {
    if (tensor->begin != covered) {
      fail(
          fmt::format("tensor \"{}\": expected to begin at byte {}, where the one before it ends, "
                      "found {}",
                      tensor->name, covered, tensor->begin));
    }
    covered = tensor->end;
    if (covered > data_bytes) {
      fail(
          fmt::format("tensor \"{}\": ends at byte {}, and the file has {} after its header (is it "
                      "truncated?)",
                      tensor->name, covered, data_bytes));
    }
  }
  if (covered != data_bytes) {
    fail(fmt::format("the tensors end at byte {}, and the file has {} after its header", covered,
                     data_bytes));
  }
}

}  // namespace

std::size_t bytes_of_type(std::string_view type) {
  for (const SizedType& known : kTypes) {
    if (known.name == type) return known.bytes;
  }
  return 0;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::vector<StoredTensor> parse_header(std::string_view json, const std::string& file,
                                       std::uint64_t data_bytes) {
  const Node root = parse_json(json, file + ": header");
  if (!root.is_map()) fail_at(root.at, "", "expected a map of tensors");
  std::vector<StoredTensor> tensors;
  for (const Node::Entry& entry : root.entries) {
    if (entry.key == kMetadata) {
      check_metadata(entry.value);
    } else {
      tensors.push_back(read_tensor(entry));
    }
  }
  check_coverage(tensors, file, data_bytes);
  std::sort(tensors.begin(), tensors.end(),
            [](const StoredTensor& a, const StoredTensor& b) { return a.name < b.name; });
  return tensors;
}

std::string make_header(ElementType type, std::span<const TensorToWrite> tensors) {
  constexpr std::size_t kAlignment = 8;
  nlohmann::ordered_json root;
  root[std::string(kMetadata)] = {{"format", "pt"}};
  std::uint64_t end = 0;
  for (const TensorToWrite& tensor : tensors) {
    const std::uint64_t begin = end;
    end += bytes_per_element(type) *
           static_cast<std::uint64_t>(std::accumulate(tensor.shape.begin(), tensor.shape.end(),
                                                      std::int64_t{1}, std::multiplies<>()));
    root[tensor.name] = {{"dtype", type == ElementType::kFloat32 ? "F32" : "BF16"},
                         {"shape", tensor.shape},
                         {"data_offsets", {begin, end}}};
  }
  std::string header = root.dump();
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return header;
}

}  // namespace zenflow::runtime
