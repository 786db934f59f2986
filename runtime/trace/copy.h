/// What crosses the link to the device, for accounting and for traces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zenflow::runtime {

enum class CopyDirection : std::uint8_t { kHostToDevice, kDeviceToHost };

/// A schedule's closed form speaks of the first two.
enum class Traffic : std::uint8_t {
  kGradients,   ///< deferred gradients down
  kParameters,  ///< updated parameters up
  kSelection,   ///< column norms, indices, and the state of columns that change place
  kControl,     ///< sums for clipping, bias corrections, tokens, losses
  kInitial,     ///< weights at the start, and for evaluation and checkpoints
};
inline constexpr std::size_t kTrafficKinds = 5;
/// "gradients", "parameters", ...: as a trace has it.
[[nodiscard]] std::string_view name_of(Traffic traffic);

}  // namespace zenflow::runtime
