#include "sim/trace/import/open_spans.h"

#include "sim/trace/import/json_stream.h"

namespace zenflow::sim {

void OpenSpans::begin(const KinetoEvent& event, std::string_view text, std::uint64_t offset,
                      LeftOutCounter& left_out) {
  if (bytes_ + text.size() > kMostBytes) {
    left_out.add_unusable("spans that begin while 16 MiB of others have not ended", {}, offset,
                          "byte");
    return;
  }
  Beginning& made =
      threads_[{std::string(event.process), std::string(event.thread)}].emplace_back();
  made.text.reserve(text.size() + JsonStream::kPadding);
  made.text = text;
  made.offset = offset;
  bytes_ += text.size();
}

std::optional<OpenSpans::Beginning> OpenSpans::end(const KinetoEvent& event) {
  const auto thread = threads_.find({std::string(event.process), std::string(event.thread)});
  if (thread == threads_.end() || thread->second.empty()) return std::nullopt;
  Beginning last = std::move(thread->second.back());
  thread->second.pop_back();
  bytes_ -= last.text.size();
  return last;
}

void OpenSpans::finish(LeftOutCounter& left_out) {
  for (const auto& [thread, open] : threads_) {
    for (const Beginning& one : open) {
      left_out.add_unusable("spans that were not ended", {}, one.offset, "byte");
    }
  }
}

}  // namespace zenflow::sim
