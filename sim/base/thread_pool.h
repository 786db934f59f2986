/// Threads that share the blocks of a loop.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace zenflow {

/// Threads wait for work and for each other without spinning. Not OpenMP: its runtimes are not
/// instrumented, and ThreadSanitizer could not check what runs on them.
class ThreadPool {
 public:
  /// Threads of the pool's own: the calling thread only waits for them. Each is bound to one of
  /// `cores` (logical CPU numbers, taken in turn), if there are any. Errors are about `name`.
  struct OwnThreads {
    std::string_view name;
    int count;
    std::vector<int> cores = {};
  };

  /// The calling thread is one of the `threads`, at least 1: a pool of one has none of its own.
  explicit ThreadPool(std::size_t threads);
  /// Throws Error(kInput) if a core does not exist or may not be used, and if there would be no
  /// thread.
  explicit ThreadPool(const OwnThreads& own);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] std::size_t threads() const;

  /// Calls work(block, worker) for every block in [0, blocks), each once, in no given order;
  /// `worker` < threads() is the same for blocks that one thread runs. Returns when all are done.
  /// Rethrows the exception of the block with the lowest number; blocks that have not begun by then
  /// are dropped. One caller at a time; `work` must not call `run`. Results do not depend on the
  /// number of threads if blocks do not.
  void run(std::size_t blocks, const std::function<void(std::size_t, std::size_t)>& work);
  /// The same for work that does not depend on the thread.
  void run(std::size_t blocks, const std::function<void(std::size_t)>& work);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zenflow
