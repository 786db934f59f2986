/// Spans with one event for the beginning and another for the end: Chrome's kinds "B" and "E".
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/trace/import/imported_trace.h"
#include "sim/trace/import/kineto_event.h"

namespace zenflow::sim {

/// What has begun and not ended, by thread: the last to begin is the first to end.
class OpenSpans {
 public:
  struct Beginning {
    std::string text;  ///< of the event, with JsonStream::kPadding bytes reserved behind it
    std::uint64_t offset = 0;
  };

  /// `text` is that of `event`, whose kind is "B". What begins while too much is open is counted
  /// there and forgotten.
  void begin(const KinetoEvent& event, std::string_view text, std::uint64_t offset,
             LeftOutCounter& left_out);
  /// What `event`, whose kind is "E", ends; nothing if its thread has nothing open.
  [[nodiscard]] std::optional<Beginning> end(const KinetoEvent& event);
  /// At the end of the trace: what is still open counts there.
  void finish(LeftOutCounter& left_out);

 private:
  using Thread = std::pair<std::string, std::string>;  // process, thread

  static constexpr std::size_t kMostBytes = std::size_t{16} << 20U;
  std::map<Thread, std::vector<Beginning>> threads_;
  std::size_t bytes_ = 0;
};

}  // namespace zenflow::sim
