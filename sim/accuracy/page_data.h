/// The data of the accuracy page (docs/accuracy/page.yaml): published measurements with their
/// sources, what is simulated for each, remarks, and in which order all of it is shown.
///
/// Units of what is published: "s", "ms" or none (a ratio).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/config/scenario.h"

namespace zenflow::sim {

/// What of a simulation is shown.
enum class PageMetric : std::uint8_t {
  kStep,
  kGpu,
  kCpuUpdate,  ///< stall that the CPU update causes
  kStall,      ///< all of it
  kIo,         ///< stall by copies and collectives
  kModelSizes,
  kSpeedup,       ///< of the step, against `than`
  kStallRemoved,  ///< share of the stall, against `than`
};

/// A simulation. `set` reaches into every file, as --set does.
struct PageCase {
  std::string scenario;  ///< a file's stem in the scenarios' folder
  std::string schedule;
  std::optional<std::string> profile;
  std::vector<Override> set;
  std::optional<std::size_t> step;  ///< of the window; empty: its mean
  std::optional<std::string> than;  ///< another schedule of the scenario
};

/// A number that texts name in braces: {name}.
struct PageNumber {
  PageCase simulated;
  PageMetric metric = PageMetric::kStep;
  std::string unit;
  int digits = 2;
};

/// A row with one published number.
struct PageRow {
  std::string what;
  PageCase simulated;
  PageMetric metric = PageMetric::kStep;
  std::string unit;
  double published = 0;
  int digits = 0;
  double rounded_to = 0;         ///< of the published number: within half of it is exact
  bool counts = false;           ///< in the table's mean and worst
  std::optional<double> within;  ///< relative error that a test allows
};

/// A row with a published range over several models.
struct PageRange {
  std::string what;
  PageMetric metric = PageMetric::kStep;
  double low = 0;
  double high = 0;
  std::vector<PageCase> simulated;
};

struct PageTable {
  std::string id;  ///< texts name its errors: {id.mean}, {id.worst}, {id.count}
  std::vector<PageRow> rows;
  std::vector<PageRange> ranges;
};

/// Several numbers of one run, in seconds.
struct PageBreakdown {
  struct Column {
    std::string title;
    PageMetric metric;
    std::optional<double> within;
  };
  struct Row {
    std::string machine;
    PageCase simulated;
    std::vector<double> published;  ///< parallel to columns
  };
  std::vector<Column> columns;
  std::vector<Row> rows;
};

/// Numbers of hardware profiles.
struct PageConstants {
  struct Row {
    std::string path;                          ///< "gpu.gemm_efficiency"
    std::map<std::string, std::string> notes;  ///< by profile: "carried over"
    std::string remark;
  };
  std::vector<std::pair<std::string, std::string>> profiles;  ///< title, name
  std::vector<Row> rows;
};

struct PageText {
  std::string text;
};
/// The document NAME.json beside the page's data.
struct PageResults {
  std::string name;
};

using PageBlock = std::variant<PageText, PageResults, PageTable, PageBreakdown, PageConstants>;

struct PageSection {
  std::string title;
  std::vector<PageBlock> blocks;
};

struct PageData {
  std::string title;
  std::string introduction;
  std::filesystem::path scenarios;
  std::filesystem::path profiles;
  std::map<std::string, PageNumber> numbers;
  std::vector<PageSection> sections;
};

/// Throws Error(kInput) "FILE:LINE:COLUMN: ...".
[[nodiscard]] PageData read_page_data(const std::filesystem::path& file);

}  // namespace zenflow::sim
