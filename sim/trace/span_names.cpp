#include "sim/trace/span_names.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/text.h"

namespace zenflow::sim {
namespace {

/// Whatever the case of its letters; `word` has small ones.
bool contains_word(std::string_view text, std::string_view word) {
  const auto is_same = [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  };
  return std::search(text.begin(), text.end(), word.begin(), word.end(), is_same) != text.end();
}

MemoryKind memory_kind(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, MemoryKind>, 9> kKinds{{
      {"pinned", MemoryKind::kPinned},
      {"pageable", MemoryKind::kPageable},
      {"managed", MemoryKind::kManaged},
      {"unified", MemoryKind::kManaged},
      {"device", MemoryKind::kDevice},
      {"array", MemoryKind::kDevice},
      {"host", MemoryKind::kHost},
      {"memory", MemoryKind::kHost},
      {"shared", MemoryKind::kHost},
  }};
  for (const auto& [word, kind] : kKinds) {
    if (contains_word(text, word)) return kind;
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
  // CUPTI and Kineto; oneAPI (M: memory of the host); ROCm's own; Nsight Systems' labels.
  static constexpr std::array<std::pair<std::string_view, CopyDirection>, 31> kDirections{{
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
      {"M2M", CopyDirection::kH2H},
      {"H2D", CopyDirection::kH2D},
      {"D2H", CopyDirection::kD2H},
      {"D2D", CopyDirection::kD2D},
      {"H2H", CopyDirection::kH2H},
      {"P2P", CopyDirection::kPeer},
      {"HostToDevice", CopyDirection::kH2D},
      {"DeviceToHost", CopyDirection::kD2H},
      {"DeviceToDevice", CopyDirection::kD2D},
      {"Host-to-Device", CopyDirection::kH2D},
      {"Device-to-Host", CopyDirection::kD2H},
      {"Device-to-Device", CopyDirection::kD2D},
      {"Host-to-Host", CopyDirection::kH2H},
      {"Peer-to-Peer", CopyDirection::kPeer},
      {"Host-to-Array", CopyDirection::kH2D},
      {"Array-to-Host", CopyDirection::kD2H},
      {"Array-to-Device", CopyDirection::kD2D},
      {"Device-to-Array", CopyDirection::kD2D},
      {"Array-to-Array", CopyDirection::kD2D},
  }};
  CopyName copy;
  const std::size_t open = name.find('(');
  const std::string_view title = name.substr(0, open);
  for (const auto& [word, direction] : kDirections) {
    if (title.find(word) == title.npos) continue;
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
  for (const std::string_view ours : kOwnCollectives) {
    if (kernel.starts_with(ours) && (kernel.size() == ours.size() || kernel[ours.size()] == ' ')) {
      return true;
    }
  }
  return std::any_of(kCollectiveWords.begin(), kCollectiveWords.end(),
                     [&](std::string_view word) { return contains_word(kernel, word); });
}

bool is_product(std::string_view kernel) {
  constexpr std::array<std::string_view, 8> kWords = {"gemm", "Gemm",  "GEMM",  "cutlass",
                                                      "xmma", "nvjet", "Cijk_", "splitK"};
  return !is_attention(kernel) && contains_any(kernel, kWords);
}

bool is_attention(std::string_view kernel) {
  constexpr std::array<std::string_view, 4> kWords = {"flash", "fmha", "sdpa", "attention"};
  return contains_any(kernel, kWords);
}

}  // namespace zenflow::sim
