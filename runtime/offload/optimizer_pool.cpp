#include "runtime/offload/optimizer_pool.h"

#include <future>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <hwloc.h>

#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
struct BitmapDeleter {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, TopologyDeleter>;
using Bitmap = std::unique_ptr<std::remove_pointer_t<hwloc_bitmap_t>, BitmapDeleter>;

}  // namespace

void bind_this_thread(int core) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw Error(ErrorKind::kRuntime, "hwloc: cannot start");
  const Topology topology(raw);
  if (hwloc_topology_load(raw) != 0) {
    throw Error(ErrorKind::kRuntime, "hwloc: cannot read this machine's topology");
  }
  // The topology holds what this process may use.
  if (core < 0 || hwloc_get_pu_obj_by_os_index(raw, static_cast<unsigned>(core)) == nullptr) {
    throw Error(ErrorKind::kInput,
                fmt::format("optimizer core {}: no such CPU, or not this process's to use", core));
  }
  const Bitmap set(hwloc_bitmap_alloc());
  hwloc_bitmap_set(set.get(), static_cast<unsigned>(core));
  if (hwloc_set_cpubind(raw, set.get(), HWLOC_CPUBIND_THREAD) != 0) {
    throw Error(ErrorKind::kInput, fmt::format("optimizer core {}: cannot bind to it", core));
  }
}

OptimizerPool::OptimizerPool(int threads, const std::vector<int>& cores) {
  if (threads < 1) {
    throw Error(ErrorKind::kInput, fmt::format("optimizer threads: at least 1, not {}", threads));
  }
  std::vector<std::future<void>> bound;
  for (int t = 0; t < threads; ++t) {
    std::promise<void> promise;
    bound.push_back(promise.get_future());
    std::optional<int> core;
    if (!cores.empty()) core = cores[static_cast<std::size_t>(t) % cores.size()];
    threads_.emplace_back(
        [this, core, promise = std::move(promise)](const std::stop_token& stop) mutable {
          try {
            if (core) bind_this_thread(*core);
            promise.set_value();
          } catch (...) {
            promise.set_exception(std::current_exception());
            return;
          }
          serve(stop);
        });
  }
  for (std::future<void>& future : bound) future.get();  // jthreads end when this throws
}

OptimizerPool::~OptimizerPool() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

void OptimizerPool::serve(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return next_ < count_; })) {
    ++running_;
    while (next_ < count_) {
      const std::size_t index = next_++;
      const auto* work = work_;
      lock.unlock();
      std::exception_ptr failure;
      try {
        (*work)(index);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      if (failure) {
        if (!failure_) failure_ = failure;
        next_ = count_;
      }
    }
    if (--running_ == 0) done_.notify_all();
  }
}

void OptimizerPool::parallel_for(std::size_t count, const std::function<void(std::size_t)>& work) {
  if (count == 0) return;
  std::unique_lock lock(mutex_);
  work_ = &work;
  next_ = 0;
  count_ = count;
  failure_ = nullptr;
  changed_.notify_all();
  done_.wait(lock, [this] { return next_ >= count_ && running_ == 0; });
  work_ = nullptr;
  count_ = next_ = 0;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace zenflow::runtime
