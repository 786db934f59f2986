#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/accuracy/published_runs.h"
#include "sim/base/table.h"

namespace zenflow::sim {
namespace {

using Json = nlohmann::ordered_json;

std::string number(double value) {
  return std::abs(value) >= 100  ? fmt::format("{:.0f}", value)
         : std::abs(value) >= 10 ? fmt::format("{:.1f}", value)
                                 : fmt::format("{:.3g}", value);
}

std::string rows_table(const std::vector<PublishedResult>& results, bool bold) {
  std::vector<std::vector<std::string>> rows;
  for (const PublishedResult& one : results) {
    if (!one.prediction) continue;
    const auto value = one.prediction->value;
    rows.push_back({one.row.id, one.row.node, one.row.schedule, one.row.quantity,
                    one.row.judged ? "" : "no", number(one.row.value), value ? number(*value) : "-",
                    one.row.unit, signed_percent(one.error())});
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

std::string errors_table(const char* title, const std::vector<PublishedErrors>& groups, bool bold) {
  std::vector<std::vector<std::string>> rows;
  for (const PublishedErrors& one : groups) {
    rows.push_back({one.name, one.worst_row, std::to_string(one.rows), format_percent(one.mean),
                    signed_percent(one.signed_mean), signed_percent(one.worst)});
  }
  return format_table({title, "worst row", "rows", "mean", "signed", "worst"}, rows, bold, 2);
}

std::string headline(const std::vector<PublishedResult>& results) {
  int judged = 0;
  for (const PublishedResult& one : results) judged += one.row.judged ? 1 : 0;
  const PublishedErrors all = published_errors(results);
  std::string text =
      fmt::format("{} rows judged, {} of them predicted: {} off in the mean ({} signed), worst {}",
                  judged, all.rows, format_percent(all.mean), signed_percent(all.signed_mean),
                  signed_percent(all.worst));
  return text + (all.rows > 0 ? fmt::format(" ({})\n", all.worst_row) : "\n");
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

Json errors_json(const PublishedErrors& one) {
  Json map;
  if (!one.name.empty()) map["name"] = one.name;
  map["rows"] = one.rows;
  map["mean_error"] = one.mean;
  map["signed_mean_error"] = one.signed_mean;
  map["worst_error"] = one.worst;
  map["worst_row"] = one.worst_row;
  return map;
}

Json errors_json(const std::vector<PublishedErrors>& groups) {
  Json list = Json::array();
  for (const PublishedErrors& one : groups) list.push_back(errors_json(one));
  return list;
}

Json row_json(const PublishedResult& one) {
  const PublishedRow& row = one.row;
  Json map{{"id", row.id},
           {"node", row.node},
           {"model", row.model},
           {"schedule", row.schedule},
           {"quantity", row.quantity},
           {"unit", row.unit},
           {"published", row.value},
           {"judged", row.judged},
           {"source", row.source},
           {"how_read", row.how_read},
           {"uncertainty", row.uncertainty}};
  if (!row.notes.empty()) map["notes"] = row.notes;
  if (!row.release_modelled.empty()) map["release_modelled"] = row.release_modelled;
  if (!row.parts.empty()) map["parts"] = row.parts;
  if (!row.cause.empty()) map["cause"] = row.cause;
  if (!one.prediction) {
    map["not_simulated"] = row.reason;
    return map;
  }
  if (one.prediction->value) {
    map["predicted"] = *one.prediction->value;
    map["error"] = *one.error();
  } else {
    map["refused"] = one.prediction->refused;
  }
  for (const MemoryLimit limit : one.prediction->exceeded) {
    map["exceeded"].push_back(to_string(limit));
  }
  return map;
}

}  // namespace

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

std::string published_json(const std::vector<PublishedResult>& results,
                           const std::string& version) {
  Json json{{"schema_version", 1}, {"tool", "zenflow-validate"}, {"version", version}};
  json["rows"] = Json::array();
  for (const PublishedResult& one : results) json["rows"].push_back(row_json(one));
  json["summary"] = errors_json(published_errors(results));
  json["by_schedule"] = errors_json(published_errors(results, PublishedGroup::kSchedule));
  json["by_node"] = errors_json(published_errors(results, PublishedGroup::kNode));
  json["by_quantity"] = errors_json(published_errors(results, PublishedGroup::kQuantity));
  json["by_source"] = errors_json(published_errors(results, PublishedGroup::kSource));
  return json.dump(2) + "\n";
}

}  // namespace zenflow::sim
