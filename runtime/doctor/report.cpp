#include "runtime/doctor/report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/json_text.h"

namespace zenflow::runtime {
namespace {

constexpr CheckStatus kStatuses[] = {CheckStatus::kOk, CheckStatus::kWarn, CheckStatus::kFail,
                                     CheckStatus::kUnknown};

/// Later lines of a text start below its first.
std::string indented(const std::string& text, std::size_t column) {
  std::string result;
  for (const char c : text) {
    result += c;
    if (c == '\n') result.append(column, ' ');
  }
  return result;
}

}  // namespace

std::size_t count(const std::vector<Check>& checks, CheckStatus status) {
  return static_cast<std::size_t>(
      std::count_if(checks.begin(), checks.end(),
                    [status](const Check& check) { return check.status == status; }));
}

std::string checks_text(const std::vector<Check>& checks) {
  std::size_t widest = 0;
  for (const Check& check : checks) widest = std::max(widest, check.id.size());
  const std::size_t column = 9 + widest + 2;
  std::string text;
  for (const Check& check : checks) {
    text +=
        fmt::format("{:<9}{:<{}}  {}\n", to_string(check.status), check.id, widest, check.found);
    if (!check.expected.empty()) {
      text += fmt::format("{:{}}expected: {}\n", "", column, indented(check.expected, column));
    }
    if (!check.advice.empty()) {
      text += fmt::format("{:{}}to do: {}\n", "", column, indented(check.advice, column));
    }
  }
  std::string counts;
  for (const CheckStatus status : kStatuses) {
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count(checks, status),
                          to_string(status));
  }
  return text + counts + "\n";
}

std::string checks_json(const std::vector<Check>& checks, std::string_view version) {
  nlohmann::ordered_json document;
  document["schema_version"] = 1;
  document["tool"] = "zenflow-calibrate doctor";
  document["version"] = version;
  document["checks"] = nlohmann::ordered_json::array();
  for (const Check& check : checks) {
    document["checks"].push_back({{"id", check.id},
                                  {"status", to_string(check.status)},
                                  {"found", check.found},
                                  {"expected", check.expected},
                                  {"advice", check.advice}});
  }
  for (const CheckStatus status : kStatuses) {
    document["counts"][to_string(status)] = count(checks, status);
  }
  return json_text(document);
}

}  // namespace zenflow::runtime
