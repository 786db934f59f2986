/// zenflow-train on several ranks, as a user starts it.
#pragma once

#include <string>

#include "tests/support/sanitizers.h"
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
#if defined(ZENFLOW_THREAD_SANITIZER)
    // Debian's Open MPI is compiled without: how its threads, which move messages for whoever
    // waits, wait for each other is not seen, and its locks are taken in both orders while it
    // starts. A process that ends the job trains on while it sleeps for reports that are on their
    // way.
    surroundings.environment["TSAN_OPTIONS"] =
        "ignore_noninstrumented_modules=1:detect_deadlocks=0:atexit_sleep_ms=0";
#endif
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
