/// accelerate's own configuration file, whose `deepspeed_config` block accelerate turns into a
/// DeepSpeed configuration.
/// Source: accelerate/utils/dataclasses.py DeepSpeedPlugin, commands/config/config_args.py.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/deepspeed/ds_document.h"

namespace zenflow::sim {

/// A key with its dotted path, and where it stands.
struct LocatedKey {
  std::string path;
  Location at;
};

struct AccelerateConfig {
  /// What DeepSpeed is given if the block names no file; values stand where the block has them.
  DsDocument document;
  std::optional<std::filesystem::path> file;  ///< deepspeed_config_file, as written
  std::optional<std::int64_t> processes;      ///< num_processes: of all machines
  std::int64_t machines = 1;
  /// With `file`: what accelerate refuses beside it, whatever the values are.
  std::vector<LocatedKey> refused;
};

/// Whether the text is such a file rather than DeepSpeed's: a map with `deepspeed_config` in it.
[[nodiscard]] bool is_accelerate_config(const Node& root);

/// Throws Error(kInput), located, for keys of the block that accelerate does not know and for
/// values of the wrong type. Precondition: is_accelerate_config(root).
[[nodiscard]] AccelerateConfig read_accelerate_config(const Node& root);

}  // namespace zenflow::sim
