/// The operations of a training step and the lanes that they run on: one list for the runtime, its
/// recordings and simulated runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace zenflow {

enum class Operation : std::uint8_t {
  kUnknown,  ///< another program's
  // What zenflow-train does in a step, in the order in which fits look at it.
  kForward,
  kBackward,
  kPackGradients,  ///< norms of gradients, selected columns gathered, deferred ones packed
  kUpdateSelected,
  kCarrySelected,  ///< their weights into the set that becomes current
  kGradientsDown,
  kWeightsUp,
  kPlaceWeights,   ///< what went up, among the weights
  kAccumulate,     ///< gradients summed on the CPU
  kGpuAccumulate,  ///< likewise where they stay on the GPU for a window
  kCpuUpdate,
  kEnqueue,  ///< the training thread between steps
  // Parts of these that the runtime records one by one.
  kGradientNorm,
  kGatherSelected,
  kGatherDeferred,
  kGradientNorms,  ///< all of them down to the host, and to the other ranks
  kBiasCorrections,
  kGradientSumsDown,
  // Selection in the runtime.
  kColumnNorms,
  kColumnIndices,
  kColumnExchange,
  // What the runtime does around steps.
  kInitialWeights,
  kExport,
  kCheckpoint,
  kBatch,
  kLoss,
  kEvaluationLogits,
  kRotaryAngles,
  kProbe,
  // Only in schedules as published and as DeepSpeed has them.
  kSelect,         ///< column norms, their exchange, top-k
  kBroadcast,      ///< gradients of selected columns
  kGpuUpdate,      ///< optimizer on the GPU
  kReduceScatter,  ///< gradients
  kAllReduce,      ///< gradients, ZeRO stage 0
  kAllGather,      ///< parameters
  kD2H,
  kH2D,
  kCpuScale,  ///< unscaling and clipping
  kCpuCast,   ///< fp32 to the 16-bit weights that go up
  kNvmeRead,
  kNvmeWrite,
  kSlowestRank,  ///< from where a rank on average is until the slowest is there, too
};
inline constexpr std::size_t kOperations = 43;

/// As the runtime records it: "gradients down". Empty: it does not.
[[nodiscard]] std::string_view recorded_name(Operation operation);
/// As simulated traces have it: "d2h". Empty: it is not simulated as such.
[[nodiscard]] std::string_view simulated_name(Operation operation);
/// The operation that a recording calls `name`; kUnknown if there is none. Sums on the CPU and on
/// the GPU share a name, which is taken for the CPU's.
[[nodiscard]] Operation recorded_operation(std::string_view name);

/// Whether it is a copy to the host; to the GPU, with what then puts the copied in its place.
[[nodiscard]] bool is_d2h(Operation operation);
[[nodiscard]] bool is_h2d(Operation operation);
/// Whether it is between ranks.
[[nodiscard]] bool is_collective(Operation operation);

enum class LaneKind : std::uint8_t {
  kCompute,
  kD2H,
  kH2D,
  kCollective,
  kGather,  ///< all-gathers beside the step's own collectives, on a stream of their own
  kCpuUpdate,
  kCpuAccumulate,
  kNvmeRead,
  kNvmeWrite,
  kTraining,  ///< the thread that enqueues
};
inline constexpr std::size_t kLaneKinds = 10;

/// A simulated lane's track: "cpu_update".
[[nodiscard]] std::string_view simulated_name(LaneKind lane);
/// A recorded one's: "cpu optimizer". Empty: the runtime does not have it.
[[nodiscard]] std::string_view recorded_name(LaneKind lane);
/// The lane of a track that has its simulated or its recorded name.
[[nodiscard]] std::optional<LaneKind> lane_of_track(std::string_view track);

}  // namespace zenflow
