/// Reads TensorBoard's event files, with their checksums, by the words of
/// runtime/train/event_file.h.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zenflow::testing {

/// A bit at a time.
inline std::uint32_t plain_crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1U ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
  }
  return ~crc;
}

template <class Number>
Number take_number(std::string_view& bytes) {
  if (bytes.size() < sizeof(Number)) throw std::runtime_error("the file ends within a number");
  Number value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

inline std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = take_number<std::uint8_t>(bytes);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
}

inline std::string_view take_bytes(std::string_view& bytes, std::size_t count) {
  if (bytes.size() < count) throw std::runtime_error("the file ends within a field");
  const std::string_view taken = bytes.substr(0, count);
  bytes.remove_prefix(count);
  return taken;
}

/// Fields of a message, as (number, content): numbers as their little-endian bytes.
inline std::vector<std::pair<std::uint64_t, std::string>> fields_of(std::string_view message) {
  std::vector<std::pair<std::uint64_t, std::string>> fields;
  while (!message.empty()) {
    const std::uint64_t key = take_varint(message);
    std::string content;
    if (key % 8 == 0) {
      const std::uint64_t value = take_varint(message);
      content.assign(reinterpret_cast<const char*>(&value), sizeof value);
    } else {
      const std::size_t count = key % 8 == 1 ? 8 : key % 8 == 5 ? 4 : take_varint(message);
      content = take_bytes(message, count);
    }
    fields.emplace_back(key / 8, content);
  }
  return fields;
}

struct ReadScalar {
  std::uint64_t step = 0;
  std::string tag{};
  float value = 0;
};

struct EventsRead {
  std::string version;
  std::vector<std::uint64_t> starts;  ///< steps of session logs
  std::vector<ReadScalar> scalars;
};

inline void add_event(std::string_view event, EventsRead& read) {
  std::uint64_t step = 0;
  for (const auto& [number, content] : fields_of(event)) {
    if (number == 2) std::memcpy(&step, content.data(), sizeof step);
    if (number == 3) read.version = content;
    if (number == 7) read.starts.push_back(step);
    if (number != 5) continue;
    for (const auto& value : fields_of(content)) {
      ReadScalar scalar{.step = step};
      for (const auto& [part, bytes] : fields_of(value.second)) {
        if (part == 1) scalar.tag = bytes;
        if (part == 2) std::memcpy(&scalar.value, bytes.data(), sizeof scalar.value);
      }
      read.scalars.push_back(scalar);
    }
  }
}

/// Throws std::runtime_error if a record is not whole or its checksums are others.
inline EventsRead read_events(std::string_view file) {
  const auto check = [](std::string_view bytes, std::uint32_t stored) {
    const std::uint32_t crc = plain_crc32c(bytes);
    if (((crc >> 15U | crc << 17U) + 0xA282EAD8U) != stored) throw std::runtime_error("checksum");
  };
  EventsRead read;
  while (!file.empty()) {
    const std::string_view length = file.substr(0, 8);
    const auto bytes = take_number<std::uint64_t>(file);
    check(length, take_number<std::uint32_t>(file));
    const std::string_view event = take_bytes(file, bytes);
    check(event, take_number<std::uint32_t>(file));
    add_event(event, read);
  }
  return read;
}

}  // namespace zenflow::testing
