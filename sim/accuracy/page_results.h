/// A validation's document as a part of the accuracy page.
#pragma once

#include <string>

#include "sim/accuracy/document.h"

namespace zenflow::sim {

/// Markdown: where it comes from, the settings, the errors of each metric, the judgement, remarks.
[[nodiscard]] std::string results_text(const ValidationDocument& document);

}  // namespace zenflow::sim
