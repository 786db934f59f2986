/// --write: results kept as data beside the page, and the page made of them.
#pragma once

#include "sim/accuracy/document.h"
#include "tools/validate/options.h"

namespace zenflow::tools {

/// Whether page and data can be written. Throws Error(kInput).
void check_store(const ValidateOptions& options);

/// Keeps the document as PAGE/NAME.json; says on stderr which remarks of the one before are gone.
void store(const ValidateOptions& options, const sim::ValidationDocument& document);

}  // namespace zenflow::tools
