/// Which columns of a whole model are selected when those of all matrices compete.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/device/device.h"
#include "runtime/model_config/parameters.h"

namespace zenflow::runtime {

/// A matrix with selected and deferred columns.
struct RankedMatrix {
  std::size_t parameter = 0;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t share = 0;  ///< columns that it would have selected if it stood alone
  std::size_t first = 0;  ///< its first column, among those of all matrices
};

/// Those of a model in the order of the parameters, as layout.h splits them.
[[nodiscard]] std::vector<RankedMatrix> ranked_matrices(const ParameterTable& table,
                                                        double topk_ratio);
/// All matrices of more than one column, whatever is selected of them.
[[nodiscard]] std::vector<RankedMatrix> matrices_of(const ParameterTable& table);
/// Of all matrices.
[[nodiscard]] std::size_t columns_of(std::span<const RankedMatrix> matrices);
[[nodiscard]] std::size_t elements_of(std::span<const RankedMatrix> matrices);
/// What may be selected of all: as many elements as if each matrix stood alone.
[[nodiscard]] std::size_t selected_elements(std::span<const RankedMatrix> matrices);

/// Norms of all matrices' columns, where each rank has put those of the matrices that it owns: the
/// others' come there. They cross, and are compared, in the type of the gradients. `owners`: by
/// parameter, ascending.
void exchange_norms(Communicator& ranks, std::span<const RankedMatrix> matrices,
                    std::span<const int> owners, ElementType type, std::span<float> norms);

/// By column of all matrices, whether it is selected from now on. `norms` have a sign: negative
/// (also -0) for those that are selected now. Columns are taken by what they hold for an element of
/// the device's memory, the root of the mean square (L2) or the mean (L1) of the gradient, as long
/// as they fit into selected_elements; one that does not is passed over. Ties keep who is selected,
/// then the column that comes first. Every matrix keeps its largest column selected and its
/// smallest one deferred. Depends on nothing else, so that all ranks find the same.
[[nodiscard]] std::vector<bool> select_from_all(std::span<const RankedMatrix> matrices,
                                                std::span<const float> norms, NormKind norm);

}  // namespace zenflow::runtime
