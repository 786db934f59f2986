// Shapes of operations reach the kernels that they launch, and only those.
#include "sim/trace/import/operation_shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/traces.h"

namespace zenflow::sim {
namespace {

using ::testing::ElementsAre;
using zenflow::testing::event;
using zenflow::testing::import_text;
using zenflow::testing::kernel;
using zenflow::testing::launch;
using zenflow::testing::trace_of;

std::string operation(const std::string& name, const std::string& ts, const std::string& dur,
                      const std::string& dims) {
  return event("cpu_op", name, "100", "100", ts, dur,
               R"("Input Dims": )" + dims + R"(, "Input type": ["float", "float"])");
}

std::optional<OperationShape> shape_of(const ImportedTrace& trace, const std::string& kernel_name) {
  for (const TimelineSpan& span : trace.timeline.spans) {
    if (trace.timeline.name_of(span) != kernel_name) continue;
    const SpanDetail* detail = trace.timeline.detail_of(span);
    return detail == nullptr ? std::nullopt : operation_shape(*detail);
  }
  throw std::runtime_error("no kernel " + kernel_name);
}

TEST(OperationShapes, BelongToTheKernelsLaunchedInTheInnermostOperation) {
  const ImportedTrace trace = import_text(trace_of(
      operation("aten::linear", "0", "50", "[[9, 9], [9, 9]]"),
      operation("aten::mm", "1", "20", "[[2, 3], [3, 4]]"),
      operation("aten::copy_", "5", "4", "[[7], [7]]"), launch("cudaLaunchKernel", "6", "1", 1),
      launch("cudaLaunchKernel", "12", "1", 2), launch("cudaLaunchKernel", "30", "1", 3),
      launch("cudaLaunchKernel", "12", "1", 4, 200), kernel("copied", "10", "5", 1),
      kernel("product", "16", "5", 2), kernel("behind", "40", "5", 3),
      kernel("elsewhere", "50", "5", 4)));
  EXPECT_EQ(shape_of(trace, "copied")->name, "aten::copy_");
  const auto product = shape_of(trace, "product");
  EXPECT_EQ(product->kind, OperationKind::kProduct);
  EXPECT_THAT(product->dims, ElementsAre(ElementsAre(2, 3), ElementsAre(3, 4)));
  EXPECT_THAT(product->types, ElementsAre("float", "float"));
  EXPECT_FALSE(shape_of(trace, "behind").has_value());
  EXPECT_FALSE(shape_of(trace, "elsewhere").has_value());
}

TEST(OperationShapes, EqualOnesAreKeptOnce) {
  std::string events = operation("aten::mm", "0", "5", "[[2, 3], [3, 4]]");
  for (int i = 0; i < 50; ++i) {
    events += ", " + operation("aten::mm", std::to_string(10 * i), "5", "[[2, 3], [3, 4]]");
    events += ", " + launch("cudaLaunchKernel", std::to_string(10 * i + 1), "1", i);
    events += ", " + kernel("k", std::to_string(10 * i + 5), "2", i);
  }
  EXPECT_EQ(import_text(trace_of(events)).timeline.details.size(), 1U);
}

TEST(OperationShapes, SizesThatAreNoneAreNoShape) {
  const auto shape =
      operation_shape(shape_detail("aten::mm", R"([[2, -3], ["a"], 7, [1.5], [[2, 3]]])", "", ""));
  ASSERT_TRUE(shape.has_value());
  for (const auto& dims : shape->dims) EXPECT_TRUE(dims.empty());
  EXPECT_FALSE(operation_shape(shape_detail("aten::mm", "[[2, 3", "", "")).has_value());
  EXPECT_FALSE(operation_shape(shape_detail("aten::linear", "[[2, 3]]", "", "")).has_value());
  EXPECT_FALSE(operation_shape({}).has_value());
}

TEST(OperationShapes, KeepTheGroupOfACollective) {
  const ImportedTrace trace = import_text(trace_of(event(
      "kernel", "ncclDevKernel_AllReduce_Sum_f32", "0", "9", "0", "10",
      R"("device": 0, "stream": 9, "In msg nelems": 1000, "Group size": 4, "dtype": "Float")")));
  const TimelineSpan& span = trace.timeline.spans.at(0);
  EXPECT_EQ(trace.timeline.extra_of(span).bytes, 4000);
  EXPECT_THAT(trace.timeline.detail_of(span)->fields,
              ElementsAre(std::pair<std::string, std::string>("Group size", "4")));
}

}  // namespace
}  // namespace zenflow::sim
