#include "runtime/model/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/bf16/bf16.h"
#include "runtime/model/safetensors_header.h"
#include "sim/base/error.h"
#include "sim/base/output_file.h"

namespace zenflow::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "the format's numbers are little-endian");

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000;
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

}  // namespace

SafetensorsFile::SafetensorsFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) fail("cannot read: " + std::generic_category().message(errno));
  try {
    read_header();
  } catch (...) {
    static_cast<void>(::close(descriptor_));  // opened for reading: nothing can be lost
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  if (descriptor_ >= 0) static_cast<void>(::close(descriptor_));
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      data_start_(other.data_start_),
      tensors_(std::move(other.tensors_)) {}

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_start_, other.data_start_);
  std::swap(tensors_, other.tensors_);
  return *this;
}

void SafetensorsFile::fail(const std::string& what) const {
  throw Error(ErrorKind::kInput, fmt::format("{}: {}", path_.generic_string(), what));
}

void SafetensorsFile::fail(const StoredTensor& tensor, const std::string& what) const {
  fail(fmt::format("tensor \"{}\": {}", tensor.name, what));
}

void SafetensorsFile::read_header() {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) {
    fail("cannot read: " + std::generic_category().message(errno));
  }
  if (!S_ISREG(status.st_mode)) fail("cannot read: it is not a regular file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size < kLengthBytes) {
    fail(
        fmt::format("expected a safetensors file, found one of {} bytes (is it truncated?)", size));
  }
  std::array<std::byte, kLengthBytes> prefix{};
  read_at(0, prefix);
  const auto length = load<std::uint64_t>(prefix.data());
  if (length > kMaxHeader || length > size - kLengthBytes) {
    fail(
        fmt::format("expected a safetensors file, found a header of {} bytes in a file of {} (not "
                    "one, or truncated)",
                    length, size));
  }
  std::string header(length, '\0');
  read_at(kLengthBytes, std::as_writable_bytes(std::span(header)));
  data_start_ = kLengthBytes + length;
  tensors_ = parse_header(header, path_.generic_string(), size - data_start_);
}

void SafetensorsFile::read_at(std::uint64_t position, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count =
        ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(position));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw Error(ErrorKind::kRuntime, fmt::format("{}: cannot read: {}", path_.generic_string(),
                                                   std::generic_category().message(errno)));
    }
    if (count == 0) fail("has become shorter while it was read");
    out = out.subspan(static_cast<std::size_t>(count));
    position += static_cast<std::uint64_t>(count);
  }
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto place = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const StoredTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return place != tensors_.end() && place->name == name ? &*place : nullptr;
}

void SafetensorsFile::read(const StoredTensor& tensor, std::uint64_t offset,
                           std::span<std::byte> out) const {
  read_at(data_start_ + tensor.begin + offset, out);
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
  file.write({reinterpret_cast<const char*>(&length), kLengthBytes});
  file.write(header);
  for (const TensorToWrite& tensor : tensors) {
    std::size_t bytes = bytes_per_element(type);
    for (const std::int64_t size : tensor.shape) bytes *= static_cast<std::size_t>(size);
    file.write({static_cast<const char*>(tensor.values()), bytes});
  }
  file.commit(OutputFile::Durable::kYes);
}

}  // namespace zenflow::runtime
