#include "sim/trace/analysis/trace_tables.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "sim/base/median.h"
#include "sim/base/text.h"
#include "sim/trace/import/operation_shapes.h"

namespace zenflow::sim {
namespace {

constexpr std::size_t kMostRows = 50;
constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

struct TimeSum {
  std::uint64_t spans = 0;
  Picoseconds time{};
};

template <class Row>
void sort_by_time(std::vector<Row>& rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.time > b.time; });
}

std::vector<NamedTime> top_kernels(const Timeline& timeline) {
  std::vector<TimeSum> sums(timeline.names.size());
  for (const TimelineSpan& span : timeline.spans) {
    const SpanKind kind = kind_of(timeline, span);
    if (kind != SpanKind::kKernel && kind != SpanKind::kCollective) continue;
    ++sums[span.name].spans;
    sums[span.name].time += span.end - span.start;
  }
  std::vector<NamedTime> found;
  for (NameId name = 0; name < sums.size(); ++name) {
    if (sums[name].spans > 0) {
      found.push_back({timeline.names[name], sums[name].spans, sums[name].time});
    }
  }
  sort_by_time(found);
  if (found.size() > kMostRows) found.resize(kMostRows);
  return found;
}

/// What of a trace's details is a product; its batch, m, n, k are empty where shapes do not fit.
std::optional<ShapedProduct> product_of(const SpanDetail& detail) {
  const auto shape = operation_shape(detail);
  if (!shape || shape->kind != OperationKind::kProduct) return std::nullopt;
  const bool adds = shape->name == "aten::addmm" || shape->name == "aten::baddbmm";
  const std::size_t first = adds ? 1 : 0;
  if (shape->dims.size() < first + 2) return std::nullopt;
  const auto& a = shape->dims[first];
  const auto& b = shape->dims[first + 1];
  if (a.size() != b.size() || a.size() < 2 || a.size() > 3) return std::nullopt;
  ShapedProduct found{.operation = shape->name,
                      .batch = a.size() == 3 ? a[0] : 1,
                      .m = a[a.size() - 2],
                      .n = b.back(),
                      .k = a.back(),
                      .type = shape->types[first]};
  return found.k == b[b.size() - 2] ? std::optional(found) : std::nullopt;
}

/// By shape the time of all kernels; as many products as there are kernels of the name that takes
/// most of it: others add up what was split.
std::vector<ShapedProduct> products_by_shape(const Timeline& timeline) {
  std::map<std::int32_t, std::map<NameId, TimeSum>> sums;  // by detail
  for (const TimelineSpan& span : timeline.spans) {
    const std::int32_t detail = timeline.extra_of(span).detail;
    if (detail < 0 || kind_of(timeline, span) != SpanKind::kKernel) continue;
    TimeSum& sum = sums[detail][span.name];
    ++sum.spans;
    sum.time += span.end - span.start;
  }
  std::vector<ShapedProduct> found;
  for (const auto& [detail, kernels] : sums) {
    auto product = product_of(timeline.details[static_cast<std::size_t>(detail)]);
    if (!product) continue;
    Picoseconds longest{-1};
    for (const auto& [name, sum] : kernels) {
      product->time += sum.time;
      if (sum.time > longest) product->products = sum.spans;
      longest = std::max(longest, sum.time);
    }
    found.push_back(*product);
  }
  sort_by_time(found);
  return found;
}

std::string kind_of_collective(std::string name) {
  name.erase(std::remove(name.begin(), name.end(), '_'), name.end());
  name = lower_case(name);
  static constexpr std::array<std::pair<const char*, const char*>, 8> kKinds{
      {{"allreduce", "all_reduce"},
       {"allgather", "all_gather"},
       {"reducescatter", "reduce_scatter"},
       {"crossdevicereduce", "all_reduce"},
       {"broadcast", "broadcast"},
       {"alltoall", "all_to_all"},
       {"sendrecv", "send_recv"},
       {"reduce", "reduce"}}};
  for (const auto& [word, kind] : kKinds) {
    if (name.find(word) != name.npos) return kind;
  }
  return "other";
}

