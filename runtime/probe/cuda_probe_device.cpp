#include "runtime/probe/cuda_probe_device.h"

#include <array>
#include <cstdlib>
#include <type_traits>
#include <utility>
#include <vector>

#include <cublas_v2.h>
#include <fmt/format.h>

#include <cuda_runtime_api.h>

#include "kernels/bf16/bf16.h"
#include "kernels/cuda/cuda_check.h"
#include "runtime/gpu/libraries.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

using kernels::Bf16;
using kernels::cuda_check;

constexpr float kScale = 1.0e-3F;  // small: repeated updates stay finite
constexpr float kOne = 1;
constexpr float kZero = 0;

/// Throws Error(kInfeasible) for memory that is not there, else as cuda_check.
void check_allocation(cudaError_t status, const char* call, std::size_t bytes) {
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw Error(ErrorKind::kInfeasible, fmt::format("{}: no {} bytes left", call, bytes));
  }
  cuda_check(status, call);
}

struct StreamDeleter {
  using pointer = cudaStream_t;
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using CudaStream = std::unique_ptr<cudaStream_t, StreamDeleter>;

class CudaMark final : public ProbeMark {
 public:
  explicit CudaMark(cudaStream_t stream) {
    cuda_check(cudaEventCreate(&event_), "cudaEventCreate");
    cuda_check(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  ~CudaMark() override { cudaEventDestroy(event_); }
  CudaMark(const CudaMark&) = delete;
  CudaMark& operator=(const CudaMark&) = delete;
  [[nodiscard]] cudaEvent_t event() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

cudaEvent_t event_of(const ProbeMark& mark) {
  return static_cast<const CudaMark&>(mark).event();
}

// By name, since the header overloads it; the assertion is that the header has exactly this one.
using GemmStridedBatchedEx = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t,
                                                cublasOperation_t, int, int, int, const void*,
                                                const void*, cudaDataType, int, long long,
                                                const void*, cudaDataType, int, long long,
                                                const void*, void*, cudaDataType, int, long long,
                                                int, cublasComputeType_t, cublasGemmAlgo_t);
static_assert(std::is_same_v<GemmStridedBatchedEx, decltype(static_cast<GemmStridedBatchedEx>(
                                                       &cublasGemmStridedBatchedEx))>);

/// The functions of cuBLAS that are used, from the library opened at run time.
class Cublas {
 public:
  Cublas(const LibrarySurroundings& around, cudaStream_t stream)
      : library_(DynamicLibrary::open(cublas_library(built_cuda_version() / 1000), around)),
        axpy(library_.symbol<decltype(&cublasSaxpy)>("cublasSaxpy_v2")),
        geam(library_.symbol<decltype(&cublasSgeam)>("cublasSgeam")),
        scal(library_.symbol<decltype(&cublasSscal)>("cublasSscal_v2")),
        gemm(library_.symbol<GemmStridedBatchedEx>("cublasGemmStridedBatchedEx")),
        status_string_(library_.symbol<decltype(&cublasGetStatusString)>("cublasGetStatusString")),
        destroy_(library_.symbol<decltype(&cublasDestroy)>("cublasDestroy_v2")) {
    const auto create = library_.symbol<decltype(&cublasCreate)>("cublasCreate_v2");
    const auto set_stream = library_.symbol<decltype(&cublasSetStream)>("cublasSetStream_v2");
    check(create(&handle_), "cublasCreate");
    check(set_stream(handle_, stream), "cublasSetStream");
  }
  ~Cublas() {
    if (handle_ != nullptr) destroy_(handle_);
  }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  void check(cublasStatus_t status, const char* call) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw Error(ErrorKind::kDevice, fmt::format("{}: {}", call, status_string_(status)));
  }
  [[nodiscard]] cublasHandle_t handle() const { return handle_; }

 private:
  DynamicLibrary library_;

 public:
  decltype(&cublasSaxpy) axpy;
  decltype(&cublasSgeam) geam;
  decltype(&cublasSscal) scal;
  GemmStridedBatchedEx gemm;

 private:
  decltype(&cublasGetStatusString) status_string_;
  decltype(&cublasDestroy) destroy_;
  cublasHandle_t handle_ = nullptr;
};

class CudaProbeDevice final : public ProbeDevice {
 public:
  CudaProbeDevice(int device, const LibrarySurroundings& around)
      : streams_(make_streams(device)), cublas_(around, stream(ProbeLane::kCompute)) {
    cudaDeviceProp properties{};
    cuda_check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    name_ = properties.name;
    scalar_ = allocate(ProbeMemory::kDevice, sizeof(float));
  }

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] sim::DType product_type() const override { return sim::DType::kBf16; }

  [[nodiscard]] Buffer allocate(ProbeMemory where, std::size_t bytes) override {
    void* address = nullptr;
    switch (where) {
      case ProbeMemory::kDevice:
        check_allocation(cudaMalloc(&address, bytes), "cudaMalloc", bytes);
        cuda_check(cudaMemset(address, 0, bytes), "cudaMemset");
        return {address, bytes, [](void* held) { cudaFree(held); }};
      case ProbeMemory::kPinned:
        check_allocation(cudaMallocHost(&address, bytes), "cudaMallocHost", bytes);
        return {address, bytes, [](void* held) { cudaFreeHost(held); }};
      case ProbeMemory::kPageable:
        address = std::calloc(1, bytes);
        if (address == nullptr) check_allocation(cudaErrorMemoryAllocation, "calloc", bytes);
        return {address, bytes, [](void* held) { std::free(held); }};
    }
    return {};
  }

