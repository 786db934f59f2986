#include "sim/page/safe_text.h"

#include "sim/base/text.h"

namespace zenflow::sim {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

/// How HTML writes a character that means something to it; empty: as it is.
std::string_view entity(char character) {
  switch (character) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

}  // namespace

std::string json_in_script(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char character : printable(json)) {
    if (character == '<') {
      out += "\\u003c";
    } else {
      out += character;
    }
  }
  return out;
}

std::string html_text(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    const std::string_view sequence = text.substr(i, length);
    if (length == 0 || printable(sequence) != sequence) {
      out += kReplacement;
    } else if (const std::string_view written = entity(text[i]); !written.empty()) {
      out += written;
    } else {
      out += text.substr(i, length);
    }
    i += length == 0 ? 1 : length;
  }
  return out;
}

}  // namespace zenflow::sim
