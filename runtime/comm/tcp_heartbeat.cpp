#include "runtime/comm/tcp_heartbeat.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

namespace zenflow::runtime {
namespace {

constexpr int kTickMilliseconds = 100;
constexpr int kTicksOfABeat = 5;

// Words, a byte each; kEnds is followed by the exit code.
constexpr std::byte kLives{'B'};
constexpr std::byte kLeaves{'L'};
constexpr std::byte kEnds{'E'};

}  // namespace

TcpHeartbeat::TcpHeartbeat(std::vector<Peer> peers, double limit_seconds, RankLost lost)
    : peers_(std::move(peers)),
      limit_seconds_(limit_seconds),
      limit_(std::max(2L * kTicksOfABeat,
                      static_cast<long>(limit_seconds * 1000 / kTickMilliseconds))),
      lost_(std::move(lost)) {
  thread_ = std::jthread([this](const std::stop_token& stop) { beat(stop); });
}

TcpHeartbeat::~TcpHeartbeat() {
  thread_.request_stop();
}

/// Ticks are counted instead of time: none passes while this process is suspended.
void TcpHeartbeat::beat(const std::stop_token& stop) {
  bool leaves = false;
  const auto all_have_left = [this] {
    return std::all_of(peers_.begin(), peers_.end(), [](const Peer& one) { return one.has_left; });
  };
  for (long tick = 0; !leaves || !all_have_left(); ++tick) {
    if (!leaves && stop.stop_requested()) {
      leaves = true;
      tell(std::array{kLeaves});
    } else if (!leaves && tick % kTicksOfABeat == 0) {
      tell(std::array{kLives});
    }
    listen();
    for (Peer& peer : peers_) {
      if (peer.has_left) continue;
      if (++peer.quiet == limit_) {
        lose(peer, fmt::format("has not answered for {} s (--rank-timeout)", limit_seconds_));
      }
    }
  }
}

/// For a tick, whatever is said.
void TcpHeartbeat::listen() {
  std::vector<pollfd> lines;
  for (const Peer& peer : peers_) {
    lines.push_back(
        {.fd = peer.has_left ? -1 : peer.socket.descriptor(), .events = POLLIN, .revents = 0});
  }
  const auto start = std::chrono::steady_clock::now();
  if (poll(lines.data(), lines.size(), kTickMilliseconds) > 0) {
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].revents != 0) hear(peers_[i]);
    }
  }
  std::this_thread::sleep_until(start + std::chrono::milliseconds(kTickMilliseconds));
}

void TcpHeartbeat::hear(Peer& peer) {
  std::array<std::byte, 64> words{};
  const ssize_t count = recv(peer.socket.descriptor(), words.data(), words.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  peer.quiet = 0;
  for (std::size_t i = 0; count > 0 && i < static_cast<std::size_t>(count); ++i) {
    if (words[i] == kLeaves) peer.has_left = true;
    if (words[i] == kEnds) {
      const bool has_code = i + 1 < static_cast<std::size_t>(count);
      const int code = has_code ? std::to_integer<int>(words[i + 1]) : EXIT_FAILURE;
      end_job(code == 0 ? EXIT_FAILURE : code);  // nobody ends the others well
    }
  }
  if (count <= 0 && !peer.has_left) lose(peer, "has ended unexpectedly");
}

void TcpHeartbeat::lose(const Peer& peer, const std::string& how) {
  lost_(peer.rank, how);
  end_job(EXIT_FAILURE);
}

/// By any thread. Who does not take it has left or is about to be lost.
void TcpHeartbeat::tell(std::span<const std::byte> words) {
  for (const Peer& peer : peers_) {
    static_cast<void>(
        send(peer.socket.descriptor(), words.data(), words.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  }
}

void TcpHeartbeat::end_job(int code) {
  ending_.lock();
  tell(std::array{kEnds, static_cast<std::byte>(code)});
  std::_Exit(code);
}

}  // namespace zenflow::runtime
