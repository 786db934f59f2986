/// Ranks tell rank 0 that they live, and it tells them, over connections of their own.
#pragma once

#include <mutex>
#include <thread>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/socket.h"

namespace zenflow::runtime {

class TcpHeartbeat {
 public:
  struct Peer {
    int rank = 0;
    Socket socket{};
    long quiet = 0;         ///< ticks without a word
    bool has_left = false;  ///< and said so
  };
  /// A peer that ends without a word, or says nothing for `limit_seconds` in which this process was
  /// not suspended itself, is lost.
  TcpHeartbeat(std::vector<Peer> peers, double limit_seconds, RankLost lost);
  /// Every rank does this at the same time: waits until its peers have left, too.
  ~TcpHeartbeat();
  TcpHeartbeat(const TcpHeartbeat&) = delete;
  TcpHeartbeat& operator=(const TcpHeartbeat&) = delete;

  /// Tells the others, who end with the same code and without a word.
  [[noreturn]] void end_job(int code);

 private:
  void beat(const std::stop_token& stop);
  void listen();
  void hear(Peer& peer);
  [[noreturn]] void lose(const Peer& peer, const std::string& how);
  void tell(std::span<const std::byte> words);

  std::vector<Peer> peers_;
  double limit_seconds_;
  long limit_;  // in ticks
  RankLost lost_;
  std::mutex ending_;  // held for ever by who ends the job
  std::jthread thread_;
};

}  // namespace zenflow::runtime
