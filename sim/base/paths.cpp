#include "sim/base/paths.h"

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

}  // namespace zenflow
