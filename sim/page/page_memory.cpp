#include "sim/page/page_memory.h"

#include <utility>

#include <fmt/format.h>

#include "sim/base/text.h"

namespace zenflow::sim {
namespace {

const char* name_of_place(MemoryPlace place) {
  switch (place) {
    case MemoryPlace::kGpu:
      return "GPU";
    case MemoryPlace::kHost:
      return "host";
    case MemoryPlace::kNvme:
      return "NVMe";
  }
  return "";
}

std::string buffers_json(const MemoryCourse& course) {
  std::string text;
  for (const MemoryBuffer& buffer : course.buffers) {
    text += fmt::format(
        "{}{{\"name\":{},\"category\":{},\"kind\":{},\"held\":{},\"formula\":{},"
        "\"resident\":{:.0f}}}",
        text.empty() ? "" : ",", json_quoted(buffer.name), json_quoted(to_string(buffer.category)),
        json_quoted(to_string(buffer.home)), json_quoted(buffer.held), json_quoted(buffer.formula),
        buffer.resident);
  }
  return "[" + text + "]";
}

std::string changes_json(const MemoryCourse& course, Picoseconds from, Picoseconds until) {
  constexpr std::int64_t kPerNanosecond = 1000;
  std::string times;
  std::string buffers;
  std::string bytes;
  std::int64_t previous = 0;
  for (const CourseChange& change : course.changes) {
    if (change.time >= until) break;
    const char* comma = times.empty() ? "" : ",";
    const std::int64_t time = (change.time - from).count / kPerNanosecond;
    times += fmt::format("{}{}", comma, time - std::exchange(previous, time));
    buffers += fmt::format("{}{}", comma, change.buffer);
    bytes += fmt::format("{}{:.0f}", comma, change.bytes);
  }
  return fmt::format("\"time\":[{}],\"buffer\":[{}],\"bytes\":[{}]", times, buffers, bytes);
}

}  // namespace

std::string memory_json(const std::vector<MemoryCourse>& courses, Picoseconds from,
                        Picoseconds until) {
  std::string text;
  for (const MemoryCourse& course : courses) {
    text +=
        fmt::format("{}{{\"place\":\"{}\",\"capacity\":{},\"framework\":{:.0f},\"buffers\":{},{}}}",
                    text.empty() ? "" : ",", name_of_place(course.place),
                    course.capacity ? fmt::format("{:.0f}", *course.capacity) : "null",
                    course.framework, buffers_json(course), changes_json(course, from, until));
  }
  return "[" + text + "]";
}

}  // namespace zenflow::sim
