#include "runtime/comm/tcp_communicator.h"

#include <array>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runtime/comm/message_communicator.h"
#include "runtime/comm/tcp_heartbeat.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

/// Where a rank listens for those behind it.
struct Door {
  std::array<char, 62> address{};  // numeric, so that all of it fits
  std::uint16_t port = 0;
};

class TcpCommunicator final : public MessageCommunicator {
 public:
  TcpCommunicator(const MeetingPlace& place, bool bulk, double limit_seconds, RankLost lost)
      : place_(place), control_(ranks()), bulk_(bulk ? ranks() : 0) {
    // From when rank 0 is found the ranks hear if one ends, also while they meet the others.
    const auto beat = [&](std::vector<TcpHeartbeat::Peer> peers) {
      heartbeat_.emplace(std::move(peers), limit_seconds, std::move(lost));
    };
    if (place.rank == 0) {
      beat(wait_for_others(bulk));
      return;
    }
    if (bulk) listener_.emplace(0, is_local_address(place_.address) ? place_.address : "");
    beat(find_rank_0(listener_));
  }
  /// Once, with `bulk`: lines between all ranks. What it throws ends the job (end_job): the
  /// heartbeat goes on until the others have left.
  void meet() {
    if (rank() != 0) return meet_the_others(*listener_);
    for (int r = 1; r < size(); ++r) {
      send(Channel::kControl, r, std::as_writable_bytes(std::span(doors_)));
    }
  }
  ~TcpCommunicator() override {
    std::array<double, 1> none = {0};
    try {
      sum(none);  // a rank that is done goes on answering for the others
    } catch (const Error&) {
      // Somebody is gone, which the heartbeat says as long as it beats.
    }
    heartbeat_.reset();
  }
  TcpCommunicator(const TcpCommunicator&) = delete;
  TcpCommunicator& operator=(const TcpCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return place_.rank; }
  [[nodiscard]] int size() const override { return place_.ranks; }

  void sum(std::span<double> values) override {
    const std::span<std::byte> bytes = std::as_writable_bytes(values);
    if (rank() != 0) {
      send(Channel::kControl, 0, bytes);
      receive(Channel::kControl, 0, bytes);
      control_bytes_ += bytes.size();
      return;
    }
    std::vector<double> theirs(values.size());
    for (int r = 1; r < size(); ++r) {
      receive(Channel::kControl, r, std::as_writable_bytes(std::span(theirs)));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += theirs[i];
    }
    for (int r = 1; r < size(); ++r) send(Channel::kControl, r, bytes);
    control_bytes_ += bytes.size() * others();
  }

 protected:
  void end_others(int code) override { heartbeat_->end_job(code); }
  void send(Channel channel, int to, std::span<const std::byte> message) override {
    if (!socket(channel, to).send(message)) lose(to);
  }
  void receive(Channel channel, int from, std::span<std::byte> message) override {
    if (!socket(channel, from).receive(message)) lose(from);
  }
  void broadcast_on(Channel channel, std::span<const OwnedBytes> all) override {
    for (const OwnedBytes& one : all) {
      in_messages(one.bytes, [&](std::span<std::byte> part) {
        if (channel == Channel::kControl && one.owner != 0) {
          pass_through_rank_0(one.owner, part);
        } else if (rank() != one.owner) {
          receive(channel, one.owner, part);
        } else {
          send_to_others(channel, one.owner, part);
        }
      });
    }
  }

