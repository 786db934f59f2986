#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/text.h"
#include "sim/trace/import/import_trace.h"
#include "sim/trace/import/json_text.h"
#include "sim/trace/import/log_text.h"
#include "sim/trace/import/rank_timers.h"

namespace zenflow::sim {
namespace {

constexpr std::string_view kRecord = "time (ms)";
struct Iteration {
  std::string_view text;
  double milliseconds;  // of its unit
};
/// Forks of Megatron count in seconds; nanotron, and loggers of key and value.
constexpr std::array<Iteration, 4> kIterations = {{{"elapsed time per iteration (ms):", 1},
                                                   {"elapsed time per iteration (s):", 1e3},
                                                   {"elapsed_time_per_iteration_ms:", 1},
                                                   {"elapsed_time_per_iteration_ms=", 1}}};

/// nanotron writes 2.5K for 2500: the factor, taken from the start of the text.
double take_thousands(std::string_view& text) {
  const bool is_alone = text.size() < 2 || std::isalnum(static_cast<unsigned char>(text[1])) == 0;
  if (text.empty() || !is_alone) return 1;
  const double factor = text[0] == 'K' ? 1e3 : text[0] == 'M' ? 1e6 : 1;
  if (factor != 1) text.remove_prefix(1);
  return factor;
}
constexpr std::size_t kLongestLine = 1U << 20;
constexpr const char* kTooLong = "timers of more than 26 days";

/// Without terminal escapes: "ESC [ ... letter", and "ESC" with any other one character.
std::string without_escapes(std::string_view line) {
  std::string out;
  out.reserve(line.size());
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1B') {
      out += line[i];
      continue;
    }
    if (i + 1 >= line.size()) break;
    ++i;
    if (line[i] != '[') continue;
    while (i + 1 < line.size() && (line[i + 1] < '@' || line[i + 1] > '~')) ++i;
    ++i;
  }
  return out;
}

/// What a line that starts with a record has before it: a launcher's "worker-0:" or "[default0]:";
/// time, level, place, rank, in brackets; before DeepSpeed 0.9 "rank=0" as well.
bool is_prefix(std::string_view text) {
  text = trimmed(text, kBlanks);
  const std::size_t colon = text.find(':');
  const std::size_t other = text.find_first_of(" \t[", text.starts_with('[') ? 1 : 0);
  if (colon != text.npos && (other == text.npos || colon < other)) {
    text = trimmed(text.substr(colon + 1), kBlanks);
  }
  while (!text.empty() && text.front() == '[') {
    const std::size_t close = text.find(']');
    if (close == text.npos) return false;
    text = trimmed(text.substr(close + 1), kBlanks);
  }
  constexpr std::string_view kRank = "rank=";
  if (text.starts_with(kRank)) {
    text.remove_prefix(std::min(text.size(), text.find_first_not_of("0123456789", kRank.size())));
  }
  return text.empty();
}

/// The number behind the last "[Rank " or "rank=" of what a record has before it.
std::optional<std::int64_t> rank_of(std::string_view text) {
  for (const std::string_view mark : {std::string_view("[Rank "), std::string_view("rank=")}) {
    const std::size_t at = text.rfind(mark);
    if (at == text.npos) continue;
    const std::string_view rest = text.substr(at + mark.size());
    std::int64_t rank = 0;
    if (std::from_chars(rest.data(), rest.data() + rest.size(), rank).ec == std::errc()) {
      return rank;
    }
  }
  return std::nullopt;
}

/// A setting's number, of a line such as "  world_size ......... 4" behind what a record may have
/// before it; nothing: the line is no such thing.
std::optional<std::int64_t> printed_number(std::string_view line, std::string_view name) {
  const std::size_t at = line.find(name);
  if (at == line.npos || !is_prefix(line.substr(0, at))) return std::nullopt;
  if (at > 0 && line[at - 1] != ' ') return std::nullopt;
  std::string_view rest = line.substr(at + name.size());
  if (!rest.starts_with(' ')) return std::nullopt;
  rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(" .")));
  rest = trimmed(rest, kBlanks);
  std::int64_t number = 0;
  const char* const end = rest.data() + rest.size();
  const auto [stop, error] = std::from_chars(rest.data(), end, number);
  if (rest.empty() || error != std::errc() || stop != end || number < 1) return std::nullopt;
  return number;
}

