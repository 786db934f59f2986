// Pages of --report: that nothing in them can end a script element, that they need nothing else,
// and that what they carry is what ran.
#include "sim/page/page.h"

#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/page/page_timeline.h"
#include "sim/page/safe_text.h"
#include "sim/simulate/simulated_timeline.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using nlohmann::json;
using testing::contended_node;
using ::testing::HasSubstr;
using testing::JobOptions;
using testing::make_small_job;
using ::testing::Not;

constexpr const char* kHostile = "</script><script>alert(1)</script> & \"'\x01\x1b[2J\u2028\xff";

/// The content of the element that a browser would take for `id`: up to the first end of a script.
std::string element(const std::string& html, const std::string& id) {
  const std::string begin = "<script type=\"application/json\" id=\"" + id + "\">";
  const std::size_t at = html.find(begin);
  if (at == std::string::npos) return "";
  const std::size_t from = at + begin.size();
  return html.substr(from, html.find("</script", from) - from);
}

/// `count` spans of a picosecond to a millisecond on eight lanes, each with a dependency.
Timeline long_timeline(std::uint32_t count) {
  constexpr std::uint32_t kLanes = 8;
  Timeline timeline;
  timeline.name = "long";
  timeline.devices = {"GPU 0"};
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    timeline.tracks.push_back({"lane " + std::to_string(lane), TrackKind::kGpuKernels, 0});
  }
  std::vector<std::int64_t> free(kLanes);
  std::uint64_t state = 1;
  for (std::uint32_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto length = static_cast<std::int64_t>(state >> 34U);  // below 1.1 ms
    std::int64_t& from = free[i % kLanes];
    from += static_cast<std::int64_t>((state >> 20U) % 100'000'000);
    timeline.spans.push_back(
        {.track = i % kLanes,
         .name = timeline.names.intern("operation " + std::to_string(i % 200)),
         .start = {from},
         .end = {from + length},
         .extra = timeline.extras.intern({.bytes = static_cast<double>(length % 5000) * 1e5,
                                          .step = static_cast<std::int32_t>(i / 1000)})});
    from += length;
    if (i >= kLanes) timeline.flows.push_back({i - kLanes + 1, i});
  }
  return timeline;
}

FullRun run_of(const Job& job, const char* schedule) {
  return simulate_fully(job, find_schedule(schedule));
}

Job small_job() {
  return make_small_job(contended_node(2), testing::tiny_llama(),
                        JobOptions{.gpus = 2, .update_interval = "2"});
}

TEST(SafeText, NothingEndsAScriptElement) {
  const std::string text = json(kHostile).dump(-1, ' ', false, json::error_handler_t::replace);
  const std::string safe = json_in_script(text);
  EXPECT_THAT(safe, Not(HasSubstr("<")));
  EXPECT_THAT(safe, Not(HasSubstr("\u2028")));
  EXPECT_EQ(json::parse(safe), json::parse(text));
  EXPECT_EQ(json_in_script("[\"a\u202e\u009b\x7f\"]"), "[\"a\\u202e\\u009b\\u007f\"]");
}

TEST(SafeText, HtmlShowsWhatWasWritten) {
  EXPECT_EQ(html_text("a <b> & \"c\" 'd'"), "a &lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(html_text("two\nlines\t"), "two\nlines\t");
  EXPECT_EQ(html_text("\x01\xff\u00e9"), "\ufffd\ufffd\u00e9");
  EXPECT_EQ(html_text("a\u202eb\u009b"), "a\ufffdb\ufffd");
}

class Page : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_charts()) GTEST_SKIP() << "built without libjs-chart.js";
  }
};

TEST(PageCharts, SaysWhatToInstallWithoutThem) {
  if (has_charts()) {
    EXPECT_NO_THROW(check_charts());
    return;
  }
  try {
    (void)page_html({});
    FAIL() << "a page without charts";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), HasSubstr("libjs-chart.js"));
  }
}

TEST_F(Page, HostileNamesStayText) {
  Timeline timeline;
  timeline.name = kHostile;
  timeline.devices = {kHostile};
  timeline.tracks = {{kHostile, TrackKind::kGpuKernels, 0}};
  timeline.spans = {{.name = timeline.names.intern(kHostile), .end = Picoseconds{5000}}};
  json document = {{"tool", "zenflow-sim"}, {kHostile, kHostile}};
  const std::string text = document.dump(-1, ' ', false, json::error_handler_t::replace);
  const std::string html = page_html({"run", kHostile, text, {{kHostile, timeline}}});
  EXPECT_THAT(html, Not(HasSubstr("alert(1)</script>")));
  EXPECT_THAT(html, Not(HasSubstr("\x1b")));
  EXPECT_EQ(json::parse(element(html, "document")), json::parse(text));
  const json run = json::parse(element(html, "run-0"));
  EXPECT_THAT(run["names"][0][0].get<std::string>(), HasSubstr("</script>"));
  EXPECT_THAT(json::parse(element(html, "page"))["title"].get<std::string>(),
              HasSubstr("</script>"));
  EXPECT_THAT(html, HasSubstr("<title>&lt;/script&gt;"));
}

