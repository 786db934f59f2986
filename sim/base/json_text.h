/// How the programs write JSON documents.
#pragma once

#include <string>

#include "sim/base/text.h"

namespace zenflow {

/// Indented by two, with a newline at the end; what is not UTF-8, such as a file's name may be,
/// becomes U+FFFD, and what a terminal obeys is escaped. `Json`: one of nlohmann's.
template <class Json>
[[nodiscard]] std::string json_text(const Json& document) {
  return printable(document.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

}  // namespace zenflow
