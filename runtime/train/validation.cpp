#include "runtime/train/validation.h"

#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::runtime {

void save_validations(const std::vector<Validation>& validations, CheckpointWriter& writer) {
  std::vector<double> rows;
  std::string names;
  for (const Validation& validation : validations) {
    rows.push_back(static_cast<double>(validation.step));
    rows.push_back(validation.loss);
    for (const NamedValue& metric : validation.metrics) rows.push_back(metric.value);
  }
  if (!validations.empty()) {
    for (const NamedValue& metric : validations[0].metrics) names += metric.name + "\n";
  }
  writer.add("validations", std::span(rows));
  writer.add_text("validation metrics", names);
}

std::vector<Validation> restore_validations(CheckpointReader& reader, std::int64_t steps) {
  const auto rows = reader.read<double>("validations");
  std::istringstream lines(reader.read_text("validation metrics"));
  std::vector<std::string> names;
  for (std::string name; std::getline(lines, name);) names.push_back(name);
  const std::size_t width = 2 + names.size();
  if (rows.size() % width != 0) {
    throw Error(ErrorKind::kInput, fmt::format("checkpoint: validations: expected rows of {}, "
                                               "found {} numbers",
                                               width, rows.size()));
  }
  std::vector<Validation> validations;
  for (std::size_t at = 0; at < rows.size(); at += width) {
    if (!(rows[at] >= 0 && rows[at] <= static_cast<double>(steps))) {
      throw Error(ErrorKind::kInput,
                  fmt::format("checkpoint: validations: expected steps from 0 to {}, found {}",
                              steps, rows[at]));
    }
    Validation validation{.step = static_cast<std::int64_t>(rows[at]), .loss = rows[at + 1]};
    for (std::size_t i = 0; i < names.size(); ++i) {
      validation.metrics.push_back({names[i], rows[at + 2 + i]});
    }
    validations.push_back(std::move(validation));
  }
  return validations;
}

}  // namespace zenflow::runtime
