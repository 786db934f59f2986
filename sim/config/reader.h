/// Typed, checked access to a document: what is missing, misspelt, of the wrong
/// type or out of range is an Error(kInput) that reads like a compiler's:
///
///   scenarios/x.yaml:14:11: training.sequence_length: expected a whole number >= 1, found "many"
///   profiles/y.yaml:7:3: gpu.memry: unknown key (did you mean "memory"?)
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.h"
#include "sim/config/document.h"

namespace zenflow {

/// Throws Error(kInput) "LOCATION: PATH: WHAT" (without "PATH: " if it is empty).
[[noreturn]] void fail_at(const Location& at, const std::string& path, const std::string& what);

/// The one of `known` that `suggestion` names, or nullptr.
[[nodiscard]] const std::string* nearest_word(std::string_view word,
                                              std::span<const std::string> known);
/// " (did you mean \"x\"?)" for the nearest of `known` within a third of the word's length
/// (at least 1, at most 3 edits; transpositions count one), else "".
[[nodiscard]] std::string suggestion(std::string_view word, std::span<const std::string> known);

/// One value with its dotted path, for messages.
class ValueReader {
 public:
  ValueReader(const Node& node, std::string path) : node_(&node), path_(std::move(path)) {}

  [[nodiscard]] const Node& node() const { return *node_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[noreturn]] void fail(const std::string& what) const;

  /// A non-empty string.
  [[nodiscard]] std::string string() const;
  /// true or false, unquoted.
  [[nodiscard]] bool boolean() const;
  /// A finite number in [low, high]; accepts 0.1, 1e-5, 5e8; refuses nan, inf, quoted text.
  [[nodiscard]] double number(double low, double high) const;
  /// A whole number in [low, high]; accepts 5e8 and 500000000, refuses 1.5.
  [[nodiscard]] std::int64_t integer(std::int64_t low, std::int64_t high) const;
  /// One of `choices`, else an error with a suggestion.
  [[nodiscard]] std::string choice(std::span<const std::string> choices) const;

  /// Quantities carry units: "80 GiB", "25 GB/s", "312 TFLOPS", "10 us"; a space is optional.
  /// Bytes: B kB MB GB TB KiB MiB GiB TiB. Rates: those with /s. Flops: MFLOPS GFLOPS TFLOPS
  /// PFLOPS (also "TFLOP/s"). Time: ps ns us ms s min. A rate or a time in a profile must be > 0
  /// (`bytes` may be 0); a bare number is an error that names the units expected.
  [[nodiscard]] Bytes bytes() const;
  [[nodiscard]] BytesPerSecond bandwidth() const;
  [[nodiscard]] FlopsPerSecond flops_rate() const;
  [[nodiscard]] Seconds duration() const;  ///< >= 0

  [[nodiscard]] std::vector<ValueReader> items() const;  ///< of a sequence, else an error

 private:
  const Node* node_;
  std::string path_;
};

/// A map of which every key must be asked for.
class MapReader {
 public:
  /// Throws Error(kInput) if `node` is not a map.
  MapReader(const Node& node, std::string path);

  [[nodiscard]] const Location& at() const { return node_->at; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const Node& node() const { return *node_; }
  /// Throws Error(kInput) at the map, or at `key`'s value if it is present.
  [[noreturn]] void fail(std::string_view key, const std::string& what) const;

  /// The value of `key`; an error at the map if it is missing.
  [[nodiscard]] ValueReader require(std::string_view key);
  /// The value of `key`, or nothing if it is missing or null.
  [[nodiscard]] std::optional<ValueReader> optional(std::string_view key);
  [[nodiscard]] MapReader require_map(std::string_view key);
  [[nodiscard]] std::optional<MapReader> optional_map(std::string_view key);
  /// Marks `key` as known without reading it.
  void ignore(std::string_view key);

  [[nodiscard]] std::int64_t integer_or(std::string_view key, std::int64_t fallback,
                                        std::int64_t low, std::int64_t high);
  [[nodiscard]] double number_or(std::string_view key, double fallback, double low, double high);
  [[nodiscard]] bool boolean_or(std::string_view key, bool fallback);
  [[nodiscard]] std::string string_or(std::string_view key, std::string_view fallback);

  /// Keys present in the document.
  [[nodiscard]] std::vector<std::string> keys() const;
  /// Throws Error(kInput) at the first key that was never asked for, with the nearest
  /// key that was.
  void reject_unknown_keys() const;

 private:
  const Node* node_;
  std::string path_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace zenflow
