#include "runtime/comm/mpi_communicator.h"

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>

#include "runtime/comm/heartbeat.h"
#include "runtime/comm/message_communicator.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  text.resize(static_cast<std::size_t>(length));
  throw Error(ErrorKind::kRuntime, fmt::format("{}: {}", call, text));
}

/// Waits for a rank as late as in any step without letting the core go to sleep, which a virtual
/// machine's takes long to wake from, but, unlike MPI's own calls, leaving it to whoever can use
/// it: the CPU update, and other ranks of the machine. Later it sleeps.
/// Returns MPI's code.
int wait_for(MPI_Request request) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kYields{20};
  constexpr std::chrono::microseconds kSleep{50};
  const Clock::time_point begin = Clock::now();
  for (;;) {
    int done = 0;
    const int code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || done != 0) return code;
    if (Clock::now() - begin < kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kSleep);
    }
  }
}

void wait_for(MPI_Request request, const char* call) {
  check(wait_for(request), call);
}

class MpiCommunicator final : public MessageCommunicator {
 public:
  MpiCommunicator(int& argc, char**& argv, double limit_seconds, RankLost lost) {
    int provided = 0;
    check(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
    if (provided != MPI_THREAD_MULTIPLE) {
      MPI_Finalize();
      throw Error(ErrorKind::kRuntime,
                  "this MPI does not let several threads call it (MPI_THREAD_MULTIPLE)");
    }
    for (MPI_Comm* const one : {&control_, &bulk_, &ring_}) {
      check(MPI_Comm_dup(MPI_COMM_WORLD, one), "MPI_Comm_dup");
      check(MPI_Comm_set_errhandler(*one, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    }
    check(MPI_Comm_rank(control_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(control_, &size_), "MPI_Comm_size");
    heartbeat_.emplace(ring_, limit_seconds, std::move(lost));
  }
  ~MpiCommunicator() override {
    // A rank that is done goes on answering for the others.
    MPI_Request all_done = MPI_REQUEST_NULL;
    if (MPI_Ibarrier(control_, &all_done) == MPI_SUCCESS) wait_for(all_done);
    heartbeat_.reset();
    MPI_Comm_free(&ring_);
    MPI_Comm_free(&control_);
    MPI_Comm_free(&bulk_);
    MPI_Finalize();
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }

  void sum(std::span<double> values) override {
    const auto ranks = static_cast<std::size_t>(size_);
    std::vector<double> all(values.size() * ranks);
    const auto count = static_cast<int>(values.size());
    MPI_Request gathered = MPI_REQUEST_NULL;
    check(MPI_Iallgather(values.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, control_,
                         &gathered),
          "MPI_Iallgather");
    wait_for(gathered, "MPI_Iallgather");
    control_bytes_ += values.size_bytes() * others();
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = 0.0;
      for (std::size_t r = 0; r < ranks; ++r) values[i] += all[r * values.size() + i];
    }
  }

 protected:
  void end_others(int code) override { MPI_Abort(MPI_COMM_WORLD, code); }
  void send(Channel channel, int to, std::span<const std::byte> message) override {
    MPI_Request sent = MPI_REQUEST_NULL;
    check(MPI_Isend(message.data(), static_cast<int>(message.size()), MPI_BYTE, to, kTag,
                    communicator(channel), &sent),
          "MPI_Isend");
    wait_for(sent, "MPI_Isend");
  }
  void receive(Channel channel, int from, std::span<std::byte> message) override {
    MPI_Request received = MPI_REQUEST_NULL;
    check(MPI_Irecv(message.data(), static_cast<int>(message.size()), MPI_BYTE, from, kTag,
                    communicator(channel), &received),
          "MPI_Irecv");
    wait_for(received, "MPI_Irecv");
  }
  [[nodiscard]] bool sends_ahead() const override { return true; }
  void start_send(int to, std::span<const std::byte> message) override {
    check(MPI_Isend(message.data(), static_cast<int>(message.size()), MPI_BYTE, to, kTag, bulk_,
                    &sends_.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Isend");
  }
  void finish_sends() override {
    for (const MPI_Request sent : sends_) wait_for(sent, "MPI_Isend");
    sends_.clear();
  }
  void broadcast_on(Channel channel, std::span<const OwnedBytes> all) override {
    std::vector<MPI_Request> under_way;
    const MPI_Comm comm = communicator(channel);
    for (const OwnedBytes& one : all) {
      in_messages(one.bytes, [&](std::span<std::byte> part) {
        const auto bytes = static_cast<int>(part.size());
        if (one.owner != rank_) {
          check(MPI_Irecv(part.data(), bytes, MPI_BYTE, one.owner, kTag, comm,
                          &under_way.emplace_back(MPI_REQUEST_NULL)),
                "MPI_Irecv");
          return;
        }
        for (int r = 0; r < size_; ++r) {
          if (r == rank_) continue;
          check(MPI_Isend(part.data(), bytes, MPI_BYTE, r, kTag, comm,
                          &under_way.emplace_back(MPI_REQUEST_NULL)),
                "MPI_Isend");
        }
      });
    }
    for (const MPI_Request message : under_way) wait_for(message, "a message between ranks");
  }

 private:
  static constexpr int kTag = 1;

  [[nodiscard]] MPI_Comm communicator(Channel channel) const {
    return channel == Channel::kControl ? control_ : bulk_;
  }
  MPI_Comm control_ = MPI_COMM_NULL;
  MPI_Comm bulk_ = MPI_COMM_NULL;
  MPI_Comm ring_ = MPI_COMM_NULL;
  std::vector<MPI_Request> sends_;  // of the stream's thread
  std::optional<Heartbeat> heartbeat_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

std::unique_ptr<Communicator> start_mpi(int& argc, char**& argv, double limit_seconds,
                                        RankLost lost) {
  return std::make_unique<MpiCommunicator>(argc, argv, limit_seconds, std::move(lost));
}

}  // namespace zenflow::runtime
