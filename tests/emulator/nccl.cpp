#include "tests/emulator/nccl.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "kernels/bf16/bf16.h"
#include "tests/emulator/streams.h"
#include "tests/support/mailboxes.h"

namespace {

/// Ranks that have found each other by an id.
struct Clique {
  explicit Clique(int count) : ranks(count), complete(count), boxes(count) {}

  int ranks;
  std::barrier<> complete;
  zenflow::testing::Mailboxes boxes;
};

constexpr int kInvalidArgument = 4;
constexpr int kInvalidUsage = 5;
std::atomic<int> failure = zenflow::runtime::kNcclSuccess;

}  // namespace

struct zenflow::runtime::NcclState {
  std::shared_ptr<Clique> clique;
  int rank;
};

namespace zenflow::emulator {
namespace {

using runtime::kNcclBfloat16;
using runtime::kNcclFloat32;
using runtime::kNcclSuccess;
using runtime::kNcclSum;
using runtime::kNcclUint8;
using runtime::NcclComm;
using runtime::NcclUniqueId;

int get_version(int* version) {
  *version = 22809;
  return kNcclSuccess;
}

const char* get_error_string(int status) {
  return status == kInvalidArgument ? "invalid argument" : "remote process exited";
}

const char* get_last_error(NcclComm) {
  return "";
}

int get_unique_id(NcclUniqueId* id) {
  static std::atomic<std::uint64_t> ids = 0x8000'0000'0000'0080;  // bytes of either sign
  const std::uint64_t own = ++ids;
  std::memcpy(id->bytes.data() + 64, &own, sizeof own);
  return kNcclSuccess;
}

int comm_init_rank(NcclComm* comm, int ranks, NcclUniqueId id, int rank) {
  if (rank < 0 || rank >= ranks) return kInvalidArgument;
  static std::mutex mutex;
  static std::map<std::uint64_t, std::weak_ptr<Clique>> cliques;
  std::uint64_t number = 0;
  std::memcpy(&number, id.bytes.data() + 64, sizeof number);
  std::shared_ptr<Clique> clique;
  {
    const std::lock_guard lock(mutex);
    clique = cliques[number].lock();
    if (clique == nullptr) cliques[number] = clique = std::make_shared<Clique>(ranks);
  }
  clique->complete.arrive_and_wait();
  *comm = new runtime::NcclState{clique, rank};
  return kNcclSuccess;
}

int comm_get_async_error(NcclComm, int* status) {
  *status = failure;
  return kNcclSuccess;
}

int comm_destroy(NcclComm comm) {
  delete comm;
  return kNcclSuccess;
}

std::span<const std::byte> bytes_at(const void* values, std::size_t bytes) {
  return {static_cast<const std::byte*>(values), bytes};
}

/// In rank order.
template <class T, class Add>
void reduce_at(const runtime::NcclState& comm, const void* from, void* to, std::size_t n, int root,
               const Add& add) {
  Clique& clique = *comm.clique;
  if (comm.rank != root) return clique.boxes.send(comm.rank, root, bytes_at(from, n * sizeof(T)));
  std::vector<T> sums(n);
  std::vector<T> values(n);
  for (int r = 0; r < clique.ranks; ++r) {
    const std::vector<std::byte> arrived =
        r == root ? std::vector<std::byte>() : clique.boxes.receive(r, root);
    if (n == 0) continue;
    std::memcpy(values.data(), r == root ? from : arrived.data(), n * sizeof(T));
    for (std::size_t i = 0; i < n; ++i) sums[i] = r == 0 ? values[i] : add(sums[i], values[i]);
  }
  if (n > 0) std::memcpy(to, sums.data(), n * sizeof(T));
}

/// Of the calling thread: how many groups are open, and what waits for the outermost to end.
struct Group {
  int depth = 0;
  std::vector<std::function<void()>> calls;
};
thread_local Group group;

int group_start() {
  ++group.depth;
  return kNcclSuccess;
}

int group_end() {
  if (group.depth == 0) return kInvalidUsage;
  if (--group.depth > 0) return kNcclSuccess;
  for (const std::function<void()>& call : std::exchange(group.calls, {})) call();
  return kNcclSuccess;
}

int enqueue_grouped(cudaStream_t stream, std::function<void()> work) {
  const auto call = [stream, work = std::move(work)] { static_cast<void>(enqueue(stream, work)); };
  if (group.depth > 0) {
    group.calls.emplace_back(call);
  } else {
    call();
  }
  return kNcclSuccess;
}

int reduce(const void* from, void* to, std::size_t n, int type, int operation, int root,
           NcclComm comm, cudaStream_t stream) {
  if (operation != kNcclSum) return kInvalidArgument;
  if (type == kNcclFloat32) {
    return enqueue_grouped(stream, [=, own = *comm] {
      reduce_at<float>(own, from, to, n, root, [](float a, float b) { return a + b; });
    });
  }
  if (type != kNcclBfloat16) return kInvalidArgument;
  using kernels::Bf16;
  return enqueue_grouped(stream, [=, own = *comm] {
    reduce_at<Bf16>(own, from, to, n, root, [](Bf16 a, Bf16 b) {
      return kernels::round_to_bf16(kernels::to_float(a) + kernels::to_float(b));
    });
  });
}

int broadcast(const void* from, void* to, std::size_t n, int type, int root, NcclComm comm,
              cudaStream_t stream) {
  if (type != kNcclUint8) return kInvalidArgument;
  return enqueue_grouped(stream, [=, own = *comm] {
    testing::Mailboxes& boxes = own.clique->boxes;
    if (own.rank != root) {
      const std::vector<std::byte> arrived = boxes.receive(root, own.rank);
      std::copy(arrived.begin(), arrived.end(), static_cast<std::byte*>(to));
      return;
    }
    for (int r = 0; r < own.clique->ranks; ++r) {
      if (r != root) boxes.send(root, r, bytes_at(from, n));
    }
  });
}

}  // namespace

runtime::NcclFunctions nccl_stand_in() {
  return {.get_version = get_version,
          .get_error_string = get_error_string,
          .get_last_error = get_last_error,
          .get_unique_id = get_unique_id,
          .comm_init_rank = comm_init_rank,
          .comm_get_async_error = comm_get_async_error,
          .comm_destroy = comm_destroy,
          .group_start = group_start,
          .group_end = group_end,
          .reduce = reduce,
          .broadcast = broadcast};
}

void set_nccl_failure(int status) {
  failure = status;
}

}  // namespace zenflow::emulator
