/// How far something is, on one line of a terminal.
#pragma once

#include <chrono>
#include <string>

namespace zenflow::tools {

/// "1:07", "2:03:07".
[[nodiscard]] std::string clock_text(double seconds);

/// A line on standard error that is rewritten at most ten times a second, and gone in the end.
/// Nothing where that is no terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool is_wanted);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// What is done so far, of nobody knows how much.
  void show(const std::string& text);
  /// "WHAT, 1:07 left; MORE": of what has taken its time since the line was made, `done` of `total`
  /// are behind. What does not fit into the terminal's width is cut off.
  void show(const std::string& what, double done, double total, const std::string& more = "");

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] bool is_due() const;

  bool is_shown_;
  bool is_written_ = false;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
};

}  // namespace zenflow::tools
