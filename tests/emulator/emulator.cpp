#include "tests/emulator/emulator.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/emulator/fiber.h"

namespace zenflow::emulator {
namespace {

constexpr std::size_t kWarp = 32;
/// Below so many threads the host's other threads are not worth waking.
constexpr std::size_t kWorthSharing = 4096;

std::atomic<ThreadOrder> thread_order = ThreadOrder::kAscending;

/// Thrown into threads that wait when their block has failed, to unwind their stacks.
struct Abandoned {};

bool same(Site a, Site b) {
  return a.line == b.line && std::strcmp(a.file, b.file) == 0;
}

/// Exactly as large as asked for, so that AddressSanitizer sees what lies beyond.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes)
      : bytes_(bytes), memory_(static_cast<std::byte*>(::operator new(bytes, kAlignment))) {}
  ~SharedMemory() { ::operator delete(memory_, kAlignment); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return memory_; }
  /// NaNs in every floating-point format.
  void scramble() { std::fill_n(memory_, bytes_, std::byte{0xFF}); }

 private:
  static constexpr std::align_val_t kAlignment{16};
  std::size_t bytes_;
  std::byte* memory_;
};

/// Runs one block after the other on one thread of the host.
class BlockRunner {
 public:
  BlockRunner(const GridShape& shape, const std::function<void(std::size_t, std::size_t)>& place,
              const std::function<void()>& kernel)
      : shape_(shape), place_(place), kernel_(kernel), shared_(shape.shared_bytes) {}
  ~BlockRunner() {
    closing_ = true;
    for (const auto& fiber : fibers_) fiber->resume();
  }
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  void run(std::size_t block);

  [[nodiscard]] void* shared() const { return shared_.data(); }
  [[nodiscard]] unsigned lane() const { return static_cast<unsigned>(current_ % kWarp); }
  void sync_block(Site at);

  struct Brought {
    std::uint64_t value = 0;
    bool predicate = false;
    unsigned source = 0;
  };
  struct Received {
    std::uint64_t value = 0;
    unsigned votes = 0;
  };
  /// With the lanes of `mask`.
  Received meet(unsigned mask, Brought brought, Site at);

 private:
  enum class State : std::uint8_t { kRunning, kAtBarrier, kInWarp, kLeft };
  struct Thread {
    State state = State::kRunning;
    Fiber* fiber = nullptr;
    Site at{};
    unsigned mask = 0;
    Brought brought;
    Received received;
  };

  void run_threads();
  void start_threads();
  void wait(State state, Site at);
  void release_barrier();
  [[nodiscard]] bool all_arrived(unsigned mask, std::size_t first_lane, Site at) const;
  void deliver(unsigned mask, std::size_t first_lane);
  void abandon();
  [[nodiscard]] std::string deadlock() const;
  [[nodiscard]] std::string described(std::size_t thread) const;

  GridShape shape_;
  const std::function<void(std::size_t, std::size_t)>& place_;
  const std::function<void()>& kernel_;
  SharedMemory shared_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;

  std::size_t block_ = 0;
  std::vector<Thread> threads_;
  std::vector<std::size_t> order_;
  std::size_t started_ = 0;
  std::size_t left_ = 0;
  std::deque<std::size_t> ready_;
  std::size_t current_ = 0;
  Fiber* fiber_ = nullptr;  // in which `current_` runs
  std::exception_ptr failure_;
  bool closing_ = false;
};

thread_local BlockRunner* runner = nullptr;

void BlockRunner::run(std::size_t block) {
  runner = this;
  block_ = block;
  threads_.assign(shape_.threads, Thread{});
  order_.resize(shape_.threads);
  for (std::size_t i = 0; i < order_.size(); ++i) {
    order_[i] = thread_order == ThreadOrder::kAscending ? i : order_.size() - 1 - i;
  }
  started_ = left_ = 0;
  ready_.clear();
  failure_ = nullptr;
  shared_.scramble();
  while (left_ < shape_.threads && !failure_) {
    if (started_ < shape_.threads) {
      start_threads();
    } else if (!ready_.empty()) {
      fiber_ = threads_[ready_.front()].fiber;
      current_ = ready_.front();
      ready_.pop_front();
      fiber_->resume();
    } else {
      release_barrier();
    }
  }
  if (failure_) {
    abandon();
    std::rethrow_exception(failure_);
  }
}

/// In a fiber that is free. It starts one thread after the other until one waits: threads that
/// never do share a stack.
void BlockRunner::start_threads() {
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>([this] { run_threads(); }));
    idle_.push_back(fibers_.back().get());
  }
  fiber_ = idle_.back();
  idle_.pop_back();
  fiber_->resume();
}

