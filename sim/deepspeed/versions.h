/// Which DeepSpeed release does what: the releases known and the changes a configuration notices.
#pragma once

#include <compare>
#include <span>
#include <string>
#include <string_view>

namespace zenflow::sim {

/// A DeepSpeed release, "0.19.8".
struct Version {
  int release = 0;
  int feature = 0;
  int patch = 0;
  friend constexpr auto operator<=>(const Version&, const Version&) = default;
};

[[nodiscard]] std::string to_string(const Version& version);

/// What a release changed that decides whether a configuration is right.
enum class Change {
  kZenFlow,
  kStage3ZenFlow,
  kEngineRunsBackward,
  kOptimizerParamsKept,
  kZenFlowPrologue,
  kSelectiveSwap,
  kNativeWorker,
  kClippingByDefault,
  kWarmupStepsChecked,
  kUnmanagedAccumulation,
  kPinnedByDefault,
  kAllreduceOp,
  kSelectionFloor,
  kComputeGradNorm,
  kBlocksRemoved,
  kMoreBlocksRemoved,
  kFloatStepCounter,
};

struct VersionedChange {
  Change change;
  Version since;
  std::string_view what;
  std::string_view reference;
};

/// All changes, oldest first.
[[nodiscard]] std::span<const VersionedChange> version_changes();
[[nodiscard]] bool has_change(const Version& version, Change change);

/// Releases with ZenFlow, oldest first.
[[nodiscard]] std::span<const Version> known_versions();
[[nodiscard]] Version newest_version();
/// Throws Error(kInput) naming the releases known if `text` is not one of them.
[[nodiscard]] Version parse_version(std::string_view text);

}  // namespace zenflow::sim
