// That every block runs once, on any number of threads, and what fails is reported.
#include "sim/base/thread_pool.h"

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

#include "sim/base/error.h"
#include "tests/support/error_of.h"

namespace zenflow {
namespace {

using testing::error_of;

/// Both kinds of pools: the calling thread works, or it waits.
template <class Check>
void on_every_pool(const Check& check) {
  for (const std::size_t threads : {1U, 2U, 7U}) {
    ThreadPool shared(threads);
    check(shared, threads);
    ThreadPool own(ThreadPool::OwnThreads{"some", static_cast<int>(threads)});
    check(own, threads);
  }
}

TEST(ThreadPool, RunsEveryBlockOnce) {
  on_every_pool([](ThreadPool& pool, std::size_t threads) {
    EXPECT_EQ(pool.threads(), threads);
    for (const std::size_t blocks : {0U, 1U, 3U, 1000U}) {
      std::vector<int> runs(blocks);
      for (int round = 0; round < 50; ++round) {
        pool.run(blocks, [&](std::size_t block, std::size_t worker) {
          ASSERT_LT(worker, threads);
          ++runs[block];
        });
      }
      for (const int count : runs) EXPECT_EQ(count, 50);
    }
  });
}

TEST(ThreadPool, RethrowsWhatTheFirstBlockThrewAndIsUsableAfterwards) {
  on_every_pool([](ThreadPool& pool, std::size_t) {
    for (int round = 0; round < 50; ++round) {
      std::atomic<int> running = 0;
      const auto [kind, message] = error_of([&] {
        pool.run(1000, [&](std::size_t block) {
          ++running;
          const bool fails = block == 7 || block == 8;
          --running;
          if (fails) throw Error(ErrorKind::kRuntime, "block " + std::to_string(block));
        });
      });
      EXPECT_EQ(message, "block 7");
      EXPECT_EQ(running, 0);  // all have returned
      std::atomic<int> calls = 0;
      pool.run(10, [&](std::size_t) { ++calls; });
      EXPECT_EQ(calls, 10);
    }
  });
}

TEST(ThreadPool, BindsThreadsToCoresInTurn) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE && cores.size() < 2; ++core) {
    if (CPU_ISSET(static_cast<std::size_t>(core), &allowed)) cores.push_back(core);
  }
  ThreadPool pool(ThreadPool::OwnThreads{"bound", 3, cores});
  pool.run(100, [&](std::size_t, std::size_t worker) {
    EXPECT_EQ(sched_getcpu(), cores[worker % cores.size()]);
  });
}

TEST(ThreadPool, RefusesCoresThatAreNotThereAndNoThreads) {
  for (const int core : {-1, 1'000'000}) {
    const auto [kind, message] = error_of([&] {
      const ThreadPool pool(ThreadPool::OwnThreads{"optimizer", 2, {core}});
    });
    EXPECT_EQ(kind, ErrorKind::kInput);
    EXPECT_EQ(message, "optimizer core " + std::to_string(core) +
                           ": no such CPU, or not this process's to use");
  }
  EXPECT_EQ(error_of([] {
              const ThreadPool pool(ThreadPool::OwnThreads{"optimizer", 0});
            }).second,
            "optimizer threads: at least 1, not 0");
}

}  // namespace
}  // namespace zenflow
