#include "runtime/data/glue_reader.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "sim/base/crc32.h"
#include "sim/base/error.h"
#include "sim/base/input_file.h"

namespace zenflow::runtime {
namespace {

constexpr float kMaxScore = 5.0F;

/// Cuts `text` at the first `separator`, and returns what was before it.
std::string_view cut(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view head = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return head;
}

std::string_view next_line(std::string_view& text) {
  std::string_view line = cut(text, '\n');
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// Of a header; GLUE's have at most 13.
constexpr std::size_t kMostColumns = 1000;

/// Takes the first `most` fields, and says how many there are. An empty line has one, empty field.
std::size_t split_fields(std::string_view line, std::size_t most,
                         std::vector<std::string_view>& fields) {
  fields.clear();
  const auto count = static_cast<std::size_t>(std::ranges::count(line, '\t')) + 1;
  for (std::size_t i = 0; i < std::min(count, most); ++i) fields.push_back(cut(line, '\t'));
  return count;
}

/// Where a task's columns are in this file.
struct Columns {
  std::size_t count = 0;
  std::size_t first = 0;
  std::size_t second = 0;
  std::size_t label = 0;
};

class Parser {
 public:
  Parser(const GlueTaskInfo& task, std::string_view text, const std::string& name)
      : task_(task), rest_(text), name_(name) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
  }

  GlueData parse(MalformedRows malformed) {
    read_columns();
    GlueData data;
    while (!rest_.empty()) {
      ++line_;
      found_ = split_fields(next_line(rest_), columns_.count, fields_);
      if (is_only_line_ends_left()) break;
      GlueExample example;
      const std::optional<std::string> problem = read_row(example);
      if (!problem) {
        data.examples.push_back(std::move(example));
      } else if (malformed == MalformedRows::kSkip) {
        data.skipped.push_back(message(*problem));
      } else {
        fail(*problem);
      }
    }
    if (data.examples.empty()) fail("no examples");
    return data;
  }

 private:
  [[nodiscard]] std::string message(const std::string& what) const {
    return fmt::format("{}:{}: {}", name_, line_, what);
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kInput, message(what));
  }

  /// Empty lines at the end of a file are no rows.
  [[nodiscard]] bool is_only_line_ends_left() const {
    return found_ == 1 && fields_.front().empty() &&
           rest_.find_first_not_of("\r\n") == std::string_view::npos;
  }

  void read_columns() {
    if (task_.columns != 0) {
      columns_ = {task_.columns, /*first=*/3, /*second=*/0, /*label=*/1};  // CoLA
      return;
    }
    ++line_;
    columns_.count = split_fields(next_line(rest_), kMostColumns, fields_);
    if (columns_.count > kMostColumns) {
      fail(fmt::format("expected a header of at most {} columns, found {}", kMostColumns,
                       columns_.count));
    }
    columns_.first = column(task_.first);
    if (task_.is_pair()) columns_.second = column(task_.second);
    columns_.label = column(task_.label);
  }

  [[nodiscard]] std::size_t column(std::string_view title) const {
    const auto found = std::ranges::find(fields_, title);
    if (found == fields_.end()) {
      fail(
          fmt::format("expected the header of a {} file with labels, found no column \"{}\" in "
                      "\"{}\"",
                      task_.name, title, fmt::join(fields_, "\", \"")));
    }
    return static_cast<std::size_t>(found - fields_.begin());
  }

  /// What is wrong with the row, if anything.
  std::optional<std::string> read_row(GlueExample& example) const {
    if (found_ != columns_.count) {
      return fmt::format("expected {} columns, found {}", columns_.count, found_);
    }
    example.first = fields_[columns_.first];
    if (task_.is_pair()) example.second = fields_[columns_.second];
    const std::string_view label = fields_[columns_.label];
    return task_.is_regression() ? read_score(label, example) : read_class(label, example);
  }

  std::optional<std::string> read_class(std::string_view label, GlueExample& example) const {
    const auto found = std::ranges::find(task_.classes, label);
    if (found == task_.classes.end()) {
      return fmt::format("expected a label among \"{}\", found \"{}\"",
                         fmt::join(task_.classes, "\", \""), label);
    }
    example.category = static_cast<std::int32_t>(found - task_.classes.begin());
    return std::nullopt;
  }

  std::optional<std::string> read_score(std::string_view label, GlueExample& example) const {
    const char* end = label.data() + label.size();
    const auto [rest, error] = std::from_chars(label.data(), end, example.score);
    // Written so that NaN fails.
    if (error == std::errc() && rest == end && example.score >= 0.0F &&
        example.score <= kMaxScore) {
      return std::nullopt;
    }
    return fmt::format("expected a score from 0 to {}, found \"{}\"", kMaxScore, label);
  }

  const GlueTaskInfo& task_;
  std::string_view rest_;
  const std::string& name_;
  std::size_t line_ = 0;
  std::vector<std::string_view> fields_;  // of the line, no more than there should be
  std::size_t found_ = 0;                 // that the line has
  Columns columns_;
};

}  // namespace

GlueData parse_glue(const GlueTaskInfo& task, std::string_view text, const std::string& name,
                    MalformedRows malformed) {
  GlueData data = Parser(task, text, name).parse(malformed);
  data.fingerprint = {text.size(), crc32(0, std::as_bytes(std::span(text)))};
  return data;
}

GlueData read_glue(const GlueTaskInfo& task, const std::filesystem::path& path,
                   MalformedRows malformed) {
  return parse_glue(task, read_file(path), path.generic_string(), malformed);
}

}  // namespace zenflow::runtime