TEST_F(Page, NeedsNothingElse) {
  const std::string html = page_html({"run", "t", "{}", {{"r", long_timeline(100)}}});
  const std::regex loads(
      R"re((src|href)\s*=\s*["']?(https?:|//|[a-z./]+\.(js|css))|@import|url\(\s*["']?(https?:|//))re");
  EXPECT_FALSE(std::regex_search(html, loads));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_EQ(html.find("<link"), std::string::npos);
  EXPECT_THAT(html, HasSubstr("Permission is hereby granted"));  // goes with Chart.js
  // Two scripts run, Chart.js and ours; all others are data.
  std::size_t scripts = 0;
  for (std::size_t at = html.find("<script>"); at != std::string::npos;
       at = html.find("<script>", at + 1)) {
    ++scripts;
  }
  EXPECT_EQ(scripts, 2U);
  EXPECT_EQ(page_html({"run", "t", "{}", {{"r", long_timeline(100)}}}), html);
}

TEST_F(Page, HundredThousandSpansAreBelowFiveMegabytes) {
  const std::string html = page_html({"run", "t", "{}", {{"r", long_timeline(100'000)}}});
  EXPECT_LT(html.size(), 5'000'000U);
  const json run = json::parse(element(html, "run-0"));
  EXPECT_EQ(run["name"].size(), 100'000U);
  EXPECT_EQ(run["spans_in_all"], 100'000);
}

TEST_F(Page, SaysHowManySpansItLeavesOut) {
  Timeline timeline = long_timeline(1000);
  const json all = json::parse("{" + timeline_fields(timeline, 1000) + "}");
  EXPECT_EQ(all["name"].size(), 1000U);
  const json some = json::parse("{" + timeline_fields(timeline, 300) + "}");
  EXPECT_LE(some["name"].size(), 300U);
  EXPECT_GT(some["name"].size(), 250U);
  EXPECT_EQ(some["spans_in_all"], 1000);
  // With steps it ends where a whole one does.
  const Picoseconds until = shown_until(timeline, 300);
  timeline.steps = {{0, {0}, {until.count / 2}}, {1, {until.count / 2}, {until.count * 2}}};
  EXPECT_EQ(shown_until(timeline, 300).count, until.count / 2);
}

/// Starts and ends of the page's spans, nanoseconds, by name and step.
std::map<std::tuple<std::string, std::string, int>,
         std::vector<std::pair<std::int64_t, std::int64_t>>>
times_on_page(const json& run) {
  std::map<std::tuple<std::string, std::string, int>,
           std::vector<std::pair<std::int64_t, std::int64_t>>>
      times;
  std::size_t at = 0;
  int step = 0;
  for (const json& track : run["tracks"]) {
    std::int64_t previous = 0;
    for (std::size_t n = 0; n < track["spans"]; ++n, ++at) {
      const std::int64_t start = previous + run["gap"][at].get<std::int64_t>();
      previous = start + run["length"][at].get<std::int64_t>();
      const std::string name = run["names"][run["name"][at].get<std::size_t>()][0];
      step += run["step"][at].get<int>();
      times[{track["name"], name, step}].emplace_back(start, previous);
    }
  }
  return times;
}

TEST(PageTimeline, HasEverySpanToTheNanosecond) {
  const Job job = small_job();
  const FullRun full = run_of(job, "zenflow");
  const Timeline timeline = simulated_timeline(job, "zenflow", full);
  const json run = json::parse(run_json({"r", timeline}, kPageSpans));
  const auto times = times_on_page(run);
  std::size_t found = 0;
  for (std::size_t i = 0; i < full.program.graph.tasks().size(); ++i) {
    const TimelineSpan& span = timeline.spans[i];
    const auto key = std::tuple(timeline.tracks[span.track].name, timeline.name_of(span),
                                timeline.extra_of(span).step);
    const std::pair expected((span.start.count + 500) / 1000, (span.end.count + 500) / 1000);
    ASSERT_TRUE(times.contains(key)) << timeline.name_of(span);
    EXPECT_THAT(times.at(key), ::testing::Contains(expected)) << timeline.name_of(span);
    ++found;
  }
  EXPECT_EQ(run["name"].size(), found);
  EXPECT_EQ(run["flow_to"].size(), timeline.flows.size());
}

TEST(PageMemory, CoursesReachThePeaksOfTheResult) {
  const Job job = small_job();
  for (const char* name : {"zero-offload", "zenflow", "deepspeed-zenflow", "zero-infinity"}) {
    const SimulationResult result = simulate_schedule(job, find_schedule(name));
    const std::vector<MemoryCourse> courses = memory_courses(run_of(job, name), result.memory);
    ASSERT_GE(courses.size(), 2U) << name;
    for (const MemoryCourse& course : courses) {
      if (course.place == MemoryPlace::kNvme) continue;
      double held = 0;
      for (const MemoryBuffer& buffer : course.buffers) held += buffer.resident;
      double peak = held;
      for (const CourseChange& change : course.changes) peak = std::max(peak, held += change.bytes);
      const bool is_gpu = course.place == MemoryPlace::kGpu;
      EXPECT_NEAR(peak, is_gpu ? result.memory.gpu.total : result.memory.host.total, 1.0)
          << name << (is_gpu ? " GPU" : " host");
    }
  }
}

}  // namespace
}  // namespace zenflow::sim
