#include "runtime/trace/cupti/activity_names.h"

#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>

#include <cxxabi.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace zenflow::runtime {
namespace {

/// CUpti_ActivityMemcpyKind.
constexpr std::array<std::string_view, 11> kCopyKinds = {
    "Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
/// CUpti_ActivityMemoryKind.
constexpr std::array<std::string_view, 8> kMemoryKinds = {
    "Unknown", "Pageable", "Pinned",        "Device",
    "Array",   "Managed",  "Device Static", "Managed Static"};
/// CUpti_ActivityOverheadKind, of CUPTI's own: in steps of 65,536.
constexpr std::array<std::string_view, 9> kOverheads = {"Unknown",
                                                        "Activity Buffer Flush",
                                                        "Instrumentation",
                                                        "Resource",
                                                        "Runtime Triggered Module Loading",
                                                        "Lazy Function Loading",
                                                        "Command Buffer Full",
                                                        "Activity Buffer Request",
                                                        "UVM Activity Init"};

template <std::size_t N>
std::string_view entry(const std::array<std::string_view, N>& names, std::size_t index) {
  return index < N ? names[index] : "Unknown";
}

}  // namespace

std::string copy_name(const Activity& activity) {
  return fmt::format("Memcpy {} ({} -> {})", entry(kCopyKinds, activity.copy_kind),
                     entry(kMemoryKinds, activity.source_memory),
                     entry(kMemoryKinds, activity.destination_memory));
}

std::string memset_name(const Activity& activity) {
  return fmt::format("Memset ({})", entry(kMemoryKinds, activity.destination_memory));
}

std::string synchronization_name(SynchronizationType type) {
  switch (type) {
    case SynchronizationType::kEvent:
      return "Event Sync";
    case SynchronizationType::kStreamWaitEvent:
      return "Stream Wait Event";
    case SynchronizationType::kStream:
      return "Stream Sync";
    case SynchronizationType::kContext:
      return "Context Sync";
    case SynchronizationType::kUnknown:
      break;
  }
  return "Unknown Sync";  // also numbers of a newer CUPTI
}

std::string overhead_name(std::uint32_t kind) {
  constexpr std::uint32_t kDriverCompiler = 1;
  constexpr std::uint32_t kStep = 1U << 16U;
  if (kind == kDriverCompiler) return "Driver Compiler";
  return std::string(kind % kStep == 0 ? entry(kOverheads, kind / kStep) : "Unknown");
}

std::string readable_name(const std::string& name) {
  struct Free {
    void operator()(char* text) const { std::free(text); }
  };
  std::string readable = name;
  if (name.starts_with("_Z")) {
    int status = 0;
    const std::unique_ptr<char, Free> demangled(
        abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status));
    if (status == 0 && demangled) readable = demangled.get();
  }
  using nlohmann::json;
  return json::parse(json(readable).dump(-1, ' ', false, json::error_handler_t::replace))
      .get<std::string>();
}

}  // namespace zenflow::runtime
