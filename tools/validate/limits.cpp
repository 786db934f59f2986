#include <string>

#include "tools/validate/options.h"

namespace zenflow::tools {

sim::Tolerance ValidateOptions::limits() const {
  const bool is_gpu = live && device == "cuda";
  const auto share = [](const std::string& text, const char* otherwise) -> std::optional<double> {
    const std::string given = text.empty() ? otherwise : text;
    return given == kNotJudged ? std::nullopt : std::optional(std::stod(given) / 100);
  };
  return {.mean_step = tolerance.value_or(is_gpu ? 3 : 8) / 100,
          .worst_step = worst.value_or(is_gpu ? 8 : 15) / 100,
          .worst_stall = share(stall, is_gpu ? kNotJudged : "5"),
          .bytes = share(bytes, live && !is_gpu ? "0" : "0.1")};
}

}  // namespace zenflow::tools
