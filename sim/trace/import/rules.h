/// Which phase and lane recorded work belongs to, by names, streams and threads.
///
/// A rule holds if everything that it names holds; the first that holds decides. A user's rules
/// come before the built-in ones. Names are regular expressions (RE2) for the whole name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/trace/timeline.h"

namespace zenflow::sim {

struct PhaseRule {
  SpanPhase phase = SpanPhase::kNone;
  std::string kernel{};     ///< of the GPU work itself; copies count as well
  std::string range{};      ///< of an annotation or NVTX range in which it was launched
  std::string operation{};  ///< of a host operation in which it was launched ("aten::mm")
  std::string thread{};     ///< of the thread that launched it
  std::optional<std::int64_t> stream{};
  /// On a thread with steps or optimizer annotations, outside everything else, and no CUDA graph.
  bool main_thread = false;
};

/// What a host track or range works on, where a GPU that waits for it can be said to.
enum class HostLane : std::uint8_t { kNone, kCpuUpdate, kSelection, kNvme };

struct LaneRule {
  HostLane lane = HostLane::kNone;
  std::string track{};  ///< name of a host track
  std::string range{};  ///< name of a host range or operation
};

struct TraceRules {
  std::vector<PhaseRule> phases;
  std::vector<LaneRule> lanes;
  std::vector<std::string> steps;       ///< ranges that are steps
  std::vector<std::string> optimizers;  ///< ranges that are an optimizer's step
};

[[nodiscard]] TraceRules default_rules();

/// A YAML file's rules, then the built-in ones. Throws Error(kInput), with line and column, for
/// unknown keys, phases and lanes and for what is no regular expression.
[[nodiscard]] TraceRules read_rules(const std::filesystem::path& path);

}  // namespace zenflow::sim
