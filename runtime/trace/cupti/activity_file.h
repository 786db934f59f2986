/// Recordings on disk, written while the program runs: what a killed process had written is read.
///
/// Format, in the byte order of the machine: the magic "ZFACTIV1", then chunks of a 4-byte type, a
/// 4-byte size and so many bytes. Information (JSON) comes first; strings are numbered from 1 in
/// the order of their chunks and precede the activities that use them; activities lie as in memory;
/// the time at which they were written follows; the end (JSON) is there if the process ended its
/// recording. Not a format to keep: the program that
/// writes it and the one that reads it are of one build.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/trace/cupti/activity.h"

namespace zenflow::runtime {

/// For one thread at a time. Everything but the destructor throws Error(kRuntime) with the file and
/// the system's reason if writing fails; the file then ends within a chunk, which readers cut off.
class ActivityFileWriter {
 public:
  /// Creates `path`, which must not exist.
  explicit ActivityFileWriter(std::filesystem::path path);
  ~ActivityFileWriter();
  ActivityFileWriter(const ActivityFileWriter&) = delete;
  ActivityFileWriter& operator=(const ActivityFileWriter&) = delete;

  /// Comes first. Of `log`: process, program, cupti_version, low_overhead, session_start, untraced.
  void begin(const ActivityLog& log);
  /// `strings`: all so far; those after the last call's are written. `now`: what the session's
  /// clock says; the last one is the end of a recording that was not ended.
  void append(std::span<const Activity> activities, const std::vector<std::string>& strings,
              std::uint64_t now);
  /// Writes what is known at the end of `log`: session_end, notes, losses.
  void finish(const ActivityLog& log);

 private:
  void chunk(std::uint32_t type, std::string_view bytes);
  void write(std::string_view bytes);

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::size_t strings_written_ = 1;  // the empty string is not written
};

/// Throws Error(kInput) if `path` cannot be read or is no recording, or if a whole chunk
/// contradicts itself. A file that ends within a chunk, or without the end, gives `complete` =
/// false.
[[nodiscard]] ActivityLog read_activity_file(const std::filesystem::path& path);

}  // namespace zenflow::runtime
