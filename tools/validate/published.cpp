#include <cmath>
#include <optional>
#include <string>

#include "sim/accuracy/published_runs.h"
#include "sim/base/error.h"
#include "tools/environment.h"
#include "tools/report_page.h"
#include "tools/validate/validate.h"
#include "tools/version.h"

namespace zenflow::tools {

int report_published(const ValidateOptions& options) {
  const std::filesystem::path file =
      options.published_file.empty() ? published_rows() : options.published_file;
  const auto results = sim::predict_published(
      sim::read_published_rows(file, {profile_directories(file), model_directories()}));
  const std::string document =
      options.json || options.report ? sim::published_json(results, kVersion) : "";
  print(options.json ? document
                     : sim::published_table(results, use_color(ColorMode::kAuto, stdout)));
  if (options.report) {
    write_report(options.report, {"published", file.filename().string(), document},
                 options.overwrite, options.quiet);
  }
  constexpr double kPercent = 100;
  const sim::PublishedErrors all = sim::published_errors(results);
  const auto within = [](const std::optional<double>& limit, double error) {
    return !limit || kPercent * error <= *limit;
  };
  const bool judges = options.tolerance || options.worst;
  const bool all_predicted = all.rows == sim::judged_rows(results);
  return within(options.tolerance, all.mean) && within(options.worst, std::abs(all.worst)) &&
                 (!judges || all_predicted)
             ? 0
             : static_cast<int>(ErrorKind::kTolerance);
}

}  // namespace zenflow::tools
