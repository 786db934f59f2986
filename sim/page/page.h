/// A result as one HTML file that needs nothing else: document, timelines, style, script, charts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/simulate/memory_course.h"
#include "sim/trace/timeline.h"

namespace zenflow::sim {

/// Spans that a page shows, of all its timelines together: what a browser opens within a second.
inline constexpr std::size_t kPageSpans = 100'000;

/// A run to be drawn.
struct PageRun {
  std::string label;  ///< that readers choose it by: "zenflow"
  Timeline timeline;
  std::vector<MemoryCourse> memory{};
};

struct PageContent {
  std::string kind;      ///< what the document is of: "run", "compare", "tune", ...
  std::string title;     ///< any text
  std::string document;  ///< JSON, as the command prints it
  std::vector<PageRun> runs{};
  std::string sliders{};  ///< JSON of what can be changed; empty: the page is a file
  /// Runs to choose from, of which a page with sliders has the first one; empty: those of `runs`.
  std::vector<std::string> labels{};
};

/// Whether this build can make pages: it has Chart.js.
[[nodiscard]] bool has_charts();
/// Before any work whose result would be lost: throws Error(kInput) if it has not, and says what to
/// install.
void check_charts();

/// Equal content gives equal bytes. Throws as check_charts.
[[nodiscard]] std::string page_html(const PageContent& content);

/// A run as page_html embeds it: one JSON object. At most `most` spans.
[[nodiscard]] std::string run_json(const PageRun& run, std::size_t most);

}  // namespace zenflow::sim
