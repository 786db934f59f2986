/// The values of a long JSON text one after another, without holding the text.
///
/// Finds where values end and nothing more: what is inside an object or array is only checked for
/// strings and brackets. Whoever parses the value checks the rest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/trace/import/byte_source.h"

namespace zenflow::sim {

class JsonStream {
 public:
  /// `name` begins messages. `source` must outlive the stream.
  JsonStream(ByteSource& source, std::string name);

  /// The next character that is not white space, not taken; '\0' at the end of the input.
  [[nodiscard]] char peek();
  /// Takes the character that `peek` returned.
  void take() { ++position_; }

  enum class Status { kWhole, kTooLong, kCut };
  struct Value {
    Status status = Status::kWhole;
    std::uint64_t offset = 0;  ///< of its first byte in the (inflated) text
    /// As written; valid until the next call. kPadding readable bytes follow it. Empty if it was
    /// longer than the limit, which is passed over, or if the input ends within it.
    std::string_view text{};
  };
  /// Takes the next value. Throws Error(kInput) if none can begin here.
  [[nodiscard]] Value value(std::size_t limit = kLongest);

  /// The offset of the next byte in the (inflated) text.
  [[nodiscard]] std::uint64_t offset() const { return before_ + position_; }
  /// Throws Error(kInput): "NAME: byte OFFSET: what".
  [[noreturn]] void fail(std::uint64_t offset, const std::string& what) const;

  static constexpr std::size_t kLongest = 32U << 20;
  /// What a simdjson parser may read beyond a text.
  static constexpr std::size_t kPadding = 64;

 private:
  bool refill();
  bool scan_nested(std::size_t limit, bool& too_long);
  bool scan_string(std::size_t limit, bool& too_long);
  bool scan_scalar(std::size_t limit, bool& too_long);
  bool more(std::size_t limit, bool& too_long);

  ByteSource* source_;
  std::string name_;
  std::vector<char> buffer_;
  std::size_t end_ = 0;       // of what has been read
  std::size_t position_ = 0;  // of the next byte
  std::size_t keep_ = 0;      // nothing before it is needed
  std::uint64_t before_ = 0;  // bytes of text that came before the buffer
  bool is_ended_ = false;
};

}  // namespace zenflow::sim
