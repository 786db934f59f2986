// That every block runs once, on any number of threads, and what fails is reported.
#include "runtime/model/thread_pool.h"

#include <numeric>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace zenflow::runtime {
namespace {

TEST(ThreadPool, RunsEveryBlockOnce) {
  for (const std::size_t threads : {1U, 2U, 7U}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    std::vector<int> runs(1000);
    for (int round = 0; round < 50; ++round) {
      pool.run(static_cast<std::int64_t>(runs.size()), [&](std::int64_t block, std::size_t worker) {
        ASSERT_LT(worker, threads);
        ++runs[static_cast<std::size_t>(block)];
      });
    }
    for (const int count : runs) EXPECT_EQ(count, 50);
  }
}

TEST(ThreadPool, OfNothingDoesNothing) {
  ThreadPool pool(3);
  pool.run(0, [](std::int64_t, std::size_t) { FAIL(); });
}

TEST(ThreadPool, RethrowsAndIsUsableAfterwards) {
  for (const std::size_t threads : {1U, 3U}) {
    ThreadPool pool(threads);
    const auto fails = [](std::int64_t block, std::size_t) {
      if (block == 5) throw std::runtime_error("block 5");
    };
    EXPECT_THROW(pool.run(100, fails), std::runtime_error);
    std::vector<int> runs(20);
    pool.run(20, [&](std::int64_t block, std::size_t) { ++runs[static_cast<std::size_t>(block)]; });
    EXPECT_EQ(std::accumulate(runs.begin(), runs.end(), 0), 20);
  }
}

}  // namespace
}  // namespace zenflow::runtime
