/// What is known of how ZenFlow's delays and its share of columns change what is learnt: measured
/// by this project, on its own runs, and on nobody else's.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/tune/setting.h"

namespace zenflow::sim {

/// ZenFlow as published: update_interval 4, overlapped, 2 S - 1 steps late at most. What is later
/// is proposed to those who ask for it.
inline constexpr std::int64_t kPublishedInterval = 4;
[[nodiscard]] constexpr std::int64_t staleness_of_interval(std::int64_t interval) {
  return 2 * interval - 1;
}
inline constexpr std::int64_t kPublishedStaleness = staleness_of_interval(kPublishedInterval);

/// Validation loss over that of synchronous AdamW, in per cent of it, mean of three seeds.
struct MeasuredLoss {
  double topk_ratio;
  std::string_view interval;  ///< "4", "3 to 5"
  std::string_view scaling;   ///< zenflow-train's --deferred-scaling; "none" is DeepSpeed's rule
  std::string_view task;
  double excess;
};
/// Source: docs/training.md, "What it learns", of 2026-11-27; with intervals that change, of
/// 2026-11-20.
inline constexpr std::array<MeasuredLoss, 8> kMeasuredLosses{{
    {0.1, "4", "none", "text", 3.88},
    {0.1, "4", "sqrt", "text", 0.87},
    {0.1, "4", "0.75", "text", -0.56},
    {0.1, "3 to 5", "sqrt", "text", 0.73},
    {0.1, "4", "none", "sentences", 1.08},
    {0.1, "4", "sqrt", "sentences", 0.26},
    {0.1, "4", "0.75", "sentences", -0.08},
    {0.1, "3 to 5", "sqrt", "sentences", 0.93},
}};
inline constexpr std::string_view kMeasuredWhere =
    "400 steps of fine-tuning a byte-level Llama of 3 million parameters on the host, three seeds "
    "(docs/training.md)";
/// From random weights, of the prototype in the same place, per cent: with none and with 0.75, the
/// lesser of two learning rates each.
inline constexpr double kExcessFromScratch = 18.0;
inline constexpr double kScaledExcessFromScratch = 34.9;

/// Whether the setting is what was measured: of this share of columns and this interval.
[[nodiscard]] bool is_measured(const Setting& setting);

}  // namespace zenflow::sim
