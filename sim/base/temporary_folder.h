/// A folder for files that nobody keeps.
#pragma once

#include <filesystem>
#include <memory>

namespace zenflow {

/// Removed with what is in it.
class TemporaryFolder {
 public:
  /// A new folder whose name begins with `prefix`; null, with errno saying why, if none can be
  /// made.
  [[nodiscard]] static std::unique_ptr<TemporaryFolder> make(const std::filesystem::path& prefix);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  /// Absolute.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::filesystem::path path);
  std::filesystem::path path_;
};

}  // namespace zenflow
