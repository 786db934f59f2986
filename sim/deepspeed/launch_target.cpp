#include "sim/deepspeed/launch_target.h"

#include <array>
#include <string>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/config/reader.h"

namespace zenflow::sim {

std::string_view to_string(LaunchTarget target) {
  switch (target) {
    case LaunchTarget::kDeepSpeed:
      return "deepspeed";
    case LaunchTarget::kHf:
      return "hf";
    case LaunchTarget::kAccelerate:
      return "accelerate";
  }
  return "";
}

std::optional<LaunchTarget> find_target(std::string_view text) {
  for (const LaunchTarget target :
       {LaunchTarget::kDeepSpeed, LaunchTarget::kHf, LaunchTarget::kAccelerate}) {
    if (text == to_string(target)) return target;
  }
  return std::nullopt;
}

std::string expected_target(std::string_view found) {
  const std::array<std::string, 3> known = {"deepspeed", "hf", "accelerate"};
  return fmt::format("expected deepspeed, hf or accelerate, found \"{}\"{}", found,
                     suggestion(found, known));
}

LaunchTarget parse_target(std::string_view text) {
  if (const auto target = find_target(text)) return *target;
  throw Error(ErrorKind::kInput, "--target: " + expected_target(text));
}

}  // namespace zenflow::sim
