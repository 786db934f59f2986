#include "tests/support/fake_cupti.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

namespace {

using zenflow::testing::FakeCuptiManners;
using zenflow::testing::FakeCuptiSeen;

std::size_t record_size(CUpti_ActivityKind kind) {
  switch (static_cast<int>(kind)) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return sizeof(CUpti_ActivityCudaEvent2);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return sizeof(CUpti_ActivityOverhead3);
    case CUPTI_ACTIVITY_KIND_MARKER:
      return sizeof(CUpti_ActivityMarker2);
    case CUPTI_ACTIVITY_KIND_MARKER_DATA:
      return sizeof(CUpti_ActivityMarkerData2);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    default:
      return 0;
  }
}

struct Buffer {
  std::uint8_t* data = nullptr;
  std::size_t size = 0;
  std::size_t valid = 0;
};

bool has_incomplete_kernel(const Buffer& buffer) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer.data, buffer.valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    if (reinterpret_cast<const CUpti_ActivityKernel10*>(record)->end == 0) return true;
  }
  return false;
}

class Fake {
 public:
  CUptiResult result(const char* function) {
    const std::lock_guard lock(mutex);
    const auto found = manners.results.find(function);
    return found == manners.results.end() ? CUPTI_SUCCESS : found->second;
  }

  void emit(const void* record, std::size_t size) {
    const std::lock_guard lock(mutex);
    CUpti_ActivityKind kind{};
    std::memcpy(&kind, record, sizeof(kind));
    if (!seen.enabled.contains(static_cast<int>(kind)) || request == nullptr) return;
    const auto thread = std::this_thread::get_id();
    if (const Buffer& full = open[thread];
        full.data != nullptr && full.valid + size > std::min(full.size, manners.buffer_use)) {
      completed.push_back(full);
      open.erase(thread);
      if (completed.size() > manners.hold_back) deliver();
    }
    Buffer& buffer = open[thread];  // others may have flushed meanwhile
    if (buffer.data == nullptr) buffer = requested();
    if (buffer.data == nullptr) {
      ++dropped;
      return;
    }
    std::memcpy(buffer.data + buffer.valid, record, size);
    buffer.valid += size;
  }

  /// Buffers with records that are not complete come only when forced.
  void flush(bool forced) {
    const std::lock_guard lock(mutex);
    for (auto entry = open.begin(); entry != open.end();) {
      const Buffer buffer = entry->second;
      if (buffer.data != nullptr && !forced && has_incomplete_kernel(buffer)) {
        ++entry;
        continue;
      }
      if (buffer.data != nullptr) completed.push_back(buffer);
      entry = open.erase(entry);
    }
    deliver();
    if (forced) dropped += manners.dropped_at_end;
  }

  // CUPTI's own lock: held while it calls back, and taken again by calls from within.
  std::recursive_mutex mutex;
  FakeCuptiManners manners;
  FakeCuptiSeen seen;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  CUpti_TimestampCallbackFunc timestamp = nullptr;
  CUpti_CallbackFunc callback = nullptr;
  bool reset_is_watched = false;
  std::size_t dropped = 0;

 private:
  Buffer requested() {
    Buffer buffer;
    std::size_t records = 1;
    request(&buffer.data, &buffer.size, &records);
    ++seen.buffers_requested;
    if (buffer.data == nullptr) {
      ++seen.buffers_refused;
      return buffer;
    }
    if (reinterpret_cast<std::uintptr_t>(buffer.data) % 8 != 0) ++seen.misaligned_buffers;
    if (!lent.insert(buffer.data).second) ++seen.buffers_lent_twice;
    if (std::any_of(buffer.data, buffer.data + buffer.size, [](auto b) { return b != 0; })) {
      ++seen.unzeroed_buffers;
    }
    return buffer;
  }

  void deliver() {
    std::vector<Buffer> batch = std::exchange(completed, {});
    if (manners.reversed) std::reverse(batch.begin(), batch.end());
    for (const Buffer& one : batch) lent.erase(one.data);
    const auto call = [this, &batch] {
      for (const Buffer& one : batch) complete(nullptr, 0, one.data, one.size, one.valid);
    };
    if (!manners.own_thread) return call();
    // On a thread of its own, as CUPTI's worker; the lock is not needed there, and dropped_records
    // must be able to take it.
    mutex.unlock();
    std::thread(call).join();
    mutex.lock();
  }

  std::map<std::thread::id, Buffer> open;
  std::vector<Buffer> completed;
  std::set<std::uint8_t*> lent;
};

// Never destroyed: an exit handler may come after static destructors.
Fake& fake() {
  static Fake& instance = *new Fake;
  return instance;
}

}  // namespace

namespace zenflow::testing {

void fake_cupti_reset(FakeCuptiManners manners) {
  const std::lock_guard lock(fake().mutex);
  const int registrations = fake().seen.timestamp_registrations;
  fake().manners = std::move(manners);
  fake().seen = {};
  fake().seen.timestamp_registrations = registrations;
  fake().dropped = 0;
}

FakeCuptiSeen fake_cupti_seen() {
  const std::lock_guard lock(fake().mutex);
  return fake().seen;
}

}  // namespace zenflow::testing

