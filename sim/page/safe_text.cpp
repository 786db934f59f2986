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

bool is_control(char character) {
  if (character == '\n' || character == '\t') return false;
  return static_cast<unsigned char>(character) < 0x20 || character == 0x7f;
}

}  // namespace

std::string json_in_script(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (std::size_t i = 0; i < json.size(); ++i) {
    const std::string_view rest = json.substr(i, 3);
    if (json[i] == '<') {
      out += "\\u003c";
    } else if (rest == "\xe2\x80\xa8" || rest == "\xe2\x80\xa9") {  // U+2028, U+2029
      out += rest.back() == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      out += json[i];
    }
  }
  return out;
}

std::string html_text(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0 || is_control(text[i])) {
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
