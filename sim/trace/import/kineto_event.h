/// One event of a Chrome trace, in the PyTorch profiler's fields, old and current.
/// Source: pytorch/kineto, output_json.cpp, in its versions since 2020.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zenflow::sim {

/// What was read of an event. Texts are unescaped, valid until the parser's next call, and empty if
/// the event does not have them; times are as written.
struct KinetoEvent {
  char phase = '\0';
  std::string_view category{};
  std::string_view name{};
  std::string_view process{};
  std::string_view thread{};
  std::string_view start{};
  std::string_view duration{};
  std::string_view end{};  ///< in place of a duration, if a span has two events
  std::string_view id{};
  // Fields of its args.
  std::optional<std::int64_t> device{};
  std::optional<std::int64_t> stream{};
  std::optional<std::int64_t> correlation{};
  std::optional<std::int64_t> bytes{};
  std::optional<std::int64_t> step{};
  std::optional<std::int64_t> sort_index{};
  std::optional<std::int64_t> message_elements{};  ///< of a collective
  std::string_view element_type{};
  std::optional<std::int64_t> group_size{};  ///< of a collective
  // For host operations whose shapes are wanted (operation_shapes.h), as written.
  std::string_view input_dims{};
  std::string_view input_types{};
  std::string_view concrete_inputs{};
  std::string_view label{};    ///< of a metadata event: the name given
  std::string_view stalled{};  ///< microseconds
  std::string_view cause{};
};

/// What a category says of its events; old and current names alike.
enum class EventClass : std::uint8_t {
  kKernel,
  kCopy,
  kMemset,
  kCall,      ///< of the device's runtime or driver
  kSync,      ///< waits for the GPU
  kRange,     ///< user annotations of the host
  kGpuRange,  ///< their projection onto the GPU
  kHostOperation,
  kUnknown,
};
[[nodiscard]] EventClass class_of(std::string_view category);

/// Reads events one by one; reuses its memory.
class KinetoEventParser {
 public:
  KinetoEventParser();
  ~KinetoEventParser();
  KinetoEventParser(const KinetoEventParser&) = delete;
  KinetoEventParser& operator=(const KinetoEventParser&) = delete;

  /// With `keep_fields`, args that KinetoEvent has no place for are in `fields()`.
  void keep_fields(bool keep) { keeps_fields_ = keep; }
  /// `text` is one JSON object, with JsonStream::kPadding readable bytes behind it. If a key
  /// occurs twice the last one counts, as in Python; control characters within texts are taken as
  /// they are. False if it is not well-formed; `problem` says why.
  [[nodiscard]] bool parse(std::string_view text, KinetoEvent& event);
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /// Whether the last event had bytes that are not UTF-8; they have been replaced.
  [[nodiscard]] bool had_bad_utf8() const { return had_bad_utf8_; }
  /// Name, value as JSON text.
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& fields() const {
    return fields_;
  }

 private:
  struct Library;
  // Error codes of simdjson and, as void*, its values: its header stays out of this one.
  [[nodiscard]] int read_args(void* value, KinetoEvent& event);
  [[nodiscard]] bool take_argument(std::string_view key, std::string_view token,
                                   KinetoEvent& event);
  [[nodiscard]] int parse_once(std::string_view text, KinetoEvent& event);
  [[nodiscard]] std::string_view readable(std::string_view token);

  std::unique_ptr<Library> library_;
  bool keeps_fields_ = false;
  bool had_bad_utf8_ = false;
  std::string problem_;
  std::string repaired_;
  std::vector<std::pair<std::string, std::string>> fields_;
  std::deque<std::string> unescaped_;
  std::size_t used_ = 0;  // of unescaped_, by the last event
};

}  // namespace zenflow::sim
