/// Rotary position embedding in Hugging Face's layout: column c of a head turns with column
/// c + head_dim / 2.
///
/// Angles are computed in fp32 as Hugging Face computes them (position times inverse frequency,
/// both fp32): weights were trained with that rounding. Sources: Su et al. 2021, section 3.2;
/// scaling "llama3" as Meta's Llama 3.1 release describes it; "yarn" Peng et al. 2023, section 3;
/// "longrope" Ding et al. 2024, as Microsoft's Phi-3 has it.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/model/numerics.h"
#include "runtime/model_config/transformer_config.h"

namespace zenflow::runtime {

/// [columns / 2] inverse frequencies, in radians per position, for the `columns` of a head that
/// turn and sequences of at most `positions` tokens.
[[nodiscard]] std::vector<float> rotary_frequencies(const RotarySettings& settings,
                                                    std::int64_t columns, std::int64_t positions);

class RotaryTable {
 public:
  RotaryTable() = default;
  RotaryTable(const RotarySettings& settings, std::int64_t columns, std::int64_t positions,
              ElementType type);

  /// [positions, columns / 2] each, rounded to the element type.
  [[nodiscard]] const std::vector<float>& cosines() const { return cosines_; }
  [[nodiscard]] const std::vector<float>& sines() const { return sines_; }

 private:
  std::vector<float> cosines_;  // [positions, columns / 2]
  std::vector<float> sines_;
};

}  // namespace zenflow::runtime
