/// Which DeepSpeed release does what: the releases known and the changes a configuration notices.
#pragma once

#include <compare>
#include <optional>
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

/// The oldest release whose behaviour is described.
inline constexpr Version kOldestVersion = {0, 12, 6};

[[nodiscard]] std::string to_string(const Version& version);

/// What a release changed that decides whether a configuration is right, or how a step runs.
enum class Change {
  kStage1Overlaps,
  kElementwiseOverflowCheck,
  kFp32Upload,
  kCommunicationTypeBf16,
  kReductionHoldsBackward,
  kPydantic2,
  kOnlyFirstSum,
  kStage3PinnedBuffer,
  kStage3DirectGradients,
  kBufferedUpload,
  kStrictPrecision,
  kZenFlow,
  kWorkerCores,
  kBf16WithoutZero,
  kMuon,
  kSuperOffload,
  kLastGroupsOnCpu,
  kStage3ZenFlow,
  kEngineRunsBackward,
  kSumOnlyIfShared,
  kOptimizerParamsKept,
  kZenFlowPrologue,
  kSelectiveSwap,
  kNativeWorker,
  kBf16Upload,
  kClippingByDefault,
  kWarmupStepsChecked,
  kUnmanagedAccumulation,
  kLockedSwapBuffers,
  kPinnedByDefault,
  kAsyncStage3Gradients,
  kAllreduceOp,
  kReducedOverflowCheck,
  kNativePinning,
  kSelectionFloor,
  kComputeGradNorm,
  kBlocksRemoved,
  kMoreBlocksRemoved,
  kFloatStepCounter,
  kFp32SumsOnGpu,
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

/// Oldest first.
[[nodiscard]] std::span<const Version> known_versions();
[[nodiscard]] Version newest_version();
[[nodiscard]] std::optional<Version> find_version(std::string_view text);
/// "expected ..., found ...; known: ...": what to say if find_version finds nothing.
[[nodiscard]] std::string expected_version(std::string_view found);
/// Throws Error(kInput) naming the releases known if `text` is not one of them.
[[nodiscard]] Version parse_version(std::string_view text);

}  // namespace zenflow::sim
