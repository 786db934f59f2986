#include "sim/tune/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace zenflow::sim {

void in_parallel(std::size_t count, unsigned threads,
                 const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> failed(count);
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        body(i);
      } catch (...) {
        failed[i] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < std::min<std::size_t>(threads, count); ++i) others.emplace_back(work);
  work();
  for (std::thread& one : others) one.join();
  for (const std::exception_ptr& one : failed) {
    if (one) std::rethrow_exception(one);
  }
}

}  // namespace zenflow::sim
