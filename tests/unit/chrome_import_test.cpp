// What becomes of Chrome traces: those of every PyTorch, and damaged ones.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/trace/analysis/trace_analysis.h"
#include "sim/trace/chrome_trace.h"
#include "sim/trace/import/collector.h"
#include "sim/trace/import/import_trace.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/traces.h"

namespace zenflow::sim {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::copy;
using ::testing::ElementsAre;
using testing::error_of;
using testing::event;
using ::testing::HasSubstr;
using testing::import_text;
using ::testing::IsEmpty;
using testing::kernel;
using testing::launch;
using testing::left_out;
using ::testing::Not;
using ::testing::SizeIs;
using testing::trace_of;

/// "name@start-end" in nanoseconds, by track.
std::vector<std::string> spans_of(const Timeline& timeline) {
  std::vector<std::string> found;
  for (const TimelineSpan& span : timeline.spans) {
    found.push_back(fmt::format("{}: {} {}-{}", timeline.tracks[span.track].name,
                                timeline.name_of(span), span.start.count / 1000,
                                span.end.count / 1000));
  }
  return found;
}

TEST(ChromeImport, KeepsGpuWorkLaunchesAndAnnotations) {
  const ImportedTrace trace = import_text(trace_of(
      event("user_annotation", "ProfilerStep#3", "100", "100", "10", "90"),
      event("cpu_op", "aten::mm", "100", "100", "12", "8", R"("External id": 2)"),
      launch("cudaLaunchKernel", "15", "3.5", 9), launch("cudaGetDevice", "14", "0.5", 8),
      kernel("gemm", "20.125", "10", 9), copy("HtoD (Pinned -> Device)", "25", "5", 4096, 10),
      R"({"ph": "s", "id": 9, "pid": 100, "tid": 100, "ts": 15, "cat": "ac2g", "name": "ac2g"})"));
  EXPECT_THAT(spans_of(trace.timeline),
              ElementsAre("stream 7: gemm 20125-30125",
                          "stream 8: Memcpy HtoD (Pinned -> Device) 25000-30000",
                          "thread 100: ProfilerStep#3 10000-100000",
                          "thread 100: cudaLaunchKernel 15000-18500"));
  ASSERT_THAT(trace.timeline.steps, SizeIs(1));
  EXPECT_EQ(trace.timeline.steps[0].number, 3);
  EXPECT_EQ(trace.step_source, StepSource::kAnnotation);
  EXPECT_EQ(trace.timeline.extra_of(trace.timeline.spans[0]).step, 3);
  EXPECT_EQ(trace.timeline.extra_of(trace.timeline.spans[1]).bytes, 4096);
  EXPECT_EQ(trace.events, 7U);
  EXPECT_EQ(left_out(trace, "cpu_op"), 1U);
  EXPECT_EQ(left_out(trace, "calls that neither launch nor wait"), 1U);
  EXPECT_EQ(left_out(trace, "arrows"), 1U);
  EXPECT_THAT(trace.problems, IsEmpty());
}

// PyTorch 1.8: capitalised categories, "stream 7", threads as text, steps among the operators,
// absolute microseconds.
TEST(ChromeImport, ReadsTheFirstKinetoTraces) {
  const ImportedTrace trace = import_text(trace_of(
      event("Operator", "ProfilerStep#5", "119771", "\"1890023232\"", "1610366662254362", "1000"),
      event("Runtime", "cudaMemcpyAsync", "119771", "\"1890023232\"", "1610366662254380", "20",
            R"("cbid": 41, "correlation": 36037)"),
      event("Memcpy", "Memcpy HtoD (Pageable -> Device)", "0", "\"stream 7\"", "1610366662254400",
            "7", R"("device": 0, "stream": 7, "correlation": 36037, "bytes": 19267584)"),
      event("Memset", "Memset (Device)", "0", "\"stream 7\"", "1610366662254410", "1",
            R"("device": 0, "stream": 7, "correlation": 36038, "bytes": 8)"),
      event("Kernel", "k", "0", "\"stream 7\"", "1610366662254412", "0",
            R"("device": 0, "stream": 7, "correlation": 36039)")));
  EXPECT_THAT(spans_of(trace.timeline),
              ElementsAre("stream 7: Memcpy HtoD (Pageable -> Device) 38000-45000",
                          "stream 7: Memset (Device) 48000-49000", "stream 7: k 50000-50000",
                          "thread 1890023232: ProfilerStep#5 0-1000000",
                          "thread 1890023232: cudaMemcpyAsync 18000-38000"));
  EXPECT_EQ(trace.timeline.origin_nanoseconds, 1'610'366'662'254'362'000);
  EXPECT_EQ(trace.timeline.steps.at(0).number, 5);
}

TEST(ChromeImport, ReadsThePlainArrayOfTheProfilerBeforeKineto) {
  const ImportedTrace trace = import_text(
      R"([{"name": "aten::add", "ph": "X", "ts": 1.5, "dur": 3, "tid": 1, "pid": "CPU functions", "args": {}},)"
      R"({"name": "add_kernel", "ph": "X", "ts": 5, "dur": 2, "tid": 0, "pid": "CUDA functions", "args": {}},)"
      R"({"name": "mul_kernel", "ph": "X", "ts": 8, "dur": 2, "tid": 1, "pid": "CUDA functions", "args": {}}, ])");
  EXPECT_THAT(spans_of(trace.timeline),
              ElementsAre("stream 0: add_kernel 5000-7000", "stream 0: mul_kernel 8000-10000"));
  EXPECT_EQ(analyze(trace, default_rules()).devices.size(), 2U)
      << "a kernel's thread is its device";
  EXPECT_EQ(left_out(trace, "host operations"), 1U);
}

// Merged traces and other frontends name processes and threads.
TEST(ChromeImport, KeepsRowsThatHaveNamesInPlaceOfNumbers) {
  const ImportedTrace trace = import_text(
      trace_of(event("user_annotation", "ProfilerStep#1", "\"worker\"", "\"main\"", "10", "90"),
               event("gpu_user_annotation", "ProfilerStep#1", "0", "7", "15", "40"),
               event("cuda_runtime", "cudaLaunchKernel", "\"worker\"", "\"main\"", "12", "3",
                     R"("correlation": 4)"),
               event("kernel", "k", "0", "\"compute\"", "20", "5", R"("correlation": 4)")));
  EXPECT_THAT(spans_of(trace.timeline),
              ElementsAre("stream compute: k 20000-25000",
                          "stream 7 annotations: ProfilerStep#1 15000-55000",
                          "thread main: ProfilerStep#1 10000-100000",
                          "thread main: cudaLaunchKernel 12000-15000"));
  EXPECT_EQ(trace.timeline.steps.at(0).end.count, 100'000'000) << "the host's annotation counts";
  EXPECT_THAT(trace.timeline.devices, SizeIs(1));
}

TEST(ChromeImport, ReadsRocmCopiesWithoutTheirSizes) {
  const ImportedTrace trace =
      import_text(trace_of(event("gpu_memcpy", "Memcpy HtoD (Host -> Device)", "2", "0", "5", "2",
                                 R"("device": 2, "stream": 0, "correlation": 117, "kind": "HtoD")"),
                           event("cuda_runtime", "hipMemcpyWithStream", "9", "9", "1", "3",
                                 R"("correlation": 117, "size": "2560")")));
  EXPECT_LT(trace.timeline.extra_of(trace.timeline.spans.at(0)).bytes, 0);
  const TraceAnalysis analysis = analyze(trace, default_rules());
  const CopyStatistics& copies = analysis.devices.at(0).copy_statistics.at(0);
  EXPECT_EQ(analysis.devices[0].device, 2);
  EXPECT_EQ(copies.without_bytes, 1U);
  EXPECT_EQ(copies.bytes, 0);
  EXPECT_EQ(copies.kind, (CopyName{CopyDirection::kH2D, MemoryKind::kHost, MemoryKind::kDevice}));
}

TEST(ChromeImport, TakesNumbersWrittenAsText) {
  const ImportedTrace trace = import_text(trace_of(
      event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", "\"1\"", "\"7\"", "\"5.25\"", "\"2\"",
            R"("device": "1", "stream": "7", "correlation": "12", "bytes": "64")")));
  const TimelineSpan& span = trace.timeline.spans.at(0);
  EXPECT_EQ(trace.timeline.tracks[span.track].device, 1);
  EXPECT_EQ(span.start.count, 5'250'000);
  EXPECT_EQ(trace.timeline.extra_of(span).bytes, 64);
  EXPECT_EQ(span.correlation, 12);
}

