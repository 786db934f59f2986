#include "sim/base/table.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/base/text.h"

namespace zenflow::sim {
namespace {

constexpr double kPicosecondsPerMillisecond = 1e9;
constexpr double kPicosecondsPerSecond = 1e12;
constexpr double kGib = 1073741824.0;

std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                 std::size_t left) {
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) text += "  ";
    text += i < left ? fmt::format("{:<{}}", cells[i], widths[i])
                     : fmt::format("{:>{}}", cells[i], widths[i]);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

std::string format_table(const std::vector<std::string>& header,
                         const std::vector<std::vector<std::string>>& given, bool bold_header,
                         std::size_t left) {
  std::vector<std::vector<std::string>> rows = given;
  for (auto& row : rows) {
    for (std::string& cell : row) cell = printable_name(cell);
  }
  std::vector<std::size_t> widths;
  for (const std::string& cell : header) widths.push_back(cell.size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text = line(header, widths, left);
  if (bold_header) text = "\033[1m" + text + "\033[0m";
  text += '\n';
  for (const auto& row : rows) text += line(row, widths, left) + '\n';
  return text;
}

std::string markdown_row(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

std::string markdown_head(const std::vector<std::string>& cells) {
  std::string text = markdown_row(cells) + "|";
  for (std::size_t i = 0; i < cells.size(); ++i) text += "---|";
  return text + "\n";
}

std::string format_milliseconds(double picoseconds) {
  return fmt::format("{:.1f}", picoseconds / kPicosecondsPerMillisecond);
}

std::string format_seconds(double picoseconds) {
  if (picoseconds >= kPicosecondsPerSecond) {
    return fmt::format("{:.2f} s", picoseconds / kPicosecondsPerSecond);
  }
  return fmt::format("{:.1f} ms", picoseconds / kPicosecondsPerMillisecond);
}

std::string format_gib(double bytes) {
  return fmt::format("{:.2f} GiB", bytes / kGib);
}

std::string format_percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool is_plain = cells[i].find_first_of(",\"\n\r") == std::string::npos;
    text += (i > 0 ? "," : "") + (is_plain ? cells[i] : quoted_by_doubling(cells[i]));
  }
  return text + '\n';
}

std::string signed_percent(const std::optional<double>& share, std::string_view unit,
                           int decimals) {
  if (!share) return "n/a";
  const double percent = 100 * *share;
  const bool is_nothing = std::abs(percent) < 0.5 * std::pow(10.0, -decimals);
  return fmt::format("{}{}",
                     is_nothing ? fmt::format("{:.{}f}", 0.0, decimals)
                                : fmt::format("{:+.{}f}", percent, decimals),
                     unit);
}

std::string counted(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace zenflow::sim
