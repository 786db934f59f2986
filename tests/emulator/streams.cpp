#include "tests/emulator/streams.h"

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "tests/emulator/device_memory.h"

namespace emulator = zenflow::emulator;
using zenflow::emulator::BrokenProgram;
using zenflow::runtime::Clock;
using zenflow::runtime::Event;
using zenflow::runtime::HostStream;
using zenflow::runtime::Recorder;

namespace {

zenflow::runtime::TrackRecorder& nobodys_track() {
  static Recorder recorder(false);
  static zenflow::runtime::TrackRecorder& track =
      recorder.add_track("emulated", zenflow::sim::TrackKind::kHost);
  return track;
}

}  // namespace

struct EmulatedStream {
  EmulatedStream(int of_device, zenflow::runtime::Jitter jitter)
      : device(of_device), host(nobodys_track(), jitter) {}

  void run(std::function<void()> work) {
    const std::lock_guard lock(mutex);
    host.run({}, std::move(work));
  }
  Event record() {
    const std::lock_guard lock(mutex);
    return host.record();
  }
  void wait(const Event& event) {
    const std::lock_guard lock(mutex);
    host.wait(event, zenflow::WaitCause::kCompute);
  }

  const int device;
  std::mutex mutex;  // CUDA's streams take work from any thread
  HostStream host;
};

struct EmulatedEvent {
  std::mutex mutex;  // guards the rest
  Event recorded;    // complete until it is recorded for the first time
  std::shared_ptr<std::atomic<Clock::time_point>> passed;
};

namespace {

/// All that there is one of.
struct Machine {
  std::mutex mutex;  // guards all but the atomics
  emulator::Behaviour behaviour{.strict = false};
  std::vector<std::size_t> streams_made{0};  // by device
  std::set<EmulatedStream*> streams;
  std::array<std::atomic<double>, 4> seconds_per_byte{};  // by cudaMemcpyKind
  std::deque<std::string> failures;                       // texts that have been given away
  std::atomic<bool> failed = false;
  std::atomic<bool> strict = false;
  std::atomic<std::uint64_t> operations = 0;
  std::atomic<std::uint64_t> waits = 0;
  std::atomic<std::uint64_t> host_functions = 0;
  std::atomic<std::uint64_t> pageable_copies = 0;
  std::atomic<std::uint64_t> synchronizations = 0;
  std::atomic<std::uint64_t> event_waits = 0;
  std::atomic<std::uint64_t> allocations = 0;
  std::atomic<std::uint64_t> events = 0;
  std::mutex host_function;  // held while one runs
};

Machine& machine() {
  static Machine machine;
  return machine;
}

thread_local bool in_host_function = false;
thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;

cudaError_t returned(cudaError_t status) {
  if (status != cudaSuccess) last_error = status;
  return status;
}

/// What a call finds before it does anything.
cudaError_t state() {
  if (in_host_function) return returned(cudaErrorNotPermitted);
  return machine().failed ? cudaErrorLaunchFailure : cudaSuccess;
}

/// Notes a stream's exception, which CUDA would not know of, as a launch failure.
cudaError_t launch_failure(const std::exception& thrown) {
  const std::lock_guard lock(machine().mutex);
  if (!machine().failed.exchange(true)) {
    machine().failures.push_back(std::string("unspecified launch failure: ") + thrown.what());
  }
  return cudaErrorLaunchFailure;
}

template <class Wait>
cudaError_t waited(const Wait& wait) {
  try {
    wait();
  } catch (const std::exception& thrown) {
    return launch_failure(thrown);
  }
  return state();
}

void refuse_default_stream() {
  if (machine().strict) throw BrokenProgram("work on the default stream");
}

Event recorded(cudaEvent_t event) {
  const std::lock_guard lock(event->mutex);
  return event->recorded;
}

cudaError_t synchronize_all() {
  std::vector<Event> all;
  {
    const std::lock_guard lock(machine().mutex);
    for (EmulatedStream* stream : machine().streams) {
      if (stream->device == current_device) all.push_back(stream->record());
    }
  }
  cudaError_t status = state();
  for (const Event& event : all) {
    const cudaError_t result = waited([&] { event.wait(); });
    if (result != cudaSuccess) status = result;
  }
  return status;
}

}  // namespace

