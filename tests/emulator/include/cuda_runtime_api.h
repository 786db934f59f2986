/// The part of CUDA's runtime interface that the runtime, its kernels and their tests use, on the
/// host. What a stream is given runs later, on a thread of its own (tests/emulator/streams.h); what
/// the default stream is given runs at once.
///
/// Found in the place of CUDA's header by whatever is built for the emulator. Written from the
/// documented behaviour of the functions; names, signatures and numbers are CUDA's.
#pragma once

#include <cstddef>

#define ZENFLOW_CUDA_EMULATOR 1

struct EmulatedStream;
using cudaStream_t = EmulatedStream*;
struct EmulatedEvent;
using cudaEvent_t = EmulatedEvent*;

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorLaunchFailure = 719,
  cudaErrorNotPermitted = 800,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
};
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventBlockingSync = 1;
inline constexpr unsigned cudaHostAllocPortable = 1;

struct cudaDeviceProp {
  char name[256];
  int pciDomainID;
  int pciBusID;
  int pciDeviceID;
};
using cudaHostFn_t = void (*)(void* data);

const char* cudaGetErrorName(cudaError_t status);
/// For a launch failure, also what was thrown in the stream.
const char* cudaGetErrorString(cudaError_t status);
/// Resets an error that is not sticky. A launch failure is: every later call returns it.
cudaError_t cudaGetLastError();

/// There is one, number 0.
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceSynchronize();

/// Exactly `bytes`, aligned to 256, full of NaNs.
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
/// Waits for all streams, as CUDA does.
cudaError_t cudaFree(void* memory);
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
/// With a host side that is not from cudaHostAlloc: to the host, waits for the stream; from the
/// host, reads before it returns.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t bytes, cudaStream_t stream);

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
/// Host functions of all streams together run one at a time. None may call CUDA.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data);

cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end);
