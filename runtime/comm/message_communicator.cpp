#include "runtime/comm/message_communicator.h"

#include <chrono>
#include <limits>
#include <vector>

#include "kernels/bf16/bf16.h"
#include "runtime/comm/socket.h"

namespace zenflow::runtime {
namespace {

constexpr int kClockMessages = 50;

double nanoseconds() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

}  // namespace

ClockOffset MessageCommunicator::clock_offset() {
  ClockOffset own;
  for (int other = 1; other < size(); ++other) {
    if (rank() == 0) answer_with_time(other);
    if (rank() == other) own = ask_for_time();
  }
  return own;
}

void MessageCommunicator::answer_with_time(int rank) {
  for (int i = 0; i < kClockMessages; ++i) {
    double time = 0;
    receive(Channel::kControl, rank, bytes_of(time));
    time = nanoseconds();
    send(Channel::kControl, rank, bytes_of(time));
  }
}

ClockOffset MessageCommunicator::ask_for_time() {
  ClockOffset best{0, std::numeric_limits<double>::infinity()};
  for (int i = 0; i < kClockMessages; ++i) {
    double answer = 0;
    const double before = nanoseconds();
    send(Channel::kControl, 0, bytes_of(answer));
    receive(Channel::kControl, 0, bytes_of(answer));
    const double half = (nanoseconds() - before) / 2;
    if (half < best.uncertainty) best = {before + half - answer, half};
  }
  return best;
}

void MessageCommunicator::share(int owner, std::span<float> values) {
  if (rank() == owner) weight_bytes_ += values.size_bytes() * others();
  broadcast_on(Channel::kControl, owner, std::as_writable_bytes(values));
}

void MessageCommunicator::gather_norms(std::span<const std::size_t> first,
                                       std::span<std::byte> norms) {
  for (int owner = 0; owner < size(); ++owner) {
    const auto r = static_cast<std::size_t>(owner);
    const std::span<std::byte> part = norms.subspan(first[r], first[r + 1] - first[r]);
    if (rank() == owner) selection_bytes_ += part.size() * others();
    broadcast_on(Channel::kControl, owner, part);
  }
}

void MessageCommunicator::broadcast_now(int owner, std::span<std::byte> bytes) {
  if (rank() == owner) weight_bytes_ += bytes.size() * others();
  broadcast_on(Channel::kBulk, owner, bytes);
}

void MessageCommunicator::reduce_now(int owner, std::span<float> values) {
  reduce_as(
      owner, values, [](float value) { return value; }, [](float sum) { return sum; });
}

void MessageCommunicator::reduce_now(int owner, std::span<std::uint16_t> bf16) {
  using kernels::Bf16;
  reduce_as(
      owner, bf16, [](std::uint16_t bits) { return kernels::to_float(Bf16{bits}); },
      [](float sum) { return kernels::round_to_bf16(sum).bits; });
}

template <class T, class Read, class Round>
void MessageCommunicator::reduce_as(int owner, std::span<T> values, const Read& read,
                                    const Round& round) {
  if (rank() != owner) {
    gradient_bytes_ += values.size_bytes();
    in_messages(values,
                [&](std::span<const T> part) { send(Channel::kBulk, owner, std::as_bytes(part)); });
    return;
  }
  std::vector<T> arrived(std::min(kMessageBytes / sizeof(T), values.size()));
  std::vector<float> sums(arrived.size());
  in_messages(values, [&](std::span<T> part) {
    for (int r = 0; r < size(); ++r) {
      const T* from = part.data();
      if (r != owner) {
        receive(Channel::kBulk, r, std::as_writable_bytes(std::span(arrived).first(part.size())));
        from = arrived.data();
      }
      for (std::size_t i = 0; i < part.size(); ++i) {
        sums[i] = r == 0 ? read(from[i]) : sums[i] + read(from[i]);
      }
    }
    for (std::size_t i = 0; i < part.size(); ++i) part[i] = round(sums[i]);
  });
}

}  // namespace zenflow::runtime
