#include "runtime/comm/rendezvous.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/fnv1a.h"
#include "sim/base/stop.h"

namespace zenflow::runtime {
namespace {

/// A caller says who it is within that time: nobody holds up the others.
constexpr std::chrono::seconds kHelloLimit{2};
constexpr std::chrono::milliseconds kBetweenCalls{100};
constexpr int kMostRefusals = 100;  // 10 s of them

constexpr std::array<char, 8> kProtocol = {'z', 'e', 'n', 'r', 'a', 'n', 'k', '1'};

struct Hello {
  std::array<char, 8> protocol = kProtocol;
  std::uint64_t job = 0;
  std::uint32_t ranks = 0;
  std::uint32_t rank = 0;
  Line line{};
  std::uint32_t listens = 0;
};
static_assert(sizeof(Hello) == 32);

enum class Answer : std::uint32_t { kWelcome = 1, kOtherJob, kOtherSize, kThereAlready };

const char* text_of(Answer answer) {
  switch (answer) {
    case Answer::kWelcome:
      return "welcome";
    case Answer::kOtherJob:
      return "another job listens there";
    case Answer::kOtherSize:
      return "it expects another number of ranks";
    case Answer::kThereAlready:
      return "that rank is there already";
  }
  return "it answers in another protocol";
}

Deadline limit_of(const MeetingPlace& place) {
  return Deadline::clock::now() +
         std::chrono::milliseconds(static_cast<long>(place.limit_seconds * 1000));
}

std::string list_of(const std::set<std::pair<int, Line>>& missing) {
  std::vector<int> ranks;
  for (const auto& [rank, line] : missing) ranks.push_back(rank);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  constexpr std::size_t kShown = 8;
  const std::size_t more = ranks.size() - std::min(kShown, ranks.size());
  ranks.resize(ranks.size() - more);
  return fmt::format("{}{}", fmt::join(ranks, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

Answer judge(const Hello& hello, const MeetingPlace& place,
             const std::set<std::pair<int, Line>>& expected) {
  if (hello.job != fnv1a(place.job)) return Answer::kOtherJob;
  if (hello.ranks != static_cast<std::uint32_t>(place.ranks)) return Answer::kOtherSize;
  const bool awaited = expected.count({static_cast<int>(hello.rank), hello.line}) > 0;
  return awaited ? Answer::kWelcome : Answer::kThereAlready;
}

}  // namespace

std::vector<Caller> take_calls(Listener& listener, const MeetingPlace& place,
                               std::set<std::pair<int, Line>> expected) {
  std::vector<Caller> came;
  const Deadline limit = limit_of(place);
  while (!expected.empty()) {
    throw_if_stopped();
    if (Deadline::clock::now() > limit) {
      throw Error(
          ErrorKind::kRuntime,
          fmt::format("rank {} of {} has waited {} s for rank {} to connect to port {}", place.rank,
                      place.ranks, place.limit_seconds, list_of(expected), listener.port()));
    }
    Socket socket = listener.accept();
    if (!socket.is_open()) continue;
    Hello hello;
    if (!socket.receive(bytes_of(hello), Deadline::clock::now() + kHelloLimit)) continue;
    if (hello.protocol != kProtocol) continue;
    Answer answer = judge(hello, place, expected);
    if (!socket.send(bytes_of(answer)) || answer != Answer::kWelcome) continue;
    const int rank = static_cast<int>(hello.rank);
    expected.erase({rank, hello.line});
    came.push_back({.rank = rank,
                    .line = hello.line,
                    .listens = static_cast<std::uint16_t>(hello.listens),
                    .socket = std::move(socket)});
  }
  return came;
}

Socket call(const MeetingPlace& place, int to, const std::string& address, int port, Line line,
            std::uint16_t listens) {
  const Deadline limit = limit_of(place);
  std::string why;
  int refusals = 0;  // an earlier job may still listen there for a moment
  do {
    throw_if_stopped();
    Socket socket =
        connect_to(address, port, std::min(limit, Deadline::clock::now() + kHelloLimit), why);
    Hello hello{.job = fnv1a(place.job),
                .ranks = static_cast<std::uint32_t>(place.ranks),
                .rank = static_cast<std::uint32_t>(place.rank),
                .line = line,
                .listens = listens};
    Answer answer{};
    if (socket.is_open()) {
      if (!socket.send(bytes_of(hello)) || !socket.receive(bytes_of(answer), limit)) {
        why = "it does not answer as zenflow-train does";
      } else if (answer == Answer::kWelcome) {
        return socket;
      } else {
        why = text_of(answer);
        if (++refusals == kMostRefusals) break;
      }
    }
    std::this_thread::sleep_for(kBetweenCalls);
  } while (Deadline::clock::now() < limit);
  throw Error(ErrorKind::kRuntime,
              fmt::format("rank {} of {} has not reached rank {} at {} port {}: {}", place.rank,
                          place.ranks, to, address, port, why));
}

}  // namespace zenflow::runtime
