/// Threads that share loops: the CPU optimizer's, apart from the training thread's.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace zenflow::runtime {

/// Runs loops on `threads` threads, each bound to one of `cores` (logical CPU numbers, taken in
/// turn) if there are any. Throws Error(kInput) if a core does not exist or may not be used, and if
/// there would be no thread.
class OptimizerPool {
 public:
  explicit OptimizerPool(int threads, const std::vector<int>& cores = {});
  ~OptimizerPool();
  OptimizerPool(const OptimizerPool&) = delete;
  OptimizerPool& operator=(const OptimizerPool&) = delete;

  /// Calls work(i) once for every i below `count`, in any order and on any thread, and returns
  /// when all have returned. The first exception is rethrown, once the others have ended; calls
  /// not yet begun are dropped then. From one thread at a time.
  void parallel_for(std::size_t count, const std::function<void(std::size_t)>& work);

  [[nodiscard]] int threads() const { return static_cast<int>(threads_.size()); }

 private:
  void serve(const std::stop_token& stop);

  std::mutex mutex_;  // guards all below but threads_
  std::condition_variable_any changed_;
  std::condition_variable done_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::size_t next_ = 0;
  std::size_t count_ = 0;
  std::size_t running_ = 0;
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;
};

/// Binds the calling thread. Throws Error(kInput) if that is not possible.
void bind_this_thread(int core);

}  // namespace zenflow::runtime
