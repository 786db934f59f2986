#include "sim/base/temporary_folder.h"

#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

namespace zenflow {

std::unique_ptr<TemporaryFolder> TemporaryFolder::make(const std::filesystem::path& prefix) {
  std::string name = std::filesystem::absolute(prefix).string() + "XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) return nullptr;
  return std::unique_ptr<TemporaryFolder>(new TemporaryFolder(name));
}

TemporaryFolder::TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace zenflow
