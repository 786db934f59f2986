// What profilers of other releases, other makers' devices and other programs write in Chrome's
// format. Expectations are counted by hand.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "sim/trace/analysis/trace_analysis.h"
#include "sim/trace/import/import_trace.h"
#include "sim/trace/launches.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/traces.h"

namespace zenflow::sim {
namespace {

using testing::copy;
using ::testing::ElementsAre;
using testing::event;
using ::testing::HasSubstr;
using testing::import_text;
using ::testing::IsEmpty;
using testing::kernel;
using testing::launch;
using testing::left_out;
using ::testing::SizeIs;
using testing::trace_of;

/// "device, track: name start-end" in nanoseconds.
std::vector<std::string> work_of(const ImportedTrace& trace) {
  std::vector<std::string> found;
  for (const TimelineSpan& span : trace.timeline.spans) {
    if (!is_gpu_work(kind_of(trace.timeline, span))) continue;
    const Track& track = trace.timeline.tracks[span.track];
    found.push_back(fmt::format("{}, {}: {} {}-{}", track.device, track.name,
                                trace.timeline.name_of(span), span.start.count / 1000,
                                span.end.count / 1000));
  }
  return found;
}

TraceAnalysis analysis_of(const ImportedTrace& trace) {
  return analyze(trace, default_rules());
}

TEST(TraceVariants, WorkWithoutADeviceIsOfTheOneThatItsProcessNames) {
  const ImportedTrace trace = import_text(trace_of(
      event("kernel", "a", "3", "7", "1", "2"), event("kernel", "b", "\"GPU 1\"", "7", "4", "2"),
      event("kernel", "c", "\"cuda:2\"", "\"stream 9\"", "7", "2"),
      event("gpu_memcpy", "Memcpy PtoP (Device -> Device)", "5", "8", "9", "1",
            R"("fromDevice": 5, "inDevice": 5, "toDevice": 6, "stream": 8, "bytes": 64)"),
      event("kernel", "d", "\"python\"", "7", "10", "2")));
  EXPECT_THAT(work_of(trace),
              ElementsAre("1, stream 7: b 4000-6000", "2, stream 9: c 7000-9000",
                          "3, stream 7: a 1000-3000",
                          "5, stream 8: Memcpy PtoP (Device -> Device) 9000-10000"));
  EXPECT_EQ(left_out(trace, "GPU work of a device that is no number below 4096"), 1U);
}

TEST(TraceVariants, EventsWithoutADurationAreInstantsAndSaidToBe) {
  const ImportedTrace trace = import_text(
      trace_of(R"({"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 5})",
               kernel("b", "10", "0", 1), kernel("c", "20", "1", 2)));
  EXPECT_THAT(work_of(trace), ElementsAre("0, stream 7: a 5000-5000", "0, stream 7: b 10000-10000",
                                          "0, stream 7: c 20000-21000"));
  EXPECT_THAT(trace.problems, ElementsAre(HasSubstr("1 events have no duration")));
  const DeviceAnalysis device = analysis_of(trace).devices.at(0);
  EXPECT_EQ(device.kernels, 3U);
  EXPECT_EQ(device.busy.count, 1'000'000);
  EXPECT_EQ(device.span().count, 16'000'000);
}

// Chrome's other way to write a span; the last of a thread to begin ends first.
TEST(TraceVariants, BeginningsAndEndsMakeSpans) {
  const auto one = [](const char* phase, const char* name, const char* tid, const char* ts) {
    return fmt::format(
        R"({{"ph": "{}", "cat": "user_annotation", "name": "{}", "pid": 1, "tid": {}, "ts": {}}})",
        phase, name, tid, ts);
  };
  const ImportedTrace trace = import_text(trace_of(
      one("B", "ProfilerStep#1", "1", "10"), one("B", "forward", "1", "12"),
      one("B", "other", "2", "13"), one("E", "", "1", "14.5"), one("E", "", "2", "15"),
      one("E", "", "1", "20"), one("E", "", "1", "21"), one("B", "open", "1", "22"),
      one("B", "back", "3", "30"), one("E", "back", "3", "29"),
      R"({"ph": "B", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 16, "args": {"device": 2}})",
      R"({"ph": "E", "pid": 0, "tid": 7, "ts": 18.25})"));
  EXPECT_THAT(work_of(trace), ElementsAre("2, stream 7: k 16000-18250"));
  ASSERT_THAT(trace.timeline.steps, SizeIs(1));
  EXPECT_EQ(trace.timeline.steps[0].end.count, 20'000'000);
  EXPECT_THAT(trace.timeline.spans, SizeIs(4));
  EXPECT_EQ(left_out(trace, "ends of spans that did not begin"), 1U);
  EXPECT_EQ(left_out(trace, "spans that were not ended"), 1U);
  EXPECT_EQ(left_out(trace, "events with a negative duration"), 1U);
}

