/// Whether two probes of one machine say the same.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/probe/statistics.h"

namespace zenflow::runtime {

/// How two figures of one id stand to each other.
enum class Agreement {
  kAgree,  ///< each median lies within the other's spread
  kClose,  ///< one of them does not, but the spreads overlap
  kApart,  ///< the spreads have nothing in common: something has changed
};
[[nodiscard]] const char* to_string(Agreement agreement);

/// Precondition: one unit.
[[nodiscard]] Agreement agreement_of(const Spread& first, const Spread& second);

struct FigurePair {
  Figure first;
  Figure second;
  Agreement agreement;
};

struct ProbeComparison {
  std::vector<FigurePair> pairs;     ///< in the order of the first probe
  std::vector<std::string> missing;  ///< ids that one of them alone has

  [[nodiscard]] std::size_t count(Agreement agreement) const;
};

/// Throws Error(kInput) if an id has two units: `first` and `second` are of different programs.
[[nodiscard]] ProbeComparison compare_probes(std::span<const Figure> first,
                                             std::span<const Figure> second);

/// A row a figure: agreement, both medians, their ratio, both spreads; then counts.
[[nodiscard]] std::string comparison_text(const ProbeComparison& comparison);

/// {"schema_version": 1, "tool", "version", "counts": {"agree", "close", "apart"}, "missing",
/// "figures": [{"id", "unit", "agreement", "ratio", "first": {"median", "low", "high"},
/// "second": ...}]}; the ratio is second to first.
[[nodiscard]] std::string comparison_json(const ProbeComparison& comparison,
                                          std::string_view version);

/// The figures of what `probe --json` printed. Throws Error(kInput), the file first, if it cannot
/// be read or is no such document.
[[nodiscard]] std::vector<Figure> read_figures(const std::filesystem::path& file);

}  // namespace zenflow::runtime
