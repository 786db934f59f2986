#include "sim/trace/import/operation_shapes.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "sim/trace/launches.h"

namespace zenflow::sim {
namespace {

using nlohmann::json;

constexpr const char* kOperation = "operation";
constexpr const char* kDims = "Input Dims";
constexpr const char* kTypes = "Input type";
constexpr const char* kValues = "Concrete Inputs";
constexpr std::string_view kPrefix = "aten::";

/// Sorted.
constexpr std::array<std::string_view, 4> kProducts = {"addmm", "baddbmm", "bmm", "mm"};
constexpr std::array<std::string_view, 6> kAttention = {
    "_scaled_dot_product_cudnn_attention",     "_scaled_dot_product_cudnn_attention_backward",
    "_scaled_dot_product_efficient_attention", "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_flash_attention",     "_scaled_dot_product_flash_attention_backward"};
constexpr std::array<std::string_view, 23> kElementWise = {"add",
                                                           "add_",
                                                           "clamp_min_",
                                                           "copy_",
                                                           "div",
                                                           "div_",
                                                           "fill_",
                                                           "gelu",
                                                           "gelu_backward",
                                                           "mul",
                                                           "mul_",
                                                           "neg",
                                                           "relu",
                                                           "relu_",
                                                           "sigmoid",
                                                           "sigmoid_",
                                                           "silu",
                                                           "silu_",
                                                           "silu_backward",
                                                           "sub",
                                                           "tanh_backward",
                                                           "tanh",
                                                           "threshold_backward"};

template <std::size_t N>
bool is_among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const std::string* field_of(const SpanDetail& detail, std::string_view name) {
  for (const auto& [key, value] : detail.fields) {
    if (key == name) return &value;
  }
  return nullptr;
}

json parsed(const SpanDetail& detail, const char* name) {
  const std::string* text = field_of(detail, name);
  return text == nullptr ? json() : json::parse(*text, nullptr, false);
}

std::vector<std::string> texts(const json& list) {
  std::vector<std::string> found;
  if (!list.is_array()) return found;
  for (const json& one : list) found.push_back(one.is_string() ? one.get<std::string>() : "");
  return found;
}

/// Sizes of one input; nothing for lists of tensors and what is no size.
std::vector<std::int64_t> sizes(const json& input) {
  std::vector<std::int64_t> found;
  if (!input.is_array()) return found;
  for (const json& one : input) {
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    if (!one.is_number_integer()) return {};
    const auto size = one.get<std::int64_t>();
    if (size < 0 || size > kMost) return {};
    found.push_back(size);
  }
  return found;
}

}  // namespace

std::optional<OperationKind> operation_kind(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  if (is_among(kProducts, name)) return OperationKind::kProduct;
  if (is_among(kElementWise, name)) return OperationKind::kElementWise;
  if (is_among(kAttention, name)) return OperationKind::kAttention;
  return std::nullopt;
}

SpanDetail shape_detail(std::string_view operation, std::string_view dims, std::string_view types,
                        std::string_view values) {
  SpanDetail detail{"", {{kOperation, json(operation).dump()}, {kDims, std::string(dims)}}};
  if (!types.empty()) detail.fields.emplace_back(kTypes, types);
  // Values of other operations only make equal shapes different: learning rates, scales.
  const bool matters = operation_kind(operation) == OperationKind::kAttention;
  if (matters && !values.empty()) detail.fields.emplace_back(kValues, values);
  return detail;
}

void attach_shapes(Timeline& timeline, const SpanLaunches& launch,
                   std::deque<HostInterval> operations) {
  if (operations.empty()) return;
  // Outer before inner.
  std::sort(operations.begin(), operations.end(), [](const HostInterval& a, const HostInterval& b) {
    return std::tuple(a.track, a.start, b.end, a.rule) <
           std::tuple(b.track, b.start, a.end, b.rule);
  });
  std::vector<std::int32_t> of_call(timeline.spans.size(), -1);
  std::vector<const HostInterval*> open;
  auto next = operations.begin();
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    const TimelineSpan& call = timeline.spans[i];
    if (kind_of(timeline, call) != SpanKind::kLaunch) continue;
    for (; next != operations.end() &&
           std::tuple(next->track, next->start) <= std::tuple(call.track, call.start);
         ++next) {
      open.push_back(&*next);
    }
    while (!open.empty() && (open.back()->track != call.track || open.back()->end < call.start)) {
      open.pop_back();
    }
    if (!open.empty()) of_call[i] = static_cast<std::int32_t>(open.back()->rule);
  }
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    TimelineSpan& work = timeline.spans[i];
    if (launch[i] == kNoSpan || !is_gpu_work(kind_of(timeline, work))) continue;
    SpanExtra extra = timeline.extra_of(work);
    if (extra.detail >= 0) continue;
    extra.detail = of_call[launch[i]];
    work.extra = timeline.extras.intern(extra);
  }
}

std::optional<OperationShape> operation_shape(const SpanDetail& detail) {
  const json name = parsed(detail, kOperation);
  const json dims = parsed(detail, kDims);
  if (!name.is_string() || !dims.is_array()) return std::nullopt;
  OperationShape shape;
  shape.name = name.get<std::string>();
  const auto kind = operation_kind(shape.name);
  if (!kind) return std::nullopt;
  shape.kind = *kind;
  for (const json& one : dims) shape.dims.push_back(sizes(one));
  shape.types = texts(parsed(detail, kTypes));
  shape.types.resize(shape.dims.size());
  shape.values = texts(parsed(detail, kValues));
  return shape;
}

}  // namespace zenflow::sim
