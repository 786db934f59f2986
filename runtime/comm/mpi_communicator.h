/// Ranks over MPI. Written against MPI 3.1: Open MPI and MPICH.
#pragma once

#include <memory>

#include "runtime/comm/communicator.h"

namespace zenflow::runtime {

/// Starts MPI for this process, which mpirun has launched, and ends it in the destructor, where all
/// ranks wait for each other. A rank that has not answered for so long is lost. Throws
/// Error(kRuntime) if MPI does not let several threads call it at once.
[[nodiscard]] std::unique_ptr<Communicator> start_mpi(int& argc, char**& argv, double limit_seconds,
                                                      RankLost lost);

}  // namespace zenflow::runtime
