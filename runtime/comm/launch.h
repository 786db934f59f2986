/// How this process was launched, by what its launcher has put into the environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/comm/rendezvous.h"

namespace zenflow::runtime {

struct RankLaunch {
  std::string variable;  ///< that says how many ranks there are
  int ranks = 1;
  /// By mpirun, mpiexec, or srun with PMI or PMIx: MPI knows the rest; `place` is of the others.
  bool by_mpi = false;
  MeetingPlace place{};
};

/// std::getenv, or a test's.
using GetVariable = std::function<const char*(const char*)>;

/// Several ranks; nothing if it is one. In this order: Open MPI and MPICH; torchrun, the deepspeed
/// launcher and whoever sets WORLD_SIZE, RANK, MASTER_ADDR and MASTER_PORT as they do; steps of
/// Slurm's srun, where rank 0 is on the first host of the step and its port follows from the job's
/// number, unless MASTER_ADDR and MASTER_PORT say otherwise.
///
/// torchrun's agent listens on MASTER_PORT itself (TORCHELASTIC_USE_AGENT_STORE), so ranks take the
/// port after it. ZENFLOW_MASTER_PORT is preferred to all of these.
/// Throws Error(kInput) for a number that is none, and for variables that are missing.
[[nodiscard]] std::optional<RankLaunch> several_ranks(const GetVariable& get);

/// The first host that Slurm writes as "gpu[003-006,9],login1": "gpu003".
[[nodiscard]] std::string first_host(const std::string& hosts);

}  // namespace zenflow::runtime
