/// The Boost.Graph type behind TaskGraph. Included by sim/graph/*.cpp only, so that
/// nobody else pays for Boost's headers.
#pragma once

#include <cstdint>

#include <boost/graph/compressed_sparse_row_graph.hpp>

#include "sim/graph/task_graph.h"

namespace zenflow::sim {

using Csr =
    boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                       boost::no_property, std::uint32_t, std::uint32_t>;

struct TaskGraph::Impl {
  Csr graph;  ///< edges from a task to its predecessors, rows ascending
};

}  // namespace zenflow::sim
