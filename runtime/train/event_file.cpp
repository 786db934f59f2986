#include "runtime/train/event_file.h"

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <boost/crc.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie");

template <class Number>
void append_number(std::string& out, Number value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// What is needed of protobuf's encoding.
enum WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void append_varint(std::string& out, std::uint64_t value) {
  constexpr unsigned kBits = 7;
  constexpr std::uint64_t kMore = 1U << kBits;
  for (; value >= kMore; value >>= kBits) {
    out += static_cast<char>(value % kMore | kMore);
  }
  out += static_cast<char>(value);
}

void append_key(std::string& out, std::uint32_t field, WireType type) {
  append_varint(out, std::uint64_t{field} << 3U | type);
}

void append_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  append_key(out, field, kBytes);
  append_varint(out, bytes.size());
  out += bytes;
}

std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

EventFile::EventFile(const fs::path& folder, std::int64_t first_step) {
  std::error_code error;
  fs::create_directories(folder, error);
  // The name that TensorBoard looks for, with which it puts a folder's files in order.
  constexpr std::int64_t kMicros = 1'000'000;
  const auto now = static_cast<std::int64_t>(wall_time() * static_cast<double>(kMicros));
  path_ = folder / fmt::format("events.out.tfevents.{:010}.{}.{:06}.{}", now / kMicros, host_name(),
                               now % kMicros, ::getpid());
  if (!error) file_.open(path_, std::ios::binary);
  if (!file_.is_open()) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: cannot write: {}", (error ? folder : path_).generic_string(),
                            error ? error.message() : std::strerror(errno)));
  }
  std::string version;
  append_bytes(version, 3, "brain.Event:2");
  append(0, version);
  if (first_step > 0) {
    std::string start;
    append_key(start, 1, kVarint);
    append_varint(start, 1);  // SessionLog.START: events of its step and later ones are purged
    std::string log;
    append_bytes(log, 7, start);
    append(first_step + 1, log);
  }
  flush();
}

void EventFile::append(std::int64_t step, std::string_view fields) {
  std::string event;
  append_key(event, 1, kFixed64);
  append_number(event, wall_time());
  append_key(event, 2, kVarint);
  append_varint(event, static_cast<std::uint64_t>(step));
  event += fields;
  std::string record;
  append_number(record, std::uint64_t{event.size()});
  append_number(record, masked_crc(record));
  record += event;
  append_number(record, masked_crc(event));
  file_.write(record.data(), static_cast<std::streamsize>(record.size()));
}

void EventFile::add(std::int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    append_bytes(value, 1, scalar.tag);
    append_key(value, 2, kFixed32);
    append_number(value, static_cast<float>(scalar.value));
    append_bytes(summary, 1, value);
  }
  std::string fields;
  append_bytes(fields, 5, summary);
  append(step, fields);
  constexpr std::chrono::seconds kPatience(2);
  if (std::chrono::steady_clock::now() - flushed_ > kPatience) flush();
}

void EventFile::flush() {
  flushed_ = std::chrono::steady_clock::now();
  if (file_.flush()) return;
  throw Error(ErrorKind::kRuntime,
              fmt::format("{}: cannot write: {}", path_.generic_string(), std::strerror(errno)));
}

}  // namespace zenflow::runtime
