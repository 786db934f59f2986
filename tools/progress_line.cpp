#include "tools/progress_line.h"

#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "tools/environment.h"

namespace zenflow::tools {

std::string clock_text(double seconds) {
  constexpr std::int64_t kMinute = 60;
  constexpr std::int64_t kHour = 3600;
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  if (whole < kHour) return fmt::format("{}:{:02}", whole / kMinute, whole % kMinute);
  return fmt::format("{}:{:02}:{:02}", whole / kHour, whole % kHour / kMinute, whole % kMinute);
}

ProgressLine::ProgressLine(bool is_wanted) : is_shown_(is_wanted && is_terminal(stderr)) {}

ProgressLine::~ProgressLine() {
  if (is_written_) rewrite_line("");
}

bool ProgressLine::is_due() const {
  return is_shown_ && Clock::now() - last_ >= std::chrono::milliseconds(100);
}

void ProgressLine::show(const std::string& text) {
  if (!is_due()) return;
  last_ = Clock::now();
  is_written_ = true;
  rewrite_line(text);
}

void ProgressLine::show(const std::string& what, double done, double total,
                        const std::string& more) {
  if (done <= 0 || !is_due()) return;
  const double so_far = std::chrono::duration<double>(Clock::now() - begin_).count();
  show(fmt::format("{}, {} left{}{}", what, clock_text(so_far / done * (total - done)),
                   more.empty() ? "" : "; ", more));
}

}  // namespace zenflow::tools
