#include "runtime/model/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernels/bf16/bf16.h"
#include "sim/base/error.h"
#include "sim/base/output_file.h"

namespace zenflow::runtime {
namespace {

/// Bytes converted at a time.
constexpr std::size_t kChunk = std::size_t{1} << 20U;

/// IEEE 754 binary16; exact.
float from_half(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {  // zero or denormal: fraction * 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  constexpr std::uint32_t kSpecial = 0x1F;
  const std::uint32_t widened = exponent == kSpecial ? 0xFFU : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (widened << 23U) | (fraction << 13U));
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

/// Element `i` of `bytes` as fp32.
float element(std::string_view type, const std::byte* bytes, std::size_t i) {
  if (type == "F32") return load<float>(bytes + 4 * i);
  const auto half = load<std::uint16_t>(bytes + 2 * i);
  return type == "F16" ? from_half(half) : kernels::to_float(kernels::Bf16{half});
}

std::string_view stored_name(ElementType type) {
  return type == ElementType::kFloat32 ? "F32" : "BF16";
}

/// The header of tensors laid out one after the other, padded with spaces to a multiple of 8 bytes.
std::string make_header(ElementType type, std::span<const TensorToWrite> tensors) {
  constexpr std::size_t kAlignment = 8;
  nlohmann::ordered_json root;
  root["__metadata__"] = {{"format", "pt"}};
  std::uint64_t end = 0;
  for (const TensorToWrite& tensor : tensors) {
    const std::uint64_t begin = end;
    end += tensor.bytes(type);
    root[tensor.name] = {{"dtype", type == ElementType::kFloat32 ? "F32" : "BF16"},
                         {"shape", tensor.shape},
                         {"data_offsets", {begin, end}}};
  }
  std::string header = root.dump();
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return header;
}

}  // namespace

std::uint64_t TensorToWrite::bytes(ElementType type) const {
  return bytes_per_element(type) *
         static_cast<std::uint64_t>(
             std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(path), header_(read_safetensors_header(file_)) {}

SafetensorsFile::SafetensorsFile(SafetensorsHeader header)
    : file_(header.path), header_(std::move(header)) {}

void SafetensorsFile::fail(const std::string& what) const {
  file_.fail(what);
}

void SafetensorsFile::fail(const StoredTensor& tensor, const std::string& what) const {
  fail(fmt::format("tensor \"{}\": {}", tensor.name, what));
}

void SafetensorsFile::read(const StoredTensor& tensor, std::uint64_t offset,
                           std::span<std::byte> out) const {
  file_.read_at(header_.data_start + tensor.begin + offset, out);
}

void SafetensorsFile::read_as(const StoredTensor& tensor, ElementType type, void* out) const {
  const std::uint64_t bytes = tensor.end - tensor.begin;
  if (tensor.type == stored_name(type)) {
    read(tensor, 0, {static_cast<std::byte*>(out), bytes});
    return;
  }
  if (tensor.type != "F32" && tensor.type != "BF16" && tensor.type != "F16") {
    fail(tensor, fmt::format("expected F32, BF16 or F16, found {}", tensor.type));
  }
  const std::size_t stored_bytes = bytes_of_type(tensor.type);
  std::vector<std::byte> chunk(std::min<std::uint64_t>(kChunk, bytes));
  std::size_t done = 0;  // elements
  for (std::uint64_t offset = 0; offset < bytes; offset += chunk.size()) {
    chunk.resize(std::min<std::uint64_t>(kChunk, bytes - offset));
    read(tensor, offset, chunk);
    for (std::size_t i = 0; i < chunk.size() / stored_bytes; ++i, ++done) {
      const float value = element(tensor.type, chunk.data(), i);
      if (type == ElementType::kFloat32) {
        static_cast<float*>(out)[done] = value;
      } else {
        static_cast<kernels::Bf16*>(out)[done] = kernels::round_to_bf16(value);
      }
    }
  }
}

void write_safetensors(const std::filesystem::path& path, ElementType type,
                       std::span<const TensorToWrite> tensors, bool overwrite) {
  const std::string header = make_header(type, tensors);
  const std::uint64_t length = header.size();
  OutputFile file(path, overwrite);
  file.write({reinterpret_cast<const char*>(&length), sizeof(length)});
  file.write(header);
  for (const TensorToWrite& tensor : tensors) {
    file.write({static_cast<const char*>(tensor.values()), tensor.bytes(type)});
  }
  file.commit(OutputFile::Durable::kYes);
}

}  // namespace zenflow::runtime
