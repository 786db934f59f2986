#include "sim/base/paths.h"

#include <string>

namespace zenflow {
namespace {

namespace fs = std::filesystem;

/// "a/link/.." is where the system goes, not "a". What is not there yet stays as it is written.
fs::path real(const fs::path& path) {
  return fs::weakly_canonical(fs::absolute(path));
}

}  // namespace

fs::path path_from(const fs::path& folder, const fs::path& path) {
  const fs::path file = real(fs::absolute(path).parent_path()) / path.filename();
  return file.lexically_proximate(real(folder));
}

fs::path path_of_rank(const fs::path& path, int rank) {
  if (rank == 0) return path;
  fs::path stem = path.filename();
  std::string extension;
  if (stem.extension() == ".gz") {
    extension = ".gz";
    stem = stem.stem();
  }
  extension = stem.extension().string() + extension;
  return path.parent_path() / (stem.stem().string() + ".rank-" + std::to_string(rank) + extension);
}

}  // namespace zenflow