// A step is annotated on the host and again on the GPU: PyTorch 2.1 and later.
TEST(ChromeImport, CountsAStepOnce) {
  const auto both = [](int number, const std::string& at) {
    const std::string name = "ProfilerStep#" + std::to_string(number);
    return event("gpu_user_annotation", name, "0", "7", at, "5") + "," +
           event("user_annotation", name, "100", "100", at, "9");
  };
  const ImportedTrace trace = import_text(trace_of(both(1, "10"), both(2, "20")));
  ASSERT_THAT(trace.timeline.steps, SizeIs(2));
  EXPECT_EQ(trace.timeline.steps[0].end.count, 19'000'000);
  const ImportedTrace gpu_only =
      import_text(trace_of(event("gpu_user_annotation", "ProfilerStep#4", "0", "7", "10", "5")));
  EXPECT_EQ(gpu_only.timeline.steps.at(0).number, 4);
}

TEST(ChromeImport, TakesTokensThatPythonWritesAndJsonDoesNotKnow) {
  const ImportedTrace trace = import_text(trace_of(
      event("kernel", "k", "0", "7", "1", "2",
            R"("est. achieved occupancy %": NaN, "x": Infinity, "y": -Infinity, "device": 0)"),
      event("cpu_op", "f", "1", "1", "1", "2", R"("Concrete Inputs": [NaN, "\u00e9"])")));
  EXPECT_THAT(spans_of(trace.timeline), ElementsAre("stream 7: k 1000-3000"));
  EXPECT_EQ(left_out(trace, "cpu_op"), 1U);
}

