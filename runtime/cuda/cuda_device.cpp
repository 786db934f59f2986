#include "runtime/cuda/cuda_device.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <cuda_runtime_api.h>

#include "kernels/accumulate/accumulate_cuda.h"
#include "kernels/adamw/adamw_cuda.h"
#include "kernels/column_norm/column_norm_cuda.h"
#include "kernels/columns/columns_cuda.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/mapped_copy/mapped_copy_cuda.h"
#include "kernels/square_sum/square_sum_cuda.h"
#include "runtime/cuda/cuda_memory.h"
#include "runtime/cuda/device_stream.h"
#include "runtime/device/element_view.h"
#include "runtime/device/host_stream.h"
#include "runtime/device/memory_ledger.h"
#include "runtime/gpu/driver.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

using kernels::Bf16;
using kernels::cuda_check;
using kernels::MatrixView;

CudaDeviceStream& cuda(Stream& stream) {
  return static_cast<CudaDeviceStream&>(stream);
}

/// Rounded up so that what lies behind is aligned, too.
std::size_t norm_workspace(std::size_t rows, std::size_t columns) {
  constexpr std::size_t kAlignment = 256;
  const std::size_t bytes = kernels::column_norm_workspace(rows, columns);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

void copy_on_device(cudaStream_t stream, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream),
             "cudaMemcpyAsync on the device");
}

class CudaDevice final : public Device {
 public:
  CudaDevice(const CudaDeviceSettings& settings, Recorder& recorder);

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] Buffer allocate(MemoryKind kind, std::size_t bytes,
                                std::string_view purpose) override {
    return memory_.allocate(kind, bytes, purpose);
  }
  [[nodiscard]] std::unique_ptr<Stream> make_stream(std::string_view name) override;
  [[nodiscard]] std::shared_ptr<Signal> make_signal() override {
    return std::make_shared<HostSignal>();
  }
  [[nodiscard]] TrafficCount traffic() const override { return traffic_.count(); }
  [[nodiscard]] MemoryUse memory_use(MemoryKind kind) const override { return memory_.most(kind); }
  void expect(Stream& stream, std::size_t rows, std::size_t columns) override;
  void expect_square_sums(Stream& stream, std::size_t elements, std::size_t arrays) override;
  void collect_times() override;
  void collect_all_times() override;

  void copy(Stream& stream, void* to, const void* from, std::size_t bytes, CopyDirection direction,
            Traffic kind, Label label) override;
  void run(Stream&, Label, std::function<void()>) override {
    throw Error(ErrorKind::kInput, "the host cannot work on a GPU's memory: NCCL's ranks do");
  }
  void clear(Stream& stream, void* values, std::size_t bytes, Label label) override;
  void square_sums(Stream& stream, ElementType type, std::span<const SquareSum> arrays,
                   Label label) override;
  void column_norms(Stream& stream, ElementType type, const DeviceMatrix& matrix, NormKind kind,
                    float* norms, Label label) override;
  void gather_columns(Stream& stream, ElementType type, const DeviceMatrix& matrix,
                      const std::uint32_t* column, std::size_t n, void* out, Label label) override;
  void scatter_columns(Stream& stream, ElementType type, const void* in,
                       const std::uint32_t* column, std::size_t n, const DeviceMatrix& matrix,
                       Label label) override;
  void update_columns(Stream& stream, ElementType type, const kernels::AdamWSettings& settings,
                      const kernels::ColumnCorrections& corrections, float gradient_scale,
                      const void* gradient, const SelectedColumns& selected,
                      const DeviceMatrix& weights, Label label) override;
  void accumulate(Stream& stream, ElementType type, const void* gradient, float scale,
                  std::size_t n, bool first, float* sum, Label label) override;

 private:
  std::string name_;
  Recorder& recorder_;
  CudaMemoryBooks memory_;
  TrafficLedger traffic_;
  CudaStreamShared shared_;
  [[nodiscard]] std::vector<std::shared_ptr<StreamClock>> clocks() const;

  std::vector<std::weak_ptr<StreamClock>> clocks_;  // of streams that may be gone
};

std::optional<std::uint64_t> limit_of(const CudaDeviceSettings& settings) {
  if (!settings.memory) return std::nullopt;
  return static_cast<std::uint64_t>(settings.memory->value());
}

CudaDevice::CudaDevice(const CudaDeviceSettings& settings, Recorder& recorder)
    : recorder_(recorder),
      memory_(settings.ordinal, limit_of(settings)),
      shared_{.ordinal = settings.ordinal, .launches = settings.launches} {
  cudaDeviceProp properties{};
  cuda_check(cudaGetDeviceProperties(&properties, settings.ordinal), "cudaGetDeviceProperties");
  name_ = properties.name;
}

