#include "runtime/trace/cupti/activity_parser.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

namespace zenflow::runtime {
namespace {

constexpr std::uint32_t kVersionWithEventSyncId = 26;  // CUDA 12.8

#if CUPTI_API_VERSION >= 26
using EventRecord = CUpti_ActivityCudaEvent2;
using SynchronizationRecord = CUpti_ActivitySynchronization2;
#else
using EventRecord = CUpti_ActivityCudaEvent;
using SynchronizationRecord = CUpti_ActivitySynchronization;
#endif

/// Bytes of a record up to and with the last field that is read of it.
#define ZF_BYTES_WITH(Record, field) (offsetof(Record, field) + sizeof(Record::field))

/// The bytes of one record to the end of the buffer; other records may follow.
class RecordBytes {
 public:
  explicit RecordBytes(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// Nothing if the buffer ends before `needed` bytes. Fields beyond the record of an older CUPTI
  /// hold what follows it: whoever reads them asks for the version.
  template <class Record>
  [[nodiscard]] std::optional<Record> as(std::size_t needed) const {
    if (bytes_.size() < needed) return std::nullopt;
    Record record{};
    std::memcpy(&record, bytes_.data(), std::min(sizeof(Record), bytes_.size()));
    return record;
  }

 private:
  std::span<const std::byte> bytes_;
};

class Reader {
 public:
  Reader(const CuptiApi& api, std::uint32_t cupti_version, StringTable& strings)
      : api_(api),
        has_event_sync_id_(cupti_version >= kVersionWithEventSyncId),
        strings_(strings) {}

  enum class Result { kRead, kUnknownKind, kCut };

  Result read(CUpti_ActivityKind kind, RecordBytes bytes, Activity& to) const {
    switch (static_cast<int>(kind)) {
      case CUPTI_ACTIVITY_KIND_KERNEL:
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        return kernel(bytes, to);
      case CUPTI_ACTIVITY_KIND_MEMCPY:
        return copy(bytes, to);
      case CUPTI_ACTIVITY_KIND_MEMCPY2:
        return peer_copy(bytes, to);
      case CUPTI_ACTIVITY_KIND_MEMSET:
        return memset(bytes, to);
      case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
        return synchronization(bytes, to);
      case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
        return event(bytes, to);
      case CUPTI_ACTIVITY_KIND_RUNTIME:
        return call(bytes, ActivityKind::kRuntimeCall, CUPTI_CB_DOMAIN_RUNTIME_API, to);
      case CUPTI_ACTIVITY_KIND_DRIVER:
        return call(bytes, ActivityKind::kDriverCall, CUPTI_CB_DOMAIN_DRIVER_API, to);
      case CUPTI_ACTIVITY_KIND_OVERHEAD:
        return overhead(bytes, to);
      case CUPTI_ACTIVITY_KIND_MARKER:
        return marker(bytes, to);
      default:
        return Result::kUnknownKind;
    }
  }

 private:
  /// Copies the fields that all records of work on the GPU have.
  template <class Record>
  static void place(const Record& record, Activity& to) {
    to.start = record.start;
    to.end = record.end;
    to.device = record.deviceId;
    to.context = record.contextId;
    to.stream = record.streamId;
    to.correlation = record.correlationId;
  }

  Result kernel(RecordBytes bytes, Activity& to) const {
    using Record = CUpti_ActivityKernel9;
    const auto record = bytes.as<Record>(ZF_BYTES_WITH(Record, graphId));
    if (!record) return Result::kCut;
    to.kind = ActivityKind::kKernel;
    place(*record, to);
    to.name = text(record->name);
    const auto size = [](std::int32_t value) { return static_cast<std::uint32_t>(value); };
    to.grid = {size(record->gridX), size(record->gridY), size(record->gridZ)};
    to.block = {size(record->blockX), size(record->blockY), size(record->blockZ)};
    to.registers = record->registersPerThread;
    to.shared_memory = size(record->staticSharedMemory) + size(record->dynamicSharedMemory);
    to.graph = record->graphId;
    return Result::kRead;
  }

