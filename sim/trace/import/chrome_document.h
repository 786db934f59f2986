/// The text of a Chrome trace as a whole: the entries of its header and its events, one after
/// another, without holding the text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/trace/import/chrome_header.h"
#include "sim/trace/import/imported_trace.h"
#include "sim/trace/import/json_stream.h"

namespace zenflow::sim {

class ChromeDocument {
 public:
  /// `name` begins messages. What is wrong with the text goes to `problems`, entries that are
  /// passed over to `left_out`; all must outlive the document.
  ChromeDocument(ByteSource& source, std::string name, std::vector<std::string>& problems,
                 LeftOutCounter& left_out);

  /// Both forms: an object with "traceEvents", and an array of events. Calls `begin` where the list
  /// of events begins, when `header()` is known as far as it stands before the list, and `take` for
  /// every element. A text that ends early is read up to there.
  /// Throws Error(kInput) "NAME: byte N: what" if it is no JSON.
  void read(const std::function<void()>& begin,
            const std::function<void(const JsonStream::Value&)>& take);

  [[nodiscard]] const ChromeHeader& header() const { return header_; }
  [[nodiscard]] bool has_events() const { return has_events_; }
  [[nodiscard]] bool is_cut() const { return is_cut_; }

 private:
  void read_top_level();
  [[nodiscard]] bool read_key(std::string& key);
  [[nodiscard]] bool read_entry(const std::string& key);
  void read_events();
  void cut(std::uint64_t offset, const char* inside);

  std::string name_;
  std::vector<std::string>* problems_;
  LeftOutCounter* left_out_;
  JsonStream stream_;
  ChromeHeader header_;
  std::function<void()> begin_;
  std::function<void(const JsonStream::Value&)> take_;
  bool has_events_ = false;
  bool is_cut_ = false;
};

}  // namespace zenflow::sim
