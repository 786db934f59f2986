#include <cmath>

#include <fmt/format.h>

#include "sim/accuracy/published_runs.h"
#include "sim/base/table.h"

namespace zenflow::sim {
namespace {

std::string rows_table(const std::vector<PublishedResult>& results, bool bold) {
  std::vector<std::vector<std::string>> rows;
  for (const PublishedResult& one : results) {
    if (!one.prediction) continue;
    const auto value = one.prediction->value;
    rows.push_back({one.row.id, one.row.node, one.row.schedule, one.row.quantity,
                    one.row.judged ? "" : "no", published_number(one.row.value),
                    value ? published_number(*value) : "-", one.row.unit,
                    signed_percent(one.error())});
  }
  return format_table(
      {"row", "node", "schedule", "quantity", "judged", "published", "predicted", "unit", "error"},
      rows, bold, 5);
}

/// What else has to be said of rows that are simulated.
std::string remarks(const std::vector<PublishedResult>& results) {
  std::string text;
  for (const PublishedResult& one : results) {
    if (!one.prediction) continue;
    if (!one.prediction->refused.empty()) {
      text += fmt::format("  {}: refused: {}\n", one.row.id, one.prediction->refused);
    }
    for (const MemoryLimit limit : one.prediction->exceeded) {
      text += fmt::format("  {}: ran, predicted not to fit: {}\n", one.row.id, describe(limit));
    }
  }
  return text.empty() ? "" : "\nRemarks:\n" + text;
}

/// Sources are long; the JSON has all of them.
std::string shortened(const std::string& text) {
  constexpr std::size_t kMost = 60;
  return text.size() <= kMost ? text : text.substr(0, kMost - 3) + "...";
}

std::string errors_table(const char* title, const std::vector<PublishedErrors>& groups, bool bold) {
  std::vector<std::vector<std::string>> rows;
  for (const PublishedErrors& one : groups) {
    rows.push_back({shortened(one.name), one.worst_row, std::to_string(one.rows),
                    format_percent(one.mean), signed_percent(one.signed_mean),
                    signed_percent(one.worst)});
  }
  return format_table({title, "worst row", "rows", "mean", "signed", "worst"}, rows, bold, 2);
}

std::string headline(const std::vector<PublishedResult>& results) {
  const PublishedErrors all = published_errors(results);
  return fmt::format(
      "{} judged, {} of them predicted: {} off in the mean ({} signed), worst {}{}\n",
      counted(static_cast<std::uint64_t>(judged_rows(results)), "row"), all.rows,
      format_percent(all.mean), signed_percent(all.signed_mean), signed_percent(all.worst),
      all.rows > 0 ? fmt::format(" ({})", all.worst_row) : "");
}

std::string records(const std::vector<PublishedResult>& results) {
  std::string text;
  for (const PublishedResult& one : results) {
    if (one.prediction) continue;
    text += fmt::format("  {}: {} {:g} {} on {}: {}\n", one.row.id, one.row.quantity, one.row.value,
                        one.row.unit, one.row.node,
                        one.row.reason.empty() ? "no reason given" : one.row.reason);
  }
  return text.empty() ? "" : "\nRecords, not simulated:\n" + text;
}

}  // namespace

std::string published_number(double value) {
  constexpr double kWhole = 100;
  return std::abs(value) >= kWhole ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string published_table(const std::vector<PublishedResult>& results, bool bold) {
  std::string text = rows_table(results, bold) + "\n";
  text += errors_table("schedule", published_errors(results, PublishedGroup::kSchedule), bold);
  text += "\n" + errors_table("node", published_errors(results, PublishedGroup::kNode), bold);
  text +=
      "\n" + errors_table("quantity", published_errors(results, PublishedGroup::kQuantity), bold);
  text += "\n" + errors_table("source", published_errors(results, PublishedGroup::kSource), bold);
  text += remarks(results) + records(results);
  return text + "\n" + headline(results);
}

}  // namespace zenflow::sim
