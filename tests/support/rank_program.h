/// zenflow-train on several ranks, as a user starts it.
#pragma once

#include <string>

#include "tests/support/train_program.h"

namespace zenflow::testing {

class RankProgram : public TrainProgram {
 protected:
  /// Processes with the same arguments, or parts of a job with their own.
  [[nodiscard]] Outcome mpirun(const Arguments& job) const {
    Surroundings surroundings = around();
    // As root, on fewer cores than ranks, as tests run.
    surroundings.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                {"OMPI_MCA_hwloc_base_binding_policy", "none"}};
    return run_program(Arguments{ZENFLOW_MPIRUN} + job, surroundings);
  }
  [[nodiscard]] static Arguments ranks(int count, const Arguments& arguments) {
    return Arguments{"-np", std::to_string(count), ZENFLOW_TRAIN} + arguments;
  }
  [[nodiscard]] static Arguments short_run() {
    return basic() + Arguments{"--steps", "7", "--micro-batch-size", "1", "--update-interval", "2"};
  }
};

}  // namespace zenflow::testing
