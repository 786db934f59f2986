#include "sim/accuracy/page.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "sim/accuracy/published_runs.h"
#include "sim/base/error.h"
#include "sim/base/table.h"
#include "sim/config/reader.h"
#include "sim/simulate/simulation.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMark =
    "<!-- Written by zenflow-validate --write from the folder of this name: do not edit. -->";
constexpr double kMostPublished = std::numeric_limits<double>::max();

/// What of a simulation is shown: "cpu_update" is the stall that it causes, "stall" all of it, "io"
/// that by copies and collectives. The last two compare with the schedule `than`.
const std::vector<std::string> kMetricNames = {
    "step", "gpu", "cpu_update", "stall", "io", "model_sizes", "speedup", "stall_removed"};

/// A simulation. `set` reaches into every file, as --set does.
struct Case {
  std::string scenario;  ///< a file's stem in the scenarios' folder
  std::string schedule;
  std::optional<std::string> profile;
  std::vector<Override> set;
  std::optional<std::size_t> step;  ///< of the window; empty: its mean
  std::optional<std::string> than;  ///< another schedule of the scenario
};

struct Quantity {
  Case simulated;
  std::string metric;
  std::string unit;  ///< "s", "ms" or none
  int digits = 0;
};

std::string with_unit(double value, const std::string& unit, int digits) {
  return fmt::format("{:.{}f}{}{}", value, digits, unit.empty() ? "" : " ", unit);
}

double relative_error(double predicted, double published) {
  return predicted / published - 1;
}

/// Against a number that was rounded when it was published.
std::string error_text(double predicted, double published, double rounded_to) {
  constexpr double kExact = 1e-9;
  const double off = std::abs(predicted - published);
  if (rounded_to > 0 && off <= kExact) return "exact";
  if (rounded_to > 0 && off <= rounded_to / 2 + kExact) return "none: it is rounded";
  return signed_percent(relative_error(predicted, published));
}

/// How a case is simulated, for those who repeat it.
std::string how(const Case& one) {
  std::string text = fmt::format("`{}`, `{}`", one.scenario, one.schedule);
  if (one.profile) text += fmt::format(", `--profile {}`", *one.profile);
  for (const Override& each : one.set) {
    text +=
        fmt::format(", `{}={}`", each.path,
                    each.path == "model" ? fs::path(each.value).filename().string() : each.value);
  }
  return text;
}

/// Calls `read(map)` for each map of a list, all keys of which it has to ask for.
template <class Read>
void for_each_map(const ValueReader& list, Read read) {
  for (const ValueReader& item : list.items()) {
    MapReader map(item.node(), item.path());
    read(map);
    map.reject_unknown_keys();
  }
}

/// "500 MB/s" as a part of a file's name: "500_mb_s".
std::string slug(const std::string& text) {
  std::string name;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  return name;
}

class PageWriter {
 public:
  PageWriter(const fs::path& folder, const std::string& version)
      : folder_(folder), root_(load_document(folder / "page.yaml")), facts_{{"version", version}} {}

  AccuracyPage write() {
    MapReader map(root_, "");
    const std::string title = map.require("title").string();
    const std::string introduction = map.require("introduction").string();
    scenarios_ = (folder_ / map.require("scenarios").string()).lexically_normal();
    profiles_ = (folder_ / map.require("profiles").string()).lexically_normal();
    if (auto numbers = map.optional_map("numbers")) {
      for (const std::string& name : numbers->keys()) {
        MapReader number = numbers->require_map(name);
        const Quantity one = quantity(number);
        number.reject_unknown_keys();
        facts_[name] = with_unit(value(one), one.unit, one.digits);
      }
      numbers->reject_unknown_keys();
    }
    // Texts may name errors of tables that follow.
    std::vector<std::pair<std::string, bool>> parts = {{introduction, true}};
    for_each_map(map.require("sections"), [&](MapReader& section) {
      parts.emplace_back(fmt::format("\n## {}\n", section.require("title").string()), false);
      for_each_map(section.require("blocks"), [&](MapReader& one) {
        parts.emplace_back("\n", false);
        if (const auto text = one.optional("text")) {
          parts.emplace_back(text->string(), true);
        } else {
          parts.emplace_back(block(one), false);
        }
      });
    });
    map.reject_unknown_keys();
    page_.text = fmt::format("{}\n# {}\n\n", kMark, title);
    for (const auto& [text, has_names] : parts) page_.text += has_names ? filled(text) : text;
    page_.text += other_results();
    return std::move(page_);
  }

