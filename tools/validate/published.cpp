#include "sim/accuracy/published_runs.h"
#include "sim/base/error.h"
#include "tools/environment.h"
#include "tools/validate/validate.h"
#include "tools/version.h"

namespace zenflow::tools {

int report_published(const ValidateOptions& options) {
  const std::filesystem::path file =
      options.published_file.empty() ? published_rows() : options.published_file;
  const auto results = sim::predict_published(
      sim::read_published_rows(file, {profile_directories(file), model_directories()}));
  print(options.json ? sim::published_json(results, kVersion)
                     : sim::published_table(results, use_color(ColorMode::kAuto, stdout)));
  return 0;
}

}  // namespace zenflow::tools
