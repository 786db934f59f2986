#include "sim/base/text.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

namespace zenflow {

std::string lower_case(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return small;
}

std::string number_text(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

bool contains_any(std::string_view text, std::span<const std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return text.find(part) != text.npos; });
}

std::size_t utf8_length(std::string_view rest) {
  const auto byte = [&rest](std::size_t i) { return static_cast<unsigned char>(rest[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80U) return 1;
  const std::size_t length = lead >= 0xF0U ? 4 : lead >= 0xE0U ? 3 : 2;
  if (lead < 0xC2U || lead > 0xF4U || rest.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  }
  const unsigned second = byte(1);
  const bool overlong = (lead == 0xE0U && second < 0xA0U) || (lead == 0xF0U && second < 0x90U);
  const bool surrogate = lead == 0xEDU && second >= 0xA0U;
  const bool too_large = lead == 0xF4U && second >= 0x90U;
  return overlong || surrogate || too_large ? 0 : length;
}

namespace {

/// The character of a sequence of at most three bytes; what has more controls nothing.
std::uint32_t character_of(std::string_view sequence) {
  const auto byte = [&sequence](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(sequence[i]));
  };
  if (sequence.size() == 1) return byte(0);
  if (sequence.size() == 2) return (byte(0) & 0x1FU) << 6U | (byte(1) & 0x3FU);
  if (sequence.size() > 3) return 0x10000;
  return (byte(0) & 0xFU) << 12U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU);
}

bool is_control(std::uint32_t c) {
  const bool turns = c == 0x61C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) ||
                     (c >= 0x2066 && c <= 0x2069);
  const bool ends_line = c == 0x2028 || c == 0x2029;
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || turns || ends_line;
}

constexpr std::uint32_t kReplacement = 0xFFFD;
constexpr std::uint32_t kNoCharacter = 0xFFFFFFFF;

/// visit(bytes, character) of each; what is no UTF-8 byte by byte, as kNoCharacter.
template <class Visit>
void for_each_character(std::string_view text, const Visit& visit) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    const std::string_view sequence = text.substr(i, std::max<std::size_t>(1, length));
    visit(sequence, length == 0 ? kNoCharacter : character_of(sequence));
    i += sequence.size();
  }
}

constexpr std::size_t kHalfBytes = 3;

/// Half of a pair of surrogates, as JSON and Hjson may say it with \u, in three bytes that are no
/// UTF-8.
bool begins_with_half(std::string_view rest) {
  const auto byte = [&rest](std::size_t i) { return static_cast<unsigned char>(rest[i]); };
  return rest.size() >= kHalfBytes && byte(0) == 0xEDU && byte(1) >= 0xA0U && byte(1) <= 0xBFU &&
         (byte(2) & 0xC0U) == 0x80U;
}

void append_escape(std::uint32_t c, std::string& out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += "\\u";
  for (unsigned shift = 16; shift > 0; shift -= 4) out += kHex[(c >> (shift - 4)) & 0xFU];
}

/// $'...': every byte of what a terminal obeys, and of what is no UTF-8, in octal, whose three
/// digits cannot run on into the text behind.
std::string escaped_shell_word(std::string_view text) {
  std::string word = "$'";
  for_each_character(text, [&](std::string_view sequence, std::uint32_t c) {
    if (c == kNoCharacter || is_control(c)) {
      for (const char one : sequence) {
        const auto byte = static_cast<unsigned char>(one);
        word += '\\';
        for (const unsigned shift : {6U, 3U, 0U}) {
          word += static_cast<char>('0' + ((byte >> shift) & 7U));
        }
      }
    } else {
      if (c == '\\' || c == '\'') word += '\\';
      word += sequence;
    }
  });
  return word + "'";
}

constexpr std::string_view kReset = "\033[0m";

/// A style of ours and the text that has it: a table's header, a line in bold; or what a finding
/// is, ": error: ", in bold and a colour.
struct OwnStyle {
  std::string_view begin;  // empty: what is there is another's
  std::string_view text;
};