// Absolute times, so that what all of them count from has to be known first.
TEST(TraceVariants, BeginningsMayComeBeforeEverythingElse) {
  const ImportedTrace trace = import_text(
      R"([{"ph": "B", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1712195495505540.125},)"
      R"({"ph": "E", "pid": 0, "tid": 7, "ts": 1712195495505541.5}])");
  EXPECT_THAT(work_of(trace), ElementsAre("0, stream 7: k 0-1375"));
  EXPECT_EQ(trace.timeline.origin_nanoseconds, 1'712'195'495'505'540'125);
}

// As programs that sort keys write them, and with everything that names rows at the end.
TEST(TraceVariants, KeysAndEventsMayComeInAnyOrder) {
  const ImportedTrace trace = import_text(
      R"({"traceEvents": [)"
      R"({"args": {"stream": 9, "device": 1, "correlation": 4}, "cat": "kernel", "dur": 2, "name": "k", "ph": "X", "pid": 1, "tid": 9, "ts": 5},)"
      R"({"args": {"correlation": 4}, "cat": "cuda_runtime", "dur": 1, "name": "cudaLaunchKernel", "ph": "X", "pid": 33, "tid": 44, "ts": 3},)"
      R"({"args": {"name": "main \u00e9"}, "name": "thread_name", "ph": "M", "pid": 33, "tid": 44},)"
      R"({"args": {"name": "python"}, "name": "process_name", "ph": "M", "pid": 33}]})");
  EXPECT_THAT(work_of(trace), ElementsAre("1, stream 9: k 5000-7000"));
  EXPECT_EQ(trace.timeline.tracks.at(trace.timeline.spans.at(1).track).name, "main \u00e9");
  EXPECT_EQ(trace.timeline.processes.at(0).name, "python");
  EXPECT_EQ(launch_of_spans(trace.timeline)[0], 1U);
}

// C++ prints inf and nan where a division by zero goes into a trace.
TEST(TraceVariants, TakesTokensThatOtherProgramsPrint) {
  const ImportedTrace trace = import_text(trace_of(
      event("Kernel", "a", "0", "\"stream 7\"", "1", "2",
            R"("blocks per SM": inf, "warps per SM": -inf, "x": nan, "device": 0)"),
      event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", "0", "8", "4", "0",
            R"_("bytes": 12, "memory bandwidth (GB/s)": inf, "device": 0, "stream": 8)_")));
  EXPECT_THAT(work_of(trace), ElementsAre("0, stream 7: a 1000-3000",
                                          "0, stream 8: Memcpy HtoD (Pinned -> Device) 4000-4000"));
  EXPECT_EQ(analysis_of(trace).devices.at(0).copy_statistics.at(0).bytes, 12);
}

TEST(TraceVariants, NumbersThatNoIntegerHoldsAreAsIfNotThere) {
  const ImportedTrace trace = import_text(trace_of(
      event("kernel", "a", "0", "7", "1", "2",
            R"("stream": 18446744073709551615, "correlation": 18446744073709551616, "device": 0)"),
      event("kernel", "b", "1", "7", "4", "2",
            R"("device": 99999999999999999999, "grid": [1e400, 1, 1])")));
  EXPECT_THAT(work_of(trace), ElementsAre("0, stream 7: a 1000-3000", "1, stream 7: b 4000-6000"));
  EXPECT_EQ(trace.timeline.spans[0].correlation, -1);
}