TEST(ChromeImport, OfAKeyThatOccursTwiceTheLastCounts) {
  const ImportedTrace trace = import_text(trace_of(
      R"({"ph": "X", "cat": "kernel", "name": "a", "name": "b", "pid": 0, "tid": 7, "ts": 1, "ts": 2, "dur": 3})"));
  EXPECT_THAT(spans_of(trace.timeline), ElementsAre("stream 7: b 2000-5000"));
}

TEST(ChromeImport, ReplacesNamesThatAreNotUtf8AndSaysSo) {
  const ImportedTrace trace = import_text(trace_of(kernel("a\xFF"
                                                          "b",
                                                          "1", "2", 1),
                                                   kernel("\\ud800 \\u00e9", "4", "2", 2)));
  EXPECT_THAT(spans_of(trace.timeline), ElementsAre("stream 7: a\xEF\xBF\xBD"
                                                    "b 1000-3000",
                                                    "stream 7: \xEF\xBF\xBD \xC3\xA9 4000-6000"));
  EXPECT_THAT(trace.problems, ElementsAre(HasSubstr("1 events had bytes that are not UTF-8")));
  EXPECT_TRUE(nlohmann::json::accept(chrome_trace(trace.timeline)));
}

TEST(ChromeImport, FindsEventsBeforeAndAfterEverythingElse) {
  const std::string one = kernel("k", "1", "2", 1);
  const std::string properties = R"("deviceProperties": [{"id": 0, "name": "A100"}])";
  for (const std::string& text :
       {"{\"traceEvents\": [" + one + "], " + properties + "}",
        "{" + properties + ", \"nested\": {\"traceEvents\": [1]}, \"traceEvents\":\r\n[" + one +
            "]\r\n}",
        "\xEF\xBB\xBF{" + properties + ", \"traceEvents\": [" + one + ",]}"}) {
    const ImportedTrace trace = import_text(text);
    EXPECT_THAT(spans_of(trace.timeline), SizeIs(1)) << text;
    EXPECT_THAT(trace.timeline.devices, ElementsAre("A100")) << text;
  }
}

