#include "runtime/model/thread_pool.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace zenflow::runtime {

struct ThreadPool::State {
  using Work = std::function<void(std::int64_t, std::size_t)>;

  std::mutex mutex;  // guards what follows, except `next_block`
  std::condition_variable work_is_there;
  std::condition_variable all_are_idle;
  const Work* work = nullptr;
  std::int64_t blocks = 0;
  std::uint64_t round = 0;  // of `run`; tells new work from the one just done
  std::size_t busy = 0;     // threads of the pool, not the caller
  std::exception_ptr failure;
  bool stops = false;
  // Only hands out numbers: what blocks wrote is published by the mutex.
  std::atomic<std::int64_t> next_block{0};
  std::vector<std::jthread> threads;

  void take_blocks(const Work& task, std::int64_t count, std::size_t worker) {
    try {
      for (;;) {
        const std::int64_t block = next_block.fetch_add(1, std::memory_order_relaxed);
        if (block >= count) return;
        task(block, worker);
      }
    } catch (...) {
      next_block.store(count, std::memory_order_relaxed);
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }

  void serve(std::size_t worker) {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      work_is_there.wait(lock, [&] { return stops || round != seen; });
      if (stops) return;
      seen = round;
      const Work& task = *work;
      const std::int64_t count = blocks;
      lock.unlock();
      take_blocks(task, count, worker);
      lock.lock();
      if (--busy == 0) all_are_idle.notify_one();
    }
  }
};

ThreadPool::ThreadPool(std::size_t threads) : state_(std::make_unique<State>()) {
  for (std::size_t worker = 1; worker < threads; ++worker) {
    state_->threads.emplace_back([state = state_.get(), worker] { state->serve(worker); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stops = true;
  }
  state_->work_is_there.notify_all();
  state_->threads.clear();  // joins, before the mutex goes
}

std::size_t ThreadPool::threads() const {
  return state_->threads.size() + 1;
}

void ThreadPool::run(std::int64_t blocks, const State::Work& work) {
  State& state = *state_;
  if (state.threads.empty() || blocks <= 1) {
    for (std::int64_t block = 0; block < blocks; ++block) work(block, 0);
    return;
  }
  {
    const std::lock_guard lock(state.mutex);
    state.work = &work;
    state.blocks = blocks;
    state.next_block.store(0, std::memory_order_relaxed);
    state.busy = state.threads.size();
    ++state.round;
  }
  state.work_is_there.notify_all();
  state.take_blocks(work, blocks, 0);
  std::unique_lock lock(state.mutex);
  state.all_are_idle.wait(lock, [&] { return state.busy == 0; });
  if (state.failure) std::rethrow_exception(std::exchange(state.failure, nullptr));
}

}  // namespace zenflow::runtime