TEST(TraceVariants, NamesMayHoldControlCharactersAndBeVeryLong) {
  const std::string name(1'000'000, 'x');
  const ImportedTrace trace = import_text(trace_of(
      kernel("a\nb\tc \\\" \x01", "1", "2", 1), kernel(name, "4", "2", 2),
      "{\n\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"d\\\n\",\t\"pid\": 0, \"tid\": 7, "
      "\"ts\": 7, \"dur\": 1}"));
  EXPECT_THAT(work_of(trace),
              ElementsAre("0, stream 7: a\nb\tc \" \x01 1000-3000",
                          "0, stream 7: " + name + " 4000-6000", "0, stream 7: d\n 7000-8000"));
  EXPECT_THAT(trace.problems, IsEmpty());
}

// Each text that has escapes needs a place of its own, however often a key occurs.
TEST(TraceVariants, TextsOfAnEventDoNotOverwriteEachOther) {
  std::string text = R"({"ph": "X", "cat": "k\u0065rnel", "pid": 0, "tid": 7, "ts": 1, "dur": 2)";
  for (int i = 0; i < 20; ++i) {
    text +=
        R"(, "name": "a name that is long enough for the heap \u00e9 )" + std::to_string(i) + "\"";
  }
  const ImportedTrace trace = import_text(trace_of(text + "}"));
  EXPECT_THAT(
      work_of(trace),
      ElementsAre("0, stream 7: a name that is long enough for the heap \u00e9 19 1000-3000"));
}

TEST(TraceVariants, StepsMayLieInOtherAnnotations) {
  const ImportedTrace trace =
      import_text(trace_of(event("user_annotation", "train", "1", "1", "0", "100"),
                           event("user_annotation", "ProfilerStep#4", "1", "1", "10", "40"),
                           event("user_annotation", "forward", "1", "1", "12", "10"),
                           event("user_annotation", "ProfilerStep#5", "1", "1", "50", "45"),
                           kernel("k", "20", "20", 1), kernel("k", "80", "5", 2)));
  ASSERT_THAT(trace.timeline.steps, SizeIs(2));
  EXPECT_EQ(trace.timeline.steps[0].number, 4);
  const TraceAnalysis analysis = analysis_of(trace);
  EXPECT_EQ(analysis.steps[0].busy.at(0).count, 20'000'000);
  EXPECT_EQ(analysis.steps[1].busy.at(0).count, 5'000'000);
}

// Two ranks in one file: the thread with most steps says what a step is.
TEST(TraceVariants, OfSeveralThreadsWithStepsTheOneWithMostCounts) {
  const ImportedTrace trace =
      import_text(trace_of(event("user_annotation", "ProfilerStep#1", "1", "1", "0", "10"),
                           event("user_annotation", "ProfilerStep#1", "2", "2", "1", "12"),
                           event("user_annotation", "ProfilerStep#2", "2", "2", "13", "12"),
                           kernel("k", "2", "2", 1, 7, 0), kernel("k", "3", "4", 1, 7, 1)));
  ASSERT_THAT(trace.timeline.steps, SizeIs(2));
  EXPECT_EQ(trace.timeline.steps[0].start.count, 1'000'000);
  const TraceAnalysis analysis = analysis_of(trace);
  ASSERT_THAT(analysis.devices, SizeIs(2));
  EXPECT_EQ(analysis.steps[0].busy.at(0).count, 2'000'000);
  EXPECT_EQ(analysis.steps[0].busy.at(1).count, 4'000'000);
}

TEST(TraceVariants, KernelsOfAGraphHaveOneLaunch) {
  const ImportedTrace trace =
      import_text(trace_of(launch("cudaGraphLaunch", "1", "2", 5), kernel("a", "4", "2", 5),
                           kernel("b", "6", "2", 5), kernel("c", "6", "3", 5, 8)));
  EXPECT_EQ(launch_of_spans(trace.timeline).all(), (std::vector<std::uint32_t>{3, 3, 3, kNoSpan}));
  EXPECT_EQ(analysis_of(trace).devices.at(0).without_launch, 0U);
}

