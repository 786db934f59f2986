/// CUPTI's records as a GPU would have left them, of the newest structures of the header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <cupti.h>

namespace zenflow::testing {

using KernelRecord = CUpti_ActivityKernel10;
using CopyRecord = CUpti_ActivityMemcpy6;
using PeerCopyRecord = CUpti_ActivityMemcpyPtoP4;
using MemsetRecord = CUpti_ActivityMemset4;
using CallRecord = CUpti_ActivityAPI;
using SynchronizationRecord = CUpti_ActivitySynchronization2;
using EventRecord = CUpti_ActivityCudaEvent2;
using OverheadRecord = CUpti_ActivityOverhead3;
using MarkerRecord = CUpti_ActivityMarker2;

/// What a record says of where and when.
struct Where {
  std::uint32_t correlation = 1;
  std::uint64_t start = 100;
  std::uint64_t end = 200;
  std::uint32_t device = 0;
  std::uint32_t context = 1;
  std::uint32_t stream = 7;
};

template <class Record>
Record on_gpu(CUpti_ActivityKind kind, const Where& where) {
  Record record{};
  record.kind = kind;
  record.start = where.start;
  record.end = where.end;
  record.deviceId = where.device;
  record.contextId = where.context;
  record.streamId = where.stream;
  record.correlationId = where.correlation;
  return record;
}

inline KernelRecord kernel_record(const Where& where, const char* name = "_Z4stepPf") {
  auto record = on_gpu<KernelRecord>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, where);
  record.name = name;
  record.gridX = 4;
  record.gridY = 3;
  record.gridZ = 2;
  record.blockX = 128;
  record.blockY = 2;
  record.blockZ = 1;
  record.registersPerThread = 40;
  record.staticSharedMemory = 1024;
  record.dynamicSharedMemory = 512;
  return record;
}

inline CopyRecord copy_record(const Where& where, std::uint64_t bytes = 4096) {
  auto record = on_gpu<CopyRecord>(CUPTI_ACTIVITY_KIND_MEMCPY, where);
  record.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  record.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  record.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  record.bytes = bytes;
  return record;
}

inline MemsetRecord memset_record(const Where& where, std::uint64_t bytes = 64) {
  auto record = on_gpu<MemsetRecord>(CUPTI_ACTIVITY_KIND_MEMSET, where);
  record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  record.bytes = bytes;
  record.value = 255;
  return record;
}

inline CallRecord call_record(const Where& where, std::uint32_t thread = 10) {
  CallRecord record{};
  record.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  record.cbid = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000;
  record.start = where.start;
  record.end = where.end;
  record.processId = 4711;
  record.threadId = thread;
  record.correlationId = where.correlation;
  return record;
}

/// A buffer as CUPTI fills it: records one after the other, 8-byte aligned.
class RecordBuffer {
 public:
  template <class Record>
  RecordBuffer& add(const Record& record) {
    static_assert(sizeof(Record) % sizeof(std::uint64_t) == 0);
    const std::size_t before = words_.size();
    words_.resize(before + sizeof(Record) / sizeof(std::uint64_t));
    std::memcpy(words_.data() + before, &record, sizeof(Record));
    return *this;
  }
  [[nodiscard]] std::size_t size() const { return words_.size() * sizeof(std::uint64_t); }
  [[nodiscard]] std::byte* data() { return reinterpret_cast<std::byte*>(words_.data()); }

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace zenflow::testing