std::int64_t group_size(const SpanDetail* detail) {
  if (detail == nullptr) return 0;
  for (const auto& [name, value] : detail->fields) {
    if (name != kGroupSizeField) continue;
    std::int64_t size = 0;
    std::from_chars(value.data(), value.data() + value.size(), size);
    return size;
  }
  return 0;
}

/// Kineto says what each rank puts in.
double whole_buffer(const std::string& kind, double in, std::int64_t ranks) {
  return kind == "all_gather" ? in * static_cast<double>(ranks) : in;
}

std::vector<SizedCollective> collectives_by_size(const Timeline& timeline) {
  std::map<NameId, std::string> kinds;
  std::map<std::tuple<std::string, double, std::int64_t>, TimeSum> sums;
  for (const TimelineSpan& span : timeline.spans) {
    if (kind_of(timeline, span) != SpanKind::kCollective) continue;
    const auto [kind, is_new] = kinds.try_emplace(span.name);
    if (is_new) kind->second = kind_of_collective(timeline.name_of(span));
    const std::int64_t ranks = group_size(timeline.detail_of(span));
    const double in = std::max(0.0, timeline.extra_of(span).bytes);
    TimeSum& sum = sums[{kind->second, whole_buffer(kind->second, in, ranks), ranks}];
    ++sum.spans;
    sum.time += span.end - span.start;
  }
  std::vector<SizedCollective> found;
  for (const auto& [key, sum] : sums) {
    const auto& [kind, bytes, ranks] = key;
    found.push_back({kind, bytes, ranks, sum.spans, sum.time});
  }
  sort_by_time(found);
  return found;
}

std::optional<StepVariation> variation_of(const std::vector<TimelineStep>& steps) {
  if (steps.size() < 2) return std::nullopt;
  std::vector<double> lengths;
  for (const TimelineStep& one : steps) {
    lengths.push_back(static_cast<double>((one.end - one.start).count));
  }
  StepVariation found;
  const auto count = static_cast<double>(lengths.size());
  for (const double one : lengths) found.mean += one / count;
  double squares = 0;
  for (const double one : lengths) squares += (one - found.mean) * (one - found.mean);
  found.deviation = std::sqrt(squares / (count - 1));
  const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
  found.least = *least;
  found.most = *most;
  found.median = median(lengths);
  return found;
}

}  // namespace

double ShapedProduct::flops_per_second() const {
  if (time.count <= 0) return kNotKnown;
  const double each = 2.0 * static_cast<double>(batch) * static_cast<double>(m) *
                      static_cast<double>(n) * static_cast<double>(k);
  return static_cast<double>(products) * each / to_seconds(time).value();
}

double SizedCollective::bus_bytes_per_second() const {
  if (bytes <= 0 || time.count <= 0) return kNotKnown;
  const double rate = static_cast<double>(collectives) * bytes / to_seconds(time).value();
  if (kind == "broadcast" || kind == "reduce" || kind == "send_recv") return rate;
  if (kind == "other" || ranks < 2) return kNotKnown;
  const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  return rate * (kind == "all_reduce" ? 2 * others : others);
}

void add_peaks(std::vector<ShapedProduct>& products, double bf16, double fp16) {
  for (ShapedProduct& one : products) {
    if (one.type == "c10::BFloat16") one.peak = bf16;
    if (one.type == "c10::Half") one.peak = fp16;
  }
}

TraceTables trace_tables(const ImportedTrace& trace) {
  const Timeline& timeline = trace.timeline;
  TraceTables tables{top_kernels(timeline),
                     {},
                     products_by_shape(timeline),
                     collectives_by_size(timeline),
                     variation_of(timeline.steps)};
  for (const OperatorTime& one : trace.operators) {
    tables.operators.push_back({one.name, one.count, one.time});
  }
  sort_by_time(tables.operators);
  if (tables.operators.size() > kMostRows) tables.operators.resize(kMostRows);
  return tables;
}

}  // namespace zenflow::sim
