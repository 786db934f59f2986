/// Any bytes as a recording of GPU activities: a timeline whose numbers fit together, or an input
/// error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/trace/cupti/activity_file.h"
#include "runtime/trace/cupti/activity_timeline.h"
#include "sim/trace/chrome_trace.h"
#include "tests/fuzz/expect_input_error.h"
#include "tests/fuzz/scratch_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zenflow;
  using fuzz::require;
  static const fuzz::ScratchFolder kFolder;
  const auto file =
      kFolder.write("activities", std::string_view(reinterpret_cast<const char*>(data), size));
  fuzz::is_taken([&file] {
    const runtime::ActivityLog log = runtime::read_activity_file(file);
    const runtime::MeasuredTimeline measured = runtime::measured_timeline(log);
    const sim::Timeline& timeline = measured.timeline;
    for (const sim::TimelineSpan& span : timeline.spans) {
      require(span.track < timeline.tracks.size(), "a span's track exists");
      require(span.start <= span.end, "a span ends after it starts");
      require(span.name < timeline.names.size(), "a span's name exists");
    }
    for (const sim::TimelineFlow& flow : timeline.flows) {
      require(flow.from < timeline.spans.size() && flow.to < timeline.spans.size(),
              "a flow's spans exist");
    }
    static_cast<void>(sim::chrome_trace(timeline));
  });
  return 0;
}
