/// A loop over threads.
#pragma once

#include <cstddef>
#include <functional>

namespace zenflow::sim {

/// Runs body(0) to body(count - 1) on the threads, the caller's among them. The first exception, by
/// number, is thrown.
void in_parallel(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& body);

}  // namespace zenflow::sim
