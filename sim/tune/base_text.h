/// Changes the text of a configuration as little as its new values allow.
#pragma once

#include <string>
#include <string_view>

#include "sim/config/document.h"

namespace zenflow::sim {

struct EditedText {
  std::string text;
  /// False: the text could not be kept and is written anew as strict JSON. Why is in `reason`.
  bool kept = true;
  std::string reason;
};

/// `text`: JSON, with comments or without, or other Hjson. `wanted`: what it shall say. What says
/// the same stays byte for byte: order, spaces, comments, the text of numbers. A removed key takes
/// the comments right before it along; new keys follow the last one of their block. Other Hjson,
/// and, unless `comments`, a text with comments are written anew. Throws Error(kInput), located, if
/// `text` does not parse.
[[nodiscard]] EditedText edit_text(std::string_view text, const std::string& file,
                                   const Node& wanted, bool comments);

}  // namespace zenflow::sim