std::unique_ptr<Stream> CudaDevice::make_stream(std::string_view name) {
  cuda_check(cudaSetDevice(shared_.ordinal), "cudaSetDevice");
  int least = 0;
  int greatest = 0;
  cuda_check(cudaDeviceGetStreamPriorityRange(&least, &greatest),
             "cudaDeviceGetStreamPriorityRange");
  // The other streams' kernels move columns beside it, and have a whole window for that.
  const bool computes = name == "compute";
  const sim::TrackKind kind = computes ? sim::TrackKind::kGpuKernels : sim::TrackKind::kGpuCopies;
  auto stream = std::make_unique<CudaDeviceStream>(
      std::string(name), computes ? greatest : least, shared_,
      recorder_.add_track(std::string(name), kind, SpansKept::kWhenAsked));
  clocks_.push_back(stream->clock());
  return stream;
}

std::vector<std::shared_ptr<StreamClock>> CudaDevice::clocks() const {
  std::vector<std::shared_ptr<StreamClock>> there;
  for (const std::weak_ptr<StreamClock>& one : clocks_) {
    if (auto clock = one.lock()) there.push_back(std::move(clock));
  }
  return there;
}

void CudaDevice::collect_times() {
  const auto all = clocks();
  for (const auto& clock : all) clock->take_in();
  for (const auto& clock : all) clock->hand_over();
}

void CudaDevice::collect_all_times() {
  for (const auto& clock : clocks()) clock->wait_for_last();
  collect_times();
}

void CudaDevice::expect(Stream& stream, std::size_t rows, std::size_t columns) {
  const std::size_t norms = norm_workspace(rows, columns) + columns * sizeof(float);
  static_cast<void>(cuda(stream).workspace(*this, norms));
}

void CudaDevice::expect_square_sums(Stream& stream, std::size_t elements, std::size_t arrays) {
  static_cast<void>(
      cuda(stream).workspace(*this, kernels::square_sums_workspace(elements, arrays)));
}

void CudaDevice::copy(Stream& stream, void* to, const void* from, std::size_t bytes,
                      CopyDirection direction, Traffic kind, Label label) {
  if (bytes == 0) return;
  const bool up = direction == CopyDirection::kHostToDevice;
  if (!memory_.is_pinned(up ? from : to, bytes)) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: {} bytes to or from host memory that is not page-locked would "
                            "block the thread that enqueues them",
                            recorded_name(label.operation), bytes));
  }
  traffic_.add(direction, kind, bytes);
  const OperationScope scope = cuda(stream).copying(label, direction, kind, bytes);
  if (is_mapped(kind, bytes)) {
    return kernels::mapped_copy_cuda(to, from, bytes, cuda(stream).for_work());
  }
  cuda_check(cudaMemcpyAsync(to, from, bytes, up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                             cuda(stream).for_work()),
             "cudaMemcpyAsync");
}

void CudaDevice::clear(Stream& stream, void* values, std::size_t bytes, Label label) {
  const OperationScope scope = cuda(stream).launching(label);
  cuda_check(cudaMemsetAsync(values, 0, bytes, cuda(stream).for_work()), "cudaMemsetAsync");
}

void CudaDevice::square_sums(Stream& stream, ElementType type, std::span<const SquareSum> arrays,
                             Label label) {
  const OperationScope scope = cuda(stream).launching(label);
  std::size_t elements = 0;
  for (const SquareSum& one : arrays) elements += one.n;
  void* workspace =
      cuda(stream).workspace(*this, kernels::square_sums_workspace(elements, arrays.size()));
  with_type(type, [&](auto* element) {
    using E = Pointee<decltype(element)>;
    std::vector<kernels::SquareSumOf<E>> typed;
    typed.reserve(arrays.size());
    for (const SquareSum& one : arrays) {
      typed.push_back({static_cast<const E*>(one.values), one.n, one.sum});
    }
    kernels::square_sums_cuda<E>(typed, workspace, cuda(stream).for_work());
  });
}

