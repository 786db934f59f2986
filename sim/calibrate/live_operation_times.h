/// Isolated times of the operations of recorded runs, where the device is the host and contention
/// for its cores slows them down.
///
/// Each operation is concurrent with different work. Fitted as it was recorded, what slows it down
/// is taken for the rate of the work that it has most of. A simulated run of the same setting says
/// by how much each is slowed down; without that, recorded times are those of their work.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "sim/calibrate/live_run.h"
#include "sim/calibrate/regression.h"

namespace zenflow::sim {

/// Work that operations other than forward and backward consist of.
enum class LiveUnit : std::uint8_t {
  kStreamed,     ///< a byte on the device, neighbours together
  kColumns,      ///< a byte on the device, single columns picked
  kKernels,      ///< a kernel on the device
  kUp,           ///< a byte to the device
  kDown,         ///< a byte to the host
  kCopies,       ///< a copy
  kUpdated,      ///< a byte of CPU Adam's traffic, on all cores
  kUpdateCalls,  ///< a call of it
  kSummed,       ///< a byte of a sum's traffic, on one core
};
inline constexpr std::size_t kLiveUnits = 9;

template <class T>
struct PerUnit : std::array<T, kLiveUnits> {
  using std::array<T, kLiveUnits>::operator[];
  T& operator[](LiveUnit unit) { return (*this)[static_cast<std::size_t>(unit)]; }
  const T& operator[](LiveUnit unit) const { return (*this)[static_cast<std::size_t>(unit)]; }
};

/// Seconds of each on `machine`.
[[nodiscard]] PerUnit<double> live_units(const HardwareProfile& machine);

struct OperationTime {
  PerUnit<double> work{};
  double seconds = 0;
};
/// Operation, layer, bytes of a copy, whether a sum is a window's first: those that have the same
/// work at the same place of a step.
using OperationKey = std::tuple<Operation, std::size_t, std::int64_t, bool>;
/// The mean over a window's steps of the median at each.
using OperationTimes = std::map<OperationKey, OperationTime>;

/// `run` was read from `timeline`, from `first_step` on. Of `host` it takes by how much slower
/// fewer cores update.
[[nodiscard]] OperationTimes operation_times(const LiveRun& run, const Timeline& timeline,
                                             std::int64_t first_step, const HostProfile& host);

/// Isolated time of a unit of work, if `recorded` times are slowed down as `simulated` ones are,
/// which are of a machine with `units`: a run each, in the same order. What is not identifiable is
/// `given`; if streams and columns, which are of one memory, are not identifiable one by one, both
/// have one rate.
[[nodiscard]] PerUnit<UnitTime> isolated_units(const std::vector<OperationTimes>& recorded,
                                               const std::vector<OperationTimes>& simulated,
                                               const PerUnit<double>& units,
                                               const PerUnit<double>& given);

}  // namespace zenflow::sim
