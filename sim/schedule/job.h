/// A scenario with its DeepSpeed configuration read and checked: what schedules build from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/config/scenario.h"
#include "sim/deepspeed/ds_config.h"

namespace zenflow::sim {

struct Job {
  Scenario scenario;
  DeepSpeedConfig deepspeed;

  [[nodiscard]] double partition() const {  ///< parameters of one rank, P / N
    return static_cast<double>(scenario.model.parameters()) / static_cast<double>(scenario.ranks());
  }
};

/// Reads the scenario's DeepSpeed document and checks it against the scenario.
/// Throws Error(kInput), located, if micro-batch, precision or batch equation contradict.
[[nodiscard]] Job make_job(Scenario scenario);

}  // namespace zenflow::sim
