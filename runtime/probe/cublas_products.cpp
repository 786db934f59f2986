#include "runtime/probe/cublas_products.h"

#include <type_traits>

#include <cublas_v2.h>
#include <fmt/format.h>

#include "runtime/gpu/libraries.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

constexpr float kOne = 1;
constexpr float kZero = 0;

// By name, since the header overloads them; the assertions are that it has exactly these.
using GemmEx = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int,
                                  int, const void*, const void*, cudaDataType, int, const void*,
                                  cudaDataType, int, const void*, void*, cudaDataType, int,
                                  cublasComputeType_t, cublasGemmAlgo_t);
using GemmStridedBatchedEx = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t,
                                                cublasOperation_t, int, int, int, const void*,
                                                const void*, cudaDataType, int, long long,
                                                const void*, cudaDataType, int, long long,
                                                const void*, void*, cudaDataType, int, long long,
                                                int, cublasComputeType_t, cublasGemmAlgo_t);
static_assert(std::is_same_v<GemmEx, decltype(static_cast<GemmEx>(&cublasGemmEx))>);
static_assert(std::is_same_v<GemmStridedBatchedEx, decltype(static_cast<GemmStridedBatchedEx>(
                                                       &cublasGemmStridedBatchedEx))>);

}  // namespace

class CublasProducts::Library {
 public:
  explicit Library(const LibraryFolders& folders)
      : lt_(DynamicLibrary::open(cublas_lt_library(built_cuda_version() / 1000), folders)),
        cublas_(DynamicLibrary::open(cublas_library(built_cuda_version() / 1000), folders)),
        one(cublas_.symbol<GemmEx>("cublasGemmEx")),
        several(cublas_.symbol<GemmStridedBatchedEx>("cublasGemmStridedBatchedEx")),
        status_string_(cublas_.symbol<decltype(&cublasGetStatusString)>("cublasGetStatusString")),
        destroy_(cublas_.symbol<decltype(&cublasDestroy)>("cublasDestroy_v2")) {}
  ~Library() {
    if (handle != nullptr) destroy_(handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void start(cudaStream_t stream) {
    const auto create = cublas_.symbol<decltype(&cublasCreate)>("cublasCreate_v2");
    const auto set_stream = cublas_.symbol<decltype(&cublasSetStream)>("cublasSetStream_v2");
    check(create(&handle), "cublasCreate");
    check(set_stream(handle, stream), "cublasSetStream");
  }
  void check(cublasStatus_t status, const char* call) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw Error(ErrorKind::kDevice, fmt::format("{}: {}", call, status_string_(status)));
  }

 private:
  // cuBLAS needs cuBLASLt. Opened first, it is found where ours is, and not where cuBLAS would
  // look.
  DynamicLibrary lt_;
  DynamicLibrary cublas_;

 public:
  GemmEx one;
  GemmStridedBatchedEx several;
  cublasHandle_t handle = nullptr;

 private:
  decltype(&cublasGetStatusString) status_string_;
  decltype(&cublasDestroy) destroy_;
};

CublasProducts::CublasProducts(const LibraryFolders& folders, cudaStream_t stream)
    : library_(std::make_unique<Library>(folders)) {
  library_->start(stream);
}

CublasProducts::~CublasProducts() = default;

void CublasProducts::multiply(const ProbeProduct& product, const void* a, const void* b, void* c) {
  // cuBLAS is column-major: the transposes of row-major matrices, so c^T = b^T a^T.
  const auto m = static_cast<int>(product.shape.m);
  const auto n = static_cast<int>(product.shape.n);
  const auto k = static_cast<int>(product.shape.k);
  const cublasOperation_t b_form = product.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int b_row = product.b_transposed ? k : n;
  if (product.batch == 1) {
    library_->check(library_->one(library_->handle, b_form, CUBLAS_OP_N, n, m, k, &kOne, b,
                                  CUDA_R_16BF, b_row, a, CUDA_R_16BF, k, &kZero, c, CUDA_R_16BF, n,
                                  CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                    "cublasGemmEx");
    return;
  }
  library_->check(
      library_->several(library_->handle, b_form, CUBLAS_OP_N, n, m, k, &kOne, b, CUDA_R_16BF,
                        b_row, product.shape.k * product.shape.n, a, CUDA_R_16BF, k,
                        product.shape.m * product.shape.k, &kZero, c, CUDA_R_16BF, n,
                        product.shape.m * product.shape.n, static_cast<int>(product.batch),
                        CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
      "cublasGemmStridedBatchedEx");
}

}  // namespace zenflow::runtime
