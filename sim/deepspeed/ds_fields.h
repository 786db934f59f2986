/// The keys that DeepSpeed knows, release by release: the one table of them, with what becomes of
/// each in a simulation.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "sim/deepspeed/versions.h"

namespace zenflow::sim {

enum class FieldType { kBool, kInteger, kNumber, kText, kIntervalOrAuto, kMap, kNames };

/// What a simulation makes of a key.
enum class KeyEffect : std::uint8_t {
  kModelled,
  kNone,         ///< the key has no effect on time and memory
  kNotModelled,  ///< it has, and results are as if the key were not there: they name it
};
[[nodiscard]] std::string_view to_string(KeyEffect effect);

/// Where a key that is not modelled has an effect.
enum class KeyScope : std::uint8_t {
  kAnywhere,
  kStages12,
  kStage3,
  kNvme,               ///< the optimizer or parameters are on NVMe
  kIfEnabled,          ///< of a block: "enabled" is true in it
  kIfEnabledWithZero,  ///< likewise, stages 1 to 3
};

struct KeyMeaning {
  KeyEffect effect = KeyEffect::kNotModelled;
  std::string_view neutral = {};  ///< "false|0": with these values there is nothing to model
  KeyScope scope = KeyScope::kAnywhere;
};

inline constexpr Version kNeverRemoved = {99, 0, 0};

/// Whether a row of one of the tables below holds for the release.
template <class Row>
[[nodiscard]] constexpr bool is_valid_in(const Row& row, const Version& version) {
  return version >= row.since && version < row.removed;
}

/// One field of a block that DeepSpeed validates with pydantic (unknown keys refused).
struct Field {
  std::string_view block;
  std::string_view key;
  FieldType type = FieldType::kBool;
  KeyMeaning meaning = {};
  bool nullable = false;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool open = false;              ///< low and high themselves are refused
  std::string_view choices = {};  ///< "none|cpu|nvme"
  bool strict = false;            ///< neither true nor false, and a text only if it is an integer
  Version since = kOldestVersion;
  Version removed = kNeverRemoved;  ///< first release without it
};
[[nodiscard]] std::span<const Field> strict_fields();
/// "zero_optimization", "zero_optimization.zenflow", ...
[[nodiscard]] std::span<const std::string_view> strict_blocks();
/// Whether the release has the block and refuses keys there that it does not know.
[[nodiscard]] bool is_strict(std::string_view block, const Version& version);

/// A top-level block and the release that refuses it.
struct RemovedBlock {
  std::string_view key;
  Version removed;
  std::string_view instead;
};
[[nodiscard]] std::span<const RemovedBlock> removed_blocks();
/// A key that DeepSpeed reads at the top of the file. One that was gone for a while has two rows.
struct TopLevelKey {
  std::string_view key;
  KeyMeaning meaning = {};
  Version since = kOldestVersion;
  Version removed = kNeverRemoved;
};
[[nodiscard]] std::span<const TopLevelKey> top_level_keys();
/// Whether the release reads the key at the top of the file; false of keys that none reads, too.
[[nodiscard]] bool is_top_level_key(std::string_view key, const Version& version);
/// A key of a block that DeepSpeed opens without checking its keys.
struct InnerKey {
  std::string_view block;
  std::string_view key;
  KeyMeaning meaning = {};
};
[[nodiscard]] std::span<const InnerKey> inner_keys();

/// From this release on data_types.param_dtype and buffer_dtype are read.
inline constexpr Version kDataTypesSince = {0, 19, 2};
/// "fp32", "fp16", "bf16" or "int8" for a word of data_types; empty: no data type.
[[nodiscard]] std::string_view data_type(std::string_view word);

}  // namespace zenflow::sim
