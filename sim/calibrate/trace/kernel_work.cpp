#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "sim/base/text.h"
#include "sim/calibrate/trace/clock_tick.h"
#include "sim/calibrate/trace/trace_work.h"
#include "sim/cost/gpu_cost.h"
#include "sim/trace/import/operation_shapes.h"
#include "sim/trace/launches.h"
#include "sim/trace/span_names.h"

namespace zenflow::sim {
namespace {

constexpr std::size_t kMostOfOneShape = 64;
/// Element-wise passes between these sizes may be served by a cache, and say nothing of memory.
constexpr double kSurelyTiny = 1e5;
constexpr double kSurelyMemory = 64.0 * (1 << 20);
constexpr double kLeastSeconds = 1e-9;

// Words in names of kernels of cuBLAS and CUTLASS.
constexpr std::array<std::string_view, 2> kSplitSums = {"splitKreduce", "splitK_reduce"};
constexpr std::array<std::string_view, 3> kUnaligned = {"align1", "align2", "align4"};
constexpr std::array<std::string_view, 2> kTf32 = {"tf32", "1688"};

enum class KernelClass : std::uint8_t { kProduct, kAttention, kOther };
constexpr std::size_t kKernelClasses = 3;

KernelClass class_of_kernel(std::string_view name) {
  if (is_attention(name)) return KernelClass::kAttention;
  return is_product(name) ? KernelClass::kProduct : KernelClass::kOther;
}

std::optional<DType> dtype_of(std::string_view type) {
  if (type == "c10::BFloat16") return DType::kBf16;
  if (type == "c10::Half") return DType::kFp16;
  if (type == "float") return DType::kFp32;
  return std::nullopt;
}

double width_of(std::string_view type) {
  if (type == "double" || type == "long int" || type == "long") return 8;
  if (type == "float" || type == "int") return 4;
  if (type == "c10::Half" || type == "c10::BFloat16") return 2;
  if (type == "bool" || type == "unsigned char" || type == "signed char") return 1;
  return 0;
}

double elements_of(const std::vector<std::int64_t>& dims) {
  double product = dims.empty() ? 0 : 1;
  for (const std::int64_t size : dims) product *= static_cast<double>(size);
  return product;
}

/// Work of one kernel, of a known type.
struct ShapedWork {
  OperationKind kind = OperationKind::kProduct;
  DType dtype = DType::kFp32;
  double flops = 0;
  double bytes = 0;
  double besides = 0;  ///< seconds before and after
};

/// What products hold of a benchmark's rate on the trace's GPUs.
double held_in(const Timeline& timeline, const GpuProfile& gpu) {
  const bool several =
      std::any_of(timeline.spans.begin(), timeline.spans.end(),
                  [](const TimelineSpan& span) { return span.kind == SpanKind::kCollective; });
  return gpu.gemm_share_among(several ? 2 : 1);
}

std::optional<ShapedWork> product_of(const OperationShape& shape, const GpuProfile& gpu,
                                     double held) {
  if (shape.dims.size() < 2) return std::nullopt;
  const bool adds = shape.name == "aten::addmm" || shape.name == "aten::baddbmm";
  const std::size_t first = adds ? 1 : 0;
  if (shape.dims.size() < first + 2) return std::nullopt;
  const auto& a = shape.dims[first];
  const auto& b = shape.dims[first + 1];
  if (a.size() != b.size() || a.size() < 2 || a.size() > 3) return std::nullopt;
  const double batch = a.size() == 3 ? static_cast<double>(a[0]) : 1;
  const auto m = static_cast<double>(a[a.size() - 2]);
  const auto k = static_cast<double>(a.back());
  const auto n = static_cast<double>(b.back());
  const auto dtype = dtype_of(shape.types[first]);
  if (!dtype || a.back() != b[b.size() - 2] || batch * m * n * k <= 0) return std::nullopt;
  // The tiles of a batch are those of a result as many times as wide.
  if (gpu.multiprocessors > 0 && gpu.peak.contains(*dtype)) {
    const BoundedWork work = product_work(gpu, *dtype, m, batch * n, k, {.held = held});
    return ShapedWork{OperationKind::kProduct, *dtype, work.flops.value(), work.traffic.value(),
                      work.besides.value()};
  }
  const double width = width_of(shape.types[first]);
  return ShapedWork{OperationKind::kProduct, *dtype, 2 * batch * m * n * k,
                    batch * width * (m * k + k * n + m * n)};
}

/// Which of the truth values among the inputs is is_causal differs by implementation: the first of
/// FlashAttention's, the second of cuDNN's forward pass, else the last.
std::optional<bool> is_causal(const OperationShape& shape) {
  std::vector<bool> truths;
  for (const std::string& value : shape.values) {
    if (value == "True" || value == "False") truths.push_back(value == "True");
  }
  if (truths.empty()) return std::nullopt;
  if (shape.name.find("flash") != shape.name.npos) return truths.front();
  const bool second = shape.name.ends_with("cudnn_attention") && truths.size() > 1;
  return second ? truths[1] : truths.back();
}

/// [batch, heads, length, width] of queries, keys and values; backward after the gradient.
std::optional<ShapedWork> attention_of(const OperationShape& shape) {
  const bool backward = shape.name.ends_with("_backward");
  const std::size_t first = backward ? 1 : 0;
  if (shape.dims.size() < first + 3) return std::nullopt;
  const auto& q = shape.dims[first];
  const auto& k = shape.dims[first + 1];
  if (q.size() != 4 || k.size() != 4) return std::nullopt;
  const auto dtype = dtype_of(shape.types[first]);
  if (!dtype || shape.values.empty()) return std::nullopt;
  const auto causal = is_causal(shape);
  if (!causal) return std::nullopt;
  const double products = backward ? 2.5 : 1;  // gpu_cost.h
  const double flops = 4 * products * elements_of(q) * static_cast<double>(k[2]);
  const double width = width_of(shape.types[first]);
  const double bytes = (backward ? 2 : 1) * width * 2 * (elements_of(q) + elements_of(k));
  return ShapedWork{OperationKind::kAttention, *dtype, *causal ? flops / 2 : flops, bytes};
}

/// Inputs read once, the result written once; in place it is the first of them.
std::optional<ShapedWork> pass_of(const OperationShape& shape) {
  double bytes = 0;
  double largest = 0;
  for (std::size_t i = 0; i < shape.dims.size(); ++i) {
    if (shape.dims[i].empty()) continue;
    const double width = width_of(shape.types[i]);
    if (width == 0) return std::nullopt;
    bytes += width * elements_of(shape.dims[i]);
    largest = std::max(largest, width * elements_of(shape.dims[i]));
  }
  if (shape.name == "aten::fill_") return ShapedWork{OperationKind::kElementWise, {}, 0, largest};
  // copy_ lists its target among its inputs.
  if (shape.name != "aten::copy_") bytes += largest;
  if (bytes <= 0) return std::nullopt;
  return ShapedWork{OperationKind::kElementWise, DType::kFp32, 0, bytes};
}

std::optional<ShapedWork> work_of(const SpanDetail& detail, const GpuProfile& gpu, double held) {
  const auto shape = operation_shape(detail);
  if (!shape) return std::nullopt;
  switch (shape->kind) {
    case OperationKind::kProduct:
      return product_of(*shape, gpu, held);
    case OperationKind::kAttention:
      return attention_of(*shape);
    case OperationKind::kElementWise:
      return pass_of(*shape);
  }
  return std::nullopt;
}

double rate_of(const HardwareProfile& profile, double efficiency, DType dtype) {
  return efficiency * profile.gpu.peak.at(dtype).value();
}

double shaped_seconds(const HardwareProfile& profile, const ShapedWork& work, double gap) {
  const GpuProfile& gpu = profile.gpu;
  const double memory = gpu.memory_bandwidth.value();
  double time = 0;
  switch (work.kind) {
    case OperationKind::kProduct:
      time = std::max((work.flops + gpu.gemm_half_size.value()) /
                          rate_of(profile, gpu.gemm_efficiency, work.dtype),
                      work.bytes / (gpu.streaming_efficiency * memory));
      break;
    case OperationKind::kAttention:
      time = std::max(work.flops / rate_of(profile, gpu.attention_efficiency, work.dtype),
                      work.bytes / (gpu.streaming_efficiency * memory));
      break;
    case OperationKind::kElementWise:
      time = work.bytes / (gpu.elementwise_efficiency * memory);
  }
  return std::max(kLeastSeconds, time + work.besides + gpu.kernel_launch.value() - gap);
}

struct ShapedKernel {
  ShapedWork work;
  double seconds = 0;
  double parts = 1;  ///< kernels that it was split into
};

/// All kernels whose shapes are known, at most so many of one shape.
class ShapedKernels {
 public:
  ShapedKernels(const Timeline& timeline, const HardwareProfile& base)
      : timeline_(timeline), base_(base) {
    const double held = held_in(timeline, base.gpu);
    for (const SpanDetail& detail : timeline.details) {
      works_.push_back(work_of(detail, base.gpu, held));
    }
    for (const TimelineSpan& span : timeline.spans) take(span);
  }
  std::vector<ShapedKernel> found;
  std::size_t tf32 = 0;
  std::size_t without_peak = 0;
  std::size_t cached = 0;
  std::size_t repeated = 0;
  std::size_t unaligned = 0;
  std::size_t within_tick = 0;

