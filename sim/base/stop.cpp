#include "sim/base/stop.h"

#include <algorithm>
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

void fill_with_zeros(std::vector<float>& array, std::size_t count) {
  constexpr std::size_t kPiece = std::size_t{16} << 20U;
  array.reserve(count);
  while (array.size() < count) {
    throw_if_stopped();
    array.resize(std::min(count, array.size() + kPiece));
  }
}

}  // namespace zenflow