  static Result copy(RecordBytes bytes, Activity& to) {
    using Record = CUpti_ActivityMemcpy5;
    const auto record = bytes.as<Record>(ZF_BYTES_WITH(Record, graphId));
    if (!record) return Result::kCut;
    to.kind = ActivityKind::kCopy;
    place(*record, to);
    to.source_device = record->deviceId;
    to.destination_device = record->deviceId;
    fill_copy(*record, to);
    return Result::kRead;
  }

  static Result peer_copy(RecordBytes bytes, Activity& to) {
    using Record = CUpti_ActivityMemcpyPtoP4;
    const auto record = bytes.as<Record>(ZF_BYTES_WITH(Record, graphId));
    if (!record) return Result::kCut;
    to.kind = ActivityKind::kCopy;
    place(*record, to);
    to.source_device = record->srcDeviceId;
    to.destination_device = record->dstDeviceId;
    fill_copy(*record, to);
    return Result::kRead;
  }

  template <class Record>
  static void fill_copy(const Record& record, Activity& to) {
    to.copy_kind = record.copyKind;
    to.source_memory = record.srcKind;
    to.destination_memory = record.dstKind;
    to.bytes = record.bytes;
    to.graph = record.graphId;
  }

  static Result memset(RecordBytes bytes, Activity& to) {
    using Record = CUpti_ActivityMemset4;
    const auto record = bytes.as<Record>(ZF_BYTES_WITH(Record, graphId));
    if (!record) return Result::kCut;
    to.kind = ActivityKind::kMemset;
    place(*record, to);
    to.source_memory = static_cast<std::uint8_t>(record->memoryKind);
    to.destination_memory = to.source_memory;
    to.bytes = record->bytes;
    to.value = record->value;
    to.graph = record->graphId;
    return Result::kRead;
  }

  [[nodiscard]] Result synchronization(RecordBytes bytes, Activity& to) const {
    using Record = SynchronizationRecord;
    const auto record = bytes.as<Record>(ZF_BYTES_WITH(Record, cudaEventId));
    if (!record) return Result::kCut;
    to.kind = ActivityKind::kSynchronization;
    to.start = record->start;
    to.end = record->end;
    to.context = record->contextId;
    to.stream = record->streamId;
    to.correlation = record->correlationId;
    to.event = record->cudaEventId;
    to.value = static_cast<std::uint32_t>(record->type);
#if CUPTI_API_VERSION >= 26
    if (has_event_sync_id_) {
      const auto whole = bytes.as<Record>(ZF_BYTES_WITH(Record, cudaEventSyncId));
      if (!whole) return Result::kCut;
      to.id = whole->cudaEventSyncId;
    }
#endif
    return Result::kRead;
  }

  [[nodiscard]] Result event(RecordBytes bytes, Activity& to) const {
    using Record = EventRecord;
    const auto record = bytes.as<Record>(ZF_BYTES_WITH(Record, eventId));
    if (!record) return Result::kCut;
    to.kind = ActivityKind::kEventRecord;
    to.context = record->contextId;
    to.stream = record->streamId;
    to.correlation = record->correlationId;
    to.event = record->eventId;
#if CUPTI_API_VERSION >= 26
    if (has_event_sync_id_) {
      const auto whole = bytes.as<Record>(ZF_BYTES_WITH(Record, cudaEventSyncId));
      if (!whole) return Result::kCut;
      to.device = whole->deviceId;
      to.id = whole->cudaEventSyncId;
    }
#endif
    return Result::kRead;
  }

  Result call(RecordBytes bytes, ActivityKind kind, CUpti_CallbackDomain domain,
              Activity& to) const {
    using Record = CUpti_ActivityAPI;
    const auto record = bytes.as<Record>(ZF_BYTES_WITH(Record, returnValue));
    if (!record) return Result::kCut;
    to.kind = kind;
    to.start = record->start;
    to.end = record->end;
    to.process = record->processId;
    to.thread = record->threadId;
    to.correlation = record->correlationId;
    to.value = record->returnValue;
    to.name = call_name(domain, record->cbid);
    return Result::kRead;
  }

