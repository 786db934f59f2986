#include "runtime/gpu/cupti_subscription.h"

namespace zenflow::runtime {

std::optional<int> try_cupti_subscription(const LibraryFolders&) {
  return std::nullopt;
}

}  // namespace zenflow::runtime