class LogReader {
 public:
  LogReader(ByteSource& source, const std::string& name, const ImportOptions& options)
      : source_(source), name_(name), options_(options) {
    result_.format = TraceFormat::kTimerLog;
    result_.timers.emplace();
    log_ = &*result_.timers;
    rank_timers_.emplace(*log_);
    log_->iterations.name = "elapsed time per iteration (ms)";
  }

  ImportedTrace import() {
    read_lines();
    if (log_->records == 0 && log_->iterations.values.empty() && log_->across_ranks.empty()) {
      throw Error(
          ErrorKind::kInput,
          fmt::format("{}: no trace: neither Chrome JSON nor SQLite, and none of its {} lines has "
                      "\"time (ms) | ...\", \"elapsed time per iteration (ms): ...\" or "
                      "\"elapsed_time_per_iteration_ms\" "
                      "(DeepSpeed's wall_clock_breakdown)",
                      name_, lines_));
    }
    if (!source_.damage().empty()) result_.problems.push_back(name_ + ": " + source_.damage());
    set_means();
    make_timeline();
    result_.left_out = left_out_.take();
    note_unusable(name_, result_);
    return std::move(result_);
  }

 private:
  void read_lines() {
    std::vector<char> buffer(256 * 1024);
    std::string line;
    bool is_dropped = false;
    for (;;) {
      const std::size_t count = source_.read(buffer);
      if (count == 0) break;
      if (options_.progress) options_.progress(source_.position(), source_.size());
      std::string_view rest(buffer.data(), count);
      while (!rest.empty()) {
        // A progress bar returns to the line's start: what it wrote ends there.
        const std::size_t end = rest.find_first_of("\n\r");
        const std::string_view part = rest.substr(0, end);
        if (line.size() + part.size() > kLongestLine) {
          is_dropped = true;
          line.clear();
        }
        if (!is_dropped) line += part;
        if (end == rest.npos) break;
        end_line(line, is_dropped, rest[end]);
        line.clear();
        is_dropped = false;
        rest.remove_prefix(end + 1);
      }
    }
    if (!line.empty()) end_line(line, is_dropped, '\n');
  }

  void end_line(const std::string& line, bool is_dropped, char end) {
    if (is_dropped) {
      left_out_.add_unusable("lines of more than 1 MiB", {}, lines_ + 1, "line");
    } else {
      take_line(without_escapes(line));
    }
    if (end == '\n') ++lines_;
  }

  void take_line(const std::string& line) {
    if (rank_timers_->take(line)) {
      ++result_.events;
      return;
    }
    if (line.empty()) return;  // it may have ended a list of timers, and says no more
    for (const std::string_view name : kPrintedSettings) {
      const auto number = printed_number(line, name);
      if (number) log_->printed.emplace(name, *number);
    }
    log_->machine.take(line);
    note_besides(said_besides(line));
    std::size_t at = 0;
    while ((at = line.find(kRecord, at)) != line.npos) {
      const std::size_t list = at + kRecord.size();
      take_record(line, at, list);
      at = list;
    }
    for (const Iteration& one : kIterations) {
      for (at = 0; (at = line.find(one.text, at)) != line.npos;) {
        at += one.text.size();
        std::string_view rest = std::string_view(line).substr(at);
        const char* const no_number = "elapsed times that are no number";
        if (const auto value = take_iteration(rest, no_number, one.milliseconds)) {
          add_value(log_->iterations, before_iteration_, *value);
          ++result_.events;
        }
      }
    }
  }

  /// " | name: value | name: value", until something else follows.
  void take_record(const std::string& line, std::size_t at, std::size_t list) {
    std::string_view rest = trimmed(std::string_view(line).substr(list), kBlanks);
    if (!rest.starts_with('|')) return;
    std::size_t taken = 0;
    while (rest.starts_with('|')) {
      rest.remove_prefix(1);
      const std::size_t bar = rest.find('|');
      const std::string_view item = rest.substr(0, bar);
      const std::size_t colon = item.find(':');
      const std::string_view name = trimmed(item.substr(0, colon), kBlanks);
      if (colon == item.npos || name.empty()) {
        // An empty list ("time (ms) |"), or one that was cut.
        if (!trimmed(item, kBlanks).empty())
          left_out_.add_unusable("timers without a value", {}, lines_ + 1, "line");
        break;
      }
      std::string_view number = item.substr(colon + 1);
      const auto value = take_duration(number, "timers whose value is no duration");
      if (value) {
        const std::size_t place = series(name);
        add_value(log_->timers[place], before_timers_[place], *value);
        ++taken;
      }
      if (bar == rest.npos || (value && !trimmed(number, kBlanks).empty())) break;
      rest.remove_prefix(bar);
    }
    if (taken == 0) return;
    note_rank(rank_of(std::string_view(line).substr(0, at)));
    ++log_->records;
    result_.events += taken;
    if (!is_prefix(std::string_view(line).substr(0, at))) ++log_->not_at_line_start;
  }

