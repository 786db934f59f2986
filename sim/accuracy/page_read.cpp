#include <array>
#include <limits>

#include "sim/accuracy/page_data.h"
#include "sim/config/reader.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;

constexpr double kLargest = std::numeric_limits<double>::max();

constexpr std::array<std::pair<std::string_view, PageMetric>, 8> kMetricNames = {{
    {"step", PageMetric::kStep},
    {"gpu", PageMetric::kGpu},
    {"cpu_update", PageMetric::kCpuUpdate},
    {"stall", PageMetric::kStall},
    {"io", PageMetric::kIo},
    {"model_sizes", PageMetric::kModelSizes},
    {"speedup", PageMetric::kSpeedup},
    {"stall_removed", PageMetric::kStallRemoved},
}};

PageMetric metric_of(const ValueReader& value) {
  std::vector<std::string> names;
  for (const auto& [name, metric] : kMetricNames) names.emplace_back(name);
  const std::string chosen = value.choice(names);
  for (const auto& [name, metric] : kMetricNames) {
    if (name == chosen) return metric;
  }
  value.fail("expected a metric");
}

PageMetric metric_or_step(MapReader& map) {
  const auto value = map.optional("metric");
  return value ? metric_of(*value) : PageMetric::kStep;
}

class PageReader {
 public:
  explicit PageReader(const fs::path& file)
      : folder_(file.parent_path()), root_(load_document(file)) {}

  PageData read() {
    MapReader map(root_, "");
    data_.title = map.require("title").string();
    data_.introduction = map.require("introduction").string();
    data_.scenarios = (folder_ / map.require("scenarios").string()).lexically_normal();
    data_.profiles = (folder_ / map.require("profiles").string()).lexically_normal();
    if (auto numbers = map.optional_map("numbers")) {
      for (const std::string& name : numbers->keys()) {
        data_.numbers[name] = read_number(numbers->require_map(name));
      }
      numbers->reject_unknown_keys();
    }
    for (const ValueReader& one : map.require("sections").items()) read_section(one);
    map.reject_unknown_keys();
    return std::move(data_);
  }

 private:
  static MapReader map_of(const ValueReader& value) { return {value.node(), value.path()}; }

  /// `base`: what the keys that are not there are taken from.
  PageCase read_case(MapReader& map, const PageCase& base = {}) {
    PageCase one = base;
    if (const auto value = map.optional("scenario")) one.scenario = value->string();
    if (const auto value = map.optional("schedule")) one.schedule = value->string();
    if (const auto value = map.optional("profile")) one.profile = value->string();
    if (const auto value = map.optional("than")) one.than = value->string();
    if (const auto value = map.optional("step")) {
      constexpr std::int64_t kMost = 4096;
      one.step = static_cast<std::size_t>(value->integer(0, kMost));
    }
    // A model's file is meant relative to the scenarios.
    if (const auto value = map.optional("model")) {
      one.set.push_back({"model", fs::absolute(data_.scenarios / value->string()).string()});
    }
    if (auto set = map.optional_map("set")) {
      for (const std::string& path : set->keys()) {
        one.set.push_back({path, set->require(path).node().scalar});
      }
      set->reject_unknown_keys();
    }
    return one;
  }

  void check(const MapReader& map, const PageCase& one, PageMetric metric) {
    if (one.scenario.empty()) map.fail("scenario", "expected the name of a scenario");
    if (one.schedule.empty()) map.fail("schedule", "expected the name of a schedule");
    const bool compares = metric == PageMetric::kSpeedup || metric == PageMetric::kStallRemoved;
    if (compares && !one.than) map.fail("than", "expected the schedule to compare with");
  }

  static std::string read_unit(MapReader& map) {
    static const std::vector<std::string> kUnits = {"s", "ms"};
    const auto unit = map.optional("unit");
    return unit ? unit->choice(kUnits) : "";
  }

  static int read_digits(MapReader& map, const std::string& unit) {
    const int usual = unit == "s" ? 3 : unit == "ms" ? 0 : 1;
    return static_cast<int>(map.integer_or("digits", usual, 0, 9));
  }

  PageNumber read_number(MapReader map) {
    PageNumber number;
    number.simulated = read_case(map);
    number.metric = metric_or_step(map);
    number.unit = read_unit(map);
    number.digits = read_digits(map, number.unit);
    check(map, number.simulated, number.metric);
    map.reject_unknown_keys();
    return number;
  }