/// The body of every fiber.
void BlockRunner::run_threads() {
  Fiber* const self = fiber_;
  while (!closing_) {
    while (started_ < shape_.threads && !failure_) {
      current_ = order_[started_++];
      const std::size_t thread = current_;
      threads_[thread].fiber = self;
      place_(block_, thread);
      try {
        kernel_();
      } catch (const Abandoned&) {
        // The failure that is the reason is kept already.
      } catch (...) {
        if (!failure_) failure_ = std::current_exception();
      }
      threads_[thread].state = State::kLeft;
      ++left_;
    }
    idle_.push_back(self);
    self->suspend();
  }
}

void BlockRunner::wait(State state, Site at) {
  const std::size_t thread = current_;
  threads_[thread].state = state;
  threads_[thread].at = at;
  threads_[thread].fiber->suspend();
  if (failure_) throw Abandoned{};
  threads_[thread].state = State::kRunning;
  place_(block_, thread);
}

void BlockRunner::sync_block(Site at) {
  wait(State::kAtBarrier, at);
}

/// Called when no thread can go on: they are all at one barrier, or never will be.
void BlockRunner::release_barrier() {
  const Site at = threads_[0].at;
  const bool all_there = std::all_of(threads_.begin(), threads_.end(), [&](const Thread& thread) {
    return thread.state == State::kAtBarrier && same(thread.at, at);
  });
  if (!all_there) {
    failure_ = std::make_exception_ptr(BrokenKernel(deadlock()));
    return;
  }
  ready_.assign(order_.begin(), order_.end());
}

bool BlockRunner::all_arrived(unsigned mask, std::size_t first_lane, Site at) const {
  const std::size_t lanes = std::min(kWarp, shape_.threads - first_lane);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const Thread& thread = threads_[first_lane + lane];
    if (((mask >> lane) & 1U) == 0) continue;
    if (thread.state != State::kInWarp || thread.mask != mask || !same(thread.at, at)) return false;
  }
  return true;
}

/// To the lanes of `mask`, which have all arrived, what the others brought.
void BlockRunner::deliver(unsigned mask, std::size_t first_lane) {
  const std::size_t lanes = std::min(kWarp, shape_.threads - first_lane);
  const auto takes_part = [&](std::size_t lane) {
    return lane < lanes && ((mask >> lane) & 1U) != 0;
  };
  unsigned votes = 0;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if (takes_part(lane) && threads_[first_lane + lane].brought.predicate) votes |= 1U << lane;
  }
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if (!takes_part(lane)) continue;
    Thread& thread = threads_[first_lane + lane];
    if (!takes_part(thread.brought.source)) {
      throw BrokenKernel(fmt::format("{} reads lane {}, which takes no part (mask {:#x})",
                                     described(first_lane + lane), thread.brought.source, mask));
    }
    thread.received = {threads_[first_lane + thread.brought.source].brought.value, votes};
  }
  for (const std::size_t thread : order_) {
    if (thread < first_lane || thread >= first_lane + lanes) continue;
    if (takes_part(thread - first_lane) && thread != current_) ready_.push_back(thread);
  }
}

