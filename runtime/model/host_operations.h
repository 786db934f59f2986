/// The transformer's operations on the host: products by oneDNN, attention in tiles of products,
/// and the scalar references of the kernels, shared out to the threads of a pool. Results have the
/// same bits for any number of threads.
#pragma once

#include <memory>

#include "runtime/model/operations.h"
#include "sim/base/thread_pool.h"

namespace zenflow::runtime {

/// There is Element = float and kernels::WideBf16.
template <class Element>
[[nodiscard]] std::unique_ptr<Operations<Element>> host_operations(ThreadPool& pool);
[[nodiscard]] OperationMemory host_operation_memory();

}  // namespace zenflow::runtime
