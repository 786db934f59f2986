/// Files that appear whole or not at all.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

namespace zenflow {

/// Throws Error(kInput) if `path` exists and `overwrite` is false, if its directory does not exist
/// or if it is a directory: before any work whose result would be lost.
void check_output(const std::filesystem::path& path, bool overwrite);

/// Writes to a temporary name beside `path`, then renames. A name ending in ".gz" is
/// compressed (without a time stamp, so equal content gives equal bytes).
/// Throws Error(kInput) as check_output does, Error(kRuntime) if writing fails; nothing is left
/// then.
void write_output(const std::filesystem::path& path, std::string_view content, bool overwrite);

/// Writes a file in pieces, under a temporary name beside it until `commit`. Not committed, it
/// leaves nothing; a killed program leaves the temporary file, `<name>.partial-<process id>`.
/// Every function throws Error(kRuntime) with the path and the reason if the system fails.
class OutputFile {
 public:
  /// Whether a committed file has to survive a power failure: kYes waits for the disk.
  enum class Durable { kNo, kYes };

  /// Throws as check_output.
  OutputFile(std::filesystem::path path, bool overwrite);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Appends. Unbuffered: many small pieces are many system calls.
  void write(std::string_view bytes);

  /// Gives the file its name. If this throws, the name holds what it held before, unless only the
  /// directory could not be synchronised: the file is complete then, but may be lost with power.
  void commit(Durable durable);

  /// What stands between the name of a file and a process id in a temporary name.
  static constexpr std::string_view kTemporaryInfix = ".partial-";

 private:
  friend class OutputFiles;

  [[noreturn]] void fail(const char* what, int error) const;
  void close();
  void give_name();

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  bool overwrite_;
  int descriptor_ = -1;
  bool is_temporary_ = false;  // whether the temporary name is there and ours to remove
};

/// Several files that get their names all or none. A program that is killed while it names them may
/// leave some named, and what those held before as `<name>.replaced-<process id>`.
/// Throws as OutputFile.
class OutputFiles {
 public:
  explicit OutputFiles(bool overwrite) : overwrite_(overwrite) {}

  /// Under a temporary name until `commit`.
  void write(const std::filesystem::path& path, std::string_view content);

  /// Does not wait for the disk. If this throws, every name holds what it held before.
  void commit();

 private:
  struct Named {
    const OutputFile* file;
    std::filesystem::path replaced;  // what the name held before; empty: nothing
  };

  [[nodiscard]] std::filesystem::path keep_replaced(const OutputFile& file) const;
  static void take_back(const std::vector<Named>& named);

  bool overwrite_;
  std::vector<std::unique_ptr<OutputFile>> files_;
};

}  // namespace zenflow
