#include "sim/page/page.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/text.h"
#include "sim/page/assets.h"
#include "sim/page/page_memory.h"
#include "sim/page/page_timeline.h"
#include "sim/page/safe_text.h"

namespace zenflow::sim {
namespace {

/// A script element that a browser keeps and does not run.
std::string json_element(const std::string& id, std::string_view json) {
  return fmt::format("<script type=\"application/json\" id=\"{}\">{}</script>\n", id,
                     json_in_script(json));
}

std::string content_elements(const PageContent& content) {
  std::string text = json_element("document", content.document);
  std::vector<std::string> names = content.labels;
  if (names.empty()) {
    for (const PageRun& run : content.runs) names.push_back(run.label);
  }
  std::string labels;
  for (const std::string& name : names) labels += (labels.empty() ? "" : ",") + json_quoted(name);
  text +=
      json_element("page", fmt::format("{{\"kind\":{},\"title\":{},\"runs\":[{}],\"sliders\":{}}}",
                                       json_quoted(content.kind), json_quoted(content.title),
                                       labels, content.sliders.empty() ? "null" : content.sliders));
  const std::size_t most = kPageSpans / std::max<std::size_t>(content.runs.size(), 1);
  for (std::size_t i = 0; i < content.runs.size(); ++i) {
    text += json_element(fmt::format("run-{}", i), run_json(content.runs[i], most));
  }
  return text;
}

}  // namespace

bool has_charts() {
  return !kAssetCharts.empty();
}

void check_charts() {
  if (has_charts()) return;
  throw Error(ErrorKind::kInput,
              "--report: this program was built without Chart.js, which pages draw with: install "
              "Debian's libjs-chart.js, configure and build again");
}

std::string page_html(const PageContent& content) {
  check_charts();
  const std::vector<std::pair<std::string_view, std::string>> places = {
      {"<!--TITLE-->", html_text(content.title)}, {"/*STYLE*/", std::string(kAssetStyle)},
      {"<!--NOTICE-->", html_text(kAssetNotice)}, {"<!--CONTENT-->", content_elements(content)},
      {"/*CHARTS*/", std::string(kAssetCharts)},  {"/*SCRIPT*/", std::string(kAssetScript)},
  };
  std::string out;
  std::string_view rest = kAssetPage;
  for (const auto& [place, text] : places) {  // in the order of the page
    const std::size_t at = rest.find(place);
    if (at == std::string_view::npos) {
      throw Error(ErrorKind::kRuntime, fmt::format("the page has no place {}", place));
    }
    out += rest.substr(0, at);
    out += text;
    rest.remove_prefix(at + place.size());
  }
  return out += rest;
}

std::string run_json(const PageRun& run, std::size_t most) {
  const Timeline& timeline = run.timeline;
  return fmt::format("{{\"label\":{},{},\"memory\":{}}}", json_quoted(run.label),
                     timeline_fields(timeline, most),
                     memory_json(run.memory, first_start(timeline), shown_until(timeline, most)));
}

}  // namespace zenflow::sim
