#include "sim/base/operation.h"

#include <algorithm>
#include <array>

namespace zenflow {
namespace {

struct Names {
  std::string_view recorded;
  std::string_view simulated;
};

constexpr std::array<Names, kOperations> kOperationNames = {{
    {"", ""},
    {"forward", "forward"},
    {"backward", "backward"},
    {"", "gpu_update"},
    {"update selected", "gpu_update"},
    {"carry selected", "gpu_update"},
    {"gradients down", "d2h"},
    {"weights up", "h2d"},
    {"scatter weights", "h2d"},
    {"sum gradients", "accumulate"},
    {"sum gradients", "gpu_accumulate"},
    {"update", "cpu_update"},
    {"", "enqueue"},
    {"gradient norm", "gradient_norm"},
    {"gather selected", ""},
    {"gather deferred", ""},
    {"gradient norms", "all_gather norms"},
    {"bias corrections", ""},
    {"gradient sums down", "d2h"},
    {"column norms", ""},
    {"column indices", ""},
    {"column exchange", ""},
    {"initial weights", ""},
    {"export", ""},
    {"checkpoint", ""},
    {"batch", ""},
    {"loss", ""},
    {"evaluation logits", ""},
    {"rotary angles", ""},
    {"probe", ""},
    {"", "select"},
    {"", "broadcast"},
    {"", "gpu_update"},
    {"reduce gradients", "reduce_scatter"},
    {"", "all_reduce"},
    {"gather weights", "all_gather"},
    {"", "d2h"},
    {"", "h2d"},
    {"", "cpu_scale"},
    {"", "cpu_cast"},
    {"", "nvme_read"},
    {"", "nvme_write"},
    {"", "slowest_rank"},
}};

constexpr std::array<Names, kLaneKinds> kLaneNames = {{
    {"compute", "compute"},
    {"d2h", "d2h"},
    {"h2d", "h2d"},
    {"", "collective"},
    {"", "gather"},
    {"cpu optimizer", "cpu_update"},
    {"cpu sums", "cpu_accumulate"},
    {"", "nvme_read"},
    {"", "nvme_write"},
    {"training thread", "training"},
}};

}  // namespace

std::string_view recorded_name(Operation operation) {
  return kOperationNames.at(static_cast<std::size_t>(operation)).recorded;
}

std::string_view simulated_name(Operation operation) {
  return kOperationNames.at(static_cast<std::size_t>(operation)).simulated;
}

Operation recorded_operation(std::string_view name) {
  const auto found = std::find_if(kOperationNames.begin() + 1, kOperationNames.end(),
                                  [name](const Names& one) { return one.recorded == name; });
  if (name.empty() || found == kOperationNames.end()) return Operation::kUnknown;
  return static_cast<Operation>(found - kOperationNames.begin());
}

bool is_d2h(Operation operation) {
  return operation == Operation::kD2H || operation == Operation::kGradientsDown ||
         operation == Operation::kGradientSumsDown;
}

bool is_h2d(Operation operation) {
  return operation == Operation::kH2D || operation == Operation::kWeightsUp ||
         operation == Operation::kPlaceWeights;
}

bool is_collective(Operation operation) {
  return operation == Operation::kReduceScatter || operation == Operation::kAllReduce ||
         operation == Operation::kAllGather;
}

std::string_view simulated_name(LaneKind lane) {
  return kLaneNames.at(static_cast<std::size_t>(lane)).simulated;
}

std::string_view recorded_name(LaneKind lane) {
  return kLaneNames.at(static_cast<std::size_t>(lane)).recorded;
}

std::optional<LaneKind> lane_of_track(std::string_view track) {
  const auto found = std::find_if(kLaneNames.begin(), kLaneNames.end(), [track](const Names& one) {
    return one.recorded == track || one.simulated == track;
  });
  if (track.empty() || found == kLaneNames.end()) return std::nullopt;
  return static_cast<LaneKind>(found - kLaneNames.begin());
}

}  // namespace zenflow