  static Result overhead(RecordBytes bytes, Activity& to) {
    using Record = CUpti_ActivityOverhead;
    const auto record = bytes.as<Record>(ZF_BYTES_WITH(Record, end));
    if (!record) return Result::kCut;
    to.kind = ActivityKind::kOverhead;
    to.start = record->start;
    to.end = record->end;
    to.value = static_cast<std::uint32_t>(record->overheadKind);
    owner(record->objectKind, record->objectId, to);
    return Result::kRead;
  }

  Result marker(RecordBytes bytes, Activity& to) const {
    using Record = CUpti_ActivityMarker2;
    const auto record = bytes.as<Record>(ZF_BYTES_WITH(Record, domain));
    if (!record) return Result::kCut;
    const auto flags = static_cast<unsigned>(record->flags);
    if ((flags & CUPTI_ACTIVITY_FLAG_MARKER_START) != 0) {
      to.kind = ActivityKind::kRangeStart;
    } else if ((flags & CUPTI_ACTIVITY_FLAG_MARKER_END) != 0) {
      to.kind = ActivityKind::kRangeEnd;
    } else {
      to.kind = ActivityKind::kInstant;
    }
    to.start = record->timestamp;
    to.id = record->id;
    to.name = text(record->name);
    to.domain = text(record->domain);
    owner(record->objectKind, record->objectId, to);
    return Result::kRead;
  }

  static void owner(CUpti_ActivityObjectKind kind, const CUpti_ActivityObjectKindId& id,
                    Activity& to) {
    if (kind == CUPTI_ACTIVITY_OBJECT_PROCESS || kind == CUPTI_ACTIVITY_OBJECT_THREAD) {
      to.process = id.pt.processId;
      if (kind == CUPTI_ACTIVITY_OBJECT_THREAD) to.thread = id.pt.threadId;
      return;
    }
    to.device = id.dcs.deviceId;
    to.context = id.dcs.contextId;
    to.stream = id.dcs.streamId;
  }

  [[nodiscard]] StringId text(const char* name) const {
    return name == nullptr ? 0 : strings_.id(name);
  }

  /// Without the version that CUPTI's names end in: "cudaLaunchKernel_v7000".
  [[nodiscard]] StringId call_name(CUpti_CallbackDomain domain, CUpti_CallbackId call) const {
    const char* name = nullptr;
    if (api_.callback_name(domain, call, &name) != CUPTI_SUCCESS || name == nullptr) {
      const bool runtime = domain == CUPTI_CB_DOMAIN_RUNTIME_API;
      return strings_.id((runtime ? "cuda call " : "cu call ") + std::to_string(call));
    }
    std::string_view known = name;
    const std::size_t version = known.rfind("_v");
    constexpr std::size_t kShortestVersion = 4;  // "_v2" is part of a name, "_v3020" is not
    if (version != std::string_view::npos && known.size() - version > kShortestVersion &&
        known.find_first_not_of("0123456789", version + 2) == std::string_view::npos) {
      known = known.substr(0, version);
    }
    return strings_.id(known);
  }

  const CuptiApi& api_;
  bool has_event_sync_id_;
  StringTable& strings_;
};

}  // namespace

void ActivityParser::parse(std::span<std::byte> buffer, std::vector<Activity>& activities) {
  const Reader reader(api_, cupti_version_, strings_);
  auto* const bytes = reinterpret_cast<std::uint8_t*>(buffer.data());
  CUpti_Activity* record = nullptr;
  while (true) {
    const CUptiResult result = api_.next_record(bytes, buffer.size(), &record);
    if (result == CUPTI_ERROR_MAX_LIMIT_REACHED) return;
    if (result != CUPTI_SUCCESS) {  // CUPTI cannot read on; `record` is still the one before
      ++losses_.cut_records;
      return;
    }
    const auto offset = static_cast<std::size_t>(reinterpret_cast<std::uint8_t*>(record) - bytes);
    Activity activity;
    switch (reader.read(record->kind, RecordBytes(buffer.subspan(offset)), activity)) {
      case Reader::Result::kRead:
        activities.push_back(activity);
        break;
      case Reader::Result::kUnknownKind:
        ++losses_.unknown_kinds;
        break;
      case Reader::Result::kCut:
        ++losses_.cut_records;
        break;
    }
  }
}

}  // namespace zenflow::runtime
