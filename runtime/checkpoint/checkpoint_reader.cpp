#include "runtime/checkpoint/checkpoint_reader.h"

#include <fmt/format.h>

#include "sim/base/crc32.h"
#include "sim/base/error.h"
#include "sim/base/stop.h"

namespace zenflow::runtime {
namespace {

namespace format = checkpoint_format;

struct Contents {
  std::uint64_t step;
  std::vector<Section> sections;
};

std::vector<std::byte> bytes_at(const InputFile& file, std::uint64_t offset, std::uint64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  file.read_at(offset, bytes);
  return bytes;
}

/// Throws Error(kInput) without the path.
Contents read_contents(const InputFile& file) {
  const auto damaged = [](const std::string& what) {
    throw Error(ErrorKind::kInput, "damaged checkpoint: " + what);
  };
  if (file.size() == 0) damaged("it is empty");
  if (file.size() < format::kHeaderBytes + format::kTrailerBytes) {
    damaged(fmt::format("{} bytes are fewer than any checkpoint has", file.size()));
  }
  Contents contents;
  contents.step = format::decode_header(bytes_at(file, 0, format::kHeaderBytes));
  const std::uint64_t trailer_begin = file.size() - format::kTrailerBytes;
  const format::Trailer trailer =
      format::decode_trailer(bytes_at(file, trailer_begin, format::kTrailerBytes));
  if (trailer.file_bytes != file.size()) {
    damaged(fmt::format("{} bytes long, {} when it was written", file.size(), trailer.file_bytes));
  }
  if (trailer.table_bytes > trailer_begin - format::kHeaderBytes) {
    damaged("its table is longer than the file");
  }
  const std::uint64_t table_begin = trailer_begin - trailer.table_bytes;
  const std::vector<std::byte> table = bytes_at(file, table_begin, trailer.table_bytes);
  if (crc32(0, table) != trailer.table_crc) damaged("its table does not match its checksum");
  contents.sections = format::decode_table(table, trailer.sections, table_begin);
  return contents;
}

}  // namespace

CheckpointReader::CheckpointReader(const std::filesystem::path& path) : file_(path) {
  try {
    Contents contents = read_contents(file_);
    step_ = contents.step;
    sections_ = std::move(contents.sections);
    for (std::size_t i = 0; i < sections_.size(); ++i) by_name_.emplace(sections_[i].name, i);
  } catch (const Stopped&) {
    throw;
  } catch (const Error& error) {
    const std::string what = error.what();
    const std::string place = path.generic_string() + ": ";
    throw Error(error.kind(), what.starts_with(place) ? what : place + what);
  }
}

bool CheckpointReader::contains(std::string_view name) const {
  return by_name_.contains(name);
}

const Section& CheckpointReader::section(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) file_.fail(fmt::format("has no section \"{}\"", name));
  return sections_[found->second];
}

const Section& CheckpointReader::typed(std::string_view name, SectionType type) const {
  const Section& found = section(name);
  if (found.type != type) {
    file_.fail(fmt::format("section \"{}\" holds {}, expected {}", name, name_of(found.type),
                           name_of(type)));
  }
  return found;
}

void CheckpointReader::read_payload(const Section& section, std::span<std::byte> out) {
  if (section.bytes != out.size()) {
    const std::uint64_t element = size_of(section.type);
    file_.fail(fmt::format("section \"{}\" has {} elements, expected {}", section.name,
                           section.bytes / element, out.size() / element));
  }
  file_.read_at(section.offset, out);
  if (crc32(0, out) != section.crc) {
    file_.fail(fmt::format("damaged checkpoint: section \"{}\" does not match its checksum",
                           section.name));
  }
  read_.insert(section.name);
}

std::string CheckpointReader::read_text(std::string_view name) {
  const Section& found = typed(name, SectionType::kU8);
  std::string text(static_cast<std::size_t>(found.bytes), '\0');
  read_payload(found, std::as_writable_bytes(std::span(text)));
  return text;
}

void CheckpointReader::verify() const {
  for (const Section& section : sections_) {
    std::uint32_t crc = 0;
    file_.scan(
        section.offset, section.offset + section.bytes,
        [&crc](std::uint64_t, std::span<const std::byte> piece) { crc = crc32(crc, piece); });
    if (crc != section.crc) {
      file_.fail(fmt::format("damaged checkpoint: section \"{}\" does not match its checksum",
                             section.name));
    }
  }
}

void CheckpointReader::reject_unread() const {
  for (const Section& section : sections_) {
    if (!read_.contains(section.name)) {
      file_.fail(fmt::format("section \"{}\" is not known to this program", section.name));
    }
  }
}

}  // namespace zenflow::runtime
