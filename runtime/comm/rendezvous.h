/// How ranks that know rank 0's address find each other, over TCP.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/comm/socket.h"

namespace zenflow::runtime {

/// Where rank 0 listens, and who meets there.
struct MeetingPlace {
  std::string address;  ///< of rank 0's machine
  int port = 0;
  std::string job;  ///< what all ranks of a job have in common, and other jobs have not
  int rank = 0;
  int ranks = 1;
  double limit_seconds = 120;  ///< for all to come
};

/// What a connection between two ranks is for.
enum class Line : std::uint32_t { kControl, kBeat, kBulk };

struct Caller {
  int rank = 0;
  Line line{};
  std::uint16_t listens = 0;  ///< a port of the caller's own; 0: none
  Socket socket{};
};

/// Takes those calls that are expected, until all have come. Who calls in another protocol is hung
/// up on, who belongs to another job is told so. Throws Error(kRuntime) at the limit, with the
/// ranks that are missing; Stopped if the user ends the program.
[[nodiscard]] std::vector<Caller> take_calls(Listener& listener, const MeetingPlace& place,
                                             std::set<std::pair<int, Line>> expected);

/// Calls `to`, which may not listen yet, at this address until it answers. Throws Error(kRuntime)
/// at the limit, with the reason; Stopped.
[[nodiscard]] Socket call(const MeetingPlace& place, int to, const std::string& address, int port,
                          Line line, std::uint16_t listens);

}  // namespace zenflow::runtime
