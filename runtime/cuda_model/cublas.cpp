#include "runtime/cuda_model/cublas.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include <cublasLt.h>
#include <fmt/format.h>

#include "runtime/gpu/libraries.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

cudaDataType type_of(ElementType type) {
  return type == ElementType::kBfloat16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// The largest power of two up to 256 that divides the address.
std::uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256U;
  return static_cast<std::uint32_t>(bits & (~bits + 1U));
}

/// cuBLAS is column-major: it sees the transposes of row-major matrices, so c^T = b^T a^T, and our
/// b is its A.
std::uint32_t epilogue_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kBiasGelu:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::kSumsOfA:
      return CUBLASLT_EPILOGUE_BGRADB;
    case Epilogue::kSumsOfB:
      return CUBLASLT_EPILOGUE_BGRADA;
    case Epilogue::kNone:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

/// The vector that the epilogue reads or writes.
const void* epilogue_vector(const GemmCall& call) {
  const bool sums = call.epilogue == Epilogue::kSumsOfA || call.epilogue == Epilogue::kSumsOfB;
  return sums ? call.sums : call.bias;
}

/// What decides on an algorithm.
using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t, ElementType, std::int64_t, bool,
                         std::int64_t, bool, std::int64_t, bool, bool, Epilogue, std::uint32_t,
                         std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;

Shape shape_of(const GemmCall& call) {
  return {call.m,
          call.n,
          call.k,
          call.type,
          call.a.stride,
          call.a.transposed,
          call.b.stride,
          call.b.transposed,
          call.c_stride,
          call.c_is_float,
          call.adds,
          call.epilogue,
          alignment_of(call.a.values),
          alignment_of(call.b.values),
          alignment_of(call.c),
          alignment_of(epilogue_vector(call)),
          alignment_of(call.before_gelu)};
}

}  // namespace

class CublasGemm::Library {
 public:
  explicit Library(const LibraryFolders& folders)
      : lt_(DynamicLibrary::open(cublas_lt_library(built_cuda_version() / 1000), folders)) {
    check(lt_.symbol<decltype(&cublasLtCreate)>("cublasLtCreate")(&handle_), "cublasLtCreate");
  }
  ~Library() {
    for (auto& [shape, plan] : plans_) destroy(plan);
    if (handle_ != nullptr) destroy_handle_(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// False if there is no algorithm.
  bool multiply(const GemmCall& call, const Buffer& workspace, cudaStream_t stream) {
    Plan& plan = plan_for(call);
    if (!plan.algorithm) return false;
    point_epilogue(plan, call);
    const float one = 1.0F;
    const float beta = call.adds ? 1.0F : 0.0F;
    check(matmul_(handle_, plan.product, &one, call.b.values, plan.a, call.a.values, plan.b, &beta,
                  call.c, plan.c, call.c, plan.c, &*plan.algorithm, workspace.data(),
                  workspace.bytes(), stream),
          "cublasLtMatmul");
    return true;
  }

 private:
  /// Descriptions of a product's shape, in cuBLAS's terms, and what the library chose for it.
  struct Plan {
    cublasLtMatmulDesc_t product = nullptr;
    cublasLtMatrixLayout_t a = nullptr;
    cublasLtMatrixLayout_t b = nullptr;
    cublasLtMatrixLayout_t c = nullptr;
    std::optional<cublasLtMatmulAlgo_t> algorithm;
  };

  static void check(cublasStatus_t status, const char* call) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    // cuBLASLt's text for it is in cublas, which is not opened for that.
    throw Error(ErrorKind::kDevice,
                fmt::format("{}: cublasStatus_t {}", call, static_cast<int>(status)));
  }

  void destroy(Plan& plan) const {
    if (plan.c != nullptr) destroy_layout_(plan.c);
    if (plan.b != nullptr) destroy_layout_(plan.b);
    if (plan.a != nullptr) destroy_layout_(plan.a);
    if (plan.product != nullptr) destroy_product_(plan.product);
  }

  Plan& plan_for(const GemmCall& call) {
    const auto [place, is_new] = plans_.try_emplace(shape_of(call));
    if (is_new) {
      try {
        describe(place->second, call);
        choose(place->second, call);
      } catch (...) {
        destroy(place->second);
        plans_.erase(place);
        throw;
      }
    }
    return place->second;
  }

  template <class T>
  void set(const Plan& plan, cublasLtMatmulDescAttributes_t attribute, const T& value) const {
    check(set_product_(plan.product, attribute, &value, sizeof(T)),
          "cublasLtMatmulDescSetAttribute");
  }

  /// A stored row-major [rows, columns] is a column-major [columns, rows].
  void describe_matrix(cublasLtMatrixLayout_t& layout, cudaDataType type, std::int64_t rows,
                       std::int64_t columns, std::int64_t stride) const {
    check(create_layout_(&layout, type, static_cast<std::uint64_t>(columns),
                         static_cast<std::uint64_t>(rows), stride),
          "cublasLtMatrixLayoutCreate");
  }
  void describe_input(cublasLtMatrixLayout_t& layout, const GemmInput& input, ElementType type,
                      std::int64_t rows, std::int64_t columns) const {
    if (input.transposed) std::swap(rows, columns);
    describe_matrix(layout, type_of(type), rows, columns, input.stride);
  }

  void describe(Plan& plan, const GemmCall& call) const {
    check(create_product_(&plan.product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    set(plan, CUBLASLT_MATMUL_DESC_TRANSA, call.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(plan, CUBLASLT_MATMUL_DESC_TRANSB, call.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(call.epilogue));
    if (call.epilogue != Epilogue::kNone) {
      set(plan, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(call.type));
    }
    if (call.epilogue == Epilogue::kBiasGelu) {
      set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, type_of(call.type));
      set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, call.c_stride);
    }
    point_epilogue(plan, call);
    describe_input(plan.a, call.b, call.type, call.k, call.n);
    describe_input(plan.b, call.a, call.type, call.m, call.k);
    describe_matrix(plan.c, call.c_is_float ? CUDA_R_32F : type_of(call.type), call.m, call.n,
                    call.c_stride);
  }

  void point_epilogue(const Plan& plan, const GemmCall& call) const {
    if (call.epilogue == Epilogue::kNone) return;
    set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue_vector(call));
    if (call.epilogue != Epilogue::kBiasGelu) return;
    set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
        static_cast<const void*>(call.before_gelu));
  }

