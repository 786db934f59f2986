/// Ranks over TCP, where there is no MPI: torchrun, the deepspeed launcher, Slurm.
#pragma once

#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/comm/rendezvous.h"

namespace zenflow::runtime {

/// Waits until all ranks are there; in the destructor, too. Sums of the thread that trains go
/// through rank 0. With `bulk` every rank has a connection to each other one for gradients and
/// weights; without, those may not be asked for. A rank whose connection ends or which has not
/// answered for `limit_seconds` is lost. Throws Error(kRuntime) and Stopped as long as the ranks
/// have not found rank 0; one that does not meet the others then is lost.
[[nodiscard]] std::unique_ptr<Communicator> start_tcp(const MeetingPlace& place, bool bulk,
                                                      double limit_seconds, RankLost lost);

}  // namespace zenflow::runtime
