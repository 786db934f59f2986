#include "runtime/comm/mpi_communicator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>

#include "kernels/bf16/bf16.h"
#include "runtime/comm/heartbeat.h"
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

/// Elements of a message: a few MB, so that what a sum needs besides stays small.
constexpr std::size_t kPiece = std::size_t{1} << 20;

/// Calls use(first, count) for pieces of n elements; count fits an int.
template <class Use>
void in_pieces(std::size_t n, const Use& use) {
  for (std::size_t at = 0; at < n; at += kPiece) {
    use(at, static_cast<int>(std::min(kPiece, n - at)));
  }
}

class MpiCommunicator final : public HostCommunicator {
 public:
  MpiCommunicator(int& argc, char**& argv, double limit_seconds,
                  std::function<void(int rank)> silent) {
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
    heartbeat_.emplace(ring_, limit_seconds, std::move(silent));
  }
  ~MpiCommunicator() override {
    MPI_Barrier(control_);  // a rank that is done goes on answering for the others
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
    check(MPI_Allgather(values.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, control_),
          "MPI_Allgather");
    control_bytes_ += values.size_bytes() * others();
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = 0.0;
      for (std::size_t r = 0; r < ranks; ++r) values[i] += all[r * values.size() + i];
    }
  }

  void share(int owner, std::span<float> values) override {
    if (rank_ == owner) weight_bytes_ += values.size_bytes() * others();
    in_pieces(values.size(), [&](std::size_t at, int count) {
      check(MPI_Bcast(values.data() + at, count, MPI_FLOAT, owner, control_), "MPI_Bcast");
    });
  }

  ClockOffset clock_offset() override {
    ClockOffset own;
    for (int other = 1; other < size_; ++other) {
      if (rank_ == 0) answer_with_time(other);
      if (rank_ == other) own = ask_for_time();
    }
    return own;
  }

  [[nodiscard]] RankTraffic traffic() const override {
    return {gradient_bytes_, weight_bytes_, control_bytes_};
  }

 protected:
  void broadcast_now(int owner, std::span<std::byte> bytes) override {
    if (rank_ == owner) weight_bytes_ += bytes.size() * others();
    in_pieces(bytes.size(), [&](std::size_t at, int count) {
      check(MPI_Bcast(bytes.data() + at, count, MPI_BYTE, owner, bulk_), "MPI_Bcast");
    });
  }

  void reduce_now(int owner, std::span<float> values) override {
    reduce_as(
        owner, values, MPI_FLOAT, [](float value) { return value; }, [](float sum) { return sum; });
  }
  void reduce_now(int owner, std::span<std::uint16_t> values) override {
    using kernels::Bf16;
    reduce_as(
        owner, values, MPI_UINT16_T,
        [](std::uint16_t bits) { return kernels::to_float(Bf16{bits}); },
        [](float sum) { return kernels::round_to_bf16(sum).bits; });
  }

 private:
  [[nodiscard]] std::uint64_t others() const { return static_cast<std::uint64_t>(size_ - 1); }

  static constexpr int kClockTag = 2;
  static constexpr int kClockMessages = 50;

  [[nodiscard]] static double now() {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
  }

  void answer_with_time(int rank) {
    for (int i = 0; i < kClockMessages; ++i) {
      double time = 0;
      check(MPI_Recv(&time, 1, MPI_DOUBLE, rank, kClockTag, control_, MPI_STATUS_IGNORE),
            "MPI_Recv");
      time = now();
      check(MPI_Send(&time, 1, MPI_DOUBLE, rank, kClockTag, control_), "MPI_Send");
    }
  }

  [[nodiscard]] ClockOffset ask_for_time() {
    ClockOffset best{0, std::numeric_limits<double>::infinity()};
    for (int i = 0; i < kClockMessages; ++i) {
      double answer = 0;
      const double before = now();
      check(MPI_Send(&answer, 1, MPI_DOUBLE, 0, kClockTag, control_), "MPI_Send");
      check(MPI_Recv(&answer, 1, MPI_DOUBLE, 0, kClockTag, control_, MPI_STATUS_IGNORE),
            "MPI_Recv");
      const double half = (now() - before) / 2;
      if (half < best.uncertainty) best = {before + half - answer, half};
    }
    return best;
  }

  /// The owner adds what arrives in rank order, so that sums have the same bits in every run.
  template <class T, class Read, class Round>
  void reduce_as(int owner, std::span<T> values, MPI_Datatype type, const Read& read,
                 const Round& round) {
    constexpr int kGradientTag = 1;
    if (rank_ != owner) {
      gradient_bytes_ += values.size_bytes();
      in_pieces(values.size(), [&](std::size_t at, int count) {
        check(MPI_Send(values.data() + at, count, type, owner, kGradientTag, bulk_), "MPI_Send");
      });
      return;
    }
    std::vector<T> arrived(std::min(kPiece, values.size()));
    std::vector<float> sums(arrived.size());
    in_pieces(values.size(), [&](std::size_t at, int count) {
      const auto n = static_cast<std::size_t>(count);
      for (int r = 0; r < size_; ++r) {
        const T* from = values.data() + at;
        if (r != owner) {
          check(MPI_Recv(arrived.data(), count, type, r, kGradientTag, bulk_, MPI_STATUS_IGNORE),
                "MPI_Recv");
          from = arrived.data();
        }
        for (std::size_t i = 0; i < n; ++i) {
          sums[i] = r == 0 ? read(from[i]) : sums[i] + read(from[i]);
        }
      }
      for (std::size_t i = 0; i < n; ++i) values[at + i] = round(sums[i]);
    });
  }

  MPI_Comm control_ = MPI_COMM_NULL;
  MPI_Comm bulk_ = MPI_COMM_NULL;
  MPI_Comm ring_ = MPI_COMM_NULL;
  std::optional<Heartbeat> heartbeat_;
  int rank_ = 0;
  int size_ = 1;
  std::atomic<std::uint64_t> gradient_bytes_ = 0;
  std::atomic<std::uint64_t> weight_bytes_ = 0;
  std::atomic<std::uint64_t> control_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> start_mpi(int& argc, char**& argv, double limit_seconds,
                                        std::function<void(int rank)> silent) {
  return std::make_unique<MpiCommunicator>(argc, argv, limit_seconds, std::move(silent));
}

void end_mpi_job(int code) {
  MPI_Abort(MPI_COMM_WORLD, code);
}

}  // namespace zenflow::runtime
