#include "tools/program_build.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include "sim/base/error.h"

namespace zenflow::tools {
namespace {

/// The build ID in one segment of notes, whose names and descriptions are each padded to four
/// bytes.
std::string find_build_id(const std::byte* notes, std::size_t size) {
  const auto padded = [](std::size_t bytes) { return (bytes + 3) / 4 * 4; };
  std::string id;
  for (std::size_t at = 0; at + sizeof(ElfW(Nhdr)) <= size;) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes + at, sizeof note);
    const std::byte* name = notes + at + sizeof note;
    const std::byte* description = name + padded(note.n_namesz);
    at += sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
    constexpr std::string_view kGnu("GNU", 4);  // with its zero
    if (at > size || note.n_type != NT_GNU_BUILD_ID || note.n_namesz != kGnu.size()) continue;
    if (std::memcmp(name, kGnu.data(), kGnu.size()) != 0) continue;
    for (std::size_t i = 0; i < note.n_descsz; ++i) {
      id += fmt::format("{:02x}", std::to_integer<unsigned>(description[i]));
    }
    return id;
  }
  return id;
}

int read_program(dl_phdr_info* object, std::size_t, void* to) {
  const auto address = [object](const auto& segment) {
    return static_cast<std::uintptr_t>(object->dlpi_addr + segment.p_vaddr);
  };
  // The program, or the library that has this code.
  const auto here = reinterpret_cast<std::uintptr_t>(&read_program);
  const auto* const end = object->dlpi_phdr + object->dlpi_phnum;
  const bool is_this = std::any_of(object->dlpi_phdr, end, [&](const auto& segment) {
    return segment.p_type == PT_LOAD && here >= address(segment) &&
           here < address(segment) + segment.p_memsz;
  });
  if (!is_this) return 0;
  auto& id = *static_cast<std::string*>(to);
  for (const auto* segment = object->dlpi_phdr; segment != end && id.empty(); ++segment) {
    if (segment->p_type != PT_NOTE) continue;
    id = find_build_id(reinterpret_cast<const std::byte*>(address(*segment)), segment->p_memsz);
  }
  return 1;
}

}  // namespace

std::string program_build() {
  std::string id;
  dl_iterate_phdr(read_program, &id);
  if (id.empty()) throw Error(ErrorKind::kRuntime, "this program was linked without a build id");
  return id;
}

}  // namespace zenflow::tools