  void fill(const Buffer& memory) override {
    std::vector<Bf16> values(memory.bytes() / sizeof(Bf16));
    std::uint32_t state = 1;
    for (Bf16& value : values) value = kernels::round_to_bf16(next_fill(state));
    cuda_check(cudaMemcpy(memory.data(), values.data(), values.size() * sizeof(Bf16),
                          cudaMemcpyHostToDevice),
               "cudaMemcpy");
  }

  void copy(ProbeLane lane, void* to, const void* from, std::size_t bytes,
            CopyDirection direction) override {
    const cudaMemcpyKind kind =
        direction == CopyDirection::kHostToDevice ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    cuda_check(cudaMemcpyAsync(to, from, bytes, kind, stream(lane)), "cudaMemcpyAsync");
  }

  // cuBLAS works in the compute lane alone; no experiment asks for another.
  void update(ProbeLane, float* y, const float* x, std::size_t n) override {
    cublas_.check(cublas_.axpy(cublas_.handle(), static_cast<int>(n), &kScale, x, 1, y, 1),
                  "cublasSaxpy");
  }
  void pass(ProbeLane, float* y, const float* x, std::size_t n) override {
    // A column of n: y = s x + 0 y. With a factor of zero the second operand is not read.
    const auto rows = static_cast<int>(n);
    cublas_.check(cublas_.geam(cublas_.handle(), CUBLAS_OP_N, CUBLAS_OP_N, rows, 1, &kScale, x,
                               rows, &kZero, y, rows, y, rows),
                  "cublasSgeam");
  }
  void multiply(ProbeLane, const ProbeProduct& product, const void* a, const void* b,
                void* c) override {
    // cuBLAS is column-major: the transposes of row-major matrices, so c^T = b^T a^T.
    const auto m = static_cast<int>(product.shape.m);
    const auto n = static_cast<int>(product.shape.n);
    const auto k = static_cast<int>(product.shape.k);
    const std::int64_t stride_a = product.shape.m * product.shape.k;
    const std::int64_t stride_b = product.shape.k * product.shape.n;
    const std::int64_t stride_c = product.shape.m * product.shape.n;
    cublas_.check(
        cublas_.gemm(cublas_.handle(), product.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                     CUBLAS_OP_N, n, m, k, &kOne, b, CUDA_R_16BF, product.b_transposed ? k : n,
                     stride_b, a, CUDA_R_16BF, k, stride_a, &kZero, c, CUDA_R_16BF, n, stride_c,
                     static_cast<int>(product.batch), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx");
  }
  void nothing(ProbeLane) override {
    cublas_.check(cublas_.scal(cublas_.handle(), 1, &kOne, scalar_.as<float>(), 1), "cublasSscal");
  }

  [[nodiscard]] std::shared_ptr<ProbeMark> mark(ProbeLane lane) override {
    return std::make_shared<CudaMark>(stream(lane));
  }
  [[nodiscard]] double seconds(const ProbeMark& earlier, const ProbeMark& later) override {
    cuda_check(cudaEventSynchronize(event_of(earlier)), "cudaEventSynchronize");
    cuda_check(cudaEventSynchronize(event_of(later)), "cudaEventSynchronize");
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, event_of(earlier), event_of(later)),
               "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }
  void synchronize(ProbeLane lane) override {
    cuda_check(cudaStreamSynchronize(stream(lane)), "cudaStreamSynchronize");
  }

 private:
  using Streams = std::array<CudaStream, kProbeLanes>;
  static Streams make_streams(int device) {
    cuda_check(cudaSetDevice(device), "cudaSetDevice");
    Streams streams;
    for (CudaStream& one : streams) {
      cudaStream_t raw = nullptr;
      cuda_check(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking),
                 "cudaStreamCreateWithFlags");
      one.reset(raw);
    }
    return streams;
  }
  [[nodiscard]] cudaStream_t stream(ProbeLane lane) const {
    return streams_.at(static_cast<std::size_t>(lane)).get();
  }

  Streams streams_;
  Cublas cublas_;
  std::string name_;
  Buffer scalar_;
};

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  cuda_check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

}  // namespace

std::unique_ptr<ProbeDevice> make_cuda_probe_device(int device, const LibrarySurroundings& around) {
  return std::make_unique<CudaProbeDevice>(device, around);
}

CudaDeviceFacts cuda_device_facts(int device) {
  CudaDeviceFacts facts;
  cuda_check(cudaSetDevice(device), "cudaSetDevice");
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  cuda_check(cudaMemGetInfo(&free_bytes, &total), "cudaMemGetInfo");
  facts.memory = total;
  facts.free_memory = free_bytes;
  // kHz, two transfers a clock; bits. A driver that does not say gives 0.
  const double clock = 1e3 * attribute(cudaDevAttrMemoryClockRate, device);
  const double width = attribute(cudaDevAttrGlobalMemoryBusWidth, device);
  facts.memory_bandwidth = 2 * clock * width / 8;
  std::array<char, 32> bus_id{};
  cuda_check(cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), device),
             "cudaDeviceGetPCIBusId");
  facts.bus_id = bus_id.data();
  return facts;
}

}  // namespace zenflow::runtime
