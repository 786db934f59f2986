/// Ranks over MPI. Written against MPI 3.1: Open MPI and MPICH.
#pragma once

#include <functional>
#include <memory>

#include "runtime/comm/communicator.h"

namespace zenflow::runtime {

/// Starts MPI for this process, which mpirun has launched, and ends it in the destructor, where all
/// ranks wait for each other. silent(rank) is called, on a thread of its own, if a rank has not
/// answered for so long. Throws Error(kRuntime) if MPI does not let several threads call it at
/// once.
[[nodiscard]] std::unique_ptr<Communicator> start_mpi(int& argc, char**& argv, double limit_seconds,
                                                      std::function<void(int rank)> silent);

/// Ends all ranks of the job, this one among them. Whoever starts the job sees `code`.
void end_mpi_job(int code);

}  // namespace zenflow::runtime
