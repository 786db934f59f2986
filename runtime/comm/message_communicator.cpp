#include "runtime/comm/message_communicator.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <vector>

#include "kernels/accumulate/accumulate.h"
#include "kernels/bf16/bf16.h"
#include "kernels/cast/cast.h"
#include "runtime/comm/socket.h"

namespace zenflow::runtime {
namespace {

constexpr int kClockMessages = 50;

double nanoseconds() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

std::span<std::byte> bytes_of_tensor(ElementType type, const OwnedTensor& tensor) {
  return {static_cast<std::byte*>(tensor.values), tensor.elements * bytes_per_element(type)};
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
  broadcast_on(Channel::kControl, std::array{OwnedBytes{owner, std::as_writable_bytes(values)}});
}

void MessageCommunicator::gather_norms(std::span<const std::size_t> first,
                                       std::span<std::byte> norms) {
  std::vector<OwnedBytes> parts;
  for (int owner = 0; owner < size(); ++owner) {
    const auto r = static_cast<std::size_t>(owner);
    parts.push_back({owner, norms.subspan(first[r], first[r + 1] - first[r])});
    if (rank() == owner) selection_bytes_ += parts.back().bytes.size() * others();
  }
  broadcast_on(Channel::kControl, parts);
}

void MessageCommunicator::broadcast_now(ElementType type, std::span<const OwnedTensor> tensors) {
  std::vector<OwnedBytes> parts;
  for (const OwnedTensor& one : tensors) {
    parts.push_back({one.owner, bytes_of_tensor(type, one)});
    if (rank() == one.owner) weight_bytes_ += parts.back().bytes.size() * others();
  }
  broadcast_on(Channel::kBulk, parts);
}

void MessageCommunicator::reduce_now(ElementType type, std::span<const OwnedTensor> tensors) {
  const bool ahead = sends_ahead();
  const auto give = [&](const OwnedTensor& one) {
    const std::span<std::byte> bytes = bytes_of_tensor(type, one);
    gradient_bytes_ += bytes.size();
    in_messages(bytes, [&](std::span<const std::byte> part) { start_send(one.owner, part); });
  };
  for (const OwnedTensor& one : tensors) {
    if (ahead && one.owner != rank()) give(one);
  }
  for (const OwnedTensor& one : tensors) {
    if (one.owner == rank()) {
      add_others(type, one);
    } else if (!ahead) {
      give(one);
    }
  }
  finish_sends();
}

void MessageCommunicator::add_others(ElementType type, const OwnedTensor& tensor) {
  if (type == ElementType::kFloat32) {
    add_others(std::span(static_cast<float*>(tensor.values), tensor.elements),
               [](std::span<const float> sums, float* to) { std::ranges::copy(sums, to); });
  } else {
    add_others(std::span(static_cast<kernels::Bf16*>(tensor.values), tensor.elements),
               [](std::span<const float> sums, kernels::Bf16* to) {
                 kernels::to_bf16(sums.data(), sums.size(), to);
               });
  }
}

template <class T, class Round>
void MessageCommunicator::add_others(std::span<T> values, const Round& round) {
  in_messages(values, [&](std::span<T> part) {
    arrived_.resize(std::max(arrived_.size(), part.size_bytes()));
    sums_.resize(std::max(sums_.size(), part.size()));
    for (int r = 0; r < size(); ++r) {
      const T* from = part.data();
      if (r != rank()) {
        receive(Channel::kBulk, r, std::span(arrived_).first(part.size_bytes()));
        from = reinterpret_cast<const T*>(arrived_.data());
      }
      constexpr float kAsItIs = 1;
      r == 0 ? kernels::accumulate_first(sums_.data(), from, kAsItIs, part.size())
             : kernels::accumulate(sums_.data(), from, kAsItIs, part.size());
    }
    round(std::span(sums_).first(part.size()), part.data());
  });
}

}  // namespace zenflow::runtime
