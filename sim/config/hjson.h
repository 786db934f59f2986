/// Reads Hjson, JSON for people: comments, no quotes, no commas, no braces around the file.
///
/// DeepSpeed reads its configuration with the Python package hjson (3.1.0), and this accepts what
/// that accepts, with the same values; strict JSON is a subset. Source: https://hjson.github.io and
/// hjson/decoder.py.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/document.h"

namespace zenflow {

/// What a strict JSON reader would stop at, comments aside.
enum class HjsonFeature {
  kByteOrderMark,
  kNoBraces,  ///< around the whole file
  kUnquotedKey,
  kUnquotedText,   ///< runs to the end of its line, a comma included
  kSingleQuotes,   ///< around a key or a text
  kMultilineText,  ///< between '''
  kMissingComma,
  kTrailingComma,
  kCharacter,  ///< the escape \' or a space other than ASCII's after a word
};

struct HjsonUse {
  HjsonFeature feature;
  Location at;
  std::string text = {};  ///< of kUnquotedText: what was read
};

struct HjsonDocument {
  Node root;
  std::vector<Location> comments;  ///< where each starts, of the first thousand
  std::vector<HjsonUse> uses;      ///< in the order of the text; empty if it is JSON with comments
};

/// Throws Error(kInput), located, on malformed text, text of more than 8 MiB, a duplicate key, an
/// empty file and all else that parse_json refuses, except for a byte order mark, integers of up to
/// 4300 digits and half a surrogate pair, which stands in the tree as three bytes that are not
/// UTF-8: write it with `halves_escaped`. Two things that hjson takes are refused: \u without four
/// hexadecimal digits, and a file without settings.
[[nodiscard]] HjsonDocument parse_hjson(std::string_view text, const std::string& file);

/// `read_text_file` then `parse_hjson`.
[[nodiscard]] HjsonDocument load_hjson(const std::filesystem::path& path);

}  // namespace zenflow
