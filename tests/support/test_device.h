/// The device on which tests of the offload engine run. They are built twice: with the host device,
/// and, with ZENFLOW_FAKE_CUDA, with the CUDA device on the emulator's asynchronous streams.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/operation.h"

#if defined(ZENFLOW_FAKE_CUDA)
#include "kernels/cuda/cuda_check.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/cuda_stream.h"
#include "tests/emulator/streams.h"
#else
#include "runtime/device/host_device.h"
#endif

namespace zenflow::runtime::testing {

struct TestDevice {
  std::optional<Bytes> memory{};
  Jitter jitter{};
  std::vector<std::string> lazy_streams{};  ///< "compute", "d2h", "h2d"
  int rank = 0;                             ///< of ranks that have a device each
};

#if defined(ZENFLOW_FAKE_CUDA)

inline constexpr bool kTestDeviceIsAGpu = true;

/// Streams have no names in CUDA: these are the engine's, in the order in which it makes them.
inline void start_test_devices(const TestDevice& settings, int devices) {
  emulator::Behaviour behaviour{.jitter = settings.jitter, .devices = devices};
  for (const char* name : {"compute", "d2h", "h2d"}) {
    behaviour.lazy.push_back(
        std::count(settings.lazy_streams.begin(), settings.lazy_streams.end(), name) > 0);
  }
  emulator::start(behaviour);
}

/// One of those that were started, for the calling thread.
inline std::unique_ptr<Device> test_device_of_rank(const TestDevice& settings, Recorder& recorder) {
  return make_cuda_device({.ordinal = settings.rank, .memory = settings.memory}, recorder);
}

inline std::unique_ptr<Device> make_test_device(const TestDevice& settings, Recorder& recorder) {
  start_test_devices(settings, 1);
  return test_device_of_rank(settings, recorder);
}

/// As a kernel of the stream, in this operation.
inline void run_on(Stream& stream, Operation operation, std::function<void()> work) {
  const OperationScope scope = launching(stream, {operation});
  kernels::cuda_check(emulator::enqueue(handle_of(stream), std::move(work)), "kernel launch");
}

/// CUDA says only that a launch has failed; the emulator, also why.
inline bool is_stream_failure(const Error& error, const std::string& thrown) {
  return error.kind() == ErrorKind::kDevice &&
         std::string(error.what()).find(thrown) != std::string::npos;
}

#else

inline constexpr bool kTestDeviceIsAGpu = false;

/// Memory that nobody has written is full of NaNs.
inline std::unique_ptr<Device> make_test_device(const TestDevice& settings, Recorder& recorder) {
  return std::make_unique<HostDevice>(HostDeviceSettings{.memory = settings.memory,
                                                         .jitter = settings.jitter,
                                                         .lazy_streams = settings.lazy_streams,
                                                         .fill = 0xFF},
                                      recorder);
}

inline void start_test_devices(const TestDevice&, int) {}

inline std::unique_ptr<Device> test_device_of_rank(const TestDevice& settings, Recorder& recorder) {
  return make_test_device(settings, recorder);
}

inline void run_on(Stream& stream, Operation operation, std::function<void()> work) {
  static_cast<HostStream&>(stream).run({operation}, std::move(work));
}

inline bool is_stream_failure(const Error& error, const std::string& thrown) {
  return error.what() == thrown;
}

#endif

}  // namespace zenflow::runtime::testing
