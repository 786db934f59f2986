/// What a stream, a thread or a GPU waited for: one list for simulated, recorded and imported runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zenflow {

/// The first seven are the parts of a result's stall_by_cause_ms, the first ten those of a trace's;
/// all are indices into arrays by cause.
enum class WaitCause : std::uint8_t {
  kCpuUpdate,
  kD2H,
  kH2D,
  kCollective,
  kNvme,
  kSelection,
  kLaunch,        ///< the host was late
  kCopyOnDevice,  ///< copies within or between GPUs, memsets
  kOther,         ///< what the trace does not show
  kNotRecorded,   ///< the trace lacks the launch that would show it
  kCompute,       ///< a copy for the kernels that it follows
  kNone,          ///< no wait
};
inline constexpr std::size_t kStallCauses = 7;   ///< that a simulated GPU can have
inline constexpr std::size_t kTraceCauses = 10;  ///< that a trace can show
inline constexpr std::size_t kWaitCauses = 12;

/// "cpu_update", as in JSON and traces; of kNone "".
[[nodiscard]] std::string_view name_of(WaitCause cause);
/// The cause with that name; kNone if there is none.
[[nodiscard]] WaitCause wait_cause(std::string_view name);

}  // namespace zenflow
