/// What becomes of a comparison.
#pragma once

#include <string>

#include "tools/validate/options.h"

namespace zenflow::tools {

/// Prints and writes what was asked for. The exit code.
[[nodiscard]] int report(const ValidateOptions& options, const std::string& date,
                         const sim::Comparison& comparison);

/// --published: predicts the rows and prints what came of it. The exit code.
[[nodiscard]] int report_published(const ValidateOptions& options);

/// Writes the page from the data beside it. Throws Error.
void write_page(const ValidateOptions& options);

}  // namespace zenflow::tools