TEST(ChromeImport, SortsEventsThatAreOutOfOrder) {
  const ImportedTrace trace = import_text(
      trace_of(kernel("c", "50", "1", 3), kernel("a", "10", "1", 1), kernel("b", "30", "1", 2)));
  EXPECT_THAT(
      spans_of(trace.timeline),
      ElementsAre("stream 7: a 10000-11000", "stream 7: b 30000-31000", "stream 7: c 50000-51000"));
}

TEST(ChromeImport, LeavesOutWhatCannotBeAndSaysWhere) {
  const ImportedTrace trace = import_text(trace_of(
      kernel("good", "1", "2", 1), kernel("negative", "5", "-2", 2),
      kernel("timeless", "null", "1", 3), kernel("endless", "6", "NaN", 4),
      kernel("device", "6", "1", 5, 7, 5000), event("unheard_of", "x", "1", "1", "1", "250"), "17",
      "{\"ph\": \"X\", \"ts\": }", R"({"ph": "B", "cat": "kernel", "name": "x", "ts": 1})"));
  EXPECT_THAT(spans_of(trace.timeline), SizeIs(1));
  EXPECT_EQ(left_out(trace, "events with a negative duration"), 1U);
  EXPECT_THAT(
      trace.problems,
      Contains(HasSubstr("not used: events with a negative duration (1, the first at byte")));
  EXPECT_THAT(trace.problems, Not(Contains(HasSubstr("unheard_of")))) << "nobody wanted it";
  EXPECT_EQ(left_out(trace, "events without a time"), 1U);
  EXPECT_EQ(left_out(trace, "events whose duration is no number"), 1U);
  EXPECT_EQ(left_out(trace, "GPU work of a device that is no number below 4096"), 1U);
  EXPECT_EQ(left_out(trace, "category \"unheard_of\""), 1U);
  EXPECT_EQ(left_out(trace, "elements that are no events"), 1U);
  EXPECT_EQ(left_out(trace, "spans that were not ended"), 1U);
  std::uint64_t all = trace.timeline.spans.size();
  for (const LeftOut& one : trace.left_out) {
    EXPECT_THAT(one.first, HasSubstr("byte ")) << one.what;
    all += one.count;
  }
  EXPECT_EQ(all, trace.events) << "every event is kept or counted";
}

// Microseconds near the end of 64 bits, and such as a double can hold.
TEST(ChromeImport, NumbersBeyondTheClockAreLeftOut) {
  const std::string most = "9223372036854775807";
  const ImportedTrace trace = import_text(trace_of(
      kernel("good", "1", "2", 1), kernel("exponent", "1.5e1", "25E-1", 2),
      kernel("late", "1e308", "1", 3), kernel("later", "9223372036854775.807", "1", 4),
      kernel("early", "-9223372036854775.807", "1", 5), kernel("long", "6", "1e308", 6),
      kernel("longer", "6", "9223372036854775.807", 7), kernel("inf", "6", "Infinity", 8),
      kernel("far", "2306000000000", "1", 9), kernel("long, last", "6", "2305000000000", 9),
      copy("HtoD (Pinned -> Device)", "7", "1", 1, 10),
      event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", "0", "8", "9", "1",
            "\"bytes\": " + most),
      event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", "0", "8", "10", "1",
            "\"bytes\": " + most + "0")));
  EXPECT_EQ(trace.timeline.spans.size(), 5U);
  EXPECT_EQ(left_out(trace, "events without a time"), 3U);
  EXPECT_EQ(left_out(trace, "events whose duration is no number"), 3U);
  EXPECT_EQ(left_out(trace, "events more than 26 days away from the others"), 1U);
  EXPECT_EQ(left_out(trace, std::string(TraceCollector::kBeyondSums)), 1U);
  const TraceAnalysis analysis = analyze(trace, default_rules());
  const DeviceAnalysis& device = analysis.devices.at(0);
  EXPECT_EQ(device.kernel_sum.count, 2'305'000'000'004'500'000);
  EXPECT_EQ(device.copy_statistics.at(0).bytes, 1);
  EXPECT_EQ(device.copy_statistics[0].without_bytes, 1U) << "no 64 bits hold it";
}