extern "C" {

void fake_cupti_emit(const void* record, std::size_t size) {
  fake().emit(record, size);
}

std::uint64_t fake_cupti_now() {
  const std::lock_guard lock(fake().mutex);
  return fake().timestamp == nullptr ? 1 : fake().timestamp();
}

void fake_cupti_hold() {
  const std::lock_guard lock(fake().mutex);
  ++fake().seen.subscribers;
}

int InitializeInjectionNvtx2(const void* (*)(std::uint32_t)) {
  return 1;
}

void fake_cupti_device_reset() {
  {
    const std::lock_guard lock(fake().mutex);
    if (!fake().reset_is_watched) return;
  }
  CUpti_CallbackData data{};
  data.callbackSite = CUPTI_API_ENTER;
  fake().callback(nullptr, CUPTI_CB_DOMAIN_RUNTIME_API,
                  CUPTI_RUNTIME_TRACE_CBID_cudaDeviceReset_v3020, &data);
}

CUptiResult CUPTIAPI cuptiGetVersion(std::uint32_t* version) {
  const std::lock_guard lock(fake().mutex);
  *version = fake().manners.version;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
              ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
              : "CUPTI_ERROR_UNKNOWN";
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc callback, void*) {
  if (const auto r = fake().result("cuptiSubscribe"); r != CUPTI_SUCCESS) return r;
  const std::lock_guard lock(fake().mutex);
  if (fake().seen.subscribers > 0) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  ++fake().seen.subscribers;
  fake().callback = callback;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiUnsubscribe(CUpti_SubscriberHandle) {
  const std::lock_guard lock(fake().mutex);
  --fake().seen.subscribers;
  fake().reset_is_watched = false;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiEnableCallback(std::uint32_t enable, CUpti_SubscriberHandle,
                                         CUpti_CallbackDomain, CUpti_CallbackId id) {
  const std::lock_guard lock(fake().mutex);
  if (id == CUPTI_RUNTIME_TRACE_CBID_cudaDeviceReset_v3020) fake().reset_is_watched = enable != 0;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetCallbackName(CUpti_CallbackDomain domain, std::uint32_t id,
                                          const char** name) {
  *name = nullptr;
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
    if (id == CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000) *name = "cudaLaunchKernel_v7000";
    if (id == CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020) *name = "cudaMemcpyAsync_v3020";
  }
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API && id == CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2) {
    *name = "cuMemcpyHtoD_v2";
  }
  return *name == nullptr ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiSetThreadIdType(CUpti_ActivityThreadIdType) {
  return fake().result("cuptiSetThreadIdType");
}

CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                    CUpti_BuffersCallbackCompleteFunc complete) {
  if (const auto r = fake().result("cuptiActivityRegisterCallbacks"); r != CUPTI_SUCCESS) return r;
  const std::lock_guard lock(fake().mutex);
  fake().request = request;
  fake().complete = complete;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc callback) {
  if (const auto r = fake().result("cuptiActivityRegisterTimestampCallback"); r != CUPTI_SUCCESS) {
    return r;
  }
  const std::lock_guard lock(fake().mutex);
  ++fake().seen.timestamp_registrations;
  fake().timestamp = callback;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivitySetAttribute(CUpti_ActivityAttribute, std::size_t*, void*) {
  return fake().result("cuptiActivitySetAttribute");
}

CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) {
  const std::lock_guard lock(fake().mutex);
  const auto found = fake().manners.enable_results.find(static_cast<int>(kind));
  if (found != fake().manners.enable_results.end()) return found->second;
  fake().seen.enabled.insert(static_cast<int>(kind));
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind) {
  const std::lock_guard lock(fake().mutex);
  fake().seen.enabled.erase(static_cast<int>(kind));
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityEnableRuntimeApi(CUpti_CallbackId call, std::uint8_t enable) {
  const std::lock_guard lock(fake().mutex);
  if (enable == 0) fake().seen.quiet_runtime_calls.insert(call);
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityEnableDriverApi(CUpti_CallbackId call, std::uint8_t enable) {
  const std::lock_guard lock(fake().mutex);
  if (enable != 0) {
    fake().seen.driver_calls.insert(call);
  } else {
    fake().seen.driver_calls.erase(call);
  }
  return CUPTI_SUCCESS;
}

// The real one, measured with CUDA 13.0.1's: INVALID_KIND leaves `record` as it was; a buffer that
// ends within a record has come to its end.
CUptiResult CUPTIAPI cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid,
                                                CUpti_Activity** record) {
  auto* at = reinterpret_cast<std::uint8_t*>(*record);
  at = at == nullptr ? buffer : at + record_size((*record)->kind);
  const auto offset = static_cast<std::size_t>(at - buffer);
  if (offset + sizeof(CUpti_ActivityKind) > valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  auto* next = reinterpret_cast<CUpti_Activity*>(at);
  const std::size_t size = record_size(next->kind);
  if (size == 0) return CUPTI_ERROR_INVALID_KIND;
  if (offset + size > valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = next;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t,
                                                       std::size_t* dropped) {
  const std::lock_guard lock(fake().mutex);
  *dropped = std::exchange(fake().dropped, 0);
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityFlushAll(std::uint32_t flag) {
  if (const auto r = fake().result("cuptiActivityFlushAll"); r != CUPTI_SUCCESS) return r;
  fake().flush(flag == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  return CUPTI_SUCCESS;
}

}  // extern "C"
