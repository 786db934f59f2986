#include "sim/trace/import/json_text.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "sim/base/text.h"

namespace zenflow::sim {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// Four hexadecimal digits at the start of `text`.
std::optional<std::uint32_t> hex4(std::string_view text) {
  if (text.size() < 4) return std::nullopt;
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + 4, value, 16);
  if (error != std::errc() || end != text.data() + 4) return std::nullopt;
  return value;
}

/// Takes "XXXX" or "XXXX\uXXXX" from behind a "\u".
void unescape_unicode(std::string_view& rest, std::string& out) {
  const std::optional<std::uint32_t> first = hex4(rest);
  if (!first) {
    out += kReplacement;
    return;
  }
  rest.remove_prefix(4);
  if (*first < 0xD800 || *first > 0xDFFF) return append_utf8(*first, out);
  const std::optional<std::uint32_t> second =
      *first < 0xDC00 && rest.starts_with("\\u") ? hex4(rest.substr(2)) : std::nullopt;
  if (!second || *second < 0xDC00 || *second > 0xDFFF) {
    out += kReplacement;
    return;
  }
  rest.remove_prefix(6);
  append_utf8(0x10000 + ((*first - 0xD800) << 10U) + (*second - 0xDC00), out);
}

/// Bytes of the well-formed character at the start of `text`; 0 if there is none. Not empty.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  std::size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) length = 2;
  if (first >= 0xE0 && first <= 0xEF) length = 3;
  if (first >= 0xF0 && first <= 0xF4) length = 4;
  if (length == 0 || text.size() < length) return 0;
  // Overlong forms, surrogates and what is beyond U+10FFFF show in the second byte.
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return length;
}

}  // namespace

std::string_view bare(std::string_view token) {
  token = token.substr(0, token.find_last_not_of(" \t\r\n") + 1);
  if (token.size() >= 2 && token.front() == '"' && token.back() == '"') {
    token = token.substr(1, token.size() - 2);
  }
  return token;
}

std::optional<std::int64_t> whole_number(std::string_view token) {
  std::string_view text = bare(token);
  const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
  if (is_hex) text.remove_prefix(2);
  std::int64_t value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, is_hex ? 16 : 10);
  if (error != std::errc()) return std::nullopt;
  std::string_view rest(end, static_cast<std::size_t>(last - end));
  if (!is_hex && rest.starts_with('.')) rest.remove_prefix(1);
  if (rest.find_first_not_of('0') != rest.npos) return std::nullopt;
  if (is_hex && !rest.empty()) return std::nullopt;
  return value;
}

std::string unescape(std::string_view escaped) {
  std::string out;
  out.reserve(escaped.size());
  while (!escaped.empty()) {
    const std::size_t plain = std::min(escaped.find('\\'), escaped.size());
    out += escaped.substr(0, plain);
    escaped.remove_prefix(plain);
    if (escaped.size() < 2) break;
    const char what = escaped[1];
    const bool is_ascii = static_cast<unsigned char>(what) < 0x80;
    escaped.remove_prefix(is_ascii ? 2 : 1);  // what is longer than a byte stays whole
    constexpr std::string_view kFrom = "\"\\/bfnrt";
    constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    if (const std::size_t at = kFrom.find(what); at != kFrom.npos) {
      out += kTo[at];
    } else if (what == 'u') {
      unescape_unicode(escaped, out);
    } else {
      out += kReplacement;
    }
  }
  return out;
}

std::string with_controls_escaped(std::string_view json) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  out.reserve(json.size());
  bool is_text = false;
  bool is_escaped = false;
  for (const char c : json) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_text && byte < 0x20) {
      // Behind a backslash it stands for itself.
      if (is_escaped) out.pop_back();
      out += "\\u00";
      out += kHex[byte >> 4U];
      out += kHex[byte & 0xFU];
      is_escaped = false;
      continue;
    }
    out += c;
    if (c == '"' && !is_escaped) is_text = !is_text;
    is_escaped = is_text && !is_escaped && c == '\\';
  }
  return out;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string as_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 0) {
      out += kReplacement;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

}  // namespace zenflow::sim
