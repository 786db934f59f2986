/// A folder of this process, removed with it, for readers that take paths; in memory where the
/// system has such a place, since a fuzzer writes a file for every input.
#pragma once

#include <cerrno>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace zenflow::fuzz {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::error_code none;
    const std::filesystem::path memory = "/dev/shm";
    path_ = std::filesystem::is_directory(memory, none) ? memory
                                                        : std::filesystem::temp_directory_path();
    path_ /= "zenflow_fuzz_" + std::to_string(::getpid());
    std::filesystem::create_directories(path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Writes or overwrites a file, and returns its path. Not by a stream: that takes longer than
  /// many a reader.
  [[nodiscard]] std::filesystem::path write(std::string_view name, std::string_view bytes) const {
    const std::filesystem::path file = path_ / name;
    constexpr unsigned kMode = 0600;
    const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
    const bool is_written = descriptor >= 0 && ::write(descriptor, bytes.data(), bytes.size()) ==
                                                   static_cast<ssize_t>(bytes.size());
    if (descriptor >= 0) static_cast<void>(::close(descriptor));
    if (!is_written) throw std::runtime_error("cannot write " + file.string());
    return file;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace zenflow::fuzz