 private:
  void take(const TimelineSpan& span) {
    const std::int32_t detail = timeline_.extra_of(span).detail;
    if (detail < 0 || kind_of(timeline_, span) != SpanKind::kKernel) return;
    const auto& work = works_[static_cast<std::size_t>(detail)];
    if (!work) return;
    if (span.end <= span.start) {
      ++within_tick;
      return;
    }
    const std::string& name = timeline_.name_of(span);
    const KernelClass kernel = class_of_kernel(name);
    if (work->kind == OperationKind::kProduct) {
      // The second kernel of a product that was split belongs to the first.
      if (contains_any(name, kSplitSums)) {
        if (last_ == detail && !found.empty()) {
          found.back().seconds += seconds_of(span);
          found.back().parts += 1;
        }
        return;
      }
      last_ = -1;
      if (kernel != KernelClass::kProduct) return;
      // Which of the dimensions are lengths of rows depends on what is transposed; CUTLASS says by
      // how many elements it reads.
      if (contains_any(name, kUnaligned)) {
        ++unaligned;
        return;
      }
      if (contains_any(name, kTf32) && work->dtype == DType::kFp32) {
        ++tf32;
        return;
      }
    }
    if (work->kind == OperationKind::kAttention && kernel != KernelClass::kAttention) return;
    if (work->kind == OperationKind::kElementWise) {
      if (name.find("elementwise") == name.npos) return;
      if (work->bytes > kSurelyTiny && work->bytes < kSurelyMemory) {
        ++cached;
        return;
      }
    } else if (!base_.gpu.peak.contains(work->dtype)) {
      ++without_peak;
      return;
    }
    if (++counts_[detail] > kMostOfOneShape) {
      ++repeated;
      return;
    }
    found.push_back({*work, seconds_of(span)});
    last_ = detail;
  }

