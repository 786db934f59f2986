/// The numbers of activity_file.h's format.
#pragma once

#include <cstdint>
#include <string_view>

namespace zenflow::runtime {

inline constexpr std::string_view kActivityFileMagic = "ZFACTIV1";

enum ActivityChunk : std::uint32_t {
  kInformation = 1,
  kString = 2,
  kActivities = 3,
  kEnd = 4,
  kTime = 5,
};

struct ActivityChunkHead {
  std::uint32_t type;
  std::uint32_t size;
};

}  // namespace zenflow::runtime
