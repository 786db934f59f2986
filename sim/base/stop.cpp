#include "sim/base/stop.h"

#include <atomic>

namespace zenflow {
namespace {

std::atomic<bool (*)()> question{nullptr};

}  // namespace

void set_stop_question(bool (*is_asked)()) noexcept {
  question = is_asked;
}

bool stop_asked() noexcept {
  bool (*const is_asked)() = question;
  return is_asked != nullptr && is_asked();
}

void throw_if_stopped() {
  if (stop_asked()) throw Stopped();
}

}  // namespace zenflow
