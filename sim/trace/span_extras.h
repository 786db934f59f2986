/// What few spans have, or many have in common, kept beside them: there are millions of spans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "sim/base/units.h"
#include "sim/base/wait_cause.h"
#include "sim/trace/number_table.h"

namespace zenflow::sim {

struct SpanExtra {
  double bytes = 0;       ///< moved; 0 if nothing is, negative if the trace does not say
  Picoseconds stalled{};  ///< how long the track waited before the span
  WaitCause cause = WaitCause::kNone;  ///< what it waited for
  std::int32_t step = -1;              ///< that it belongs to; -1: not known, or none
  std::int32_t detail = -1;            ///< index into Timeline::details; -1: none
  /// Layer or bucket that the operation works on, as in its simulated name; -1: the trace does not
  /// say.
  std::int32_t index = -1;

  friend bool operator==(const SpanExtra&, const SpanExtra&) = default;
};

/// A SpanExtra's number in its table.
using ExtraId = std::uint32_t;
/// A SpanExtra as it is made, in every table.
inline constexpr ExtraId kNoExtra = 0;

/// Equal ones have one number.
class SpanExtras {
 public:
  /// The number of `extra`; a new one if it was not there.
  ExtraId intern(const SpanExtra& extra);
  /// Precondition: `id` is this table's. The reference stays valid.
  [[nodiscard]] const SpanExtra& operator[](ExtraId id) const { return extras_[id]; }
  [[nodiscard]] std::size_t size() const { return extras_.size(); }

 private:
  std::deque<SpanExtra> extras_{SpanExtra{}};  // grows without a second copy
  NumberTable numbers_;
};

}  // namespace zenflow::sim
