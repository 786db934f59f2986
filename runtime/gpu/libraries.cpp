#include "runtime/gpu/libraries.h"

#include <fmt/format.h>

namespace zenflow::runtime {
namespace {

/// From CUDA 13 on Python packages share one folder; before, each had its own.
std::vector<std::string> python_folders(int cuda_major, const char* before) {
  if (cuda_major >= 13) return {fmt::format("nvidia/cu{}/lib", cuda_major)};
  return {fmt::format("nvidia/{}/lib", before)};
}

LibraryName toolkit_library(const char* stem, int cuda_major, const char* purpose,
                            const char* package) {
  const std::string suffix = cuda_major >= 13 ? "" : fmt::format("-cu{}", cuda_major);
  return {.file = fmt::format("lib{}.so.{}", stem, cuda_major),
          .purpose = purpose,
          .provider = fmt::format("CUDA {} and with the Python package nvidia-{}{}", cuda_major,
                                  package, suffix)};
}

LibraryName driver_library(const char* file, const char* purpose) {
  return {.file = file, .purpose = purpose, .provider = "NVIDIA's driver"};
}

}  // namespace

int built_cuda_version() {
  return ZENFLOW_CUDART_VERSION;
}

LibraryName cublas_library(int cuda_major) {
  LibraryName name = toolkit_library("cublas", cuda_major, "matrix products on the GPU", "cublas");
  name.python_folders = python_folders(cuda_major, "cublas");
  return name;
}

LibraryName cublas_lt_library(int cuda_major) {
  LibraryName name = toolkit_library(
      "cublasLt", cuda_major, "matrix products on the GPU (cuBLAS is built on it)", "cublas");
  name.python_folders = python_folders(cuda_major, "cublas");
  return name;
}

LibraryName cupti_library(int cuda_major) {
  LibraryName name =
      toolkit_library("cupti", cuda_major, "recording what the GPU does", "cuda-cupti");
  name.python_folders = python_folders(cuda_major, "cuda_cupti");
  name.toolkit_folders = {"extras/CUPTI/lib64"};  // not every installer links it into lib64
  return name;
}

LibraryName nccl_library(int cuda_major) {
  return {
      .file = "libnccl.so.2",
      .purpose = "communication between GPUs",
      .provider = fmt::format("NCCL 2 and with the Python package nvidia-nccl-cu{}", cuda_major),
      .python_folders = {"nvidia/nccl/lib"}};
}

LibraryName nvml_library() {
  return driver_library("libnvidia-ml.so.1", "the driver's version and the links of GPUs");
}

LibraryName cuda_driver_library() {
  return driver_library("libcuda.so.1", "everything on the GPU");
}

}  // namespace zenflow::runtime
