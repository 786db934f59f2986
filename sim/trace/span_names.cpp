#include "sim/trace/span_names.h"

#include <algorithm>
#include <array>
#include <utility>

namespace zenflow::sim {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

MemoryKind memory_kind(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, MemoryKind>, 9> kKinds{{
      {"Pinned", MemoryKind::kPinned},
      {"Pageable", MemoryKind::kPageable},
      {"Managed", MemoryKind::kManaged},
      {"Unified", MemoryKind::kManaged},
      {"Device", MemoryKind::kDevice},
      {"Array", MemoryKind::kDevice},
      {"Host", MemoryKind::kHost},
      {"Memory", MemoryKind::kHost},
      {"Shared", MemoryKind::kHost},
  }};
  for (const auto& [word, kind] : kKinds) {
    if (contains(text, word)) return kind;
  }
  return MemoryKind::kUnknown;
}

}  // namespace

std::string to_string(CopyDirection direction) {
  switch (direction) {
    case CopyDirection::kH2D:
      return "HtoD";
    case CopyDirection::kD2H:
      return "DtoH";
    case CopyDirection::kD2D:
      return "DtoD";
    case CopyDirection::kH2H:
      return "HtoH";
    case CopyDirection::kPeer:
      return "PtoP";
    case CopyDirection::kUnknown:
      return "unknown";
  }
  return "unknown";
}

std::string to_string(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kPinned:
      return "Pinned";
    case MemoryKind::kPageable:
      return "Pageable";
    case MemoryKind::kDevice:
      return "Device";
    case MemoryKind::kManaged:
      return "Managed";
    case MemoryKind::kHost:
      return "Host";
    case MemoryKind::kUnknown:
      return "unknown";
  }
  return "unknown";
}

CopyName copy_name(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, CopyDirection>, 21> kDirections{{
      {"HtoD", CopyDirection::kH2D},
      {"DtoH", CopyDirection::kD2H},
      {"DtoD", CopyDirection::kD2D},
      {"HtoH", CopyDirection::kH2H},
      {"PtoP", CopyDirection::kPeer},
      {"HtoA", CopyDirection::kH2D},
      {"AtoH", CopyDirection::kD2H},
      {"AtoD", CopyDirection::kD2D},
      {"DtoA", CopyDirection::kD2D},
      {"AtoA", CopyDirection::kD2D},
      {"M2D", CopyDirection::kH2D},
      {"D2M", CopyDirection::kD2H},
      {"H2D", CopyDirection::kH2D},
      {"D2H", CopyDirection::kD2H},
      {"D2D", CopyDirection::kD2D},
      {"Host-to-Device", CopyDirection::kH2D},
      {"HostToDevice", CopyDirection::kH2D},
      {"Device-to-Host", CopyDirection::kD2H},
      {"DeviceToHost", CopyDirection::kD2H},
      {"DeviceToDevice", CopyDirection::kD2D},
      {"Device-to-Device", CopyDirection::kD2D},
  }};
  CopyName copy;
  const std::size_t open = name.find('(');
  const std::string_view title = name.substr(0, open);
  for (const auto& [word, direction] : kDirections) {
    if (!contains(title, word)) continue;
    copy.direction = direction;
    break;
  }
  if (open == name.npos) return copy;
  const std::string_view memories = name.substr(open + 1);
  const std::size_t arrow = memories.find("->");
  if (arrow == memories.npos) return copy;
  copy.from = memory_kind(memories.substr(0, arrow));
  copy.to = memory_kind(memories.substr(arrow + 2));
  return copy;
}

bool is_collective(std::string_view kernel) {
  static constexpr std::array<std::string_view, 4> kOurs = {"all_gather", "reduce_scatter",
                                                            "all_reduce", "broadcast"};
  for (const std::string_view ours : kOurs) {
    if (kernel.starts_with(ours) && (kernel.size() == ours.size() || kernel[ours.size()] == ' ')) {
      return true;
    }
  }
  static constexpr std::array<std::string_view, 6> kLibraries = {"nccl",  "rccl",  "oneccl",
                                                                 "msccl", "hccl_", "xccl"};
  const auto is_same = [](char a, char b) { return (a | 0x20) == b; };
  return std::any_of(kLibraries.begin(), kLibraries.end(), [&](std::string_view library) {
    return std::search(kernel.begin(), kernel.end(), library.begin(), library.end(), is_same) !=
           kernel.end();
  });
}

}  // namespace zenflow::sim
