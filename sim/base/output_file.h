/// Files that appear whole or not at all.
#pragma once

#include <filesystem>
#include <string_view>

namespace zenflow {

/// Throws Error(kInput) if `path` exists and `overwrite` is false, if its directory does not exist
/// or if it is a directory: before any work whose result would be lost.
void check_output(const std::filesystem::path& path, bool overwrite);

/// Writes to a temporary name beside `path`, then renames. A name ending in ".gz" is
/// compressed (without a time stamp, so equal content gives equal bytes).
/// Throws Error(kInput) as check_output does, Error(kRuntime) if writing fails; nothing is left
/// then.
void write_output(const std::filesystem::path& path, std::string_view content, bool overwrite);

}  // namespace zenflow