  const Timeline& timeline_;
  const HardwareProfile& base_;
  std::vector<std::optional<ShapedWork>> works_;  // by detail
  std::map<std::int32_t, std::size_t> counts_;
  std::int32_t last_ = -1;
};

TimedGroup shaped_group(const std::vector<ShapedKernel>& kernels, OperationKind kind,
                        const char* what, double gap, double tick) {
  const bool computes = kind != OperationKind::kElementWise;
  TimedGroup group{.what = what,
                   .seconds = {},
                   .amounts = {},
                   .amount_unit = computes ? 1e9 : 1e6,
                   .amount_name = computes ? "GFLOP" : "MB",
                   .predict = {}};
  std::vector<ShapedWork> works;
  for (const ShapedKernel& one : kernels) {
    if (one.work.kind != kind) continue;
    group.seconds.push_back(one.seconds);
    group.amounts.push_back(computes ? one.work.flops : one.work.bytes);
    group.clock_errors.push_back(clock_error(tick, one.parts));
    works.push_back(one.work);
  }
  if (!computes) group.untaken = {kSurelyTiny, kSurelyMemory};
  group.predict = [works = std::move(works), gap](const HardwareProfile& profile) {
    std::vector<double> times;
    for (const ShapedWork& work : works) times.push_back(shaped_seconds(profile, work, gap));
    return times;
  };
  return group;
}

/// What the kernels of one class, phase and step took, and how many they were.
struct PassTime {
  bool forward = true;
  KernelClass kernels = KernelClass::kOther;
  double seconds = 0;
  double count = 0;
};

/// Seconds of a step's layers, with the gap and loss of `count` kernels.
double pass_seconds(const HardwareProfile& profile, const Job& job, const ModelWork& work,
                    const PassTime& pass, double gap) {
  const GpuProfile& gpu = profile.gpu;
  const TrainingSettings& training = job.scenario.training;
  const double stream = gpu.streaming_efficiency * gpu.memory_bandwidth.value();
  const auto layer = [&](const LayerWork& one) {
    double time = 0;
    switch (pass.kernels) {
      case KernelClass::kProduct:
        for (const BoundedWork& product : one.products) {
          time += std::max((product.flops + gpu.gemm_half_size).value() /
                               rate_of(profile, gpu.gemm_efficiency, training.dtype),
                           product.traffic.value() / stream) +
                  product.besides.value();
        }
        break;
      case KernelClass::kAttention:
        for (const BoundedWork& attention : one.attention) {
          time += std::max(
              attention.flops.value() / rate_of(profile, gpu.attention_efficiency, training.dtype),
              attention.traffic.value() / stream);
        }
        break;
      case KernelClass::kOther:
        time = one.chains.value() / (gpu.elementwise_efficiency * gpu.memory_bandwidth.value());
    }
    return time;
  };
  const auto part = [&](const LayerPasses& passes, bool recomputes) {
    if (pass.forward) return layer(passes.forward);
    return layer(passes.backward) + (recomputes ? layer(passes.forward) : 0);
  };
  double time = part(work.embedding, false);
  for (std::size_t kind = 0; kind < work.kinds.size(); ++kind) {
    time += static_cast<double>(work.counts[kind]) *
            part(work.kinds[kind], training.activation_checkpointing);
  }
  time += part(work.head, false);
  const auto steps = static_cast<double>(job.deepspeed.gradient_accumulation_steps);
  return std::max(kLeastSeconds, steps * time + pass.count * (gpu.kernel_launch.value() - gap));
}

std::vector<PassTime> passes_of(const Timeline& timeline) {
  std::map<std::tuple<int, std::int32_t, bool, KernelClass>, PassTime> sums;
  for (const TimelineSpan& span : timeline.spans) {
    const bool forward = span.phase == SpanPhase::kForward;
    if (!forward && span.phase != SpanPhase::kBackward) continue;
    const std::int32_t step = timeline.extra_of(span).step;
    if (step < 0 || kind_of(timeline, span) != SpanKind::kKernel) continue;
    const KernelClass kernels = class_of_kernel(timeline.name_of(span));
    PassTime& one = sums[{timeline.tracks[span.track].device, step, forward, kernels}];
    one.forward = forward;
    one.kernels = kernels;
    one.seconds += seconds_of(span);
    one.count += 1;
  }
  std::vector<PassTime> found;
  for (const auto& [key, one] : sums) {
    if (one.seconds > 0) found.push_back(one);
  }
  return found;
}

}  // namespace

TraceWork shaped_kernel_work(const Timeline& timeline, const HardwareProfile& base,
                             double gap_seconds) {
  const ShapedKernels kernels(timeline, base);
  const double tick = clock_tick(timeline, is_gpu_work);
  TraceWork work;
  const auto add = [&](OperationKind kind, const char* what) {
    work.add(shaped_group(kernels.found, kind, what, gap_seconds, tick));
  };
  add(OperationKind::kProduct, "products by shape");
  add(OperationKind::kAttention, "attention by shape");
  add(OperationKind::kElementWise, "element-wise passes by shape");
  const auto note = [&](std::size_t count, const char* why) {
    if (count > 0) work.notes.push_back(fmt::format("{} kernels left aside: {}", count, why));
  };
  note(kernels.tf32, "fp32 products in TF32, of which the profile states no peak");
  note(kernels.without_peak, "products of a type of which the profile states no peak");
  note(kernels.unaligned, "products whose rows are no multiple of 16 bytes");
  note(kernels.cached, "element-wise passes of 0.1 to 67 MB may be served by a cache");
  note(kernels.repeated, "further ones of shapes of which 64 are used");
  note(kernels.within_tick, "shorter than the recording clock resolves");
  return work;
}

TraceWork model_kernel_work(const Timeline& timeline, const Job& job, double gap_seconds) {
  struct Row {
    KernelClass kernels;
    const char* what;
    const char* tells;
  };
  constexpr std::array<Row, kKernelClasses> kRows{{
      {KernelClass::kProduct, "products of a pass", "gpu.gemm_efficiency"},
      {KernelClass::kAttention, "attention of a pass", "gpu.attention_efficiency"},
      {KernelClass::kOther, "element-wise kernels of a pass", "gpu.elementwise_efficiency"},
  }};
  const std::vector<PassTime> all = passes_of(timeline);
  const double tick = clock_tick(timeline, is_gpu_work);
  const ModelWork model =
      model_work(job.scenario.hardware.gpu, job.scenario.model, job.scenario.training,
                 job.scenario.hardware.gpu.gemm_share_among(job.scenario.ranks()));
  const bool fused = std::any_of(all.begin(), all.end(), [](const PassTime& one) {
    return one.kernels == KernelClass::kAttention;
  });
  TraceWork work;
  for (const Row& row : kRows) {
    // Without a fused kernel its products and its softmax are among the others.
    if (!fused && row.kernels != KernelClass::kAttention && !all.empty()) {
      work.notes.emplace_back(
          fmt::format("{}: not used: no fused attention kernel was recognised, so that its parts "
                      "are among them",
                      row.what));
      continue;
    }
    TimedGroup group{.what = row.what,
                     .seconds = {},
                     .amounts = {},
                     .amount_unit = 1e-3,
                     .amount_name = "ms a step",
                     .predict = {},
                     .only = {row.tells}};
    std::vector<PassTime> passes;
    for (const PassTime& one : all) {
      if (one.kernels != row.kernels) continue;
      passes.push_back(one);
      group.seconds.push_back(one.seconds);
      group.amounts.push_back(one.seconds);
      group.clock_errors.push_back(clock_error(tick, one.count));
    }
    group.predict = [passes, model, job, gap_seconds](const HardwareProfile& profile) {
      std::vector<double> times;
      for (const PassTime& one : passes) {
        times.push_back(pass_seconds(profile, job, model, one, gap_seconds));
      }
      return times;
    };
    work.add(std::move(group));
  }
  return work;
}

}  // namespace zenflow::sim