  void choose(Plan& plan, const GemmCall& call) const {
    cublasLtMatmulPreference_t preference = nullptr;
    check(create_preference_(&preference), "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      return set_preference_(preference, attribute, &value, sizeof value);
    };
    const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    cublasStatus_t status =
        prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kCublasWorkspaceBytes});
    const auto then = [&](cublasLtMatmulPreferenceAttributes_t attribute, std::uint32_t value) {
      if (status == CUBLAS_STATUS_SUCCESS) status = prefer(attribute, value);
    };
    then(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
    then(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(call.b.values));
    then(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(call.a.values));
    then(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(call.c));
    then(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(call.c));
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = heuristic_(handle_, plan.product, plan.a, plan.b, plan.c, plan.c, preference, 1,
                          &found, &count);
    }
    destroy_preference_(preference);
    // No algorithm: for an epilogue that is an answer, for a plain product the caller fails.
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return;
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    if (count > 0 && found.state == CUBLAS_STATUS_SUCCESS) plan.algorithm = found.algo;
  }

  template <class Function>
  [[nodiscard]] Function symbol(const char* name) const {
    return lt_.symbol<Function>(name);
  }

  DynamicLibrary lt_;
  cublasLtHandle_t handle_ = nullptr;
  decltype(&cublasLtDestroy) destroy_handle_ =
      symbol<decltype(&cublasLtDestroy)>("cublasLtDestroy");
  decltype(&cublasLtMatmul) matmul_ = symbol<decltype(&cublasLtMatmul)>("cublasLtMatmul");
  decltype(&cublasLtMatmulDescCreate) create_product_ =
      symbol<decltype(&cublasLtMatmulDescCreate)>("cublasLtMatmulDescCreate");
  decltype(&cublasLtMatmulDescDestroy) destroy_product_ =
      symbol<decltype(&cublasLtMatmulDescDestroy)>("cublasLtMatmulDescDestroy");
  decltype(&cublasLtMatmulDescSetAttribute) set_product_ =
      symbol<decltype(&cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute");
  decltype(&cublasLtMatrixLayoutCreate) create_layout_ =
      symbol<decltype(&cublasLtMatrixLayoutCreate)>("cublasLtMatrixLayoutCreate");
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout_ =
      symbol<decltype(&cublasLtMatrixLayoutDestroy)>("cublasLtMatrixLayoutDestroy");
  decltype(&cublasLtMatmulPreferenceCreate) create_preference_ =
      symbol<decltype(&cublasLtMatmulPreferenceCreate)>("cublasLtMatmulPreferenceCreate");
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference_ =
      symbol<decltype(&cublasLtMatmulPreferenceDestroy)>("cublasLtMatmulPreferenceDestroy");
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference_ =
      symbol<decltype(&cublasLtMatmulPreferenceSetAttribute)>(
          "cublasLtMatmulPreferenceSetAttribute");
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic_ =
      symbol<decltype(&cublasLtMatmulAlgoGetHeuristic)>("cublasLtMatmulAlgoGetHeuristic");
  std::map<Shape, Plan> plans_;
};

CublasGemm::CublasGemm(const LibraryFolders& folders, Device& device)
    : library_(std::make_unique<Library>(folders)),
      workspace_(
          device.allocate(MemoryKind::kDevice, kCublasWorkspaceBytes, "cuBLASLt workspace")) {}

CublasGemm::~CublasGemm() = default;

void CublasGemm::multiply(const GemmCall& call, cudaStream_t stream) {
  if (call.m == 0 || call.n == 0) return;
  if (library_->multiply(call, workspace_, stream)) return;
  throw Error(
      ErrorKind::kDevice,
      fmt::format("cuBLASLt has no algorithm for a product of [{}, {}] and [{}, {}] with "
                  "rows {}, {} and {} elements apart",
                  call.m, call.k, call.k, call.n, call.a.stride, call.b.stride, call.c_stride));
}

bool CublasGemm::multiply_fused(const GemmCall& call, cudaStream_t stream) {
  if (call.m == 0 || call.n == 0) return true;
  return library_->multiply(call, workspace_, stream);
}

}  // namespace zenflow::runtime