  /// Says once that means and steps are of several ranks.
  void note_rank(std::optional<std::int64_t> rank) {
    if (!rank || has_several_ranks_) return;
    if (!rank_) rank_ = rank;
    if (rank_ == rank) return;
    has_several_ranks_ = true;
    result_.problems.push_back(
        fmt::format("{}:{}: records of rank {} and of rank {}: those of several ranks are averaged "
                    "together, and each rank's count as steps; keep the lines of one",
                    name_, lines_ + 1, *rank_, *rank));
  }

  /// A duration at the start of `text`, taken there; if there is none that can be used, says why.
  std::optional<double> take_duration(std::string_view& text, const char* no_number) {
    const auto value = take_milliseconds(text);
    if (value && *value <= kLongestMilliseconds) return value;
    left_out_.add_unusable(value ? kTooLong : no_number, {}, lines_ + 1, "line");
    return std::nullopt;
  }

  /// The same of an iteration, which may be rounded to thousands.
  std::optional<double> take_iteration(std::string_view& text, const char* no_number,
                                       double milliseconds) {
    auto value = take_milliseconds(text);
    if (value) {
      const double factor = take_thousands(text);
      if (factor != 1 && !has_rounded_) {
        has_rounded_ = true;
        result_.problems.push_back(fmt::format(
            "{}:{}: times in thousands (K) are rounded to three digits", name_, lines_ + 1));
      }
      *value *= factor * milliseconds;
    }
    if (value && *value <= kLongestMilliseconds) return value;
    left_out_.add_unusable(value ? kTooLong : no_number, {}, lines_ + 1, "line");
    return std::nullopt;
  }

  /// The series' place among the log's.
  std::size_t series(std::string_view name) {
    const std::string key = as_utf8(name);
    const auto [entry, is_new] = places_.try_emplace(key, log_->timers.size());
    if (is_new) {
      log_->timers.push_back({key, {}});
      before_timers_.emplace_back();
    }
    return entry->second;
  }

  /// How many lines say so.
  struct Said {
    std::uint64_t evaluations = 0;
    std::uint64_t savings = 0;
    std::uint64_t skips = 0;
  };

  void note_besides(const Besides& said) {
    if (said.evaluates) ++said_.evaluations;
    if (said.saves) ++said_.savings;
    if (said.skips) ++said_.skips;
  }

  /// `before`: what had been said at the series' last value.
  void add_value(TimerSeries& series, Said& before, double value) const {
    series.values.push_back(value);
    series.besides.push_back({said_.evaluations > before.evaluations,
                              said_.savings > before.savings, said_.skips > before.skips});
    before = said_;
  }

  /// The first of these that the log has.
  [[nodiscard]] const TimerSeries* first_of(const std::vector<const char*>& names) const {
    for (const char* name : names) {
      if (const TimerSeries* found = log_->find(name)) return found;
    }
    return nullptr;
  }

  [[nodiscard]] double mean_of(const std::vector<const char*>& names) const {
    if (const TimerSeries* found = first_of(names)) return found->mean();
    for (const char* name : names) {
      for (const RankTimerSeries& one : log_->across_ranks) {
        if (one.name == name) return mean(one.longest);
      }
    }
    return std::numeric_limits<double>::quiet_NaN();
  }

  void set_means() {
    log_->forward_ms = mean_of(kForward);
    log_->backward_ms = mean_of(kBackward);
    log_->optimizer_ms = mean_of(kOptimizer);
    log_->step_ms = log_->iterations.mean();
    add_summed_steps();
    if (std::isnan(log_->step_ms)) {
      log_->step_ms = log_->forward_ms + log_->backward_ms + log_->optimizer_ms;
    }
  }