namespace zenflow::emulator {

void start(const Behaviour& behaviour) {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  m.behaviour = behaviour;
  m.streams_made.assign(static_cast<std::size_t>(behaviour.devices), 0);
  for (auto& seconds : m.seconds_per_byte) seconds = 0;
  m.failed = false;
  m.strict = behaviour.strict;
  for (auto* count : {&m.operations, &m.waits, &m.host_functions, &m.pageable_copies,
                      &m.synchronizations, &m.event_waits, &m.allocations, &m.events}) {
    *count = 0;
  }
}

Counts counts() {
  const Machine& m = machine();
  return {.operations = m.operations,
          .waits = m.waits,
          .host_functions = m.host_functions,
          .pageable_copies = m.pageable_copies,
          .synchronizations = m.synchronizations,
          .event_waits = m.event_waits,
          .allocations = m.allocations,
          .events = m.events};
}

void limit_copies(cudaMemcpyKind kind, double bytes_per_second) {
  machine().seconds_per_byte.at(kind) = 1 / bytes_per_second;
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  if (const cudaError_t status = state(); status != cudaSuccess) return status;
  if (stream == nullptr) {
    refuse_default_stream();
    const DeviceAccess access;
    work();
    return cudaSuccess;
  }
  ++machine().operations;
  stream->run([work = std::move(work)] {
    const DeviceAccess access;
    work();
  });
  return cudaSuccess;
}

}  // namespace zenflow::emulator

const char* cudaGetErrorName(cudaError_t status) {
  switch (status) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorNotPermitted:
      return "cudaErrorNotPermitted";
  }
  return "cudaErrorUnknown";
}

const char* cudaGetErrorString(cudaError_t status) {
  switch (status) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorLaunchFailure: {
      const std::lock_guard lock(machine().mutex);
      return machine().failures.empty() ? "unspecified launch failure"
                                        : machine().failures.back().c_str();
    }
    case cudaErrorNotPermitted:
      return "operation not permitted";
  }
  return "unknown error";
}

cudaError_t cudaGetLastError() {
  if (machine().failed) return cudaErrorLaunchFailure;
  return std::exchange(last_error, cudaSuccess);
}

cudaError_t cudaGetDeviceCount(int* count) {
  const std::lock_guard lock(machine().mutex);
  *count = machine().behaviour.devices;
  return state();
}

cudaError_t cudaSetDevice(int device) {
  int devices = 0;
  static_cast<void>(cudaGetDeviceCount(&devices));
  if (device < 0 || device >= devices) return returned(cudaErrorInvalidDevice);
  current_device = device;
  return state();
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0) return returned(cudaErrorInvalidDevice);
  std::strcpy(properties->name, "emulated GPU");
  return state();
}

