// What becomes of Nsight Systems exports, with the tables and columns that there happen to be.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/trace/analysis/trace_analysis.h"
#include "sim/trace/import/collector.h"
#include "sim/trace/import/import_trace.h"
#include "sim/trace/launches.h"
#include "tests/support/error_of.h"
#include "tests/support/nsight_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/traces.h"

namespace zenflow::sim {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::NsightFile;
using ::testing::SizeIs;

class NsightImport : public ::testing::Test {
 protected:
  /// A file to which `sql` was done after it was filled.
  ImportedTrace import(const std::string& sql = "", const ImportOptions& options = {}) {
    const std::filesystem::path path = folder_ / "report.bin";  // the name says nothing
    std::filesystem::remove(path);
    {
      NsightFile file(path);
      file.fill();
      if (!sql.empty()) file.run(sql);
    }
    return import_trace(path, options);
  }

  static std::vector<std::string> spans_of(const Timeline& timeline) {
    std::vector<std::string> found;
    for (const TimelineSpan& span : timeline.spans) {
      found.push_back(timeline.tracks[span.track].name + ": " + timeline.name_of(span) + " " +
                      std::to_string(span.start.count / 1000) + "-" +
                      std::to_string(span.end.count / 1000));
    }
    return found;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(NsightImport, ReadsKernelsCopiesMemsetsCallsAndRanges) {
  const ImportedTrace trace = import();
  EXPECT_EQ(trace.format, TraceFormat::kNsight);
  EXPECT_THAT(trace.problems, IsEmpty());
  EXPECT_THAT(spans_of(trace.timeline),
              ElementsAre("stream 7: void gemm<float>(float*) 1000-3000",
                          "stream 7: Memset (Device) 5000-5500",
                          "stream 7: void gemm<float>(float*) 6000-9000",
                          "stream 8: Memcpy HtoD (Pinned -> Device) 3000-5000",
                          "thread 7: step 1 400-5200", "thread 7: cudaLaunchKernel_v7000 500-700",
                          "thread 7: cudaMemcpyAsync_v3020 800-900", "thread 7: step 2 5300-9500",
                          "thread 7: cudaLaunchKernel_v7000 5600-5900"));
  ASSERT_THAT(trace.timeline.steps, SizeIs(2));
  EXPECT_EQ(trace.timeline.steps[1].number, 2);
  EXPECT_EQ(trace.step_source, StepSource::kAnnotation);
  EXPECT_EQ(trace.timeline.extra_of(trace.timeline.spans[2]).step, 2);
  EXPECT_EQ(trace.timeline.extra_of(trace.timeline.spans[3]).bytes, 4096);
  const SpanLaunches launch = launch_of_spans(trace.timeline);
  EXPECT_EQ(launch[0], 5U);
  EXPECT_EQ(launch[2], 8U);
  EXPECT_EQ(launch[3], 6U);
  EXPECT_EQ(trace.events, 2U + 1U + 1U + 4U + 3U);
}

TEST_F(NsightImport, DoesWithoutTables) {
  EXPECT_THAT(import("DROP TABLE CUPTI_ACTIVITY_KIND_MEMSET").timeline.spans, SizeIs(8));
  EXPECT_THAT(
      import("DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME; DROP TABLE NVTX_EVENTS").timeline.spans,
      SizeIs(4));
  // CUPTI's and Nsight's numbers have not changed; old exports had no tables for them.
  EXPECT_THAT(
      spans_of(import("DROP TABLE ENUM_CUDA_MEMCPY_OPER; DROP TABLE ENUM_CUDA_MEM_KIND").timeline),
      Contains("stream 8: Memcpy HtoD (Pinned -> Device) 3000-5000"));
}

TEST_F(NsightImport, SaysThatNoKernelsWereTraced) {
  const ImportedTrace without = import("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL");
  EXPECT_THAT(without.problems, Contains(HasSubstr("no table CUPTI_ACTIVITY_KIND_KERNEL")));
  EXPECT_EQ(analyze(without, default_rules()).devices.at(0).kernels, 0U);
  const ImportedTrace empty = import("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL");
  EXPECT_THAT(empty.problems, Contains(HasSubstr("CUPTI_ACTIVITY_KIND_KERNEL is empty")));
  const ImportedTrace nothing = import(
      "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL; DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY; DELETE FROM "
      "CUPTI_ACTIVITY_KIND_MEMSET");
  EXPECT_THAT(analyze(nothing, default_rules()).devices, IsEmpty());
}

// What a view has is what SQL in the file says, without end if it wants to.
TEST_F(NsightImport, ReadsNoViews) {
  const std::string endless = "AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) ";
  for (const std::string table : {"CUPTI_ACTIVITY_KIND_KERNEL", "StringIds", "NVTX_EVENTS"}) {
    EXPECT_THAT(error_of([&] {
                  static_cast<void>(import("DROP TABLE " + table + "; CREATE VIEW " + table + " " +
                                           endless + "SELECT x AS id, x AS start FROM c"));
                }).second,
                HasSubstr("table " + table + ": is a view or a virtual table"));
  }
  const ImportedTrace trace = import("CREATE VIEW other " + endless + "SELECT x AS start FROM c");
  EXPECT_EQ(spans_of(trace.timeline), spans_of(import().timeline));
}

TEST_F(NsightImport, KernelNamesMayBeMissing) {
  const ImportedTrace trace = import("DROP TABLE StringIds");
  EXPECT_THAT(trace.problems, Contains(HasSubstr("no table StringIds")));
  EXPECT_THAT(trace.problems, Contains(HasSubstr("2 kernels have no name")));
  EXPECT_THAT(spans_of(trace.timeline), Contains("stream 7: kernel without a name 1000-3000"));
}

TEST_F(NsightImport, ColumnsMayBeMissing) {
  const ImportedTrace trace = import(
      "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN demangledName;"
      "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN globalPid;"
      "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY DROP COLUMN bytes;"
      "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY DROP COLUMN srcKind");
  EXPECT_THAT(spans_of(trace.timeline), Contains("stream 7: gemm 1000-3000"));
  EXPECT_THAT(spans_of(trace.timeline),
              Contains("stream 8: Memcpy HtoD (Unknown -> Device) 3000-5000"));
  const TraceAnalysis analysis = analyze(trace, default_rules());
  EXPECT_EQ(analysis.devices.at(0).copy_statistics.at(0).without_bytes, 1U);
}

// Bits 24 to 47 of a global id are the process: two with the same correlation numbers.
TEST_F(NsightImport, KeepsProcessesApart) {
  const std::string pid = std::to_string(200LL << 24);
  const std::string tid = std::to_string((200LL << 24) + 9);
  const ImportedTrace trace =
      import("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1500,2000,1,1,7,11," + pid +
             ",1,2,NULL); INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES "
             "(1300,1400,0," +
             tid + ",11,3,0)");
  const TraceAnalysis analysis = analyze(trace, default_rules());
  ASSERT_THAT(analysis.devices, SizeIs(2));
  const SpanLaunches launch = launch_of_spans(trace.timeline);
  for (std::uint32_t i = 0; i < trace.timeline.spans.size(); ++i) {
    if (launch[i] == kNoSpan) continue;
    const std::int64_t process =
        trace.timeline.tracks[trace.timeline.spans[launch[i]].track].process;
    const int device = trace.timeline.tracks[trace.timeline.spans[i].track].device;
    EXPECT_EQ(process, device == 0 ? 100 : 200) << i;
  }
  const ImportedTrace shared = import(
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1500,2000,0,1,7,11," + pid + ",1,2,NULL)");
  EXPECT_THAT(shared.problems, Contains(HasSubstr("several processes use the same device number")));
}

// The process of a higher device may come first, and only once.
TEST_F(NsightImport, KeepsProcessesApartInWhateverOrderTheyCome) {
  const std::string pid = std::to_string(200LL << 24);
  const std::string tid = std::to_string((200LL << 24) + 9);
  const ImportedTrace trace = import(
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (rowid, start, end, deviceId, streamId, "
      "correlationId, globalPid, demangledName, shortName) VALUES (-1,1500,2000,1,7,11," +
      pid + ",1,2); INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (950,990,0," + tid + ",11,3,0)");
  const Timeline& timeline = trace.timeline;
  const SpanLaunches launch = launch_of_spans(timeline);
  int launched = 0;
  for (std::uint32_t i = 0; i < timeline.spans.size(); ++i) {
    if (launch[i] == kNoSpan) continue;
    const int device = timeline.tracks[timeline.spans[i].track].device;
    EXPECT_EQ(timeline.tracks[timeline.spans[launch[i]].track].process, device == 0 ? 100 : 200);
    ++launched;
  }
  EXPECT_EQ(launched, 4);
}

// Tables are many and change with releases: what has times and is not read is counted.
TEST_F(NsightImport, CountsEveryTableOfEventsThatIsNotRead) {
  const ImportedTrace trace = import(
      "CREATE TABLE CUDA_UM_GPU_PAGE_FAULT_EVENTS (start INTEGER, globalPid INTEGER);"
      "INSERT INTO CUDA_UM_GPU_PAGE_FAULT_EVENTS VALUES (5, 1), (6, 1);"
      "CREATE TABLE MPI_COLLECTIVES_EVENTS (start INTEGER, end INTEGER);"
      "INSERT INTO MPI_COLLECTIVES_EVENTS VALUES (0, 500);"
      "CREATE TABLE GENERIC_EVENTS (rawTimestamp INTEGER, timestamp INTEGER);"
      "INSERT INTO GENERIC_EVENTS VALUES (1, 2);"
      "CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);"
      "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('a', 'b')");
  EXPECT_EQ(testing::left_out(trace, "CUDA_UM_GPU_PAGE_FAULT_EVENTS"), 2U);
  EXPECT_EQ(testing::left_out(trace, "MPI_COLLECTIVES_EVENTS"), 1U);
  EXPECT_EQ(testing::left_out(trace, "GENERIC_EVENTS"), 1U);
  EXPECT_EQ(testing::left_out(trace, "TARGET_INFO_SYSTEM_ENV"), 0U);
}

TEST_F(NsightImport, LeavesOutRowsThatCannotBeAndSaysWhich) {
  const ImportedTrace trace = import(
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (9000,8000,0,1,7,20,0,1,2,NULL),"
      "(9000,9100,-1,1,7,21,0,1,2,NULL);"
      "INSERT INTO NVTX_EVENTS VALUES (400,NULL,59,'open',0,NULL);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_OVERHEAD (start INTEGER, end INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_OVERHEAD VALUES (0, 500), (10, 20)");
  const auto find = [&](const std::string& what) -> LeftOut {
    for (const LeftOut& one : trace.left_out) {
      if (one.what == what) return one;
    }
    return {};
  };
  EXPECT_EQ(find("CUPTI_ACTIVITY_KIND_KERNEL: rows that end before they start").first, "row 3");
  EXPECT_EQ(find("CUPTI_ACTIVITY_KIND_KERNEL: rows of a device that is no number below 4096").count,
            1U);
  EXPECT_THAT(trace.problems,
              Contains(HasSubstr("not used: CUPTI_ACTIVITY_KIND_KERNEL: rows that end before they "
                                 "start (1, the first at row 3)")));
  EXPECT_EQ(find("NVTX_EVENTS: ranges that were not ended").count, 1U);
  EXPECT_EQ(find("NVTX_EVENTS: marks and names").count, 1U);
  EXPECT_EQ(find("CUPTI_ACTIVITY_KIND_OVERHEAD").time.count, 510'000);
  EXPECT_EQ(find("CUPTI_ACTIVITY_KIND_RUNTIME: calls that neither launch nor wait").count, 1U);
}

// Nanoseconds times 1000 would leave 64 bits.
TEST_F(NsightImport, TimesBeyondTheClockAreLeftOut) {
  const ImportedTrace trace = import(
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES "
      "(-9223372036854775807,9223372036854775807,0,1,7,20,0,1,2,NULL),"
      "(-9223372036854775,9223372036854775,0,1,7,21,0,1,2,NULL),"
      "(9223372036854774,9223372036854775,0,1,7,22,0,1,2,NULL),"
      "(9000,1e308,0,1,7,23,0,1,2,NULL);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES "
      "(9000,9001,0,1,8,24,0,9223372036854775807,1,1,2);"
      "INSERT INTO NVTX_EVENTS VALUES (0,9223372036854775807,59,'all',0,NULL)");
  const auto count = [&](const std::string& what) {
    const auto found = std::find_if(trace.left_out.begin(), trace.left_out.end(),
                                    [&](const LeftOut& one) { return one.what == what; });
    return found == trace.left_out.end() ? 0 : found->count;
  };
  EXPECT_EQ(count("CUPTI_ACTIVITY_KIND_KERNEL: rows more than 26 days from most others"), 3U);
  EXPECT_EQ(count("CUPTI_ACTIVITY_KIND_KERNEL: rows without a start or an end"), 1U);
  EXPECT_EQ(count("CUPTI_ACTIVITY_KIND_MEMCPY: " + std::string(TraceCollector::kBeyondSums)), 1U);
  EXPECT_EQ(count("NVTX_EVENTS: rows more than 26 days from most others"), 1U);
  const DeviceAnalysis device = analyze(trace, default_rules()).devices.at(0);
  EXPECT_EQ(device.kernel_sum.count, 5'000'000);
  EXPECT_EQ(device.copy_statistics.at(0).bytes, 4096);
}

// Relative to 1970 in place of the session's start.
TEST_F(NsightImport, AbsoluteTimesCountFromTheFirst) {
  const std::string later =
      "SET start = start + 1700000000000000000, end = end + 1700000000000000000;";
  std::string sql;
  for (const char* table :
       {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
        "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"}) {
    sql += std::string("UPDATE ") + table + " " + later;
  }
  const ImportedTrace trace = import(sql);
  EXPECT_EQ(trace.timeline.origin_nanoseconds, 1'700'000'000'000'000'400) << "step 1 begins there";
  EXPECT_THAT(spans_of(trace.timeline),
              ElementsAre("stream 7: void gemm<float>(float*) 600-2600",
                          "stream 7: Memset (Device) 4600-5100",
                          "stream 7: void gemm<float>(float*) 5600-8600",
                          "stream 8: Memcpy HtoD (Pinned -> Device) 2600-4600",
                          "thread 7: step 1 0-4800", "thread 7: cudaLaunchKernel_v7000 100-300",
                          "thread 7: cudaMemcpyAsync_v3020 400-500", "thread 7: step 2 4900-9100",
                          "thread 7: cudaLaunchKernel_v7000 5200-5500"));
}

// Labels alone, unified memory's copies, ranges of a text file.
TEST_F(NsightImport, KnowsTheEnumerationsOfOtherReleases) {
  const std::string pid = std::to_string(100LL << 24);
  const std::string tid = std::to_string((100LL << 24) + 7);
  const ImportedTrace trace = import(
      "DROP TABLE ENUM_CUDA_MEMCPY_OPER; DROP TABLE ENUM_CUDA_MEM_KIND;"
      "CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER, label TEXT);"
      "INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1,'Host-to-Device'),(10,'Peer-to-Peer'),"
      "(11,'Unified Host-to-Device'),(9,'Host-to-Host');"
      "CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER, label TEXT);"
      "INSERT INTO ENUM_CUDA_MEM_KIND VALUES (1,'Pinned'),(2,'Device'),(4,'Managed');"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (7000,7100,0,1,8,30," +
      pid + ",1,10,2,2),(7200,7300,0,1,8,31," + pid + ",2,11,4,4),(7400,7500,0,1,8,32," + pid +
      ",4,9,1,1);"
      "INSERT INTO NVTX_EVENTS VALUES (7000,7500,70,'step 3'," +
      tid + ",NULL)");
  EXPECT_THAT(spans_of(trace.timeline),
              ::testing::IsSupersetOf({"stream 8: Memcpy HtoD (Pinned -> Device) 3000-5000",
                                       "stream 8: Memcpy PtoP (Device -> Device) 7000-7100",
                                       "stream 8: Memcpy HtoD (Managed -> Managed) 7200-7300",
                                       "stream 8: Memcpy HtoH (Pinned -> Pinned) 7400-7500"}));
  EXPECT_THAT(spans_of(trace.timeline), Contains("thread 7: step 3 7000-7500"));
}

TEST_F(NsightImport, NamesTheGpuAndNotAdaptersWithoutCuda) {
  const std::string table =
      "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, cuDevice INTEGER%);"
      "INSERT INTO TARGET_INFO_GPU VALUES (0,'A GPU',0";
  const auto of = [&](const std::string& column, const std::string& capability) {
    std::string sql = table;
    sql.replace(sql.find('%'), 1, column);
    return import(sql + capability);
  };
  // As an export from a laptop has it: every adapter is number 0 to CUDA.
  const ImportedTrace laptop = of(", smMajor INTEGER", ",8),(1,'Basic Render Driver',0,0)");
  EXPECT_THAT(laptop.timeline.devices, ElementsAre("A GPU"));
  EXPECT_THAT(of("", ")").timeline.devices, ElementsAre("A GPU"));
  EXPECT_THAT(import().timeline.devices, ElementsAre("GPU 0"));
}

TEST_F(NsightImport, KnowsTheMemoryOfTheGpu) {
  const auto of = [&](const std::string& memory) {
    return import(
               "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER);"
               "INSERT INTO TARGET_INFO_GPU VALUES (0,'A GPU'," +
               memory + ")")
        .timeline.device_memory;
  };
  EXPECT_THAT(of("16945512448"), ElementsAre(16945512448));
  EXPECT_THAT(of("NULL"), ElementsAre(0));
  EXPECT_THAT(of("-1"), ElementsAre(0));
}

TEST_F(NsightImport, NamesTheGpuOfExportsBeforeCudaNumbers) {
  EXPECT_THAT(import("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT);"
                     "INSERT INTO TARGET_INFO_GPU VALUES (0,'An old GPU')")
                  .timeline.devices,
              ElementsAre("An old GPU"));
}

// Tools that copy tables turn whole numbers into floating-point ones where some are missing.
TEST_F(NsightImport, TakesWholeNumbersInColumnsOfRealOnes) {
  const ImportedTrace trace = import(
      "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start REAL, "
      "end REAL, deviceId REAL, streamId REAL, correlationId REAL, demangledName REAL);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000.0,3000.0,0.0,7.0,11.0,1.0),"
      "(6000.0,9000.0,0.0,7.0,NULL,1.0),(9000.5,9001.0,0.0,7.0,NULL,1.0)");
  EXPECT_THAT(spans_of(trace.timeline),
              ::testing::IsSupersetOf({"stream 7: void gemm<float>(float*) 1000-3000",
                                       "stream 7: void gemm<float>(float*) 6000-9000"}));
  EXPECT_EQ(launch_of_spans(trace.timeline)[0], 5U);
  EXPECT_EQ(analyze(trace, default_rules()).devices.at(0).kernels, 2U);
  ASSERT_THAT(trace.left_out,
              Contains(::testing::Field(
                  &LeftOut::what, "CUPTI_ACTIVITY_KIND_KERNEL: rows without a start or an end")));
}

TEST_F(NsightImport, RowsWithoutTimesOrDevicesAreNoneOfTheGpus) {
  const ImportedTrace trace = import(
      "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start "
      "INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, demangledName INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0,0,0,7,1),(1000,2000,NULL,7,1),"
      "(1500,3000,0,7,1)");
  const DeviceAnalysis device = analyze(trace, default_rules()).devices.at(0);
  EXPECT_EQ(device.kernels, 1U);
  EXPECT_EQ(device.start.count, 1'500'000) << "not from where nothing was recorded";
  const auto left_out = [&](const std::string& what) {
    return std::any_of(trace.left_out.begin(), trace.left_out.end(), [&](const LeftOut& one) {
      return one.what == "CUPTI_ACTIVITY_KIND_KERNEL: " + what && one.count == 1;
    });
  };
  EXPECT_TRUE(left_out("rows whose times could not be recorded (zeros)"));
  EXPECT_TRUE(left_out("rows of a device that is no number below 4096"));
  const ImportedTrace without =
      import("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN deviceId");
  EXPECT_THAT(without.problems, ElementsAre(HasSubstr("CUPTI_ACTIVITY_KIND_KERNEL has no column "
                                                      "deviceId: its work counts as device 0's")));
  EXPECT_EQ(analyze(without, default_rules()).devices.at(0).kernels, 2U);
}

// One record a launch, and none of what ran in it.
TEST_F(NsightImport, SaysThatGraphsWereTracedAsAWhole) {
  const ImportedTrace trace = import(
      "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL;"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, "
      "streamId INTEGER, correlationId INTEGER, graphId INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES "
      "(1000,3000,0,7,11,1),(6000,9000,0,7,14,1)");
  EXPECT_THAT(trace.problems, Contains(HasSubstr("2 CUDA graphs were traced as a whole")));
  EXPECT_THAT(trace.problems, Contains(HasSubstr("CUPTI_ACTIVITY_KIND_KERNEL is empty")));
  EXPECT_EQ(analyze(trace, default_rules()).devices.at(0).kernels, 0U);
  EXPECT_THAT(
      trace.left_out,
      Contains(::testing::AllOf(::testing::Field(&LeftOut::what, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"),
                                ::testing::Field(&LeftOut::count, 2U),
                                ::testing::Field(&LeftOut::time, Picoseconds{5'000'000}))));
}

// Registered texts, texts of their own, both empty; domains have a text and are no ranges.
TEST_F(NsightImport, TakesTheTextOfARangeFromEitherColumn) {
  const std::string tid = std::to_string((100LL << 24) + 7);
  const ImportedTrace trace =
      import("INSERT INTO NVTX_EVENTS VALUES (1000,1100,60,''," + tid + ",2),(1200,1300,59,'own'," +
             tid + ",2),(1400,1500,59,''," + tid + ",NULL),(1600,1700,75,'NCCL'," + tid +
             ",NULL),(1800,-1,59,'open'," + tid + ",NULL)");
  EXPECT_THAT(spans_of(trace.timeline),
              ::testing::IsSupersetOf({"thread 7: gemm 1000-1100", "thread 7: own 1200-1300"}));
  EXPECT_EQ(trace.timeline.spans.size(), 9U + 2U);
}

TEST_F(NsightImport, SaysThatChangesBesideTheFileAreNotRead) {
  static_cast<void>(import());
  const std::filesystem::path path = folder_ / "report.bin";
  folder_.write("report.bin-wal", "");
  EXPECT_THAT(import_trace(path).problems, IsEmpty());
  folder_.write("report.bin-wal", "pages");
  EXPECT_THAT(import_trace(path).problems,
              ElementsAre(HasSubstr("a log of changes (report.bin-wal), which is not read")));
}

TEST_F(NsightImport, ReplacesNamesThatAreNotUtf8) {
  const std::string tid = std::to_string((100LL << 24) + 7);
  const ImportedTrace trace = import(
      "UPDATE StringIds SET value = CAST(x'6DFF6E' AS TEXT) WHERE id = 1;"
      "INSERT INTO NVTX_EVENTS VALUES (1000,2000,59,CAST(x'C3' AS TEXT)," +
      tid + ",NULL)");
  std::vector<std::string> names;
  for (const TimelineSpan& span : trace.timeline.spans) {
    names.push_back(trace.timeline.name_of(span));
  }
  EXPECT_THAT(names, Contains("m\uFFFDn"));
  EXPECT_THAT(names, Contains("\uFFFD"));
}

TEST_F(NsightImport, FindsStepsByAGivenPattern) {
  ImportOptions options;
  options.steps = "layer [a-z]+";
  const std::string tid = std::to_string((100LL << 24) + 7);
  const ImportedTrace trace = import("INSERT INTO NVTX_EVENTS VALUES (1000,2000,59,'layer a'," +
                                         tid + ",NULL),(2000,3500,59,'layer b'," + tid + ",NULL)",
                                     options);
  EXPECT_EQ(trace.step_source, StepSource::kPattern);
  ASSERT_THAT(trace.timeline.steps, SizeIs(2));
  EXPECT_EQ(trace.timeline.steps[1].end.count, 3'500'000);
}

// Nsight may have recorded no kernel, and knows why.
TEST_F(NsightImport, SaysWhatNsightSaysWhereNoKernelWasRecorded) {
  const std::string diagnostics =
      "CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, severity INTEGER, text TEXT);"
      "CREATE TABLE ENUM_DIAGNOSTIC_SEVERITY_LEVEL (id INTEGER NOT NULL PRIMARY KEY, name TEXT, "
      "label TEXT);"
      "INSERT INTO ENUM_DIAGNOSTIC_SEVERITY_LEVEL VALUES (1,'INFO','Information'),(3,'ERROR',"
      "'Error');"
      "INSERT INTO DIAGNOSTIC_EVENT VALUES (1,1,'Process was launched'),(2,3,'CUDA device driver "
      "is too old'),(3,3,'CUDA device driver is too old');";
  const std::string no_work =
      "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL; DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY;"
      "DELETE FROM CUPTI_ACTIVITY_KIND_MEMSET;";
  EXPECT_THAT(import(diagnostics + no_work).problems,
              ElementsAre(HasSubstr("no kernel was traced"),
                          HasSubstr("Nsight Systems says: CUDA device driver is too old")));
  EXPECT_THAT(import(diagnostics).problems, IsEmpty()) << "kernels are there";
}

TEST_F(NsightImport, RefusesOtherAndDamagedDatabases) {
  const std::filesystem::path path = folder_ / "other.sqlite";
  { NsightFile(path).run("CREATE TABLE notes (text TEXT)"); }
  EXPECT_THAT(error_of([&] { static_cast<void>(import_trace(path)); }).second,
              HasSubstr("other.sqlite: a database, but none of Nsight Systems"));
  const std::filesystem::path old = folder_ / "old.nvvp";
  {
    NsightFile file(old);
    file.run("CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY, value TEXT)");
    file.run(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (_id_ INTEGER PRIMARY KEY, copyKind INTEGER)");
  }
  EXPECT_THAT(error_of([&] { static_cast<void>(import_trace(old)); }).second,
              HasSubstr("old.nvvp: a database of nvprof, not of Nsight Systems"));
  static_cast<void>(import());
  std::ostringstream content;
  content << std::ifstream(folder_ / "report.bin", std::ios::binary).rdbuf();
  const auto cut = folder_.write("cut.sqlite", content.str().substr(0, 5000));
  const auto [kind, message] = error_of([&] { static_cast<void>(import_trace(cut)); });
  EXPECT_EQ(kind, ErrorKind::kInput);
  EXPECT_THAT(message, HasSubstr("cut.sqlite: table "));
}

}  // namespace
}  // namespace zenflow::sim
