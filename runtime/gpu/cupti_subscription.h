/// Whether CUPTI is free: most versions serve one tool at a time.
#pragma once

#include <optional>

#include "runtime/gpu/dynamic_library.h"

namespace zenflow::runtime {

/// CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED: another tool holds it.
inline constexpr int kCuptiHeld = 39;

/// What cuptiSubscribe returns (0: free; unsubscribed again); nothing in a build without CUDA or if
/// the library is missing.
[[nodiscard]] std::optional<int> try_cupti_subscription(const LibraryFolders& folders);

}  // namespace zenflow::runtime
