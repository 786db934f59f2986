#include "sim/config/hjson_text.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace zenflow {
namespace {

// What Python's str.strip() takes for white space, as far as it gets here.
constexpr std::array<std::string_view, 22> kSpaces = {
    " ",      "\t",     "\r",     "\n",     "\u00A0", "\u1680", "\u2000", "\u2001",
    "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009",
    "\u200A", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"};

}  // namespace

std::string_view without_trailing_space(std::string_view text) {
  while (true) {
    const auto space = std::find_if(kSpaces.begin(), kSpaces.end(),
                                    [text](std::string_view s) { return text.ends_with(s); });
    if (space == kSpaces.end()) return text;
    text.remove_suffix(space->size());
  }
}

std::string_view without_space(std::string_view text) {
  while (true) {
    const auto space = std::find_if(kSpaces.begin(), kSpaces.end(),
                                    [text](std::string_view s) { return text.starts_with(s); });
    if (space == kSpaces.end()) return without_trailing_space(text);
    text.remove_prefix(space->size());
  }
}

std::string halves_escaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[i + at]); };
    if (byte(0) == 0xEDU && i + 2 < text.size() && byte(1) >= 0xA0U) {
      out += fmt::format("\\u{:04X}", 0xD000U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU));
      i += 3;
    } else {
      out += text[i++];
    }
  }
  return out;
}

std::size_t json_number_length(std::string_view text) {
  std::size_t end = 0;
  const auto digits = [&text, &end] {
    const std::size_t begin = end;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    return end - begin;
  };
  const auto at = [&text, &end](std::string_view any) {
    return end < text.size() && any.find(text[end]) != std::string_view::npos;
  };
  if (at("-")) ++end;
  if (at("0")) {
    ++end;
  } else if (digits() == 0) {
    return 0;
  }
  std::size_t whole = end;
  if (at(".")) {
    ++end;
    if (digits() == 0) return whole;
    whole = end;
  }
  if (at("eE")) {
    ++end;
    if (at("+-")) ++end;
    if (digits() == 0) return whole;
  }
  return end;
}

}  // namespace zenflow
