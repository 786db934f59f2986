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
  std::vector<double> forward;       ///< by layer
  std::vector<double> backward;      ///< by layer
  std::vector<double> reduce;        ///< by bucket: its collective; 0 for one rank
  std::vector<double> gather;        ///< by layer: stage 3's all-gather; 0 where there is none
  std::vector<double> gather_again;  ///< for backward: not of layers that are still there
  std::vector<double> fetch;     ///< by layer: a rank's part H2D before it; 0 without offload_param
  std::vector<int> ready_layer;  ///< by bucket
  std::vector<double> sum_up;    ///< by bucket: the running sum, one copy of it
  std::vector<double> sum_down;
  std::vector<double> gradients;  ///< by bucket: of a rank, whose optimizer is offloaded
  /// How long the training thread enqueues what one of them needs, by number_of and bucket.
  std::array<std::vector<double>, 4> enqueue{};
  std::vector<double> check;  ///< by bucket: compute before its gradients go down at an update
  std::vector<double> fp32_down;
  std::vector<double> fp32_down_pageable;
  bool ranks = false;  ///< more than one
  bool stage3 = false;
  bool overlap = false;
  bool stops_for_fp32 = false;
  bool pinned = true;  ///< pin_memory
  /// Stage 3: of a step's first layers, so many may have been fetched in the step before.
  std::size_t fetched_before = 2;

  [[nodiscard]] static std::size_t number_of(StepPlace which) {
    return (which.first ? 1U : 0U) + (which.boundary ? 2U : 0U);
  }
};

/// Until `until`, picoseconds after the step begins, its tasks have at most this share of their
/// speed: a worker is there, who shares cores or memory with them.
struct Slowdown {
  double until = 0;
  double compute = 1;
  double d2h = 1;  ///< of copies from or to page-locked memory; others share no link
  double h2d = 1;

  [[nodiscard]] Slowdown after(double time) const { return {until - time, compute, d2h, h2d}; }
};
/// Until when a task lasts that would take `time` alone. A later start never ends earlier.
[[nodiscard]] double end_of(double start, double time, double share, double until);

/// Picoseconds until the step's reduction stream is empty and its last backward has ended.
[[nodiscard]] double step_path(const StepParts& parts, StepPlace which, bool pageable_fp32,
                               const Slowdown& slowdown = {});

}  // namespace zenflow::sim
