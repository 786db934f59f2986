// That buffers circulate: none is lost, lent twice or dirty, whatever the threads do.
#include "runtime/trace/cupti/buffer_pool.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace zenflow::runtime {
namespace {

constexpr std::size_t kBytes = 4096;

bool is_zero(const std::byte* data) {
  return std::all_of(data, data + kBytes, [](std::byte b) { return b == std::byte{0}; });
}

TEST(BufferPool, LendsEachBufferOnceAlignedAndZeroed) {
  BufferPool pool(3, kBytes);
  std::set<std::byte*> lent;
  for (int i = 0; i < 3; ++i) {
    std::byte* data = pool.lend();
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 8, 0U);
    EXPECT_TRUE(is_zero(data));
    EXPECT_TRUE(lent.insert(data).second);
  }
  EXPECT_EQ(pool.lend(), nullptr);
  EXPECT_EQ(pool.refused(), 1U);
}

TEST(BufferPool, ReturnsBuffersOldestFirstAndCleansThem) {
  BufferPool pool(2, kBytes);
  std::byte* first = pool.lend();
  std::byte* second = pool.lend();
  std::fill(first, first + kBytes, std::byte{1});  // beyond what is called valid, too
  pool.take_back(second, 16);
  pool.take_back(first, 8);
  BufferPool::Buffer* filled = pool.next_filled();
  EXPECT_EQ(BufferPool::records(*filled).data(), second);
  EXPECT_EQ(BufferPool::records(*filled).size(), 16U);
  pool.recycle(*filled);
  filled = pool.next_filled();
  EXPECT_EQ(BufferPool::records(*filled).data(), first);
  pool.recycle(*filled);
  EXPECT_TRUE(is_zero(pool.lend()));
  EXPECT_TRUE(is_zero(pool.lend()));
}

TEST(BufferPool, NeverSaysMoreIsValidThanThereIs) {
  BufferPool pool(1, kBytes);
  pool.take_back(pool.lend(), 10 * kBytes);
  EXPECT_EQ(BufferPool::records(*pool.next_filled()).size(), kBytes);
}

TEST(BufferPool, MakesBuffersForThoseWhoMustGetOne) {
  BufferPool pool(1, kBytes);
  EXPECT_NE(pool.lend_or_make(), nullptr);
  EXPECT_EQ(pool.made(), 0U);
  std::byte* extra = pool.lend_or_make();
  ASSERT_NE(extra, nullptr);
  EXPECT_TRUE(is_zero(extra));
  EXPECT_EQ(pool.made(), 1U);
  pool.take_back(extra, 8);
  pool.recycle(*pool.next_filled());
  EXPECT_EQ(pool.lend_or_make(), extra) << "and keeps them";
}

TEST(BufferPool, AfterClosingWhatIsFilledIsStillParsed) {
  BufferPool pool(2, kBytes);
  pool.take_back(pool.lend(), 8);
  pool.close();
  BufferPool::Buffer* filled = pool.next_filled();
  ASSERT_NE(filled, nullptr);
  pool.recycle(*filled);
  EXPECT_EQ(pool.next_filled(), nullptr);
  // CUPTI may deliver after a session; the next one finds it.
  pool.take_back(pool.lend(), 8);
  pool.open();
  EXPECT_NE(pool.next_filled(), nullptr);
}

TEST(BufferPool, NothingIsLostBetweenThreads) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 500;
  BufferPool pool(3, kBytes);
  std::atomic<int> filled{0};
  int parsed = 0;
  std::thread parser([&] {
    while (BufferPool::Buffer* buffer = pool.next_filled()) {
      parsed += static_cast<int>(BufferPool::records(*buffer).size() / 8);
      pool.recycle(*buffer);
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        std::byte* data = pool.lend();
        if (data == nullptr) continue;
        data[0] = std::byte{1};
        pool.take_back(data, 8);
        filled.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  pool.close();
  parser.join();
  EXPECT_EQ(parsed, filled.load());
  EXPECT_EQ(filled.load() + static_cast<int>(pool.refused()), kThreads * kRounds);
}

}  // namespace
}  // namespace zenflow::runtime