 private:
  /// `base`: what the keys that are not there are taken from.
  Case read_case(MapReader& map, const Case& base = {}) {
    Case one = base;
    if (const auto text = map.optional("scenario")) one.scenario = text->string();
    if (const auto text = map.optional("schedule")) one.schedule = text->string();
    if (const auto text = map.optional("profile")) one.profile = text->string();
    if (const auto text = map.optional("than")) one.than = text->string();
    if (const auto number = map.optional("step")) {
      constexpr std::int64_t kMost = 4096;
      one.step = static_cast<std::size_t>(number->integer(0, kMost));
    }
    // A model's file is meant relative to the scenarios.
    if (const auto text = map.optional("model")) {
      one.set.push_back({"model", fs::absolute(scenarios_ / text->string()).string()});
    }
    if (auto set = map.optional_map("set")) {
      for (const std::string& path : set->keys()) {
        one.set.push_back({path, set->require(path).node().scalar});
      }
      set->reject_unknown_keys();
    }
    return one;
  }

  static void check(const MapReader& map, const Case& one, const std::string& metric) {
    if (one.scenario.empty()) map.fail("scenario", "expected the name of a scenario");
    if (one.schedule.empty()) map.fail("schedule", "expected the name of a schedule");
    const bool compares = metric == "speedup" || metric == "stall_removed";
    if (compares && !one.than) map.fail("than", "expected the schedule to compare with");
  }

  static std::string metric_or_step(MapReader& map) {
    const auto name = map.optional("metric");
    return name ? name->choice(kMetricNames) : "step";
  }

  Quantity quantity(MapReader& map, const Case& base = {}) {
    static const std::vector<std::string> kUnits = {"s", "ms"};
    Quantity one{read_case(map, base), metric_or_step(map), "", 0};
    if (const auto unit = map.optional("unit")) one.unit = unit->choice(kUnits);
    const int usual = one.unit == "s" ? 3 : one.unit == "ms" ? 0 : 1;
    one.digits = static_cast<int>(map.integer_or("digits", usual, 0, 9));
    check(map, one.simulated, one.metric);
    return one;
  }

  /// Simulates each case once.
  const SimulationResult& result(const Case& one, const std::string& schedule) {
    std::string key = one.scenario + "\n" + schedule + "\n" + one.profile.value_or("");
    for (const Override& each : one.set) key += "\n" + each.path + "=" + each.value;
    const auto known = results_.find(key);
    if (known != results_.end()) return known->second;
    LoadOptions options;
    options.profile_directories = {profiles_};
    options.profile = one.profile;
    options.overrides = one.set;
    const Job job = make_job(load_scenario(scenarios_ / (one.scenario + ".yaml"), options));
    return results_.emplace(key, simulate_schedule(job, find_schedule(schedule))).first->second;
  }

  double value(const Quantity& shown) {
    const Case& one = shown.simulated;
    const SimulationResult& run = result(one, one.schedule);
    const auto stall = [](const SimulationResult& of, WaitCause cause) {
      return of.stall_by_cause[static_cast<std::size_t>(cause)];
    };
    if (shown.metric == "model_sizes") return run.model_sizes;
    if (shown.metric == "speedup") return result(one, *one.than).step_time / run.step_time;
    if (shown.metric == "stall_removed") {
      return 100 * (1 - stall(run, WaitCause::kCpuUpdate) /
                            stall(result(one, *one.than), WaitCause::kCpuUpdate));
    }
    double picoseconds = run.step_time;
    if (shown.metric == "gpu") {
      picoseconds = run.compute;
    } else if (shown.metric == "cpu_update") {
      picoseconds = stall(run, WaitCause::kCpuUpdate);
    } else if (shown.metric == "stall") {
      picoseconds = run.stall;
    } else if (shown.metric == "io") {
      picoseconds = stall(run, WaitCause::kD2H) + stall(run, WaitCause::kH2D) +
                    stall(run, WaitCause::kCollective);
    } else if (one.step) {
      if (*one.step >= run.step_times.size()) {
        throw Error(ErrorKind::kInput,
                    fmt::format("{}, {}: step {}: a window has {} steps", one.scenario,
                                one.schedule, *one.step, run.step_times.size()));
      }
      picoseconds = run.step_times[*one.step];
    }
    constexpr double kSecond = 1e12;
    constexpr double kMillisecond = 1e9;
    return picoseconds / (shown.unit == "ms" ? kMillisecond : kSecond);
  }

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

