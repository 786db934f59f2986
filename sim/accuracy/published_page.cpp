#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/accuracy/published_runs.h"
#include "sim/base/table.h"

namespace zenflow::sim {
namespace {

/// Texts with the rows that have them, in the order in which the texts come first.
using RowsByText = std::vector<std::pair<std::string, std::vector<std::string>>>;

void add(RowsByText& list, const std::string& text, std::string row) {
  auto found =
      std::find_if(list.begin(), list.end(), [&](const auto& one) { return one.first == text; });
  if (found == list.end()) found = list.insert(list.end(), {text, {}});
  found->second.push_back(std::move(row));
}

std::string listed(const RowsByText& list) {
  std::string text;
  for (const auto& [what, rows] : list) {
    text += fmt::format("- {}: {}\n", fmt::join(rows, ", "), what);
  }
  return text;
}

std::string errors_table(const char* title, const std::vector<PublishedErrors>& groups) {
  if (groups.empty()) return "";
  std::string text = markdown_head({title, "rows", "mean", "signed mean", "worst", "worst row"});
  for (const PublishedErrors& one : groups) {
    text += markdown_row({one.name, std::to_string(one.rows), format_percent(one.mean),
                          signed_percent(one.signed_mean), signed_percent(one.worst),
                          fmt::format("`{}`", one.worst_row)});
  }
  return text + "\n";
}

std::string judged_table(const std::vector<PublishedResult>& results) {
  if (judged_rows(results) == 0) return "";
  std::string text = markdown_head({"row", "node", "model", "schedule", "quantity", "predicted",
                                    "published", "error", "uncertainty"});
  for (const PublishedResult& one : results) {
    if (!one.row.judged) continue;
    const auto value = one.prediction->value;
    text += markdown_row(
        {fmt::format("`{}`", one.row.id), one.row.node, one.row.model,
         fmt::format("`{}`", one.row.schedule), one.row.quantity,
         value ? fmt::format("{} {}", published_number(*value), one.row.unit) : "refused",
         fmt::format("{} {}", published_number(one.row.value), one.row.unit),
         signed_percent(one.error()), one.row.uncertainty});
  }
  return text + "\n";
}

std::string misses(const std::vector<PublishedResult>& results) {
  if (judged_rows(results) == 0) return "";
  RowsByText causes;
  for (const PublishedResult& one : results) {
    if (!one.row.judged) continue;
    const std::string cause = one.row.cause.empty() ? "cause not known" : one.row.cause;
    if (!one.error()) {
      add(causes, "refused: " + one.prediction->refused, fmt::format("`{}`", one.row.id));
    } else if (std::abs(*one.error()) > kPublishedMiss) {
      add(causes, cause, fmt::format("`{}` ({})", one.row.id, signed_percent(one.error())));
    }
  }
  const std::string title =
      fmt::format("Misses above {:.0f} %, and their causes:", 100 * kPublishedMiss);
  return causes.empty() ? fmt::format("No row is more than {:.0f} % off.\n", 100 * kPublishedMiss)
                        : title + "\n\n" + listed(causes);
}

/// Of runs that took place.
std::string too_large(const std::vector<PublishedResult>& results) {
  RowsByText limits;
  for (const PublishedResult& one : results) {
    if (!one.prediction) continue;
    for (const MemoryLimit limit : one.prediction->exceeded) {
      add(limits, describe(limit), fmt::format("`{}`", one.row.id));
    }
  }
  return limits.empty() ? "" : "\nRan, but are predicted not to fit:\n\n" + listed(limits);
}

std::string others(const std::vector<PublishedResult>& results) {
  RowsByText reasons;
  for (const PublishedResult& one : results) {
    if (one.row.judged) continue;
    const std::string why = one.prediction ? one.row.notes : one.row.reason;
    const std::string error =
        one.error() ? fmt::format(" ({})", signed_percent(one.error())) : std::string();
    add(reasons, why.empty() ? "no reason given" : why, fmt::format("`{}`{}", one.row.id, error));
  }
  return reasons.empty() ? "" : "\nRows that are not judged, and why:\n\n" + listed(reasons);
}

}  // namespace

std::string published_markdown(const std::vector<PublishedResult>& results) {
  const PublishedErrors all = published_errors(results);
  std::string text = fmt::format(
      "{}, {} of them judged, {} of these predicted: {} off in the mean, {} signed, worst "
      "{}.\n\n",
      counted(results.size(), "row"), judged_rows(results), all.rows, format_percent(all.mean),
      signed_percent(all.signed_mean), signed_percent(all.worst));
  text += errors_table("schedule", published_errors(results, PublishedGroup::kSchedule));
  text += errors_table("quantity", published_errors(results, PublishedGroup::kQuantity));
  text += errors_table("node", published_errors(results, PublishedGroup::kNode));
  text += errors_table("source", published_errors(results, PublishedGroup::kSource));
  text += judged_table(results) + misses(results) + too_large(results) + others(results);
  return text;
}

}  // namespace zenflow::sim
