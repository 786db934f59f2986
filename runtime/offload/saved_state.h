/// What a checkpoint has of the engine besides arrays of numbers, and what all of it may be.
///
/// A file's checksum says that it is as it was written, not by whom: every counter is held against
/// what a run between two steps can have, here, before anything is counted or sized by it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/offload/settings.h"

namespace zenflow::runtime {

/// No run does more; a double counts them exactly.
constexpr std::int64_t kMostSteps = std::int64_t{1} << 53U;

/// Throws Error(kInput) "checkpoint: NAME: expected a number from LEAST to MOST, found FOUND" if it
/// is not that. Precondition: least <= most.
void check_saved(std::string_view name, std::int64_t found, std::int64_t least, std::int64_t most);

/// The engine's counters, as they stand between two steps. Numbers only, no padding.
struct SavedCounters {
  std::int64_t step;
  std::int64_t window_first_step;
  std::int64_t window_steps;
  std::int64_t windows;
  std::int64_t update_interval;
  std::int64_t last_selection;
  std::int64_t parity;
  std::int64_t selected_done;
  std::int64_t warm_up;
  std::int64_t pending_first_step;
  std::int64_t pending_last_step;
  std::int64_t elements;           // of all ranks
  std::int64_t selected_elements;  // likewise
  std::int64_t element_bytes;
  std::int64_t overlap_step;
  std::int64_t accumulate_on_device;
};

/// Of those that a run decides; the last five are compared with what is here by whoever knows it.
/// Throws as check_saved.
void check_saved(const SavedCounters& counters, const OffloadSettings& settings);

/// How often columns have been updated: in no step twice.
void check_saved_updates(std::string_view name, std::span<const std::uint32_t> updates,
                         std::int64_t steps);

}  // namespace zenflow::runtime
