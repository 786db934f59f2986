#include "runtime/comm/heartbeat.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace zenflow::runtime {
namespace {

constexpr std::chrono::milliseconds kTick{100};
constexpr int kTicksOfABeat = 5;
constexpr int kBeatTag = 2;
constexpr int kLives = 1;
constexpr int kLeaves = 0;

}  // namespace

Heartbeat::Heartbeat(MPI_Comm ring, double limit_seconds, RankLost lost)
    : ring_(ring),
      limit_seconds_(limit_seconds),
      limit_(std::max(2L * kTicksOfABeat, static_cast<long>(limit_seconds * 1000 / kTick.count()))),
      lost_(std::move(lost)) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(ring, &rank);
  MPI_Comm_size(ring, &size);
  before_ = (rank + size - 1) % size;
  next_ = (rank + 1) % size;
  thread_ = std::jthread([this](const std::stop_token& stop) { beat(stop); });
}

Heartbeat::~Heartbeat() {
  thread_.request_stop();
}

/// Ticks are counted instead of time: none passes while this process is suspended.
void Heartbeat::beat(const std::stop_token& stop) {
  int said = kLives;
  int heard = kLives;
  MPI_Request sent = MPI_REQUEST_NULL;
  MPI_Request coming = MPI_REQUEST_NULL;
  bool leaves = false;
  bool alone = false;
  long quiet = 0;
  for (long tick = 0; !leaves || !alone; ++tick) {
    int done = 0;
    MPI_Test(&sent, &done, MPI_STATUS_IGNORE);  // true of no request
    if (done != 0 && !leaves && (stop.stop_requested() || tick % kTicksOfABeat == 0)) {
      leaves = stop.stop_requested();
      said = leaves ? kLeaves : kLives;
      MPI_Isend(&said, 1, MPI_INT, next_, kBeatTag, ring_, &sent);
    }
    if (!alone && coming == MPI_REQUEST_NULL) {
      MPI_Irecv(&heard, 1, MPI_INT, before_, kBeatTag, ring_, &coming);
    }
    MPI_Test(&coming, &done, MPI_STATUS_IGNORE);
    if (done != 0) {
      quiet = 0;
      alone = alone || heard == kLeaves;
    } else if (++quiet == limit_) {
      lost_(before_, fmt::format("has not answered for {} s (--rank-timeout)", limit_seconds_));
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    std::this_thread::sleep_for(kTick);
  }
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
}

}  // namespace zenflow::runtime
