/// How files name each other.
#pragma once

#include <filesystem>
#include <string>

namespace zenflow {

/// The file as one names it who is in `folder`, also where one of them is reached by symbolic
/// links. The last component of `path` stays as it is: a link may have a name of its own.
[[nodiscard]] std::filesystem::path path_from(const std::filesystem::path& folder,
                                              const std::filesystem::path& path);

/// Where rank r writes what rank 0 writes to `path`: "run.json.gz" is "run.rank-1.json.gz".
[[nodiscard]] std::filesystem::path path_of_rank(const std::filesystem::path& path, int rank);

}  // namespace zenflow