 private:
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(place_.ranks); }
  [[nodiscard]] Socket& socket(Channel channel, int rank) {
    std::vector<Socket>& all = channel == Channel::kControl ? control_ : bulk_;
    return all.at(static_cast<std::size_t>(rank));
  }
  void send_to_others(Channel channel, int owner, std::span<const std::byte> part) {
    for (int r = 0; r < size(); ++r) {
      if (r != owner && r != rank()) send(channel, r, part);
    }
  }
  /// Other ranks have no line to each other for control.
  void pass_through_rank_0(int owner, std::span<std::byte> part) {
    if (rank() == owner) return send(Channel::kControl, 0, part);
    receive(Channel::kControl, rank() == 0 ? owner : 0, part);
    if (rank() == 0) send_to_others(Channel::kControl, owner, part);
  }
  /// Not before the heartbeat could hear why, and end this process like the others.
  [[noreturn]] static void lose(int rank) {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    throw Error(ErrorKind::kRuntime, fmt::format("rank {} has closed its connection", rank));
  }

  std::vector<TcpHeartbeat::Peer> wait_for_others(bool bulk) {
    Listener listener(place_.port, is_local_address(place_.address) ? place_.address : "");
    std::set<std::pair<int, Line>> expected;
    for (int r = 1; r < size(); ++r) {
      expected.insert({r, Line::kControl});
      expected.insert({r, Line::kBeat});
      if (bulk) expected.insert({r, Line::kBulk});
    }
    std::vector<TcpHeartbeat::Peer> beats;
    doors_.resize(ranks());
    for (Caller& caller : take_calls(listener, place_, std::move(expected))) {
      const auto r = static_cast<std::size_t>(caller.rank);
      if (caller.line == Line::kBeat) {
        beats.push_back({.rank = caller.rank, .socket = std::move(caller.socket)});
      } else if (caller.line == Line::kControl) {
        // Beside rank 0 by a name that means this machine alone: others reach it as they reach rank
        // 0.
        std::string address = caller.socket.peer_address();
        if (is_local_address(address)) address = place_.address;
        address.copy(doors_[r].address.data(), doors_[r].address.size() - 1);
        doors_[r].port = caller.listens;
        control_[r] = std::move(caller.socket);
      } else {
        bulk_[r] = std::move(caller.socket);
      }
    }
    return beats;
  }

  std::vector<TcpHeartbeat::Peer> find_rank_0(const std::optional<Listener>& listener) {
    const auto listens = static_cast<std::uint16_t>(listener ? listener->port() : 0);
    const auto call_0 = [&](Line line) {
      return call(place_, 0, place_.address, place_.port, line, listens);
    };
    control_[0] = call_0(Line::kControl);
    std::vector<TcpHeartbeat::Peer> beats;
    beats.push_back({.rank = 0, .socket = call_0(Line::kBeat)});
    if (listener) bulk_[0] = call_0(Line::kBulk);
    return beats;
  }

  /// Calls those before it, except rank 0, and is called by those behind it.
  void meet_the_others(Listener& listener) {
    doors_.resize(ranks());
    receive(Channel::kControl, 0, std::as_writable_bytes(std::span(doors_)));
    for (int r = 1; r < rank(); ++r) {
      Door& door = doors_[static_cast<std::size_t>(r)];
      door.address.back() = '\0';
      bulk_[static_cast<std::size_t>(r)] =
          call(place_, r, door.address.data(), door.port, Line::kBulk, 0);
    }
    std::set<std::pair<int, Line>> expected;
    for (int r = rank() + 1; r < size(); ++r) expected.insert({r, Line::kBulk});
    for (Caller& caller : take_calls(listener, place_, std::move(expected))) {
      bulk_[static_cast<std::size_t>(caller.rank)] = std::move(caller.socket);
    }
  }

  MeetingPlace place_;
  std::vector<Socket> control_;  // of rank 0 to all, of others to rank 0
  std::vector<Socket> bulk_;
  std::vector<Door> doors_;  // of all ranks, while they meet
  std::optional<Listener> listener_;
  std::optional<TcpHeartbeat> heartbeat_;
};

}  // namespace

std::unique_ptr<Communicator> start_tcp(const MeetingPlace& place, bool bulk, double limit_seconds,
                                        RankLost lost) {
  auto made = std::make_unique<TcpCommunicator>(place, bulk, limit_seconds, lost);
  if (!bulk) return made;
  try {
    made->meet();
  } catch (const Error& error) {  // the others are there already, and wait
    lost(place.rank, fmt::format("does not meet the others: {}", error.what()));
    made->end_job(static_cast<int>(error.kind()));
  }
  return made;
}

}  // namespace zenflow::runtime