OwnStyle own_style(std::string_view before, std::string_view rest) {
  constexpr std::string_view kBold = "\033[1m";
  constexpr std::string_view kColor = "\033[1;3";
  const bool bold = rest.starts_with(kBold);
  if (!bold && !rest.starts_with(kColor)) return {};
  const std::string_view begin = rest.substr(0, bold ? kBold.size() : kColor.size() + 2);
  rest.remove_prefix(begin.size());
  const std::string_view text = rest.substr(0, rest.find_first_of("\033\n"));
  rest.remove_prefix(text.size());
  const bool ends = begin.ends_with("1m") || begin.ends_with("5m") || begin.ends_with("6m");
  if (!ends || !rest.starts_with(kReset)) return {};
  rest.remove_prefix(kReset.size());
  before.remove_prefix(before.rfind('\n') + 1);
  const bool is_line = trimmed(before, " ").empty() && (rest.empty() || rest.front() == '\n');
  const bool is_kind = before.ends_with(": ") && rest.starts_with(": ") &&
                       std::all_of(text.begin(), text.end(), [](char c) {
                         return std::islower(static_cast<unsigned char>(c)) != 0;
                       });
  return (bold ? is_line : is_kind) ? OwnStyle{begin, text} : OwnStyle{};
}

std::string escaped(std::string_view text, std::string_view kept, bool styled) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    const std::size_t length = utf8_length(rest);
    const OwnStyle style = styled ? own_style(text.substr(0, i), rest) : OwnStyle{};
    const std::uint32_t c = length == 0 ? 0 : character_of(rest.substr(0, length));
    if (length == 0) {
      append_utf8(kReplacement, out);
    } else if (!style.begin.empty()) {
      out += style.begin;
      out += escaped(style.text, kept, false);
      out += kReset;
      i += style.begin.size() + style.text.size() + kReset.size() - length;
    } else if (is_control(c) && kept.find(rest.front()) == kept.npos) {
      append_escape(c, out);
    } else {
      out += rest.substr(0, length);
    }
    i += std::max<std::size_t>(1, length);
  }
  return out;
}

}  // namespace

std::string json_quoted(std::string_view text) {
  constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  std::string out = "\"";
  std::size_t half = 0;  // bytes left of one
  for_each_character(text, [&](std::string_view sequence, std::uint32_t c) {
    const auto place = static_cast<std::size_t>(sequence.data() - text.data());
    if (half == 0 && c == kNoCharacter && begins_with_half(text.substr(place))) half = kHalfBytes;
    if (half > 0) {  // kept as it is: who writes documents escapes it
      --half;
      out += sequence;
    } else if (const std::size_t at = kEscaped.find(sequence.front()); at != kEscaped.npos) {
      out += '\\';
      out += kLetters[at];
    } else if (sequence.size() == 1 && c == kNoCharacter) {
      append_utf8(kReplacement, out);
    } else if (is_control(c)) {
      append_escape(c, out);
    } else {
      out += sequence;
    }
  });
  return out + '"';
}

std::string quoted_by_doubling(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) out.append(c == '"' ? 2 : 1, c);
  return out + '"';
}

std::string printable(std::string_view text, bool styled) {
  return escaped(text, "\n\t", styled);
}

std::string printable_name(std::string_view text) {
  return escaped(text, "", false);
}

std::string shell_word(std::string_view text) {
  const auto is_plain = [](char c) {
    constexpr std::string_view kPlain = "_@%+=:,./-";
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || kPlain.find(c) != kPlain.npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  if (printable_name(text) != text) return escaped_shell_word(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

void append_utf8(std::uint32_t character, std::string& out) {
  const auto tail = [&](unsigned shift) {
    out += static_cast<char>(0x80U | ((character >> shift) & 0x3FU));
  };
  if (character < 0x80) {
    out += static_cast<char>(character);
  } else if (character < 0x800) {
    out += static_cast<char>(0xC0U | (character >> 6U));
    tail(0);
  } else if (character < 0x10000) {
    out += static_cast<char>(0xE0U | (character >> 12U));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0U | (character >> 18U));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace zenflow
