#include "sim/base/thread_pool.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <sched.h>

#include "sim/base/error.h"

namespace zenflow {
namespace {

/// Binds the calling thread. The kernel refuses CPUs outside the process's control group.
void bind_to(int core, std::string_view name) {
  constexpr int kMost = 1 << 16;
  bool is_bound = false;
  if (core >= 0 && core < kMost) {
    constexpr std::size_t kBits = 8 * sizeof(cpu_set_t);
    std::vector<cpu_set_t> sets(static_cast<std::size_t>(core) / kBits + 1);
    const std::size_t bytes = sets.size() * sizeof(cpu_set_t);
    CPU_ZERO_S(bytes, sets.data());
    CPU_SET_S(static_cast<std::size_t>(core), bytes, sets.data());
    is_bound = sched_setaffinity(0, bytes, sets.data()) == 0;
  }
  if (is_bound) return;
  throw Error(ErrorKind::kInput,
              fmt::format("{} core {}: no such CPU, or not this process's to use", name, core));
}

}  // namespace

struct ThreadPool::State {
  using Work = std::function<void(std::size_t, std::size_t)>;

  std::mutex mutex;  // guards what follows, except `next_block`
  std::condition_variable work_is_there;
  std::condition_variable all_are_idle;
  const Work* work = nullptr;
  std::size_t blocks = 0;
  std::size_t round = 0;  // of `run`; tells new work from the one just done
  std::size_t busy = 0;   // threads of the pool, not the caller
  std::exception_ptr failure;
  std::size_t failed_block = 0;
  bool stops = false;
  // Hands out ascending numbers: all blocks before one that fails have been begun. What blocks
  // wrote is published by the mutex.
  std::atomic<std::size_t> next_block{0};
  bool caller_works = true;
  std::vector<std::jthread> threads;

  void take_blocks(const Work& task, std::size_t count, std::size_t worker) {
    std::size_t block = 0;
    try {
      for (;;) {
        block = next_block.fetch_add(1, std::memory_order_relaxed);
        if (block >= count) return;
        task(block, worker);
      }
    } catch (...) {
      next_block.store(count, std::memory_order_relaxed);
      const std::lock_guard lock(mutex);
      if (failure && failed_block < block) return;
      failure = std::current_exception();
      failed_block = block;
    }
  }

  void serve(std::size_t worker) {
    std::size_t seen = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      work_is_there.wait(lock, [&] { return stops || round != seen; });
      if (stops) return;
      seen = round;
      const Work& task = *work;
      const std::size_t count = blocks;
      lock.unlock();
      take_blocks(task, count, worker);
      lock.lock();
      if (--busy == 0) all_are_idle.notify_one();
    }
  }

  ~State() {
    {
      const std::lock_guard lock(mutex);
      stops = true;
    }
    work_is_there.notify_all();
    threads.clear();  // joins, before the mutex goes
  }
};

ThreadPool::ThreadPool(std::size_t threads) : state_(std::make_unique<State>()) {
  for (std::size_t worker = 1; worker < threads; ++worker) {
    state_->threads.emplace_back([state = state_.get(), worker] { state->serve(worker); });
  }
}

ThreadPool::ThreadPool(const OwnThreads& own) : state_(std::make_unique<State>()) {
  if (own.count < 1) {
    throw Error(ErrorKind::kInput,
                fmt::format("{} threads: at least 1, not {}", own.name, own.count));
  }
  state_->caller_works = false;
  std::vector<std::future<void>> bound;
  for (std::size_t worker = 0; worker < static_cast<std::size_t>(own.count); ++worker) {
    std::packaged_task<void()> bind([&own, worker] {
      if (!own.cores.empty()) bind_to(own.cores[worker % own.cores.size()], own.name);
    });
    bound.push_back(bind.get_future());
    state_->threads.emplace_back([state = state_.get(), worker, bind = std::move(bind)]() mutable {
      bind();
      state->serve(worker);
    });
  }
  for (const std::future<void>& future : bound) future.wait();
  for (std::future<void>& future : bound) future.get();
}

ThreadPool::~ThreadPool() = default;

std::size_t ThreadPool::threads() const {
  return state_->threads.size() + (state_->caller_works ? 1 : 0);
}

void ThreadPool::run(std::size_t blocks, const State::Work& work) {
  State& state = *state_;
  if (blocks == 0) return;
  if (state.threads.empty() || (state.caller_works && blocks == 1)) {
    for (std::size_t block = 0; block < blocks; ++block) work(block, 0);
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
  if (state.caller_works) state.take_blocks(work, blocks, 0);
  std::unique_lock lock(state.mutex);
  state.all_are_idle.wait(lock, [&] { return state.busy == 0; });
  if (state.failure) std::rethrow_exception(std::exchange(state.failure, nullptr));
}

void ThreadPool::run(std::size_t blocks, const std::function<void(std::size_t)>& work) {
  run(blocks, [&work](std::size_t block, std::size_t) { work(block); });
}

}  // namespace zenflow