  PageRow read_row(MapReader map, const PageCase& base) {
    PageRow row;
    row.what = map.require("what").string();
    row.simulated = read_case(map, base);
    row.metric = metric_or_step(map);
    row.unit = read_unit(map);
    row.published = map.require("published").number(0, kLargest);
    row.digits = read_digits(map, row.unit);
    row.rounded_to = map.number_or("rounded_to", 0, 0, 1);
    row.counts = map.boolean_or("counts", false);
    if (const auto within = map.optional("within")) row.within = within->number(0, 1);
    check(map, row.simulated, row.metric);
    map.reject_unknown_keys();
    return row;
  }

  PageRange read_range(MapReader map, const PageCase& base) {
    PageRange range;
    range.what = map.require("what").string();
    const PageCase common = read_case(map, base);
    range.metric = metric_or_step(map);
    range.low = map.require("low").number(0, kLargest);
    range.high = map.require("high").number(range.low, kLargest);
    for (const ValueReader& one : map.require("cases").items()) {
      MapReader each = map_of(one);
      range.simulated.push_back(read_case(each, common));
      check(each, range.simulated.back(), range.metric);
      each.reject_unknown_keys();
    }
    map.reject_unknown_keys();
    return range;
  }

  PageTable read_table(MapReader map) {
    PageTable table;
    table.id = map.require("id").string();
    const PageCase base = read_case(map);
    for (const ValueReader& one : map.require("rows").items()) {
      table.rows.push_back(read_row(map_of(one), base));
    }
    if (const auto ranges = map.optional("ranges")) {
      for (const ValueReader& one : ranges->items()) {
        table.ranges.push_back(read_range(map_of(one), base));
      }
    }
    map.reject_unknown_keys();
    return table;
  }

  PageBreakdown read_breakdown(MapReader map) {
    PageBreakdown table;
    for (const ValueReader& one : map.require("columns").items()) {
      MapReader column = map_of(one);
      table.columns.push_back(
          {column.require("title").string(), metric_of(column.require("metric")), std::nullopt});
      if (const auto within = column.optional("within")) {
        table.columns.back().within = within->number(0, 1);
      }
      column.reject_unknown_keys();
    }
    for (const ValueReader& one : map.require("rows").items()) {
      MapReader row = map_of(one);
      PageBreakdown::Row& added = table.rows.emplace_back();
      added.machine = row.require("machine").string();
      added.simulated = read_case(row);
      check(row, added.simulated, PageMetric::kStep);
      for (const ValueReader& value : row.require("published").items()) {
        added.published.push_back(value.number(0, kLargest));
      }
      if (added.published.size() != table.columns.size()) {
        row.fail("published", "expected a number for each column");
      }
      row.reject_unknown_keys();
    }
    map.reject_unknown_keys();
    return table;
  }

  PageConstants read_constants(MapReader map) {
    PageConstants table;
    MapReader profiles = map.require_map("profiles");
    for (const std::string& title : profiles.keys()) {
      table.profiles.emplace_back(title, profiles.require(title).string());
    }
    profiles.reject_unknown_keys();
    for (const ValueReader& one : map.require("rows").items()) {
      MapReader row = map_of(one);
      PageConstants::Row& added = table.rows.emplace_back();
      added.path = row.require("path").string();
      added.remark = row.string_or("remark", "");
      if (auto notes = row.optional_map("notes")) {
        for (const std::string& title : notes->keys()) {
          added.notes[title] = notes->require(title).string();
        }
        notes->reject_unknown_keys();
      }
      row.reject_unknown_keys();
    }
    map.reject_unknown_keys();
    return table;
  }

  void read_section(const ValueReader& value) {
    MapReader map = map_of(value);
    PageSection& section = data_.sections.emplace_back();
    section.title = map.require("title").string();
    for (const ValueReader& one : map.require("blocks").items()) {
      MapReader block = map_of(one);
      if (const auto text = block.optional("text")) {
        section.blocks.emplace_back(PageText{text->string()});
      } else if (const auto results = block.optional("results")) {
        section.blocks.emplace_back(PageResults{results->string()});
      } else if (auto table = block.optional_map("table")) {
        section.blocks.emplace_back(read_table(*table));
      } else if (auto breakdown = block.optional_map("breakdown")) {
        section.blocks.emplace_back(read_breakdown(*breakdown));
      } else {
        section.blocks.emplace_back(read_constants(block.require_map("constants")));
      }
      block.reject_unknown_keys();
    }
    map.reject_unknown_keys();
  }

  fs::path folder_;
  Node root_;
  PageData data_;
};

}  // namespace

PageData read_page_data(const fs::path& file) {
  return PageReader(file).read();
}

}  // namespace zenflow::sim
