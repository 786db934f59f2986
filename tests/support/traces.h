/// Chrome traces as PyTorch writes them, event by event, and importing them from memory.
#pragma once

#include <span>
#include <string>

#include <fmt/format.h>
#include <zlib.h>

#include "sim/trace/import/import_trace.h"

namespace zenflow::testing {

inline sim::ImportedTrace import_text(const std::string& text,
                                      const sim::ImportOptions& options = {}) {
  const auto source = sim::memory_bytes({text.data(), text.size()});
  return sim::import_chrome(*source, "test.json", options);
}

inline std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  std::string in = text;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// A complete event; `ts` and `dur` as written.
inline std::string event(const std::string& category, const std::string& name,
                         const std::string& pid, const std::string& tid, const std::string& ts,
                         const std::string& dur, const std::string& args = "") {
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}}}})",
      category, name, pid, tid, ts, dur, args);
}

inline std::string kernel(const std::string& name, const std::string& ts, const std::string& dur,
                          int correlation, int stream = 7, int device = 0) {
  return event(
      "kernel", name, std::to_string(device), std::to_string(stream), ts, dur,
      fmt::format(R"("device": {}, "stream": {}, "correlation": {})", device, stream, correlation));
}

inline std::string launch(const std::string& name, const std::string& ts, const std::string& dur,
                          int correlation, int thread = 100) {
  return event("cuda_runtime", name, "100", std::to_string(thread), ts, dur,
               fmt::format(R"("cbid": 211, "correlation": {})", correlation));
}

inline std::string copy(const std::string& kind, const std::string& ts, const std::string& dur,
                        long bytes, int correlation, int stream = 8, int device = 0) {
  return event("gpu_memcpy", "Memcpy " + kind, std::to_string(device), std::to_string(stream), ts,
               dur,
               fmt::format(R"("device": {}, "stream": {}, "correlation": {}, "bytes": {})", device,
                           stream, correlation, bytes));
}

/// How many of what was left out.
inline std::uint64_t left_out(const sim::ImportedTrace& trace, const std::string& what) {
  for (const sim::LeftOut& one : trace.left_out) {
    if (one.what == what) return one.count;
  }
  return 0;
}

/// Events separated by commas, as a trace of today.
template <class... Events>
std::string trace_of(const Events&... events) {
  std::string list;
  ((list += (list.empty() ? "" : ",\n  ") + std::string(events)), ...);
  return "{\n  \"schemaVersion\": 1,\n  \"traceEvents\": [\n  " + list +
         "\n  ],\n  \"traceName\": \"t\"\n}\n";
}

}  // namespace zenflow::testing
