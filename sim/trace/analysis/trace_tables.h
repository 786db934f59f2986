/// What of a trace took longest, and how well: kernels, operators, products by shape, collectives
/// by size; and how much steps vary. Each list with what took longest first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/trace/import/imported_trace.h"

namespace zenflow::sim {

struct NamedTime {
  std::string name;
  std::uint64_t spans = 0;
  Picoseconds time{};
};

/// Products of one shape: what was computed, and how fast.
struct ShapedProduct {
  std::string operation;  ///< "aten::addmm"
  std::int64_t batch = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::string type;  ///< "c10::BFloat16"
  std::uint64_t products = 0;
  Picoseconds time{};  ///< of all kernels that the operations launched
  double peak = 0;     ///< FLOP/s of the GPU in this type; 0: not known

  /// 2 m n k of each; NaN without time.
  [[nodiscard]] double flops_per_second() const;
};

/// States the peaks of products in 16-bit types. In fp32 a trace does not show whether tensor cores
/// were used. Shape: dense FLOP/s.
void add_peaks(std::vector<ShapedProduct>& products, double bf16, double fp16);

/// Collectives of one kind, size and group.
struct SizedCollective {
  std::string kind;        ///< "all_reduce"; "other"
  double bytes = 0;        ///< of the whole buffer, as nccl-tests count; 0: not in the trace
  std::int64_t ranks = 0;  ///< 0: not in the trace
  std::uint64_t collectives = 0;
  Picoseconds time{};

  /// What each rank's link carries in a second, as nccl-tests' busbw: bytes by time, by
  /// 2 (n - 1) / n of an all-reduce, (n - 1) / n of a gather, scatter or exchange. NaN where it
  /// cannot be said. Waiting for other ranks is in the time.
  [[nodiscard]] double bus_bytes_per_second() const;
};

/// Durations of the steps, picoseconds.
struct StepVariation {
  double mean = 0;
  double deviation = 0;  ///< standard
  double least = 0;
  double median = 0;
  double most = 0;
};

struct TraceTables {
  std::vector<NamedTime> kernels;    ///< at most fifty
  std::vector<NamedTime> operators;  ///< of the host, with what they call; at most fifty
  std::vector<ShapedProduct> products;
  std::vector<SizedCollective> collectives;
  std::optional<StepVariation> steps{};  ///< of two or more
};

/// Memory: 16 bytes for each name, meanwhile.
[[nodiscard]] TraceTables trace_tables(const ImportedTrace& trace);

}  // namespace zenflow::sim