// Counters of a range profiler split its time evenly; control processors and host ranges of other
// devices are no work of theirs.
TEST(TraceVariants, NotEveryCategoryOfADeviceIsItsWork) {
  const ImportedTrace trace = import_text(trace_of(
      event("cuda_profiler_range", "gemm", "0", "0", "0", "5", R"("smsp__inst.sum": 12)"),
      event("mtia_ccp_events", "ccp", "0", "3", "1", "2", R"("stream": 3)"),
      event("hpu_op", "aten::mm", "9", "9", "1", "2"), event("overhead", "x", "-1", "0", "1", "2"),
      event("cuda_event", "Event Record", "0", "7", "1", "0"),
      event("collective_comm", "allreduce", "9", "9", "1", "2")));
  EXPECT_THAT(work_of(trace), IsEmpty());
  EXPECT_THAT(analysis_of(trace).devices, IsEmpty());
  EXPECT_THAT(trace.left_out, SizeIs(6));
  EXPECT_EQ(left_out(trace, "category \"cuda_profiler_range\""), 1U);
}

TEST(TraceVariants, ReadsOtherMakersDevices) {
  const ImportedTrace trace = import_text(trace_of(
      // Intel: no stream, the queue is the thread.
      event("xpu_runtime", "urEnqueueKernelLaunch", "9", "9", "1", "1", R"("correlation": 1)"),
      event("kernel", "gemm", "0", "2", "3", "2",
            R"("device": 0, "sycl queue": 123456, "correlation": 1, "context": "0x0001")"),
      event("xpu_driver", "zeCommandListAppendMemoryCopy", "9", "9", "2", "1",
            R"("correlation": 2)"),
      event("gpu_memcpy", "Memcpy M2D (Memory -> Device)", "0", "2", "5", "1",
            R"_("device": 0, "correlation": 2, "bytes": 256, "memory bandwidth (GB/s)": "N/A")_"),
      // AMD before arguments: device and queue are process and thread.
      event("kernel", "Cijk_Ailk", "1", "3", "7", "2"),
      event("gpu_memcpy", "CopyDeviceToHost", "1", "3", "9", "1"),
      // Cambricon, Enflame, MTIA.
      event("mlu_memcpy", "Memcpy HtoD", "2", "4", "11", "1", R"("bytes": 8)"),
      event("mlu_runtime", "cnInvokeKernel", "9", "9", "10", "1", R"("correlation": 3)"),
      event("GCU_MEMSET", "Memset", "2", "4", "12", "1", R"("bytes": 8)"),
      event("mtia_runtime", "runFunction - job_prep_and_submit_for_execution", "9", "9", "13", "1",
            R"("correlation": 4)"),
      event("kernel", "fbgemm", "3", "5", "15", "2", R"("stream": 5, "correlation": 4)"),
      event("mlu_user_annotation", "ProfilerStep#1", "2", "4", "11", "3")));
  EXPECT_THAT(
      work_of(trace),
      ElementsAre("0, stream 2: gemm 3000-5000",
                  "0, stream 2: Memcpy M2D (Memory -> Device) 5000-6000",
                  "1, stream 3: Cijk_Ailk 7000-9000", "1, stream 3: CopyDeviceToHost 9000-10000",
                  "2, stream 4: Memcpy HtoD 11000-12000", "2, stream 4: Memset 12000-13000",
                  "3, stream 5: fbgemm 15000-17000"));
  EXPECT_THAT(trace.left_out, IsEmpty());
  const SpanLaunches launch = launch_of_spans(trace.timeline);
  EXPECT_NE(launch[0], kNoSpan);
  EXPECT_NE(launch[1], kNoSpan);
  EXPECT_NE(launch[6], kNoSpan);
  const TraceAnalysis analysis = analysis_of(trace);
  EXPECT_EQ(analysis.devices.at(0).copy_statistics.at(0).kind.direction, CopyDirection::kH2D);
  const CopyStatistics& of_amd = analysis.devices.at(1).copy_statistics.at(0);
  EXPECT_EQ(of_amd.kind.direction, CopyDirection::kD2H);
  EXPECT_EQ(of_amd.without_bytes, 1U);
  EXPECT_EQ(analysis.devices.at(2).memsets, 1U);
  EXPECT_EQ(trace.timeline.steps.at(0).number, 1);
}

