/// Ranks in a ring tell their next one that they live, so that one that only stops answering ends
/// the job like one that dies.
#pragma once

#include <thread>

#include <mpi.h>

#include "runtime/comm/communicator.h"

namespace zenflow::runtime {

class Heartbeat {
 public:
  /// `ring` is this object's alone. After `limit_seconds` without a word from the rank before,
  /// in which this process was not suspended itself, that one is lost.
  Heartbeat(MPI_Comm ring, double limit_seconds, RankLost lost);
  /// Every rank does this at the same time: waits until the rank before has, too.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  void beat(const std::stop_token& stop);

  MPI_Comm ring_;
  int before_ = 0;
  int next_ = 0;
  double limit_seconds_;
  long limit_;  // in ticks of 100 ms
  RankLost lost_;
  std::jthread thread_;
};

}  // namespace zenflow::runtime
