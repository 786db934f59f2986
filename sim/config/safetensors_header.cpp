#include "sim/config/safetensors_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/config/reader.h"

namespace zenflow {
namespace {

static_assert(std::endian::native == std::endian::little, "the format's numbers are little-endian");

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000;
constexpr std::int64_t kMaxOffset = std::int64_t{1} << 53;  // JSON readers hold it exactly

struct SizedType {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<SizedType, 16> kTypes = {{{"BOOL", 1},
                                               {"U8", 1},
                                               {"I8", 1},
                                               {"F8_E4M3", 1},
                                               {"F8_E5M2", 1},
                                               {"F8_E8M0", 1},
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

std::vector<StoredTensor> parse_safetensors_header(std::string_view json, const std::string& file,
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

const StoredTensor* SafetensorsHeader::find(std::string_view name) const {
  const auto place = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const StoredTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return place != tensors.end() && place->name == name ? &*place : nullptr;
}

SafetensorsHeader read_safetensors_header(const InputFile& file) {
  if (file.size() < kLengthBytes) {
    file.fail(fmt::format("expected a safetensors file, found one of {} bytes (is it truncated?)",
                          file.size()));
  }
  std::uint64_t length = 0;
  file.read_at(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMaxHeader || length > file.size() - kLengthBytes) {
    file.fail(
        fmt::format("expected a safetensors file, found a header of {} bytes in a file of {} (not "
                    "one, or truncated)",
                    length, file.size()));
  }
  std::string header(length, '\0');
  file.read_at(kLengthBytes, std::as_writable_bytes(std::span(header)));
  const std::uint64_t start = kLengthBytes + length;
  return {file.path(), start,
          parse_safetensors_header(header, file.path().generic_string(), file.size() - start)};
}

}  // namespace zenflow
