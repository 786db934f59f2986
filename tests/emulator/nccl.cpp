#include "tests/emulator/nccl.h"

#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/bf16/bf16.h"
#include "tests/emulator/streams.h"

namespace {

/// Ranks that have found each other by an id.
struct Clique {
  explicit Clique(int ranks) : barrier(ranks), offered(static_cast<std::size_t>(ranks)) {}

  /// Shows the others `values` while `use` runs.
  template <class Use>
  void meet(int rank, const void* values, const Use& use) {
    offered[static_cast<std::size_t>(rank)] = values;
    barrier.arrive_and_wait();
    use();
    barrier.arrive_and_wait();
  }

  std::barrier<> barrier;
  std::vector<const void*> offered;
};

constexpr int kInvalidArgument = 4;
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
  clique->meet(rank, nullptr, [] {});
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

template <class T, class Add>
std::vector<T> sum_of(const Clique& clique, std::size_t n, const Add& add) {
  const T* const first = static_cast<const T*>(clique.offered.front());
  std::vector<T> sums(first, first + n);
  for (std::size_t r = 1; r < clique.offered.size(); ++r) {
    const T* const values = static_cast<const T*>(clique.offered[r]);
    for (std::size_t i = 0; i < n; ++i) sums[i] = add(sums[i], values[i]);
  }
  return sums;
}

template <class T, class Add>
void reduce_at(const runtime::NcclState& comm, const void* from, void* to, std::size_t n, int root,
               const Add& add) {
  std::vector<T> sums;
  comm.clique->meet(comm.rank, from, [&] {
    if (comm.rank == root) sums = sum_of<T>(*comm.clique, n, add);
  });
  if (n > 0 && comm.rank == root) std::memcpy(to, sums.data(), n * sizeof(T));
}

int reduce(const void* from, void* to, std::size_t n, int type, int operation, int root,
           NcclComm comm, cudaStream_t stream) {
  if (operation != kNcclSum) return kInvalidArgument;
  if (type == kNcclFloat32) {
    static_cast<void>(enqueue(stream, [=, own = *comm] {
      reduce_at<float>(own, from, to, n, root, [](float a, float b) { return a + b; });
    }));
    return kNcclSuccess;
  }
  if (type != kNcclBfloat16) return kInvalidArgument;
  using kernels::Bf16;
  static_cast<void>(enqueue(stream, [=, own = *comm] {
    reduce_at<Bf16>(own, from, to, n, root, [](Bf16 a, Bf16 b) {
      return kernels::round_to_bf16(kernels::to_float(a) + kernels::to_float(b));
    });
  }));
  return kNcclSuccess;
}

int broadcast(const void* from, void* to, std::size_t n, int type, int root, NcclComm comm,
              cudaStream_t stream) {
  if (type != kNcclUint8) return kInvalidArgument;
  static_cast<void>(enqueue(stream, [=, own = *comm] {
    own.clique->meet(own.rank, from, [&] {
      if (own.rank == root || n == 0) return;
      std::memcpy(to, own.clique->offered[static_cast<std::size_t>(root)], n);
    });
  }));
  return kNcclSuccess;
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
          .reduce = reduce,
          .broadcast = broadcast};
}

void set_nccl_failure(int status) {
  failure = status;
}

}  // namespace zenflow::emulator