// PyTorch's own viewer compares categories so.
TEST(TraceVariants, TheCaseOfACategoryDoesNotMatter) {
  const ImportedTrace trace = import_text(
      trace_of(event("runtime", "cudaMemcpyAsync", "9", "9", "1", "1", R"("correlation": 2)"),
               event("memcpy", "Memcpy HtoD (Pinned -> Device)", "0", "7", "3", "1",
                     R"("device": 0, "bytes": 4, "correlation": 2)"),
               event("KERNEL", "k", "0", "7", "5", "1"), event("operator", "o", "9", "9", "0", "9"),
               event("Trace", "PyTorch Profiler (0)", "\"Spans\"", "\"x\"", "0", "9")));
  EXPECT_THAT(work_of(trace), ElementsAre("0, stream 7: Memcpy HtoD (Pinned -> Device) 3000-4000",
                                          "0, stream 7: k 5000-6000"));
  EXPECT_EQ(launch_of_spans(trace.timeline)[0], 2U);
  EXPECT_EQ(left_out(trace, "operator"), 1U);
  EXPECT_EQ(left_out(trace, "category \"Trace\""), 1U);
}

TEST(TraceVariants, KnowsTheKernelsOfEveryNccl) {
  const ImportedTrace trace = import_text(trace_of(
      kernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "1", "1", 1),
      kernel("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "2",
             "1", 2),
      kernel("ncclAllReduceRingLLKernel_sum_f32(ncclColl)", "3", "1", 3),
      kernel("ncclSymkDevKernel_AllGather_LL(ncclSymkDevWorkArgs)", "4", "1", 4),
      kernel("void rcclKernel<1>()", "5", "1", 5), kernel("gemm", "6", "1", 6)));
  const DeviceAnalysis device = analysis_of(trace).devices.at(0);
  EXPECT_EQ(device.kernels, 6U);
  EXPECT_EQ(device.collectives, 5U);
  EXPECT_EQ(device.collective.count, 5'000'000);
  EXPECT_EQ(device.compute.count, 1'000'000);
}

TEST(TraceVariants, KnowsCopiesBetweenAllKindsOfMemory) {
  const ImportedTrace trace =
      import_text(trace_of(copy("HtoA (Pageable -> Array)", "1", "1", 1, 1),
                           copy("AtoH (Array -> Pinned)", "2", "1", 2, 2),
                           copy("AtoD (Array -> Device)", "3", "1", 4, 3),
                           copy("PtoP (Device -> Device)", "4", "1", 8, 4),
                           copy("HtoD (Managed -> Managed)", "5", "1", 16, 5),
                           copy("DtoH (Device Static -> Unified)", "6", "1", 32, 6),
                           copy("HtoH (Pinned -> Pageable)", "7", "1", 64, 7),
                           copy("<unknown> (Unknown -> Unknown)", "8", "1", 128, 8)));
  std::map<std::string, std::int64_t> bytes;
  const TraceAnalysis analysis = analysis_of(trace);
  for (const CopyStatistics& one : analysis.devices.at(0).copy_statistics) {
    bytes[to_string(one.kind.direction) + " " + to_string(one.kind.from) + " " +
          to_string(one.kind.to)] += one.bytes;
  }
  EXPECT_EQ(bytes, (std::map<std::string, std::int64_t>{{"HtoD Pageable Device", 1},
                                                        {"DtoH Device Pinned", 2},
                                                        {"DtoD Device Device", 4},
                                                        {"PtoP Device Device", 8},
                                                        {"HtoD Managed Managed", 16},
                                                        {"DtoH Device Managed", 32},
                                                        {"HtoH Pinned Pageable", 64},
                                                        {"unknown unknown unknown", 128}}));
}

class TraceFiles : public ::testing::Test {
 protected:
  ImportedTrace import_file(const std::string& bytes) {
    return import_trace(folder_.write("trace.bin", bytes));
  }
  std::string message(const std::string& bytes) {
    return testing::error_of([&] { static_cast<void>(import_file(bytes)); }).second;
  }
  std::string text_ = trace_of(kernel("a", "10", "1", 1), kernel("b", "20", "1", 2));
  testing::TemporaryFolder folder_;
};