BlockRunner::Received BlockRunner::meet(unsigned mask, Brought brought, Site at) {
  const std::size_t thread = current_;
  const std::size_t first_lane = thread / kWarp * kWarp;
  Thread& me = threads_[thread];
  me.state = State::kInWarp;
  me.at = at;
  me.mask = mask;
  me.brought = brought;
  if (((mask >> (thread % kWarp)) & 1U) == 0) {
    throw BrokenKernel(
        fmt::format("{} is not in the mask that it names, {:#x}", described(thread), mask));
  }
  if (all_arrived(mask, first_lane, at)) {
    deliver(mask, first_lane);
    // Those that are ready must not be taken for waiting when the next meeting is due.
    for (const std::size_t other : ready_) threads_[other].state = State::kRunning;
    me.state = State::kRunning;
  } else {
    wait(State::kInWarp, at);
  }
  return me.received;
}

/// Ends the threads that wait, by an exception where they do.
void BlockRunner::abandon() {
  for (Thread& thread : threads_) {
    if (thread.state == State::kLeft || thread.fiber == nullptr) continue;
    fiber_ = thread.fiber;
    current_ = static_cast<std::size_t>(&thread - threads_.data());
    fiber_->resume();
  }
}

std::string BlockRunner::described(std::size_t thread) const {
  const Thread& t = threads_[thread];
  return fmt::format("block {}, thread {}, at {}:{}", block_, thread, t.at.file, t.at.line);
}

std::string BlockRunner::deadlock() const {
  const auto waits = [](const Thread& thread) { return thread.state != State::kLeft; };
  const auto first = std::find_if(threads_.begin(), threads_.end(), waits);
  const auto number = static_cast<std::size_t>(first - threads_.begin());
  const char* what =
      first->state == State::kAtBarrier ? "a barrier of the block" : "lanes of its warp";
  std::string text = fmt::format("{} waits for {} in vain: ", described(number), what);
  const auto other = std::find_if(first, threads_.end(), [&](const Thread& thread) {
    return waits(thread) && !(thread.state == first->state && same(thread.at, first->at));
  });
  if (other != threads_.end()) {
    const auto other_number = static_cast<std::size_t>(other - threads_.begin());
    text += fmt::format("thread {} waits at {}:{}", other_number, other->at.file, other->at.line);
  } else {
    text += fmt::format("{} of {} threads have left the kernel", left_, shape_.threads);
  }
  return text;
}

}  // namespace

void set_thread_order(ThreadOrder order) {
  thread_order = order;
}

void run_grid(const GridShape& shape, const std::function<void(std::size_t, std::size_t)>& place,
              const std::function<void()>& kernel) {
  std::exception_ptr failure;
  std::atomic<bool> has_failed = false;
  const bool is_shared = shape.blocks > 1 && shape.blocks * shape.threads >= kWorthSharing;
  static_cast<void>(is_shared);  // without OpenMP
#pragma omp parallel if (is_shared)
  {
    std::optional<BlockRunner> blocks;
#pragma omp for schedule(dynamic)
    for (std::size_t block = 0; block < shape.blocks; ++block) {
      if (has_failed) continue;
      try {
        if (!blocks) blocks.emplace(shape, place, kernel);
        blocks->run(block);
      } catch (...) {
#pragma omp critical
        if (!has_failed.exchange(true)) failure = std::current_exception();
      }
    }
  }
  if (failure) std::rethrow_exception(failure);
}

void* dynamic_shared() {
  return runner->shared();
}

unsigned lane_number() {
  return runner->lane();
}

void sync_block(Site at) {
  runner->sync_block(at);
}

unsigned vote(unsigned mask, bool predicate, Site at) {
  return runner->meet(mask, {.value = 0, .predicate = predicate, .source = runner->lane()}, at)
      .votes;
}

std::uint64_t exchange(unsigned mask, std::uint64_t value, unsigned source, Site at) {
  return runner->meet(mask, {.value = value, .predicate = false, .source = source}, at).value;
}

}  // namespace zenflow::emulator
