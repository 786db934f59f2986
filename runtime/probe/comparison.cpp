#include "runtime/probe/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/json_text.h"
#include "sim/config/reader.h"

namespace zenflow::runtime {
namespace {

bool holds(const Spread& spread, double value) {
  return spread.low <= value && value <= spread.high;
}

const Figure* find(std::span<const Figure> figures, const std::string& id) {
  const auto found =
      std::find_if(figures.begin(), figures.end(), [&](const Figure& f) { return f.id == id; });
  return found == figures.end() ? nullptr : &*found;
}

nlohmann::ordered_json json_of(const Spread& spread) {
  return {{"median", spread.median}, {"low", spread.low}, {"high", spread.high}};
}

constexpr double kLargest = std::numeric_limits<double>::max();

Figure figure_of(const ValueReader& from) {
  MapReader map(from.node(), from.path());
  Figure figure{
      map.require("id").string(), map.require("unit").string(), map.string_or("what", ""), {}};
  Spread& s = figure.value;
  s.median = map.require("median").number(0, kLargest);
  s.low = map.require("low").number(0, kLargest);
  s.high = map.require("high").number(0, kLargest);
  s.repetitions = static_cast<std::size_t>(
      map.require("repetitions").integer(1, std::numeric_limits<std::int32_t>::max()));
  const bool is_ordered = 0 < s.low && s.low <= s.median && s.median <= s.high;
  if (!is_ordered) {
    from.fail(fmt::format("{}: expected 0 < low <= median <= high, found {}, {}, {}", figure.id,
                          s.low, s.median, s.high));
  }
  return figure;
}

}  // namespace

const char* to_string(Agreement agreement) {
  switch (agreement) {
    case Agreement::kAgree:
      return "agree";
    case Agreement::kClose:
      return "close";
    case Agreement::kApart:
      return "apart";
  }
  return "";
}

Agreement agreement_of(const Spread& first, const Spread& second) {
  if (holds(first, second.median) && holds(second, first.median)) return Agreement::kAgree;
  return first.low <= second.high && second.low <= first.high ? Agreement::kClose
                                                              : Agreement::kApart;
}

std::size_t ProbeComparison::count(Agreement agreement) const {
  return static_cast<std::size_t>(
      std::count_if(pairs.begin(), pairs.end(),
                    [agreement](const FigurePair& pair) { return pair.agreement == agreement; }));
}

ProbeComparison compare_probes(std::span<const Figure> first, std::span<const Figure> second) {
  ProbeComparison comparison;
  for (const Figure& one : first) {
    const Figure* other = find(second, one.id);
    if (other == nullptr) {
      comparison.missing.push_back(one.id);
      continue;
    }
    if (one.unit != other->unit) {
      throw Error(ErrorKind::kInput, fmt::format("{}: {} in the first, {} in the second", one.id,
                                                 one.unit, other->unit));
    }
    comparison.pairs.push_back({one, *other, agreement_of(one.value, other->value)});
  }
  for (const Figure& other : second) {
    if (find(first, other.id) == nullptr) comparison.missing.push_back(other.id);
  }
  return comparison;
}

std::string comparison_text(const ProbeComparison& comparison) {
  std::size_t widest = 6;
  for (const FigurePair& pair : comparison.pairs) widest = std::max(widest, pair.first.id.size());
  std::string text =
      fmt::format("{:<9}{:<{}}  {:>9} {:>9} {:<7} {:>6}  {:<23}second's spread\n", "", "figure",
                  widest, "first", "second", "unit", "ratio", "first's spread");
  for (const FigurePair& pair : comparison.pairs) {
    const Spread& a = pair.first.value;
    const Spread& b = pair.second.value;
    text += fmt::format("{:<9}{:<{}}  {:>9.4g} {:>9.4g} {:<7} {:>6.3f}  {:<23}{}\n",
                        to_string(pair.agreement), pair.first.id, widest, a.median, b.median,
                        pair.first.unit, b.median / a.median,
                        fmt::format("{:.4g} to {:.4g}", a.low, a.high),
                        fmt::format("{:.4g} to {:.4g}", b.low, b.high));
  }
  for (const std::string& id : comparison.missing) {
    text += fmt::format("{:<9}{}\n", "missing", id);
  }
  std::string counts;
  for (const Agreement one : {Agreement::kAgree, Agreement::kClose, Agreement::kApart}) {
    counts += fmt::format("{} {}, ", comparison.count(one), to_string(one));
  }
  return text + fmt::format("{}{} in one alone\n", counts, comparison.missing.size());
}

std::string comparison_json(const ProbeComparison& comparison, std::string_view version) {
  nlohmann::ordered_json document;
  document["schema_version"] = 1;
  document["tool"] = "zenflow-calibrate compare";
  document["version"] = version;
  for (const Agreement one : {Agreement::kAgree, Agreement::kClose, Agreement::kApart}) {
    document["counts"][to_string(one)] = comparison.count(one);
  }
  document["missing"] = comparison.missing;
  document["figures"] = nlohmann::ordered_json::array();
  for (const FigurePair& pair : comparison.pairs) {
    document["figures"].push_back({{"id", pair.first.id},
                                   {"unit", pair.first.unit},
                                   {"agreement", to_string(pair.agreement)},
                                   {"ratio", pair.second.value.median / pair.first.value.median},
                                   {"first", json_of(pair.first.value)},
                                   {"second", json_of(pair.second.value)}});
  }
  return json_text(document);
}

std::vector<Figure> read_figures(const std::filesystem::path& file) {
  const std::string name = file.generic_string();
  const Node document = parse_json(read_text_file(file), name);
  // A probe writes more than is compared.
  const Node* list = document.find("figures");
  if (list == nullptr || list->kind != Node::Kind::kSequence) {
    fail_at(document.at, "",
            "expected what zenflow-calibrate probe --json prints, with a list \"figures\"");
  }
  std::vector<Figure> figures;
  for (const ValueReader& one : ValueReader(*list, "figures").items()) {
    figures.push_back(figure_of(one));
  }
  return figures;
}

}  // namespace zenflow::runtime
