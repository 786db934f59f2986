#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/trace/cupti/activity_chunks.h"
#include "runtime/trace/cupti/activity_file.h"
#include "sim/base/error.h"
#include "sim/base/input_file.h"

namespace zenflow::runtime {
namespace {

using nlohmann::json;

constexpr std::uint32_t kMostDevices = 4096;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60U;

class FileReader {
 public:
  FileReader(const std::filesystem::path& path, std::string_view content)
      : path_(path), rest_(content) {}

  ActivityLog read() {
    if (!rest_.starts_with(kActivityFileMagic)) fail("expected a recording of GPU activities");
    rest_.remove_prefix(kActivityFileMagic.size());
    bool informed = false;
    ActivityChunkHead head{};
    while (take(head)) {
      if (rest_.size() < head.size) break;  // the process ended while it was writing
      const std::string_view payload = rest_.substr(0, head.size);
      rest_.remove_prefix(head.size);
      if (informed != (head.type != kInformation)) fail("the information is not where it belongs");
      informed = true;
      if (log_.complete) fail("something follows the end");
      chunk(head.type, payload);
    }
    if (!informed) fail("the file ends before the information");
    check();
    return std::move(log_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kInput, fmt::format("{}: {}", path_.string(), what));
  }

  bool take(ActivityChunkHead& head) {
    if (rest_.size() < sizeof(head)) return false;
    std::memcpy(&head, rest_.data(), sizeof(head));
    rest_.remove_prefix(sizeof(head));
    return true;
  }

  void chunk(std::uint32_t type, std::string_view payload) {
    switch (type) {
      case kInformation:
        return parsed(payload, [this](const json& from) {
          take_number(from, "process", log_.process);
          log_.program = from.at("program");
          take_number(from, "cupti_version", log_.cupti_version);
          log_.low_overhead = from.at("low_overhead");
          take_number(from, "session_start", log_.session_start);
          log_.untraced = from.at("untraced");
        });
      case kString:
        log_.strings.emplace_back(payload);
        return;
      case kActivities:
        return activities(payload);
      case kTime:
        if (payload.size() != sizeof(log_.session_end)) fail("expected a time of 8 bytes");
        std::memcpy(&log_.session_end, payload.data(), payload.size());
        return;
      case kEnd:
        return parsed(payload, [this](const json& from) {
          take_number(from, "session_end", log_.session_end);
          log_.notes = from.at("notes");
          take_number(from, "dropped_by_cupti", log_.losses.dropped_by_cupti);
          take_number(from, "refused_buffers", log_.losses.refused_buffers);
          take_number(from, "emergency_buffers", log_.losses.emergency_buffers);
          take_number(from, "unknown_kinds", log_.losses.unknown_kinds);
          take_number(from, "cut_records", log_.losses.cut_records);
          log_.complete = true;
        });
      default:
        fail(fmt::format("expected a chunk of type 1 to 5, found {}", type));
    }
  }

  template <class Action>
  void parsed(std::string_view payload, const Action& action) const {
    try {
      action(json::parse(payload));
    } catch (const json::exception& error) {
      fail(error.what());
    }
  }

  /// The library would take any number for one that fits.
  template <class Number>
  void take_number(const json& from, const char* key, Number& to) const {
    const json& said = from.at(key);
    if (!said.is_number_unsigned() ||
        said.get<std::uint64_t>() > std::numeric_limits<Number>::max()) {
      fail(fmt::format("{}: expected a whole number from 0 to {}", key,
                       std::numeric_limits<Number>::max()));
    }
    to = said.get<Number>();
  }

  void activities(std::string_view payload) {
    if (payload.size() % sizeof(Activity) != 0) fail("expected whole activities");
    const std::size_t before = log_.activities.size();
    const std::size_t count = payload.size() / sizeof(Activity);
    if (count == 0) return;
    log_.activities.resize(before + count);
    std::memcpy(static_cast<void*>(log_.activities.data() + before), payload.data(),
                payload.size());
  }

  void check() const {
    constexpr std::uint64_t kLatest = std::uint64_t{1} << 62U;
    const bool is_long = log_.session_start != 0 && log_.session_end > log_.session_start &&
                         log_.session_end - log_.session_start > kLongestSession;
    if (is_long || log_.session_start > kLatest) {
      fail(fmt::format("expected a session of at most 50 days, found one from {} to {} ns",
                       log_.session_start, log_.session_end));
    }
    for (const Activity& activity : log_.activities) {
      if (activity.kind > ActivityKind::kInstant) fail("an activity is of no known kind");
      if (activity.bytes > kMostBytes) {  // timelines count them with a sign
        fail(fmt::format("an activity of {} bytes", activity.bytes));
      }
      if (activity.device >= kMostDevices) {  // timelines list all up to the largest
        fail(fmt::format("expected a device below {}, found an activity of {}", kMostDevices,
                         activity.device));
      }
      if (activity.name >= log_.strings.size() || activity.domain >= log_.strings.size()) {
        fail("an activity's name is missing");
      }
    }
  }

  std::filesystem::path path_;
  std::string_view rest_;
  ActivityLog log_;
};

}  // namespace

ActivityLog read_activity_file(const std::filesystem::path& path) {
  const InputFile file(path);
  std::string content(file.size(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(content)));
  return FileReader(path, content).read();
}

}  // namespace zenflow::runtime