  std::string block(MapReader& map) {
    if (const auto name = map.optional("results")) return results(name->string());
    if (const auto file = map.optional("published")) return published(file->string());
    if (auto found = map.optional_map("table")) return table(*found);
    if (auto found = map.optional_map("breakdown")) return breakdown(*found);
    MapReader found = map.require_map("constants");
    return constants(found);
  }

  std::string results(const std::string& name) {
    placed_.insert(name);
    return results_text(read_document(folder_ / (name + ".json")));
  }

  std::string published(const std::string& file) {
    const std::vector<PublishedResult> rows = predict_published(
        read_published_rows(folder_ / file, {{profiles_}, {scenarios_ / "models"}}));
    const PublishedErrors all = published_errors(rows);
    put_errors("published", all.rows, all.mean, std::abs(all.worst));
    return published_markdown(rows);
  }

  /// What texts may say of errors, by {ID.mean} and the like.
  void put_errors(const std::string& id, int count, double mean, double worst) {
    facts_[id + ".count"] = std::to_string(count);
    facts_[id + ".mean"] = format_percent(mean);
    facts_[id + ".worst"] = format_percent(worst);
  }

  /// Documents that the page's data does not place.
  std::string other_results() {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const fs::path& file = entry.path();
      if (file.extension() == ".json" && !placed_.contains(file.stem().string())) {
        names.insert(file.stem().string());
      }
    }
    std::string text = names.empty() ? "" : "\n## Further runs\n";
    for (const std::string& name : names)
      text += fmt::format("\n### {}\n\n{}", name, results(name));
    return text;
  }

  std::string table(MapReader& map) {
    const std::string id = map.require("id").string();
    const Case base = read_case(map);
    std::string text = markdown_head({"what", "simulated", "predicted", "published", "error"});
    double sum = 0;
    double worst = 0;
    int count = 0;
    for_each_map(map.require("rows"), [&](MapReader& row) {
      const std::string what = row.require("what").string();
      const Quantity one = quantity(row, base);
      const double published = row.require("published").number(0, kMostPublished);
      const double rounded_to = row.number_or("rounded_to", 0, 0, 1);
      const double predicted = value(one);
      if (row.boolean_or("counts", false)) {
        const double error = std::abs(relative_error(predicted, published));
        ++count;
        sum += error;
        worst = std::max(worst, error);
      }
      if (const auto within = row.optional("within")) {
        page_.checks.push_back({what, predicted, published, within->number(0, 1)});
      }
      text +=
          markdown_row({what, how(one.simulated), with_unit(predicted, one.unit, one.digits),
                        fmt::format("{:g}{}{}", published, one.unit.empty() ? "" : " ", one.unit),
                        error_text(predicted, published, rounded_to)});
    });
    if (const auto ranges = map.optional("ranges")) {
      for_each_map(*ranges, [&](MapReader& one) { text += range(one, base); });
    }
    map.reject_unknown_keys();
    if (count > 0) put_errors(id, count, sum / count, worst);
    return text;
  }

  /// A published range over several models. Which of them has which of its values is not known: the
  /// errors are at least and at most what stands there.
  std::string range(MapReader& map, const Case& base) {
    const std::string what = map.require("what").string();
    const Case common = read_case(map, base);
    const std::string metric = metric_or_step(map);
    const double low = map.require("low").number(0, kMostPublished);
    const double high = map.require("high").number(low, kMostPublished);
    std::string simulated;
    double least = kMostPublished;
    double most = 0;
    for_each_map(map.require("cases"), [&](MapReader& each) {
      const Quantity one{read_case(each, common), metric, "", 0};
      check(each, one.simulated, metric);
      if (simulated.empty()) simulated = how(one.simulated) + " and others";
      least = std::min(least, value(one));
      most = std::max(most, value(one));
    });
    return markdown_row({what, simulated, fmt::format("{:.1f} to {:.1f}", least, most),
                         fmt::format("{:.1f} to {:.1f}", low, high),
                         fmt::format("{:+.0f} to {:+.0f} %", 100 * relative_error(least, high),
                                     100 * relative_error(most, low))});
  }

  /// Several numbers of one run, in seconds.
  std::string breakdown(MapReader& map) {
    struct Column {
      std::string title;
      std::string metric;
      std::optional<double> within;
      std::optional<double> points;  ///< within so much of the first column's value
    };
    std::vector<Column> columns;
    std::vector<std::string> titles = {"machine, model", "simulated"};
    for_each_map(map.require("columns"), [&](MapReader& column) {
      columns.push_back({column.require("title").string(),
                         column.require("metric").choice(kMetricNames), std::nullopt,
                         std::nullopt});
      if (const auto within = column.optional("within")) {
        columns.back().within = within->number(0, 1);
      }
      if (const auto points = column.optional("points")) {
        columns.back().points = points->number(0, 1);
      }
      titles.push_back(columns.back().title);
    });
    std::string text = markdown_head(titles);
    for_each_map(map.require("rows"), [&](MapReader& row) {
      const std::string machine = row.require("machine").string();
      Quantity one{read_case(row), "step", "s", 3};
      check(row, one.simulated, one.metric);
      std::vector<std::string> cells = {machine, how(one.simulated)};
      const std::vector<ValueReader> published = row.require("published").items();
      if (published.size() != columns.size()) {
        row.fail("published", "expected a number for each column");
      }
      for (std::size_t i = 0; i < columns.size(); ++i) {
        one.metric = columns[i].metric;
        const double predicted = value(one);
        const double stated = published[i].number(0, kMostPublished);
        cells.push_back(fmt::format("{:.3f} / {:.3f} ({})", predicted, stated,
                                    signed_percent(relative_error(predicted, stated))));
        const std::string what =
            fmt::format("{}, {}: {}", machine, one.simulated.schedule, columns[i].title);
        if (columns[i].within) {
          page_.checks.push_back({what, predicted, stated, *columns[i].within});
        }
        if (columns[i].points) {
          const double whole = published.front().number(0, kMostPublished);
          page_.checks.push_back({what, whole + predicted - stated, whole, *columns[i].points});
        }
      }
      text += markdown_row(cells);
    });
    map.reject_unknown_keys();
    return text;
  }

  /// Numbers of hardware profiles.
  std::string constants(MapReader& map) {
    MapReader profiles = map.require_map("profiles");
    std::vector<std::string> titles = {"constant"};
    std::vector<Node> machines;
    for (const std::string& title : profiles.keys()) {
      titles.push_back(title);
      machines.push_back(load_document(profiles_ / (profiles.require(title).string() + ".yaml")));
    }
    profiles.reject_unknown_keys();
    titles.emplace_back("remark");
    std::string text = markdown_head(titles);
    for_each_map(map.require("rows"), [&](MapReader& row) {
      const std::string path = row.require("path").string();
      auto notes = row.optional_map("notes");
      std::vector<std::string> cells = {fmt::format("`{}`", path)};
      for (std::size_t i = 0; i < machines.size(); ++i) {
        cells.push_back(constant(machines[i], path));
        if (!notes) continue;
        if (const auto note = notes->optional(titles[i + 1])) {
          cells.back() += fmt::format(" ({})", note->string());
        }
      }
      if (notes) notes->reject_unknown_keys();
      cells.push_back(row.string_or("remark", ""));
      text += markdown_row(cells);
    });
    map.reject_unknown_keys();
    return text;
  }

  /// What stands in a profile at a path: "36.7 GB/s".
  static std::string constant(const Node& profile, const std::string& path) {
    const Node* node = &profile;
    for (std::size_t begin = 0; node != nullptr && begin <= path.size();) {
      const std::size_t dot = std::min(path.find('.', begin), path.size());
      node = node->find(path.substr(begin, dot - begin));
      begin = dot + 1;
    }
    if (node != nullptr && node->is_map()) node = node->find("value");
    if (node == nullptr || !node->is_scalar()) fail_at(profile.at, path, "no number there");
    return node->scalar;
  }

  fs::path folder_;
  Node root_;
  fs::path scenarios_;
  fs::path profiles_;
  AccuracyPage page_;
  std::map<std::string, std::string> facts_;  // by the name in braces
  std::map<std::string, SimulationResult> results_;
  std::set<std::string> placed_;
};

}  // namespace

fs::path page_data(const fs::path& page) {
  fs::path folder = page;
  return folder.replace_extension();
}

std::string document_name(const std::string& scenario, bool live,
                          const std::string& link_bandwidth) {
  const std::string name = slug(scenario) + (live ? "_live" : "_traces");
  return link_bandwidth.empty() ? name : name + "_" + slug(link_bandwidth);
}

bool is_document_name(const std::string& name) {
  return name == slug(name);
}

AccuracyPage accuracy_page(const fs::path& data, const std::string& version) {
  return PageWriter(data, version).write();
}

}  // namespace zenflow::sim
