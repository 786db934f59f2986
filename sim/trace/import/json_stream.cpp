#include "sim/trace/import/json_stream.h"

#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::sim {
namespace {

constexpr std::size_t kFirstBuffer = 1U << 20;

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/// Characters at which a scan outside strings has to stop.
constexpr std::array<bool, 256> make_structure() {
  std::array<bool, 256> is{};
  for (const char c : {'"', '{', '}', '[', ']'}) is[static_cast<unsigned char>(c)] = true;
  return is;
}
constexpr std::array<bool, 256> kIsStructure = make_structure();

}  // namespace

JsonStream::JsonStream(ByteSource& source, std::string name)
    : source_(&source), name_(std::move(name)), buffer_(kFirstBuffer + kPadding) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  while (end_ < kByteOrderMark.size() && refill()) {
  }
  if (std::string_view(buffer_.data(), end_).starts_with(kByteOrderMark)) {
    position_ = kByteOrderMark.size();
  }
}

void JsonStream::fail(std::uint64_t offset, const std::string& what) const {
  throw Error(ErrorKind::kInput, fmt::format("{}: byte {}: {}", name_, offset, what));
}

/// Makes room by dropping what is before `keep_`, or a longer buffer, and reads on.
bool JsonStream::refill() {
  if (is_ended_) return false;
  if (keep_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + keep_, end_ - keep_);
    end_ -= keep_;
    position_ -= keep_;
    before_ += keep_;
    keep_ = 0;
  }
  if (end_ + kPadding == buffer_.size()) buffer_.resize(2 * buffer_.size());
  const std::size_t room = buffer_.size() - kPadding - end_;
  const std::size_t count = source_->read({buffer_.data() + end_, room});
  end_ += count;
  is_ended_ = count == 0;
  return count > 0;
}

char JsonStream::peek() {
  for (;;) {
    while (position_ < end_ && is_space(buffer_[position_])) ++position_;
    if (position_ < end_) return buffer_[position_];
    keep_ = position_;
    if (!refill()) return '\0';
  }
}

/// Called at the end of the buffer inside a value.
bool JsonStream::more(std::size_t limit, bool& too_long) {
  if (position_ - keep_ > limit) too_long = true;
  if (too_long) keep_ = position_;
  return refill();
}

bool JsonStream::scan_string(std::size_t limit, bool& too_long) {
  ++position_;
  for (;;) {
    while (position_ < end_ && buffer_[position_] != '"' && buffer_[position_] != '\\') ++position_;
    if (position_ == end_) {
      if (!more(limit, too_long)) return false;
      continue;
    }
    if (buffer_[position_++] == '"') return true;
    if (position_ == end_ && !more(limit, too_long)) return false;
    ++position_;  // what is escaped
  }
}

bool JsonStream::scan_nested(std::size_t limit, bool& too_long) {
  std::size_t depth = 0;
  for (;;) {
    while (position_ < end_ && !kIsStructure[static_cast<unsigned char>(buffer_[position_])]) {
      ++position_;
    }
    if (position_ == end_) {
      if (!more(limit, too_long)) return false;
      continue;
    }
    const char c = buffer_[position_];
    if (c == '"') {
      if (!scan_string(limit, too_long)) return false;
      continue;
    }
    ++position_;
    if (c == '{' || c == '[') {
      ++depth;
    } else if (--depth == 0) {
      return true;
    }
  }
}

bool JsonStream::scan_scalar(std::size_t limit, bool& too_long) {
  constexpr std::string_view kEnd = ",]} \t\r\n";
  for (;;) {
    while (position_ < end_ && kEnd.find(buffer_[position_]) == kEnd.npos) ++position_;
    if (position_ < end_) return true;
    // A number may end with the text: only what encloses it is then cut.
    if (!more(limit, too_long)) return false;
  }
}

JsonStream::Value JsonStream::value(std::size_t limit) {
  const char first = peek();
  if (first == '\0') return {Status::kCut, offset(), {}};
  if (first == ',' || first == ']' || first == '}' || first == ':') {
    fail(offset(), fmt::format("expected a value, found \"{}\"", first));
  }
  keep_ = position_;
  Value value{Status::kWhole, offset(), {}};
  bool too_long = false;
  bool is_whole = false;
  if (first == '{' || first == '[') {
    is_whole = scan_nested(limit, too_long);
  } else if (first == '"') {
    is_whole = scan_string(limit, too_long);
  } else {
    is_whole = scan_scalar(limit, too_long);
  }
  if (!is_whole) {
    value.status = Status::kCut;
  } else if (too_long || position_ - keep_ > limit) {
    value.status = Status::kTooLong;
  } else {
    value.text = std::string_view(buffer_.data() + keep_, position_ - keep_);
  }
  keep_ = position_;
  return value;
}

}  // namespace zenflow::sim
