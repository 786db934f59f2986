#include "runtime/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "sim/base/crc32.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

[[noreturn]] void misuse(std::string_view name, std::string_view what) {
  throw Error(ErrorKind::kRuntime, fmt::format("checkpoint section \"{}\": {}", name, what));
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

CheckpointWriter::CheckpointWriter(const std::filesystem::path& path, std::uint64_t step)
    : file_(path, /*overwrite=*/true) {
  write(checkpoint_format::encode_header(step));
}

void CheckpointWriter::add_text(std::string_view name, std::string_view text) {
  begin(name, SectionType::kU8, {text.size()});
  append(std::as_bytes(std::span(text)));
  end();
}

void CheckpointWriter::begin(std::string_view name, SectionType type,
                             std::vector<std::uint64_t> shape) {
  if (is_section_open_) misuse(name, "begins before \"" + sections_.back().name + "\" ended");
  if (name.empty() || name.size() > checkpoint_format::kMaxNameBytes) {
    misuse(name, "a name has 1 to 1024 bytes");
  }
  if (shape.size() > checkpoint_format::kMaxDimensions) misuse(name, "more than 8 dimensions");
  if (!names_.emplace(name).second) misuse(name, "is there already");
  Section section;
  section.name = name;
  section.type = type;
  section.shape = std::move(shape);
  section.bytes = payload_bytes(section);
  sections_.push_back(std::move(section));
  section_written_ = 0;
  is_section_open_ = true;
}

void CheckpointWriter::append(std::span<const std::byte> bytes) {
  if (!is_section_open_) misuse("", "bytes outside a section");
  Section& section = sections_.back();
  if (bytes.size() > section.bytes - section_written_) {
    misuse(section.name, fmt::format("more than the {} bytes of its shape", section.bytes));
  }
  section_written_ += bytes.size();
  // In pieces, so that what the checksum has read is still in the cache when it is written.
  constexpr std::size_t kPiece = 1 << 20;
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPiece));
    section.crc = crc32(section.crc, piece);
    write(text_of(piece));
    bytes = bytes.subspan(piece.size());
  }
}

void CheckpointWriter::end() {
  if (!is_section_open_) misuse("", "ends without having begun");
  const Section& section = sections_.back();
  if (section_written_ != section.bytes) {
    misuse(section.name,
           fmt::format("{} bytes, its shape has {}", section_written_, section.bytes));
  }
  is_section_open_ = false;
}

void CheckpointWriter::commit() {
  if (is_section_open_) misuse(sections_.back().name, "has not ended");
  const std::string table = checkpoint_format::encode_table(sections_);
  checkpoint_format::Trailer trailer;
  trailer.table_bytes = table.size();
  trailer.file_bytes = written_ + table.size() + checkpoint_format::kTrailerBytes;
  trailer.sections = static_cast<std::uint32_t>(sections_.size());
  trailer.table_crc = crc32(0, std::as_bytes(std::span(table)));
  write(table + checkpoint_format::encode_trailer(trailer));
  file_.commit(OutputFile::Durable::kYes);
}

void CheckpointWriter::write(std::string_view bytes) {
  file_.write(bytes);
  written_ += bytes.size();
}

}  // namespace zenflow::runtime