// Each of the spans is possible, their sum is beyond 64 bits of picoseconds.
TEST(ChromeImport, SpansWhoseTimesCannotBeAddedUpAreLeftOut) {
  const std::string days = "2160000000000";  // 25
  std::string list = kernel("k", "0", days, 1, 1);
  for (int stream = 2; stream <= 6; ++stream) list += "," + kernel("k", "0", days, stream, stream);
  list += "," + copy("DtoH (Device -> Pinned)", "1", "1", 1L << 53, 7) + "," +
          copy("DtoH (Device -> Pinned)", "2", "1", (1L << 53) + 2, 8);
  const ImportedTrace trace = import_text("{\"traceEvents\": [" + list + "]}");
  EXPECT_EQ(left_out(trace, std::string(TraceCollector::kBeyondSums)), 3U);
  const DeviceAnalysis device = analyze(trace, default_rules()).devices.at(0);
  EXPECT_EQ(device.kernels, 4U);
  EXPECT_EQ(device.kernel_sum.count, 4 * 2'160'000'000'000'000'000);
  EXPECT_EQ(device.copy_statistics.at(0).bytes, 1L << 53);
}

TEST(ChromeImport, AnOriginThatCannotBeAddedIsNotKnown) {
  const std::string events = kernel("k", "1712195495505543.218", "2", 1);
  const ImportedTrace trace = import_text(
      "{\"baseTimeNanoseconds\": 9223372036854775807, \"traceEvents\": [" + events + "]}");
  EXPECT_THAT(trace.problems, ElementsAre(HasSubstr("when the trace was recorded is not known")));
  EXPECT_EQ(trace.timeline.origin_nanoseconds, 0);
  EXPECT_THAT(spans_of(trace.timeline), ElementsAre("stream 7: k 0-2000"));
}

// Nine of ten events lie in 2024; the first is from a clock that started at zero.
TEST(ChromeImport, GoesByTheClockThatMostEventsHave) {
  std::string list = kernel("stray", "5", "1", 1);
  for (int i = 0; i < 9; ++i) {
    list += "," + kernel("k", "171219549550554" + std::to_string(i) + ".125", "0.5", 2);
  }
  const ImportedTrace trace = import_text("{\"traceEvents\": [" + list + "]}");
  EXPECT_THAT(trace.timeline.spans, SizeIs(9));
  EXPECT_EQ(left_out(trace, "events more than 26 days away from the others"), 1U);
  EXPECT_EQ(trace.timeline.origin_nanoseconds, 1'712'195'495'505'540'125);
  EXPECT_EQ(trace.timeline.spans[8].end.count, 8'500'000);
}

TEST(ChromeImport, SaysThatHostAndGpuClocksDisagree) {
  const ImportedTrace trace = import_text(
      trace_of(launch("cudaLaunchKernel", "10", "2", 1), kernel("early", "8.5", "1", 1),
               launch("cudaLaunchKernel", "20", "2", 2), kernel("earlier", "17", "1", 2),
               launch("cudaLaunchKernel", "30", "2", 3), kernel("in time", "30", "1", 3)));
  EXPECT_THAT(trace.timeline.spans, SizeIs(6));
  EXPECT_THAT(trace.problems,
              ElementsAre(HasSubstr("2 pieces of GPU work begin before the call that launched "
                                    "them, by up to 3.000 us, the first (\"early\") at 0.008500 "
                                    "ms: the clocks of host and GPU disagree")));
}

// Tools that merge or filter traces write all metadata first.
TEST(ChromeImport, ManyEventsWithoutTimesMayComeFirst) {
  std::string list;
  for (int i = 0; i < 500; ++i) {
    list += fmt::format(
        R"({{"ph": "M", "name": "thread_name", "pid": 1, "tid": {}, "args": {{"name": "t"}}}},)",
        i);
  }
  const ImportedTrace trace = import_text("{\"traceEvents\": [" + list +
                                          kernel("k", "1712195495505540.125", "2", 1) + "]}");
  EXPECT_THAT(trace.left_out, IsEmpty());
  EXPECT_THAT(spans_of(trace.timeline), ElementsAre("stream 7: k 0-2000"));
}

