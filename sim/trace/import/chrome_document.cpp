#include "sim/trace/import/chrome_document.h"

#include <utility>

#include <fmt/format.h>

#include "sim/trace/import/json_text.h"

namespace zenflow::sim {

ChromeDocument::ChromeDocument(ByteSource& source, std::string name,
                               std::vector<std::string>& problems, LeftOutCounter& left_out)
    : name_(std::move(name)), problems_(&problems), left_out_(&left_out), stream_(source, name_) {}

void ChromeDocument::read(const std::function<void()>& begin,
                          const std::function<void(const JsonStream::Value&)>& take) {
  begin_ = begin;
  take_ = take;
  const char first = stream_.peek();
  if (first == '[') {
    // The array format: events and nothing else; Chrome lets the closing bracket be missing.
    read_events();
  } else if (first == '{') {
    read_top_level();
  } else {
    stream_.fail(stream_.offset(), "expected \"{\" or \"[\", the start of a Chrome trace");
  }
}

void ChromeDocument::cut(std::uint64_t offset, const char* inside) {
  is_cut_ = true;
  problems_->push_back(fmt::format(
      "{}: byte {}: the text ends inside {}: what would follow is missing", name_, offset, inside));
}

void ChromeDocument::read_top_level() {
  stream_.take();
  for (;;) {
    const char next = stream_.peek();
    if (next == '}') {
      stream_.take();
      break;
    }
    // Profilers write a dozen; each is kept.
    constexpr std::size_t kMostEntries = 4096;
    if (header_.keys.size() == kMostEntries) {
      stream_.fail(stream_.offset(),
                   fmt::format("the outermost object has more than {} entries", kMostEntries));
    }
    std::string key;
    if (!read_key(key)) return;
    if (key == "traceEvents" && stream_.peek() == '[') {
      header_.keys.push_back(key);
      read_events();
      if (is_cut_) return;
    } else if (!read_entry(key)) {
      return;
    }
    const char behind = stream_.peek();
    if (behind == ',') stream_.take();
    if (behind == ',' || behind == '}') continue;
    if (behind == '\0') return cut(stream_.offset(), "the trace's outermost object");
    stream_.fail(stream_.offset(), fmt::format("expected \",\" or \"}}\" behind \"{}\"", key));
  }
  if (stream_.peek() != '\0') {
    problems_->push_back(fmt::format("{}: byte {}: what follows the end of the trace was ignored",
                                     name_, stream_.offset()));
  }
}

/// A key and its colon; false if the text ends there.
bool ChromeDocument::read_key(std::string& key) {
  const char next = stream_.peek();
  if (next == '\0') {
    cut(stream_.offset(), "the trace's outermost object");
    return false;
  }
  if (next != '"') stream_.fail(stream_.offset(), "expected a key");
  const JsonStream::Value value = stream_.value();
  if (value.status != JsonStream::Status::kWhole) {
    cut(value.offset, "a key");
    return false;
  }
  key = as_utf8(unescape(bare(value.text)));
  const char colon = stream_.peek();
  if (colon == '\0') {
    cut(stream_.offset(), "the trace's outermost object");
    return false;
  }
  if (colon != ':') stream_.fail(stream_.offset(), "expected \":\" behind a key");
  stream_.take();
  return true;
}

/// False if the text ends inside the value.
bool ChromeDocument::read_entry(const std::string& key) {
  constexpr std::size_t kLongestEntry = 1U << 20;
  const JsonStream::Value value = stream_.value(kLongestEntry);
  if (value.status == JsonStream::Status::kCut) {
    cut(value.offset, "a value of the outermost object");
    return false;
  }
  if (value.status == JsonStream::Status::kTooLong) {
    left_out_->add("top-level entry \"" + key + "\" of more than 1 MiB", {}, value.offset, "byte");
    header_.keys.push_back(key);
  } else {
    header_.take(key, value.text);
  }
  return true;
}

void ChromeDocument::read_events() {
  has_events_ = true;
  begin_();
  stream_.take();
  for (;;) {
    const char next = stream_.peek();
    if (next == ']') {
      stream_.take();
      return;
    }
    if (next == '\0') return cut(stream_.offset(), "the list of events");
    if (next == ',') {
      stream_.take();
      continue;
    }
    const JsonStream::Value value = stream_.value();
    if (value.status == JsonStream::Status::kCut) return cut(value.offset, "an event");
    take_(value);
    const char behind = stream_.peek();
    if (behind != ',' && behind != ']' && behind != '\0') {
      stream_.fail(stream_.offset(), "expected \",\" or \"]\" behind an event");
    }
  }
}

}  // namespace zenflow::sim
