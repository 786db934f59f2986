/// Any bytes as the parts of a checkpoint behind its checksums: a table that describes the payloads
/// exactly, or an input error. The first byte is the number of sections, the second how many bytes
/// of payload there are, in units of 8.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/format.h"
#include "sim/base/error.h"
#include "tests/fuzz/require.h"

namespace {

namespace format = zenflow::runtime::checkpoint_format;
using zenflow::fuzz::require;

void check_table(std::span<const std::byte> table, std::uint32_t sections, std::uint64_t payload) {
  const std::uint64_t table_begin = format::kHeaderBytes + payload;
  const std::vector<zenflow::runtime::Section> read =
      format::decode_table(table, sections, table_begin);
  require(read.size() == sections, "all sections are there");
  std::uint64_t offset = format::kHeaderBytes;
  for (const zenflow::runtime::Section& section : read) {
    require(section.offset == offset, "sections lie one after the other");
    require(section.bytes == zenflow::runtime::payload_bytes(section), "shape and bytes agree");
    offset += section.bytes;
  }
  require(offset == table_begin, "and fill the file");
  const std::string_view text(reinterpret_cast<const char*>(table.data()), table.size());
  require(format::encode_table(read) == text, "a table has one form");
}

template <class Action>
void expect_input_error_at_most(const Action& action) {
  try {
    action();
  } catch (const zenflow::Error& error) {
    require(error.kind() == zenflow::ErrorKind::kInput, "bad bytes are bad input");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (size >= 2) {
    expect_input_error_at_most(
        [&] { check_table(bytes.subspan(2), data[0], std::uint64_t{8} * data[1]); });
  }
  if (size >= format::kHeaderBytes) {
    expect_input_error_at_most(
        [&] { static_cast<void>(format::decode_header(bytes.first(format::kHeaderBytes))); });
  }
  if (size >= format::kTrailerBytes) {
    expect_input_error_at_most(
        [&] { static_cast<void>(format::decode_trailer(bytes.first(format::kTrailerBytes))); });
  }
  return 0;
}