TEST(ChromeImport, OfACutTraceEverythingBeforeTheCutIsThere) {
  const std::string text = trace_of(kernel("a", "10", "1", 1), kernel("b \\\" }", "20", "1", 2),
                                    kernel("c", "30", "1", 3));
  const std::size_t first_end = text.find("},") + 2;
  for (std::size_t length = first_end; length < text.size() - 2; ++length) {
    const ImportedTrace trace = import_text(text.substr(0, length));
    ASSERT_THAT(trace.problems, SizeIs(1)) << length;
    EXPECT_THAT(trace.problems[0], AllOf(HasSubstr("test.json: byte "), HasSubstr("ends inside")));
    ASSERT_GE(trace.timeline.spans.size(), 1U) << length;
  }
  EXPECT_THAT(import_text(text.substr(0, text.find("\"traceName"))).timeline.spans, SizeIs(3));
}

TEST(ChromeImport, RefusesWhatIsNoTraceWithThePlace) {
  const auto message = [](const std::string& text) {
    return error_of([&] { static_cast<void>(import_text(text)); }).second;
  };
  EXPECT_THAT(message("{\"a\": 1}"), HasSubstr("no \"traceEvents\""));
  EXPECT_THAT(message("{\"traceEvents\": 5}"), HasSubstr("\"traceEvents\" is no list of events"));
  EXPECT_THAT(message("{\"traceEvents\": null}"),
              HasSubstr("\"traceEvents\" is no list of events"));
  EXPECT_THAT(message("{\"traceEvents\" [1]}"), HasSubstr("byte 15: expected \":\""));
  EXPECT_THAT(message("{\"traceEvents\": [{} {}]}"), HasSubstr("byte 20: expected \",\" or \"]\""));
  EXPECT_THAT(message("{\"traceEvents\": []]"), HasSubstr("byte 18: expected \",\" or \"}\""));
  EXPECT_THAT(message("{\"traceEvents\": [{\"ph\": \"X\""), HasSubstr("byte 17"));
  EXPECT_THAT(message("{x: 1}"), HasSubstr("byte 1: expected a key"));
}

TEST(ChromeImport, AnEmptyTraceIsEmptyAndNotAnError) {
  const ImportedTrace trace = import_text("{\"traceEvents\": []}");
  EXPECT_THAT(trace.timeline.spans, IsEmpty());
  EXPECT_THAT(analyze(trace, default_rules()).devices, IsEmpty());
  EXPECT_EQ(trace.step_source, StepSource::kNone);
}

TEST(ChromeImport, SeveralDevicesOfOneTraceStayApart) {
  const ImportedTrace trace =
      import_text(trace_of(kernel("a", "10", "5", 1, 7, 0), kernel("a", "12", "5", 2, 7, 3)));
  const TraceAnalysis analysis = analyze(trace, default_rules());
  ASSERT_THAT(analysis.devices, SizeIs(2));
  EXPECT_EQ(analysis.devices[1].device, 3);
  EXPECT_EQ(analysis.devices[1].start.count, 12'000'000);
}

class GzipImport : public ::testing::Test {
 protected:
  ImportedTrace import_file(const std::string& bytes) {
    return import_trace(folder_.write("trace.bin", bytes));
  }
  std::string text_ = trace_of(kernel("a", "10", "1", 1), kernel("b", "20", "1", 2));
  testing::TemporaryFolder folder_;
};

TEST_F(GzipImport, IsRecognisedByContent) {
  EXPECT_THAT(import_file(testing::gzip(text_)).timeline.spans, SizeIs(2));
  EXPECT_THAT(import_file(text_).timeline.spans, SizeIs(2));
}

TEST_F(GzipImport, SeveralMembersAreOneText) {
  const std::size_t half = text_.size() / 2;
  const std::string two = testing::gzip(text_.substr(0, half)) + testing::gzip(text_.substr(half));
  const ImportedTrace trace = import_file(two);
  EXPECT_THAT(trace.timeline.spans, SizeIs(2));
  EXPECT_THAT(trace.problems, IsEmpty());
  EXPECT_THAT(import_file(two + std::string(512, '\0')).problems, IsEmpty());
  EXPECT_THAT(import_file(two + "rest").problems, ElementsAre(HasSubstr("is not gzip")));
}

