/// Shapes of the host operations that launched GPU work, where a trace has them ("Input Dims"):
/// what products, attention and element-wise passes worked on.
///
/// Operations are not kept; the work that one launched gets a SpanDetail with its name and shapes,
/// which spans of equal shapes share.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/trace/import/collector.h"
#include "sim/trace/launches.h"
#include "sim/trace/timeline.h"

namespace zenflow::sim {

/// The field of a collective's SpanDetail that says how many ranks take part.
inline constexpr std::string_view kGroupSizeField = "Group size";

enum class OperationKind : std::uint8_t { kProduct, kAttention, kElementWise };
/// Empty: its shapes are not wanted. If operations are nested, those that compute are wanted:
/// aten::addmm, not the aten::linear around it.
[[nodiscard]] std::optional<OperationKind> operation_kind(std::string_view name);
[[nodiscard]] inline bool has_wanted_shape(std::string_view name) {
  return operation_kind(name).has_value();
}

/// The last three as JSON text; empty if the trace does not have them.
[[nodiscard]] SpanDetail shape_detail(std::string_view operation, std::string_view dims,
                                      std::string_view types, std::string_view values);

/// Gives GPU work without a detail that of the innermost of `operations` around its launch.
/// `launch` is launch_of_spans(timeline). Precondition: spans are sorted by track and start.
void attach_shapes(Timeline& timeline, const SpanLaunches& launch,
                   std::deque<HostInterval> operations);

/// What an operation worked on.
struct OperationShape {
  std::string name;
  OperationKind kind = OperationKind::kProduct;
  std::vector<std::vector<std::int64_t>> dims;  ///< of each input; empty: no tensor
  std::vector<std::string> types;               ///< "float", "c10::BFloat16"; parallel to dims
  std::vector<std::string> values;              ///< of inputs that are no tensors; may be empty
};
/// Empty: the detail is none of shape_detail's, or not well-formed.
[[nodiscard]] std::optional<OperationShape> operation_shape(const SpanDetail& detail);

}  // namespace zenflow::sim
