/// The part of CUDA's runtime interface that kernels here and their tests use, on the host: device
/// memory is memory, streams are done with what they are given when it has been given.
///
/// Found in the place of CUDA's header by whatever is built for the emulator. Written from the
/// documented behaviour of the functions; names and signatures are CUDA's.
#pragma once

#include <cstddef>

#define ZENFLOW_CUDA_EMULATOR 1

struct EmulatedStream;
using cudaStream_t = EmulatedStream*;

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };

const char* cudaGetErrorName(cudaError_t status);
const char* cudaGetErrorString(cudaError_t status);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaDeviceSynchronize();
/// Exactly `bytes`, aligned to 256: AddressSanitizer sees the byte after them.
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