TEST_F(GzipImport, CutShortGivesWhatWasThereAndSaysSo) {
  std::string list = kernel("k", "1", "0.5", 0);
  for (int i = 1; i < 5000; ++i) {
    list += ",\n" + kernel("k" + std::to_string(i * 7919 % 1000), std::to_string(i), "0.5", i);
  }
  const std::string whole = testing::gzip("{\"traceEvents\": [" + list + "]}");
  const ImportedTrace trace = import_file(whole.substr(0, whole.size() / 2));
  EXPECT_GT(trace.timeline.spans.size(), 1000U);
  EXPECT_LT(trace.timeline.spans.size(), 4000U);
  EXPECT_THAT(trace.problems, ::testing::Contains(HasSubstr("the file is cut short")));
}

TEST_F(GzipImport, DamagedIsRefusedWithThePlace) {
  std::string damaged = testing::gzip(text_);
  damaged[damaged.size() - 6] = static_cast<char>(damaged[damaged.size() - 6] ^ 0x55);  // checksum
  EXPECT_THAT(error_of([&] { static_cast<void>(import_file(damaged)); }).second,
              AllOf(HasSubstr("the gzip data are damaged at byte"),
                    HasSubstr("after " + std::to_string(text_.size()) + " bytes of text")));
  EXPECT_THAT(
      error_of([&] { static_cast<void>(import_file(testing::gzip(text_).substr(0, 12))); }).second,
      HasSubstr("nothing can be read"));
}

TEST_F(GzipImport, OtherFilesAreNamed) {
  const auto message = [&](const std::string& bytes) {
    return error_of([&] { static_cast<void>(import_file(bytes)); }).second;
  };
  EXPECT_THAT(message(""), HasSubstr("is empty"));
  EXPECT_THAT(message("PK\x03\x04 and so on"), HasSubstr("ZIP"));
  EXPECT_THAT(message(std::string("\x28\xB5\x2F\xFD") + "zz"), HasSubstr("zstd -d"));
  EXPECT_THAT(message(std::string("\xFF\xFE{\0\"\0", 6)), HasSubstr("iconv -f UTF-16"));
  const std::string tar =
      "trace.json" + std::string(247, '\0') + "ustar  " + std::string(248, '\0');
  EXPECT_THAT(message(testing::gzip(tar + text_)), HasSubstr("is a tar archive"));
  // A file's name of one letter looks as UTF-16 does.
  const std::string short_name = "t" + std::string(256, '\0') + "ustar  " + std::string(248, '\0');
  EXPECT_THAT(message(short_name + text_), HasSubstr("is a tar archive"));
  EXPECT_THAT(message(std::string(100, '\x01')), HasSubstr("nsys export --type sqlite"));
  EXPECT_THAT(message("just some text\n"), HasSubstr("no trace"));
  EXPECT_THAT(message(testing::gzip(std::string("SQLite format 3\0 and so on", 26))),
              HasSubstr("a compressed database"));
}

TEST(ChromeImport, ReportsProgressAndCanBeStopped) {
  std::string list = kernel("k", "1", "0.5", 0);
  for (int i = 1; i < 40'000; ++i) list += "," + kernel("k", std::to_string(i), "0.5", i);
  const std::string text = "{\"traceEvents\": [" + list + "]}";
  ImportOptions options;
  std::vector<std::uint64_t> seen;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_EQ(total, text.size());
    seen.push_back(done);
  };
  static_cast<void>(import_text(text, options));
  EXPECT_GE(seen.size(), 2U);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  options.progress = [](std::uint64_t, std::uint64_t) {
    throw Error(ErrorKind::kRuntime, "stopped");
  };
  EXPECT_EQ(error_of([&] { static_cast<void>(import_text(text, options)); }).second, "stopped");
}

}  // namespace
}  // namespace zenflow::sim
