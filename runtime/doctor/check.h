/// What is right, missing, wrong or slow on a machine, from its facts alone: no file is read and
/// nothing is asked here, so that every bad situation can be tested.
#pragma once

#include <string>
#include <vector>

#include "runtime/machine/machine_facts.h"

namespace zenflow::runtime {

enum class CheckStatus {
  kOk,
  kWarn,     ///< works, but slowly or not everything
  kFail,     ///< what was asked for does not work, or will fail
  kUnknown,  ///< the system does not say, or the question does not arise here
};
[[nodiscard]] const char* to_string(CheckStatus status);

/// One answer. `expected` and `advice` are empty where there is nothing to do.
struct Check {
  std::string id;  ///< "gpu-driver"; one GPU's: "gpu-link 0000:3b:00.0"
  CheckStatus status = CheckStatus::kUnknown;
  std::string found;
  std::string expected{};
  std::string advice{};
};

/// Whether a GPU has to be there: without one everything runs on the CPU, so its absence is a
/// warning unless it was asked for.
enum class GpuNeed { kOptional, kRequired };

[[nodiscard]] std::vector<Check> check_gpu(const MachineFacts& facts, GpuNeed need);
[[nodiscard]] std::vector<Check> check_memory(const MachineFacts& facts);
[[nodiscard]] std::vector<Check> check_processors(const MachineFacts& facts);

/// All of the above, GPU first.
[[nodiscard]] std::vector<Check> check_machine(const MachineFacts& facts, GpuNeed need);

}  // namespace zenflow::runtime
