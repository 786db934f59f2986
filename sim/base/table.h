/// Plain text tables and numbers as people read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zenflow::sim {

/// Columns as wide as their widest cell; the first `left` are left-aligned, the others
/// right-aligned.
/// `bold_header` wraps the header in the terminal's bold sequence.
[[nodiscard]] std::string format_table(const std::vector<std::string>& header,
                                       const std::vector<std::vector<std::string>>& rows,
                                       bool bold_header = false, std::size_t left = 1);

/// A row of a Markdown table; its first one, with the line below it.
[[nodiscard]] std::string markdown_row(const std::vector<std::string>& cells);
[[nodiscard]] std::string markdown_head(const std::vector<std::string>& cells);

[[nodiscard]] std::string format_milliseconds(double picoseconds);  ///< "1390.2"
[[nodiscard]] std::string format_seconds(double picoseconds);       ///< "4.60 s", "51.3 ms"
[[nodiscard]] std::string format_gib(double bytes);                 ///< "12.55 GiB"
[[nodiscard]] std::string format_percent(double share);             ///< "47.6 %"

/// "+1.2 %", "0.0 %" for what rounds to nothing, "n/a" for what is not known.
[[nodiscard]] std::string signed_percent(const std::optional<double>& share,
                                         std::string_view unit = " %", int decimals = 1);
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view noun);  ///< "1 setting"

/// One line of CSV: cells with commas, quotes or line breaks are quoted (RFC 4180).
[[nodiscard]] std::string csv_line(const std::vector<std::string>& cells);

}  // namespace zenflow::sim
