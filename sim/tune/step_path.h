/// The longest path through one micro step as DeepSpeed's ZeRO optimizers with CPU offload run it
/// (sim/schedule/deepspeed_step.h), every task alone on its lane and link.
#pragma once

#include <array>
#include <vector>

#include "sim/schedule/deepspeed_step.h"
#include "sim/schedule/step_plan.h"

namespace zenflow::sim {

/// What one step is made of; times in picoseconds.
struct StepParts {
  std::vector<double> forward;   ///< by layer
  std::vector<double> backward;  ///< by layer
  std::vector<double> reduce;    ///< by bucket: its collective; 0 for one rank
  std::vector<double> gather;    ///< by layer: stage 3's all-gather; 0 where there is none
  std::vector<int> ready_layer;  ///< by bucket
  std::vector<double> sum_up;    ///< by bucket: the running sum, one copy of it
  std::vector<double> sum_down;
  std::vector<double> fp32_down;
  std::vector<double> fp32_down_pageable;
  bool ranks = false;  ///< more than one
  bool stage3 = false;
  bool overlap = false;
  bool stops_for_fp32 = false;
};

struct StepPath {
  double compute = 0;  ///< until the last backward ends
  double drained = 0;  ///< until the reduction stream is empty, too
};

[[nodiscard]] StepPath step_path(const StepParts& parts, StepPlace which, bool pageable_fp32);

}  // namespace zenflow::sim
