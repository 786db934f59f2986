#include "runtime/checkpoint/format.h"

#include <bit>
#include <cstring>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "sim/base/crc32.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are stored as they lie in memory");

constexpr std::string_view kMagic("\x89ZFCKPT\n", 8);
constexpr std::string_view kEndMagic("ZFCE", 4);

[[noreturn]] void damaged(const std::string& what) {
  throw Error(ErrorKind::kInput, "damaged checkpoint: " + what);
}

std::uint32_t crc_of(std::string_view bytes) {
  return crc32(0, std::as_bytes(std::span(bytes)));
}

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Takes numbers off the front; never reads past the end.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view take_bytes(std::size_t count) {
    if (count > rest_.size()) damaged("its table ends within an entry");
    const auto* begin = reinterpret_cast<const char*>(rest_.data());
    rest_ = rest_.subspan(count);
    return {begin, count};
  }
  [[nodiscard]] bool is_empty() const { return rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
};

/// Shape times element size; false if unknown or too large.
bool find_payload_bytes(const Section& section, std::uint64_t& bytes) {
  bytes = size_of(section.type);
  if (bytes == 0) return false;
  for (const std::uint64_t extent : section.shape) {
    if (extent != 0 && bytes > std::numeric_limits<std::uint64_t>::max() / extent) return false;
    bytes *= extent;
  }
  return true;
}

Section decode_entry(Cursor& cursor) {
  Section section;
  const auto name_bytes = cursor.take<std::uint32_t>();
  if (name_bytes == 0 || name_bytes > checkpoint_format::kMaxNameBytes) {
    damaged(fmt::format("a section's name has {} bytes", name_bytes));
  }
  section.name = cursor.take_bytes(name_bytes);
  section.type = SectionType{cursor.take<std::uint32_t>()};
  const auto dimensions = cursor.take<std::uint32_t>();
  if (dimensions > checkpoint_format::kMaxDimensions) {
    damaged(fmt::format("section \"{}\" has {} dimensions", section.name, dimensions));
  }
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    section.shape.push_back(cursor.take<std::uint64_t>());
  }
  section.bytes = cursor.take<std::uint64_t>();
  section.crc = cursor.take<std::uint32_t>();
  std::uint64_t expected = 0;
  if (!find_payload_bytes(section, expected) || expected != section.bytes) {
    damaged(fmt::format("section \"{}\" has {} bytes, which is not its type and shape",
                        section.name, section.bytes));
  }
  return section;
}

}  // namespace

std::uint64_t size_of(SectionType type) {
  switch (type) {
    case SectionType::kU8:
      return 1;
    case SectionType::kBf16:
      return 2;
    case SectionType::kI32:
    case SectionType::kU32:
    case SectionType::kF32:
      return 4;
    case SectionType::kI64:
    case SectionType::kU64:
    case SectionType::kF64:
      return 8;
  }
  return 0;
}

std::string_view name_of(SectionType type) {
  switch (type) {
    case SectionType::kU8:
      return "u8";
    case SectionType::kI32:
      return "i32";
    case SectionType::kU32:
      return "u32";
    case SectionType::kI64:
      return "i64";
    case SectionType::kU64:
      return "u64";
    case SectionType::kF32:
      return "f32";
    case SectionType::kF64:
      return "f64";
    case SectionType::kBf16:
      return "bf16";
  }
  return "unknown";
}

std::uint64_t payload_bytes(const Section& section) {
  std::uint64_t bytes = 0;
  if (!find_payload_bytes(section, bytes)) {
    throw Error(
        ErrorKind::kRuntime,
        fmt::format("section \"{}\" has an unknown type or too large a shape", section.name));
  }
  return bytes;
}

namespace checkpoint_format {

std::string encode_header(std::uint64_t step) {
  std::string covered(kMagic);
  append(covered, kCheckpointVersion);
  append(covered, step);
  std::string header(kMagic);
  append(header, kCheckpointVersion);
  append(header, crc_of(covered));
  append(header, step);
  return header;
}

std::uint64_t decode_header(std::span<const std::byte> bytes) {
  Cursor cursor(bytes);
  if (cursor.take_bytes(kMagic.size()) != kMagic) {
    throw Error(ErrorKind::kInput, "is not a checkpoint: it does not begin like one");
  }
  const auto version = cursor.take<std::uint32_t>();
  const auto crc = cursor.take<std::uint32_t>();
  const auto step = cursor.take<std::uint64_t>();
  std::string covered(kMagic);
  append(covered, version);
  append(covered, step);
  if (crc != crc_of(covered)) damaged("its header does not match its checksum");
  if (version != kCheckpointVersion) {
    throw Error(ErrorKind::kInput,
                fmt::format("checkpoint of format version {}; this program reads "
                            "version {} only",
                            version, kCheckpointVersion));
  }
  if (step > kMaxStep) damaged(fmt::format("step {}, which no run comes to", step));
  return step;
}

std::string encode_table(const std::vector<Section>& sections) {
  std::string table;
  for (const Section& section : sections) {
    append(table, static_cast<std::uint32_t>(section.name.size()));
    table += section.name;
    append(table, static_cast<std::uint32_t>(section.type));
    append(table, static_cast<std::uint32_t>(section.shape.size()));
    for (const std::uint64_t extent : section.shape) append(table, extent);
    append(table, section.bytes);
    append(table, section.crc);
  }
  return table;
}

std::vector<Section> decode_table(std::span<const std::byte> bytes, std::uint32_t sections,
                                  std::uint64_t table_begin) {
  std::vector<Section> table;
  std::set<std::string> names;
  Cursor cursor(bytes);
  std::uint64_t offset = kHeaderBytes;
  while (!cursor.is_empty()) {
    Section section = decode_entry(cursor);
    if (section.bytes > table_begin - offset) {
      damaged(fmt::format("section \"{}\" reaches into the table", section.name));
    }
    section.offset = offset;
    offset += section.bytes;
    if (!names.insert(section.name).second) {
      damaged(fmt::format("section \"{}\" is there twice", section.name));
    }
    table.push_back(std::move(section));
  }
  if (table.size() != sections) {
    damaged(fmt::format("its table has {} sections, not {}", table.size(), sections));
  }
  if (offset != table_begin) {
    damaged(fmt::format("{} bytes before its table belong to no section", table_begin - offset));
  }
  return table;
}

std::string encode_trailer(const Trailer& trailer) {
  std::string bytes;
  append(bytes, trailer.table_bytes);
  append(bytes, trailer.file_bytes);
  append(bytes, trailer.sections);
  append(bytes, trailer.table_crc);
  append(bytes, crc_of(bytes));
  return bytes + std::string(kEndMagic);
}

Trailer decode_trailer(std::span<const std::byte> bytes) {
  Cursor cursor(bytes);
  const std::string_view covered(reinterpret_cast<const char*>(bytes.data()), 24);
  Trailer trailer;
  trailer.table_bytes = cursor.take<std::uint64_t>();
  trailer.file_bytes = cursor.take<std::uint64_t>();
  trailer.sections = cursor.take<std::uint32_t>();
  trailer.table_crc = cursor.take<std::uint32_t>();
  const auto crc = cursor.take<std::uint32_t>();
  if (cursor.take_bytes(kEndMagic.size()) != kEndMagic) {
    damaged("it does not end like one: truncated, or followed by something else");
  }
  if (crc != crc_of(covered)) damaged("its trailer does not match its checksum");
  return trailer;
}

}  // namespace checkpoint_format
}  // namespace zenflow::runtime