// A name, a comment, extra fields and a checksum of the header, as archivers write them.
TEST_F(TraceFiles, GzipMayHaveEveryHeaderField) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string name = "trace.json";
  std::string comment = "of a run";
  std::string extra = "XX\x04\x02zz";
  gz_header header{};
  header.name = reinterpret_cast<Bytef*>(name.data());
  header.comment = reinterpret_cast<Bytef*>(comment.data());
  header.extra = reinterpret_cast<Bytef*>(extra.data());
  header.extra_len = static_cast<uInt>(extra.size());
  header.hcrc = 1;
  deflateSetHeader(&stream, &header);
  std::string out(deflateBound(&stream, text_.size()) + 256, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(text_.data());
  stream.avail_in = static_cast<uInt>(text_.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  ASSERT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  EXPECT_THAT(import_file(out).timeline.spans, SizeIs(2));
}

TEST_F(TraceFiles, Utf16IsNamedWithItsByteOrder) {
  std::string little;
  std::string big;
  for (const char c : text_) {
    little += {c, '\0'};
    big += {'\0', c};
  }
  EXPECT_THAT(message("\xFF\xFE" + little), HasSubstr("UTF-16: convert it with iconv -f UTF-16 "));
  EXPECT_THAT(message("\xFE\xFF" + big), HasSubstr("UTF-16: convert it with iconv -f UTF-16 "));
  EXPECT_THAT(message(little), HasSubstr("iconv -f UTF-16LE"));
  EXPECT_THAT(message(big), HasSubstr("iconv -f UTF-16BE"));
}

// Jobs print their configuration before they begin.
TEST_F(TraceFiles, ALogMayBeginWithJson) {
  const std::string record =
      "[2024-11-21 02:14:39,317] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: 1.50\n";
  for (const char* first : {"{\"a\": {\"b}\": \"\\\"}\"}}\n", "{\n  \"a\": [1]\n}\n", "[]\n",
                            "[{\"a\": 1}]\n", "{}\n{\"a\": 1}\n"}) {
    const ImportedTrace trace = import_file(first + record);
    ASSERT_TRUE(trace.timers) << first;
    EXPECT_EQ(trace.timers->forward_ms, 1.5) << first;
  }
  EXPECT_THAT(message("{\"loss\": 1}\n{\"loss\": 2}\n"), HasSubstr("none of its 2 lines"));
  EXPECT_THAT(message("{\"ph\": \"X\"}\n{\"ph\": \"X\"}\n"), HasSubstr("no \"traceEvents\""));
}

// What the profiler's other exports, and memory snapshots, look like.
TEST_F(TraceFiles, OtherJsonIsRefusedWithItsKeys) {
  EXPECT_THAT(message(R"({"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": []})"),
              HasSubstr("no \"traceEvents\": not a Chrome trace (keys: schema, pid, nodes)"));
  EXPECT_THAT(message("{}"), HasSubstr("(keys: none)"));
  EXPECT_THAT(message(" \n"), HasSubstr("no trace"));
  EXPECT_THAT(message(R"([{"loss": 1.5}, {"loss": 1.25}])"),
              HasSubstr("not a Chrome trace: of 2 elements none says what kind of event it is"));
  const ImportedTrace trace = import_file("[" + kernel("k", "1", "2", 3) + ", {}]");
  EXPECT_THAT(trace.problems, IsEmpty());
  EXPECT_EQ(left_out(trace, "objects that are no events"), 1U);
}

// XLA's profiler, as JAX writes it: no event has a category.
TEST(TraceVariants, SaysOfATraceOfJaxThatItIsOne) {
  const std::string text = R"({"displayTimeUnit": "ns", "traceEvents": [
    {"ph": "M", "pid": 3, "name": "process_name", "args": {"name": "/device:GPU:0"}},
    {"ph": "M", "pid": 3, "tid": 1, "name": "thread_name", "args": {"name": "Stream #13"}},
    {"ph": "X", "pid": 3, "tid": 1, "ts": 10, "dur": 5, "name": "fusion.1",
     "args": {"hlo_op": "fusion.1"}}]})";
  EXPECT_THAT(testing::error_of([&] { static_cast<void>(import_text(text)); }).second,
              HasSubstr("test.json: is a trace of JAX"));
}

}  // namespace
}  // namespace zenflow::sim
