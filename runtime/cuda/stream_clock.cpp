#include "runtime/cuda/stream_clock.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace zenflow::runtime {

StreamClock::StreamClock(std::shared_ptr<CudaEventPool> events, cudaStream_t stream,
                         TrackRecorder& track, std::shared_ptr<DeviceClock> device)
    : events_(std::move(events)), stream_(stream), track_(track), device_(std::move(device)) {}

std::uint32_t StreamClock::recording() const {
  const std::uint32_t number = track_.recording();
  return number != 0 && device_->places(number) ? number : 0;
}

void StreamClock::rethrow() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void StreamClock::work() {
  rethrow();
  const bool works = doing_ == Doing::kWork;
  const std::uint32_t now = recording();
  if (now == 0 || open_.empty()) {
    if (!works) put({.next = Doing::kWork, .recording = now});
    has_worked_ = true;
    return;
  }
  OpenOperation& operation = open_.back();
  if (works && last_recording_ == now && last_operation_ == operation.number) return;
  Mark mark{.next = Doing::kWork,
            .recording = now,
            .operation = operation.number,
            .goes_on = std::exchange(operation.has_worked, true),
            .what = operation.what};
  if (!begins_at_the_last_end(mark)) put(std::move(mark));
}

void StreamClock::wait(WaitCause cause) {
  rethrow();
  put({.next = Doing::kWait, .cause = cause, .recording = recording()});
}

std::shared_ptr<const RecordedEvent> StreamClock::rest() {
  rethrow();
  return put({.next = Doing::kNothing, .recording = recording()});
}

void StreamClock::open(const TrackRecorder::Span& what) {
  open_.push_back({++operations_, what});
}

void StreamClock::close() noexcept {
  const std::uint64_t number = open_.back().number;
  open_.pop_back();
  if (doing_ != Doing::kWork || last_operation_ != number) return;
  try {
    put({.next = Doing::kWork, .recording = recording(), .is_end = true});
  } catch (...) {
    if (!failure_) failure_ = std::current_exception();
  }
}

std::shared_ptr<const RecordedEvent> StreamClock::put(Mark mark) {
  mark.event = std::make_shared<const RecordedEvent>(events_, stream_);
  mark.not_before = mark.event->recorded_at();
  has_worked_ = false;
  doing_ = mark.next;
  last_recording_ = mark.recording;
  last_operation_ = mark.operation;
  std::shared_ptr<const RecordedEvent> event = mark.event;
  const std::lock_guard lock(mutex_);
  marks_.push_back(std::move(mark));
  collect();
  return event;
}

bool StreamClock::begins_at_the_last_end(const Mark& mark) {
  const std::lock_guard lock(mutex_);
  if (marks_.empty() || has_worked_) return false;
  Mark& last = marks_.back();
  const Clock::time_point now = Clock::now();
  if (!last.is_end || last.recording != mark.recording || last.event->passed()) return false;
  std::shared_ptr<const RecordedEvent> event = std::move(last.event);
  last = mark;
  last.event = std::move(event);
  last.not_before = now;
  last_operation_ = mark.operation;
  return true;
}

void StreamClock::collect() {
  while (marks_.size() > 1 && marks_[1].event->passed()) {
    const Mark from = std::move(marks_.front());
    marks_.pop_front();
    if (from.next == Doing::kNothing && from.recording == 0) continue;
    const std::chrono::nanoseconds duration = marks_.front().event->since(*from.event);
    if (from.next == Doing::kWork) track_.add_busy(duration);
    if (from.next == Doing::kWait) track_.add_waiting(from.cause, duration);
    if (from.recording != 0) place(from, duration);
    // A mark of another recording has a zero of its own.
    if (marks_.front().recording != from.recording) front_.reset();
  }
}

void StreamClock::place(const Mark& from, std::chrono::nanoseconds duration) {
  if (!front_) front_ = device_->time_of(from.recording, *from.event);
  if (!front_) return;  // the recording is over
  device_->passed(from.recording, *front_, from.not_before);
  const std::chrono::nanoseconds start = *front_;
  *front_ += duration;
  keep(from, start, *front_);
}

void StreamClock::keep(const Mark& from, std::chrono::nanoseconds start,
                       std::chrono::nanoseconds end) {
  if (from.next == Doing::kWait) {
    spans_.push_back(
        {from.recording, 0, {.kind = TrackRecorder::Kind::kWait, .cause = from.cause}, start, end});
  }
  if (from.operation == 0) return;
  if (from.goes_on) {
    const auto begun = std::find_if(spans_.rbegin(), spans_.rend(), [&](const PlacedSpan& span) {
      return span.operation == from.operation;
    });
    if (begun != spans_.rend()) {
      begun->end = end;
      return;
    }
  }
  spans_.push_back({from.recording, from.operation, from.what, start, end});
}

void StreamClock::wait_for_last() {
  std::shared_ptr<const RecordedEvent> last;
  {
    const std::lock_guard lock(mutex_);  // not while waiting: others go on enqueuing
    if (!marks_.empty()) last = marks_.back().event;
  }
  if (!last) return;
  last->wait();
  device_->saw(std::move(last));
}

void StreamClock::take_in() {
  const std::lock_guard lock(mutex_);
  collect();
}

void StreamClock::hand_over() {
  const std::lock_guard lock(mutex_);
  // What has not ended is handed over when it has, and all that began behind it.
  std::uint64_t pending = std::numeric_limits<std::uint64_t>::max();
  for (const Mark& mark : marks_) {
    if (mark.operation != 0) pending = std::min(pending, mark.operation);
  }
  for (; !spans_.empty(); spans_.pop_front()) {
    PlacedSpan& span = spans_.front();
    if (span.recording != track_.recording()) continue;
    const auto start = device_->on_host(span.recording, span.start);
    const auto end = device_->on_host(span.recording, span.end);
    if (!start || !end) continue;
    if (span.operation >= pending) return;
    span.what.start = *start;
    span.what.end = *end;
    track_.keep(span.what);
  }
}

}  // namespace zenflow::runtime
