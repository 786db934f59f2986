#include "sim/accuracy/page.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "sim/accuracy/comparison.h"
#include "sim/accuracy/page_results.h"
#include "sim/accuracy/page_simulation.h"
#include "sim/base/error.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMark =
    "<!-- Written by zenflow-validate --write from the folder of this name: do not edit. -->";

std::string line(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

std::string head(const std::vector<std::string>& cells) {
  std::string text = line(cells) + "|";
  for (std::size_t i = 0; i < cells.size(); ++i) text += "---|";
  return text + "\n";
}

std::string with_unit(double value, const std::string& unit, int digits) {
  return fmt::format("{:.{}f}{}{}", value, digits, unit.empty() ? "" : " ", unit);
}

/// How a case is simulated, for those who repeat it.
std::string how(const PageCase& one) {
  std::string text = fmt::format("`{}`, `{}`", one.scenario, one.schedule);
  if (one.profile) text += fmt::format(", `--profile {}`", *one.profile);
  for (const Override& each : one.set) {
    text +=
        fmt::format(", `{}={}`", each.path,
                    each.path == "model" ? fs::path(each.value).filename().string() : each.value);
  }
  return text;
}

/// Against a number that was rounded when it was published.
std::string error_text(const PageRow& row, double value) {
  constexpr double kExact = 1e-9;
  const double off = std::abs(value - row.published);
  if (row.rounded_to > 0 && off <= kExact) return "exact";
  if (row.rounded_to > 0 && off <= row.rounded_to / 2 + kExact) return "none: it is rounded";
  return signed_percent(relative_error(value, row.published));
}

class PageWriter {
 public:
  PageWriter(const fs::path& folder, std::string version)
      : folder_(folder),
        data_(read_page_data(folder / "page.yaml")),
        simulation_(data_.scenarios, data_.profiles) {
    facts_["version"] = std::move(version);
    for (const auto& [name, number] : data_.numbers) {
      facts_[name] = with_unit(simulation_.value(number.simulated, number.metric, number.unit),
                               number.unit, number.digits);
    }
  }

  std::string write() {
    // Texts may name errors of tables that follow.
    std::vector<std::string> bodies;
    for (const PageSection& section : data_.sections) {
      for (const PageBlock& block : section.blocks) {
        const auto* text = std::get_if<PageText>(&block);
        bodies.push_back(
            text != nullptr ? "" : std::visit([&](const auto& one) { return render(one); }, block));
      }
    }
    std::string page =
        fmt::format("{}\n# {}\n\n{}", kMark, data_.title, filled(data_.introduction));
    auto body = bodies.begin();
    for (const PageSection& section : data_.sections) {
      page += fmt::format("\n## {}\n", section.title);
      for (const PageBlock& block : section.blocks) {
        const auto* text = std::get_if<PageText>(&block);
        page += "\n" + (text != nullptr ? filled(text->text) : *body);
        ++body;
      }
    }
    return page + others();
  }

 private:
  /// Replaces {name} by what it stands for.
  [[nodiscard]] std::string filled(const std::string& text) const {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t open = std::min(text.find('{', i), text.size());
      out += text.substr(i, open - i);
      if (open == text.size()) break;
      const std::size_t close = text.find('}', open);
      const std::string name = text.substr(open + 1, close - open - 1);
      const auto fact = facts_.find(name);
      if (close == text.npos || fact == facts_.end()) {
        throw Error(ErrorKind::kInput,
                    fmt::format("{}: {{{}}}: not a number that is simulated or a table's error",
                                (folder_ / "page.yaml").generic_string(), name));
      }
      out += fact->second;
      i = close + 1;
    }
    if (!out.ends_with('\n')) out += '\n';
    return out;
  }

  std::string render(const PageText& text) const { return filled(text.text); }

  std::string render(const PageResults& results) {
    shown_.insert(results.name);
    return results_text(read_document(folder_ / (results.name + ".json")));
  }

  /// Documents that the page's data does not place.
  std::string others() {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const fs::path& file = entry.path();
      if (file.extension() == ".json" && !shown_.contains(file.stem().string())) {
        names.insert(file.stem().string());
      }
    }
    std::string text = names.empty() ? "" : "\n## Further runs\n";
    for (const std::string& name : names) {
      text += fmt::format("\n### {}\n\n{}", name, render(PageResults{name}));
    }
    return text;
  }

  std::string render(const PageTable& table) {
    std::string text = head({"what", "simulated", "predicted", "published", "error"});
    double sum = 0;
    double worst = 0;
    int count = 0;
    for (const PageRow& row : table.rows) {
      const double value = simulation_.value(row.simulated, row.metric, row.unit);
      const double error = relative_error(value, row.published);
      if (row.counts) {
        ++count;
        sum += std::abs(error);
        worst = std::max(worst, std::abs(error));
      }
      text += line({row.what, how(row.simulated), with_unit(value, row.unit, row.digits),
                    fmt::format("{:g}{}{}", row.published, row.unit.empty() ? "" : " ", row.unit),
                    error_text(row, value)});
    }
    for (const PageRange& range : table.ranges) text += render(range);
    if (count > 0) {
      facts_[table.id + ".count"] = std::to_string(count);
      facts_[table.id + ".mean"] = fmt::format("{:.1f} %", 100 * sum / count);
      facts_[table.id + ".worst"] = fmt::format("{:.1f} %", 100 * worst);
    }
    return text;
  }

  /// Which of the models has which of the range's values is not known: the errors are at least and
  /// at most what stands there.
  std::string render(const PageRange& range) {
    std::vector<double> values;
    for (const PageCase& one : range.simulated) {
      values.push_back(simulation_.value(one, range.metric, ""));
    }
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return line({range.what, how(range.simulated.front()) + " and others",
                 fmt::format("{:.1f} to {:.1f}", *low, *high),
                 fmt::format("{:.1f} to {:.1f}", range.low, range.high),
                 fmt::format("{:+.0f} to {:+.0f} %", 100 * relative_error(*low, range.high),
                             100 * relative_error(*high, range.low))});
  }

  std::string render(const PageBreakdown& table) {
    std::vector<std::string> titles = {"machine, model", "simulated"};
    for (const PageBreakdown::Column& column : table.columns) titles.push_back(column.title);
    std::string text = head(titles);
    for (const PageBreakdown::Row& row : table.rows) {
      std::vector<std::string> cells = {row.machine, how(row.simulated)};
      for (std::size_t i = 0; i < table.columns.size(); ++i) {
        const double value = simulation_.value(row.simulated, table.columns[i].metric, "s");
        cells.push_back(fmt::format("{:.3f} / {:.3f} ({})", value, row.published[i],
                                    signed_percent(relative_error(value, row.published[i]))));
      }
      text += line(cells);
    }
    return text;
  }

  std::string render(const PageConstants& table) const {
    std::vector<std::string> titles = {"constant"};
    for (const auto& [title, profile] : table.profiles) titles.push_back(title);
    titles.emplace_back("remark");
    std::string text = head(titles);
    for (const PageConstants::Row& row : table.rows) {
      std::vector<std::string> cells = {fmt::format("`{}`", row.path)};
      for (const auto& [title, profile] : table.profiles) {
        std::string cell = simulation_.constant(profile, row.path);
        const auto note = row.notes.find(title);
        if (note != row.notes.end()) cell += fmt::format(" ({})", note->second);
        cells.push_back(std::move(cell));
      }
      cells.push_back(row.remark);
      text += line(cells);
    }
    return text;
  }

  fs::path folder_;
  PageData data_;
  PageSimulation simulation_;
  std::map<std::string, std::string> facts_;  // by the name in braces
  std::set<std::string> shown_;
};

}  // namespace

std::string accuracy_page(const fs::path& data, const std::string& version) {
  return PageWriter(data, version).write();
}

}  // namespace zenflow::sim
