/// How this process was launched, by what its launcher has put into the environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace zenflow::runtime {

struct RankLaunch {
  std::string variable;  ///< that says how many ranks there are
  int ranks = 1;
  bool by_mpi = false;  ///< mpirun, mpiexec, or srun with PMI or PMIx
};

/// Several ranks; nothing if it is one. Of Open MPI and MPICH, then torchrun and the deepspeed
/// launcher, then Slurm's steps. `get` is std::getenv. Throws Error(kInput) for a number that is
/// none.
[[nodiscard]] std::optional<RankLaunch> several_ranks(
    const std::function<const char*(const char*)>& get);

}  // namespace zenflow::runtime