  void add_summed_steps() {
    const TimerSeries* const parts[] = {first_of(kForward), first_of(kBackward),
                                        first_of(kOptimizer)};
    std::size_t steps = std::numeric_limits<std::size_t>::max();
    for (const TimerSeries* one : parts) {
      steps = std::min(steps, one == nullptr ? 0 : one->values.size());
    }
    for (std::size_t i = 0; i < steps; ++i) {
      log_->summed_steps.push_back({parts[0]->values[i], parts[1]->values[i], parts[2]->values[i],
                                    parts[0]->besides[i].evaluates, parts[2]->besides[i].skips});
    }
    if (parts[0] == nullptr || parts[0]->values.empty()) return;
    if (parts[0]->name.ends_with("_microstep")) {
      log_->summed_micro_steps = 0;
    } else if (const TimerSeries* micro = log_->find(parts[0]->name + "_microstep")) {
      // A log that was cut short may have some more of them.
      log_->summed_micro_steps =
          std::max<std::size_t>(1, micro->values.size() / parts[0]->values.size());
    }
  }

  /// A timer's series on the timeline.
  struct Part {
    const TimerSeries* series;
    SpanPhase phase;

    /// The timer's length in a step; nothing if it has not so many steps.
    [[nodiscard]] std::optional<Picoseconds> length(std::size_t step) const {
      if (series == nullptr || step >= series->values.size()) return std::nullopt;
      return to_picoseconds(Seconds(1e-3 * series->values[step]));
    }
  };

  /// Only durations are known: steps stand one behind the other, phases within them as well.
  void make_timeline() {
    Timeline& timeline = result_.timeline;
    timeline.tracks.push_back(
        {.name = "timers (durations measured, places not)", .kind = TrackKind::kHost});
    const std::array<Part, 3> parts = {Part{first_of(kForward), SpanPhase::kForward},
                                       Part{first_of(kBackward), SpanPhase::kBackward},
                                       Part{first_of(kOptimizer), SpanPhase::kOptimizer}};
    const Part whole{&log_->iterations, SpanPhase::kNone};
    std::size_t steps = log_->iterations.values.size();
    for (const Part& part : parts) {
      if (part.series != nullptr) steps = std::max(steps, part.series->values.size());
    }
    Picoseconds now{};
    for (std::size_t i = 0; i < steps; ++i) {
      Picoseconds of_parts;
      for (const Part& part : parts) of_parts += part.length(i).value_or(Picoseconds{});
      const Picoseconds takes = whole.length(i).value_or(of_parts);
      Picoseconds next;
      if (__builtin_add_overflow(now.count, std::max(takes, of_parts).count, &next.count)) {
        result_.problems.push_back(fmt::format(
            "{}: the timeline ends after 106 days, with step {} of {}", name_, i, steps));
        break;
      }
      add_parts(parts, i, now);
      timeline.steps.push_back({static_cast<std::int64_t>(i), now, now + takes});
      now = next;
    }
    result_.step_source = timeline.steps.empty() ? StepSource::kNone : StepSource::kTimers;
  }

  void add_parts(const std::array<Part, 3>& parts, std::size_t step, Picoseconds at) {
    Timeline& timeline = result_.timeline;
    for (const Part& part : parts) {
      const auto length = part.length(step);
      if (!length) continue;
      timeline.spans.push_back(
          {.name = timeline.names.intern(part.series->name),
           .start = at,
           .end = at + *length,
           .extra = timeline.extras.intern({.step = static_cast<std::int32_t>(step)}),
           .kind = SpanKind::kOperation,
           .phase = part.phase});
      at += *length;
    }
  }

  // Sums over a boundary's micro steps where they are logged, else the micro steps; before 0.5 the
  // names were forward, backward, step; Megatron's own are forward-compute and so on.
  inline static const std::vector<const char*> kForward = {"fwd", "forward", "fwd_microstep",
                                                           "forward_microstep", "forward-compute"};
  inline static const std::vector<const char*> kBackward = {
      "bwd", "backward", "bwd_microstep", "backward_microstep", "backward-compute"};
  inline static const std::vector<const char*> kOptimizer = {"step", "step_microstep",
                                                             "optimizer_step", "optimizer"};

  ByteSource& source_;
  std::string name_;
  const ImportOptions& options_;
  ImportedTrace result_;
  TimerLog* log_ = nullptr;
  LeftOutCounter left_out_;
  std::unordered_map<std::string, std::size_t> places_;
  std::optional<RankTimers> rank_timers_;
  std::uint64_t lines_ = 0;
  Said said_;
  Said before_iteration_;             // said before the last one
  std::vector<Said> before_timers_;   // the same, by place
  std::optional<std::int64_t> rank_;  // of the first record that names one
  bool has_several_ranks_ = false;
  bool has_rounded_ = false;
};

}  // namespace

ImportedTrace import_timer_log(ByteSource& source, const std::string& name,
                               const ImportOptions& options) {
  return LogReader(source, name, options).import();
}

}  // namespace zenflow::sim