void CudaDevice::column_norms(Stream& stream, ElementType type, const DeviceMatrix& matrix,
                              NormKind kind, float* norms, Label label) {
  const OperationScope scope = cuda(stream).launching(label);
  const std::size_t blocks = norm_workspace(matrix.rows, matrix.columns);
  std::byte* workspace = cuda(stream).workspace(*this, blocks + matrix.columns * sizeof(float));
  float* other = reinterpret_cast<float*>(workspace + blocks);
  const kernels::ColumnNorms both = kind == NormKind::kL1 ? kernels::ColumnNorms{norms, other}
                                                          : kernels::ColumnNorms{other, norms};
  with_type(type, [&](auto* element) {
    kernels::column_norms_cuda(view<Pointee<decltype(element)>>(matrix), both, workspace,
                               cuda(stream).for_work());
  });
}

void CudaDevice::gather_columns(Stream& stream, ElementType type, const DeviceMatrix& matrix,
                                const std::uint32_t* column, std::size_t n, void* out,
                                Label label) {
  const OperationScope scope = cuda(stream).launching(label);
  const cudaStream_t handle = cuda(stream).for_work();
  with_type(type, [&](auto* element) {
    using E = Pointee<decltype(element)>;
    if (column == nullptr) {
      copy_on_device(handle, out, matrix.values, matrix.rows * n * sizeof(E));
    } else {
      kernels::gather_columns_cuda(view<E>(matrix), column, n, static_cast<E*>(out), handle);
    }
  });
}

void CudaDevice::scatter_columns(Stream& stream, ElementType type, const void* in,
                                 const std::uint32_t* column, std::size_t n,
                                 const DeviceMatrix& matrix, Label label) {
  const OperationScope scope = cuda(stream).launching(label);
  const cudaStream_t handle = cuda(stream).for_work();
  with_type(type, [&](auto* element) {
    using E = Pointee<decltype(element)>;
    if (column == nullptr) {
      copy_on_device(handle, matrix.values, in, matrix.rows * n * sizeof(E));
    } else {
      kernels::scatter_columns_cuda(static_cast<const E*>(in), matrix.rows, n, column,
                                    static_cast<E*>(matrix.values), matrix.columns, handle);
    }
  });
}

void CudaDevice::update_columns(Stream& stream, ElementType type,
                                const kernels::AdamWSettings& settings,
                                const kernels::ColumnCorrections& corrections, float gradient_scale,
                                const void* gradient, const SelectedColumns& selected,
                                const DeviceMatrix& weights, Label label) {
  const OperationScope scope = cuda(stream).launching(label);
  const cudaStream_t handle = cuda(stream).for_work();
  with_type(type, [&](auto* element) {
    using E = Pointee<decltype(element)>;
    kernels::adamw_columns_cuda(settings, corrections, gradient_scale, weights.rows,
                                selected.columns, selected.state, static_cast<const E*>(gradient),
                                kernels::ColumnScatter<E>{static_cast<E*>(weights.values),
                                                          weights.columns, selected.column},
                                handle);
  });
}

void CudaDevice::accumulate(Stream& stream, ElementType type, const void* gradient, float scale,
                            std::size_t n, bool first, float* sum, Label label) {
  const OperationScope scope = cuda(stream).launching(label);
  const cudaStream_t handle = cuda(stream).for_work();
  with_type(type, [&](auto* element) {
    using E = Pointee<decltype(element)>;
    const E* values = static_cast<const E*>(gradient);
    first ? kernels::accumulate_first_cuda(sum, values, scale, n, handle)
          : kernels::accumulate_cuda(sum, values, scale, n, handle);
  });
}

void require_ordinal(int ordinal) {
  const DriverAnswer answer = ask_driver();
  require_gpu(answer, "the CUDA device");
  if (ordinal >= 0 && ordinal < answer.devices) return;
  throw Error(ErrorKind::kDevice, fmt::format("the CUDA device: no GPU number {}, there are {}",
                                              ordinal, answer.devices));
}

}  // namespace

std::unique_ptr<Device> make_cuda_device(const CudaDeviceSettings& settings, Recorder& recorder) {
  require_ordinal(settings.ordinal);
  return std::make_unique<CudaDevice>(settings, recorder);
}

CudaMemoryFacts cuda_memory(int ordinal) {
  require_ordinal(ordinal);
  cuda_check(cudaSetDevice(ordinal), "cudaSetDevice");
  std::size_t free = 0;
  std::size_t total = 0;
  cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {.total = total, .free = free};
}

std::string cuda_bus_id(int ordinal) {
  require_ordinal(ordinal);
  cudaDeviceProp properties{};
  cuda_check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  return fmt::format("{:04x}:{:02x}:{:02x}.0", properties.pciDomainID, properties.pciBusID,
                     properties.pciDeviceID);
}

}  // namespace zenflow::runtime
