// That every kind of CUPTI's records is read as it was written, from buffers of any state.
#include "runtime/trace/cupti/activity_parser.h"

#include <cstddef>
#include <vector>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cupti_records.h"
#include "tests/support/fake_cupti.h"

namespace zenflow::runtime {
namespace {

using namespace zenflow::testing;
using ::testing::ElementsAre;
using ::testing::SizeIs;

CuptiApi fake_api() {
  CuptiApi api;
  api.next_record = cuptiActivityGetNextRecord;
  api.callback_name = cuptiGetCallbackName;
  return api;
}

struct Parsed {
  std::vector<Activity> activities;
  std::vector<std::string> strings;
  RecordLosses losses;
};

Parsed parse(RecordBuffer& buffer, std::size_t valid, std::uint32_t version = 130001) {
  const CuptiApi api = fake_api();
  StringTable strings;
  ActivityParser parser(api, version, strings);
  Parsed parsed;
  parser.parse({buffer.data(), valid}, parsed.activities);
  parsed.strings = strings.strings();
  parsed.losses = parser.losses();
  return parsed;
}

template <class Record>
Parsed parse_one(const Record& record, std::uint32_t version = 130001) {
  RecordBuffer buffer;
  buffer.add(record);
  return parse(buffer, buffer.size(), version);
}

// What makes one build read the buffers of every CUPTI of its major version: the structures that
// are read are the beginnings of those that are written.
#define EXPECT_SAME_PLACE(Old, New, field)                      \
  static_assert(offsetof(Old, field) == offsetof(New, field) && \
                sizeof(Old::field) == sizeof(New::field))
EXPECT_SAME_PLACE(CUpti_ActivityKernel9, KernelRecord, registersPerThread);
EXPECT_SAME_PLACE(CUpti_ActivityKernel9, KernelRecord, start);
EXPECT_SAME_PLACE(CUpti_ActivityKernel9, KernelRecord, end);
EXPECT_SAME_PLACE(CUpti_ActivityKernel9, KernelRecord, streamId);
EXPECT_SAME_PLACE(CUpti_ActivityKernel9, KernelRecord, blockZ);
EXPECT_SAME_PLACE(CUpti_ActivityKernel9, KernelRecord, dynamicSharedMemory);
EXPECT_SAME_PLACE(CUpti_ActivityKernel9, KernelRecord, correlationId);
EXPECT_SAME_PLACE(CUpti_ActivityKernel9, KernelRecord, name);
EXPECT_SAME_PLACE(CUpti_ActivityKernel9, KernelRecord, graphId);
EXPECT_SAME_PLACE(CUpti_ActivityMemcpy5, CopyRecord, copyKind);
EXPECT_SAME_PLACE(CUpti_ActivityMemcpy5, CopyRecord, dstKind);
EXPECT_SAME_PLACE(CUpti_ActivityMemcpy5, CopyRecord, bytes);
EXPECT_SAME_PLACE(CUpti_ActivityMemcpy5, CopyRecord, correlationId);
EXPECT_SAME_PLACE(CUpti_ActivityMemcpy5, CopyRecord, graphId);
EXPECT_SAME_PLACE(CUpti_ActivityOverhead, OverheadRecord, objectId);
EXPECT_SAME_PLACE(CUpti_ActivityOverhead, OverheadRecord, end);
EXPECT_SAME_PLACE(CUpti_ActivityCudaEvent, EventRecord, eventId);
EXPECT_SAME_PLACE(CUpti_ActivitySynchronization, SynchronizationRecord, cudaEventId);

TEST(ActivityParser, Kernel) {
  KernelRecord record = kernel_record(
      {.correlation = 9, .start = 5, .end = 8, .device = 2, .context = 3, .stream = 4}, "gemm");
  record.graphId = 6;
  const Parsed parsed = parse_one(record);
  ASSERT_THAT(parsed.activities, SizeIs(1));
  const Activity& kernel = parsed.activities[0];
  EXPECT_EQ(kernel.kind, ActivityKind::kKernel);
  EXPECT_EQ(kernel.correlation, 9U);
  EXPECT_EQ(kernel.start, 5U);
  EXPECT_EQ(kernel.end, 8U);
  EXPECT_EQ(kernel.device, 2U);
  EXPECT_EQ(kernel.context, 3U);
  EXPECT_EQ(kernel.stream, 4U);
  EXPECT_EQ(kernel.graph, 6U);
  EXPECT_THAT(kernel.grid, ElementsAre(4, 3, 2));
  EXPECT_THAT(kernel.block, ElementsAre(128, 2, 1));
  EXPECT_EQ(kernel.registers, 40U);
  EXPECT_EQ(kernel.shared_memory, 1024U + 512U);
  EXPECT_EQ(parsed.strings[kernel.name], "gemm");
}

TEST(ActivityParser, CopiesSayDirectionAndKindsOfMemory) {
  const Activity copy = parse_one(copy_record({.correlation = 3}, 1 << 20)).activities.at(0);
  EXPECT_EQ(copy.kind, ActivityKind::kCopy);
  EXPECT_EQ(copy.bytes, 1U << 20);
  EXPECT_EQ(copy.copy_kind, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
  EXPECT_EQ(copy.source_memory, CUPTI_ACTIVITY_MEMORY_KIND_PINNED);
  EXPECT_EQ(copy.destination_memory, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
  EXPECT_EQ(copy.correlation, 3U);

  auto peer = on_gpu<PeerCopyRecord>(CUPTI_ACTIVITY_KIND_MEMCPY2, {.correlation = 4, .device = 1});
  peer.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  peer.bytes = 77;
  peer.srcDeviceId = 1;
  peer.dstDeviceId = 3;
  const Activity between = parse_one(peer).activities.at(0);
  EXPECT_EQ(between.kind, ActivityKind::kCopy);
  EXPECT_EQ(between.copy_kind, CUPTI_ACTIVITY_MEMCPY_KIND_PTOP);
  EXPECT_EQ(between.bytes, 77U);
  EXPECT_EQ(between.source_device, 1U);
  EXPECT_EQ(between.destination_device, 3U);
}

TEST(ActivityParser, Memset) {
  const Activity set = parse_one(memset_record({.correlation = 3}, 640)).activities.at(0);
  EXPECT_EQ(set.kind, ActivityKind::kMemset);
  EXPECT_EQ(set.bytes, 640U);
  EXPECT_EQ(set.value, 255U);
  EXPECT_EQ(set.destination_memory, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
}

TEST(ActivityParser, CallsAreNamedWithoutCuptisVersion) {
  const Parsed runtime = parse_one(call_record({.correlation = 5, .start = 1, .end = 2}, 12));
  const Activity& call = runtime.activities.at(0);
  EXPECT_EQ(call.kind, ActivityKind::kRuntimeCall);
  EXPECT_EQ(call.process, 4711U);
  EXPECT_EQ(call.thread, 12U);
  EXPECT_EQ(runtime.strings[call.name], "cudaLaunchKernel");

  CallRecord driver = call_record({});
  driver.kind = CUPTI_ACTIVITY_KIND_DRIVER;
  driver.cbid = CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2;
  const Parsed by_driver = parse_one(driver);
  EXPECT_EQ(by_driver.activities.at(0).kind, ActivityKind::kDriverCall);
  EXPECT_EQ(by_driver.strings[by_driver.activities[0].name], "cuMemcpyHtoD_v2");

  CallRecord unnamed = call_record({});
  unnamed.cbid = 9999;
  const Parsed parsed = parse_one(unnamed);
  EXPECT_EQ(parsed.strings[parsed.activities.at(0).name], "cuda call 9999");
}

TEST(ActivityParser, EventsAndWaitsOfCuda12_8HaveTheNumberOfTheRecording) {
  SynchronizationRecord wait{};
  wait.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  wait.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
  wait.start = 10;
  wait.end = 11;
  wait.correlationId = 8;
  wait.contextId = 1;
  wait.streamId = 7;
  wait.cudaEventId = 3;
  wait.cudaEventSyncId = 99;
  const Activity now = parse_one(wait, 26).activities.at(0);
  EXPECT_EQ(now.kind, ActivityKind::kSynchronization);
  EXPECT_EQ(now.value, 2U);
  EXPECT_EQ(now.event, 3U);
  EXPECT_EQ(now.stream, 7U);
  EXPECT_EQ(now.id, 99U);
  // An older library's record ends before that field: what lies there is another record's.
  EXPECT_EQ(parse_one(wait, 24).activities.at(0).id, 0U);

  EventRecord record{};
  record.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
  record.correlationId = 7;
  record.contextId = 1;
  record.streamId = 13;
  record.eventId = 3;
  record.cudaEventSyncId = 99;
  const Activity event = parse_one(record, 26).activities.at(0);
  EXPECT_EQ(event.kind, ActivityKind::kEventRecord);
  EXPECT_EQ(event.stream, 13U);
  EXPECT_EQ(event.event, 3U);
  EXPECT_EQ(event.id, 99U);
  EXPECT_EQ(parse_one(record, 24).activities.at(0).id, 0U);
}

TEST(ActivityParser, OverheadAndRangesAreOfAThread) {
  OverheadRecord overhead{};
  overhead.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  overhead.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
  overhead.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  overhead.objectId.pt = {4711, 12};
  overhead.start = 3;
  overhead.end = 9;
  const Activity spent = parse_one(overhead).activities.at(0);
  EXPECT_EQ(spent.kind, ActivityKind::kOverhead);
  EXPECT_EQ(spent.thread, 12U);
  EXPECT_EQ(spent.value, 1U << 16U);
  EXPECT_EQ(spent.end, 9U);

  MarkerRecord marker{};
  marker.kind = CUPTI_ACTIVITY_KIND_MARKER;
  marker.flags = CUPTI_ACTIVITY_FLAG_MARKER_START;
  marker.timestamp = 50;
  marker.id = 21;
  marker.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  marker.objectId.pt = {4711, 12};
  marker.name = "forward";
  marker.domain = "torch";
  const Parsed start = parse_one(marker);
  EXPECT_EQ(start.activities.at(0).kind, ActivityKind::kRangeStart);
  EXPECT_EQ(start.activities[0].start, 50U);
  EXPECT_EQ(start.activities[0].id, 21U);
  EXPECT_EQ(start.strings[start.activities[0].name], "forward");
  EXPECT_EQ(start.strings[start.activities[0].domain], "torch");
  marker.flags = CUPTI_ACTIVITY_FLAG_MARKER_END;
  marker.name = nullptr;
  EXPECT_EQ(parse_one(marker).activities.at(0).kind, ActivityKind::kRangeEnd);
  marker.flags = CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS;
  EXPECT_EQ(parse_one(marker).activities.at(0).kind, ActivityKind::kInstant);
}

TEST(ActivityParser, KeepsTheOrderAndGoesOnAfterKindsThatAreNotAskedFor) {
  CUpti_ActivityExternalCorrelation other{};
  other.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  RecordBuffer buffer;
  buffer.add(kernel_record({.correlation = 2})).add(other).add(call_record({.correlation = 1}));
  const Parsed parsed = parse(buffer, buffer.size());
  ASSERT_THAT(parsed.activities, SizeIs(2));
  EXPECT_EQ(parsed.activities[0].correlation, 2U);
  EXPECT_EQ(parsed.activities[1].correlation, 1U);
  EXPECT_EQ(parsed.losses, (RecordLosses{.unknown_kinds = 1}));
}

TEST(ActivityParser, NothingIsReadBeyondTheValidBytes) {
  RecordBuffer buffer;
  buffer.add(call_record({.correlation = 1})).add(kernel_record({.correlation = 2}));
  for (std::size_t valid = 0; valid <= buffer.size(); ++valid) {
    const std::size_t expected = valid == buffer.size() ? 2 : valid >= sizeof(CallRecord) ? 1 : 0;
    EXPECT_THAT(parse(buffer, valid).activities, SizeIs(expected)) << valid;
  }
}

TEST(ActivityParser, ARecordThatIsCutOffIsCountedWhateverCuptiSays) {
  CuptiApi trusting = fake_api();
  trusting.next_record = [](std::uint8_t* bytes, std::size_t, CUpti_Activity** record) {
    if (*record != nullptr) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = reinterpret_cast<CUpti_Activity*>(bytes);
    return CUPTI_SUCCESS;
  };
  StringTable strings;
  RecordBuffer buffer;
  buffer.add(kernel_record({}));
  ActivityParser parser(trusting, 130001, strings);
  std::vector<Activity> activities;
  parser.parse({buffer.data(), 64}, activities);
  EXPECT_THAT(activities, SizeIs(0));
  EXPECT_EQ(parser.losses(), (RecordLosses{.cut_records = 1}));
}

TEST(ActivityParser, ABufferThatCuptiCannotReadOnIsLeftAndCounted) {
  RecordBuffer buffer;
  buffer.add(call_record({.correlation = 1}));
  buffer.add(std::uint64_t{0});  // kind 0: a record that was begun and not written
  buffer.add(call_record({.correlation = 2}));
  const Parsed parsed = parse(buffer, buffer.size());
  ASSERT_THAT(parsed.activities, SizeIs(1));
  EXPECT_EQ(parsed.losses, (RecordLosses{.cut_records = 1}));
}

TEST(ActivityParser, ANameIsKeptOnce) {
  RecordBuffer buffer;
  for (std::uint32_t i = 1; i <= 5; ++i) {
    buffer.add(kernel_record({.correlation = i}, i % 2 == 0 ? "even" : "odd"));
  }
  EXPECT_THAT(parse(buffer, buffer.size()).strings, ElementsAre("", "odd", "even"));
}

#ifdef ZENFLOW_REAL_CUPTI
/// The tests' CUPTI steps over records as NVIDIA's library does; that one needs no driver for it.
TEST(FakeCupti, StepsAsTheRealOne) {
  void* library = ::dlopen(ZENFLOW_REAL_CUPTI, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto real = reinterpret_cast<decltype(&cuptiActivityGetNextRecord)>(
      ::dlsym(library, "cuptiActivityGetNextRecord"));
  ASSERT_NE(real, nullptr);
  ASSERT_NE(real, &cuptiActivityGetNextRecord) << "the tests' own was found";
  RecordBuffer buffer;
  buffer.add(kernel_record({})).add(copy_record({})).add(memset_record({})).add(call_record({}));
  const auto add = [&buffer](auto record, CUpti_ActivityKind kind) {
    record.kind = kind;
    buffer.add(record);
  };
  add(PeerCopyRecord{}, CUPTI_ACTIVITY_KIND_MEMCPY2);
  add(SynchronizationRecord{}, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  add(EventRecord{}, CUPTI_ACTIVITY_KIND_CUDA_EVENT);
  add(OverheadRecord{}, CUPTI_ACTIVITY_KIND_OVERHEAD);
  add(MarkerRecord{}, CUPTI_ACTIVITY_KIND_MARKER);
  add(CUpti_ActivityMarkerData2{}, CUPTI_ACTIVITY_KIND_MARKER_DATA);
  add(CUpti_ActivityExternalCorrelation{}, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  add(CallRecord{}, CUPTI_ACTIVITY_KIND_DRIVER);
  buffer.add(std::uint64_t{0});  // invalid
  auto* bytes = reinterpret_cast<std::uint8_t*>(buffer.data());
  for (const std::size_t valid : {buffer.size(), buffer.size() - 8, buffer.size() - 12,
                                  sizeof(KernelRecord) + 4, std::size_t{3}}) {
    CUpti_Activity* ours = nullptr;
    CUpti_Activity* theirs = nullptr;
    CUptiResult result = CUPTI_SUCCESS;
    int steps = 0;
    while (result == CUPTI_SUCCESS) {
      result = cuptiActivityGetNextRecord(bytes, valid, &ours);
      ASSERT_EQ(real(bytes, valid, &theirs), result) << "step " << steps << " of " << valid;
      ASSERT_EQ(ours, theirs) << "step " << steps << " of " << valid;
      ++steps;
    }
  }
}
#endif

}  // namespace
}  // namespace zenflow::runtime
