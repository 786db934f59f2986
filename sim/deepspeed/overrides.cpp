#include "sim/deepspeed/overrides.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/deepspeed/ds_config.h"
#include "sim/deepspeed/launch_target.h"
#include "sim/deepspeed/versions.h"

namespace zenflow::sim {

std::vector<Override> parse_overrides(const std::vector<std::string>& set,
                                      const std::optional<std::string>& deepspeed_version,
                                      const std::optional<std::string>& target) {
  std::vector<Override> overrides;
  for (const std::string& text : set) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw Error(
          ErrorKind::kInput,
          fmt::format("--set {}: expected PATH=VALUE, e.g. training.sequence_length=1024", text));
    }
    std::string path = expand_usual_name(text.substr(0, equals));
    if (std::string nearest; is_unknown_word(path, nearest)) {
      throw Error(ErrorKind::kInput,
                  fmt::format("--set {}: {}: unknown key{}", text, path, nearest));
    }
    overrides.push_back({std::move(path), text.substr(equals + 1)});
  }
  // Checked here, where a mistake can be laid to the flag.
  if (deepspeed_version) {
    static_cast<void>(parse_version(*deepspeed_version));
    overrides.push_back({"launch.deepspeed_version", *deepspeed_version});
  }
  if (target) {
    static_cast<void>(parse_target(*target));
    overrides.push_back({"launch.target", *target});
  }
  return overrides;
}

bool sets(const std::vector<Override>& overrides, std::string_view path) {
  return std::any_of(overrides.begin(), overrides.end(),
                     [path](const Override& one) { return one.path == path; });
}

}  // namespace zenflow::sim
