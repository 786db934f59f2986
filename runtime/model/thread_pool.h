/// Runs the independent blocks of one operation on a few threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace zenflow::runtime {

/// The calling thread works too, so a pool of one has no threads of its own. Not OpenMP: its
/// runtimes are not instrumented, and ThreadSanitizer could not check what runs on them.
class ThreadPool {
 public:
  /// Precondition: threads >= 1.
  explicit ThreadPool(std::size_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] std::size_t threads() const;

  /// Calls work(block, worker) for every block in [0, blocks), each once, in no given order;
  /// `worker` < threads() is the same for blocks that one thread runs. Returns when all are done;
  /// rethrows the first exception and starts no further block then. One caller at a time; `work`
  /// must not call `run`. Results do not depend on the number of threads if blocks do not.
  void run(std::int64_t blocks, const std::function<void(std::int64_t, std::size_t)>& work);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zenflow::runtime