cudaError_t cudaDeviceSynchronize() {
  ++machine().synchronizations;
  return synchronize_all();
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (const cudaError_t status = state(); status != cudaSuccess) return status;
  ++machine().allocations;
  *memory = bytes == 0 ? nullptr : emulator::allocate_device(bytes, machine().strict);
  return bytes == 0 || *memory != nullptr ? cudaSuccess : returned(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* memory) {
  ++machine().allocations;
  const cudaError_t status = synchronize_all();
  emulator::free_device(memory);
  return status;
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  if (const cudaError_t status = state(); status != cudaSuccess) return status;
  ++machine().allocations;
  *memory = bytes == 0 ? nullptr : emulator::allocate_pinned(bytes);
  return bytes == 0 || *memory != nullptr ? cudaSuccess : returned(cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void* memory) {
  ++machine().allocations;
  const cudaError_t status = synchronize_all();
  emulator::free_pinned(memory);
  return status;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = emulator::device_bytes_free();
  *total = emulator::kDeviceBytes;
  return state();
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  refuse_default_stream();
  if (const cudaError_t status = synchronize_all(); status != cudaSuccess) return status;
  const emulator::DeviceAccess access;
  if (bytes > 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const bool up = kind == cudaMemcpyHostToDevice;
  const bool pageable =
      kind != cudaMemcpyDeviceToDevice && !emulator::is_pinned(up ? from : to, bytes);
  if (pageable) ++machine().pageable_copies;
  if (pageable && up) {
    std::vector<char> staged(static_cast<const char*>(from),
                             static_cast<const char*>(from) + bytes);
    return emulator::enqueue(stream, [to, staged = std::move(staged)] {
      std::memcpy(to, staged.data(), staged.size());
    });
  }
  const cudaError_t status = emulator::enqueue(stream, [to, from, bytes, kind] {
    std::this_thread::sleep_for(std::chrono::duration<double>(machine().seconds_per_byte.at(kind) *
                                                              static_cast<double>(bytes)));
    std::memcpy(to, from, bytes);
  });
  if (!pageable || status != cudaSuccess || stream == nullptr) return status;
  return waited([&] { stream->record().wait(); });
}

cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t bytes, cudaStream_t stream) {
  return emulator::enqueue(stream, [to, byte, bytes] { std::memset(to, byte, bytes); });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return state();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  if (const cudaError_t status = state(); status != cudaSuccess) return status;
  Machine& m = machine();
  if (m.strict && flags != cudaStreamNonBlocking) {
    throw BrokenProgram("a stream that the default stream waits for");
  }
  const std::lock_guard lock(m.mutex);
  zenflow::runtime::Jitter jitter = m.behaviour.jitter;
  const std::size_t number = m.streams_made.at(static_cast<std::size_t>(current_device))++;
  jitter.seed = jitter.seed * 1'000'003 + number + 101 * static_cast<std::size_t>(current_device);
  jitter.lazy = jitter.lazy || (number < m.behaviour.lazy.size() && m.behaviour.lazy.at(number));
  *stream = *m.streams.insert(new EmulatedStream(current_device, jitter)).first;
  return cudaSuccess;
}

/// Returns when the work is done: CUDA would return earlier, and go on with it.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    const std::lock_guard lock(machine().mutex);
    machine().streams.erase(stream);
  }
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  ++machine().synchronizations;
  if (in_host_function) return returned(cudaErrorNotPermitted);
  return waited([&] { stream->record().wait(); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (const cudaError_t status = state(); status != cudaSuccess) return status;
  ++machine().waits;
  stream->wait(recorded(event));
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (const cudaError_t status = state(); status != cudaSuccess) return status;
  ++machine().host_functions;
  stream->run([function, data] {
    const std::lock_guard lock(machine().host_function);
    in_host_function = true;
    function(data);
    in_host_function = false;
  });
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (const cudaError_t status = state(); status != cudaSuccess) return status;
  *event = new EmulatedEvent;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (stream == nullptr) throw BrokenProgram("an event on the default stream");
  if (const cudaError_t status = state(); status != cudaSuccess) return status;
  ++machine().events;
  auto passed = std::make_shared<std::atomic<Clock::time_point>>();
  stream->run([passed] { *passed = Clock::now(); });
  const std::lock_guard lock(event->mutex);
  event->recorded = stream->record();
  event->passed = std::move(passed);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t status = state(); status != cudaSuccess) return status;
  const Event last = recorded(event);
  if (!last.complete()) return returned(cudaErrorNotReady);
  return waited([&] { last.wait(); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  ++machine().event_waits;
  if (in_host_function) return returned(cudaErrorNotPermitted);
  const Event last = recorded(event);
  return waited([&] { last.wait(); });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const auto time = [](cudaEvent_t event) -> std::optional<Clock::time_point> {
    const std::lock_guard lock(event->mutex);
    if (!event->passed || !event->recorded.complete()) return std::nullopt;
    return event->passed->load();
  };
  const auto from = time(start);
  const auto to = time(end);
  if (!from || !to) return returned(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(*to - *from).count();
  return state();
}
