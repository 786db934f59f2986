/// A directory of checkpoints of one run: files `checkpoint-<step>`, the step in decimal without
/// leading zeros. Of a run of several ranks this is rank 0's shard, which appears last and says
/// in a section `ranks` how many there are; `checkpoint-<step>.rank-<r>` is that of rank r. All
/// have the same number in a section `writing`. Other names are left alone, and directories.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/checkpoint/checkpoint_writer.h"

namespace zenflow::runtime {

struct CheckpointFile {
  std::filesystem::path path;
  std::uint64_t step = 0;  ///< by its name
};

/// Sections of shards: an i32 of rank 0's, and a u64 that tells one writing of a step from another.
inline constexpr std::string_view kRanks = "ranks";
inline constexpr std::string_view kWriting = "writing";

/// The file of a rank. rank >= 0.
[[nodiscard]] std::filesystem::path shard_path(const std::filesystem::path& directory,
                                               std::uint64_t step, int rank);
/// All shards of rank 0's, itself first. Throws Error(kInput) if that cannot be read.
[[nodiscard]] std::vector<std::filesystem::path> shard_paths(const CheckpointFile& file);

/// Writes the shard of rank `rank` > 0 with the sections that `fill` adds, reads it back and
/// verifies it, before rank 0 saves its own. Throws as CheckpointDirectory::save.
void save_shard(const std::filesystem::path& directory, std::uint64_t step, int rank,
                const std::function<void(CheckpointWriter&)>& fill);

/// Those of which rank 0's shard is there, newest first. Throws Error(kInput) if there is no such
/// directory or it cannot be read.
[[nodiscard]] std::vector<CheckpointFile> list_checkpoints(const std::filesystem::path& directory);

struct RejectedCheckpoint {
  std::filesystem::path path;
  std::string reason;  ///< the complete message, beginning with the path
};

struct LatestCheckpoint {
  std::optional<CheckpointFile> valid;
  std::vector<RejectedCheckpoint> rejected;  ///< those with a larger step, newest first
};

/// The checkpoint with the largest step among those that verify in full, all shards. Whether to go
/// on from an older one, after telling the user of those rejected, is for the caller to decide.
/// Throws as list_checkpoints; a checkpoint that cannot be read is rejected, not thrown.
[[nodiscard]] LatestCheckpoint latest_valid(const std::filesystem::path& directory);

/// Keeps other processes from writing to a directory: flock on its file `.lock`, which ends with
/// the process however that ends.
class DirectoryLock {
 public:
  /// Throws Error(kInput) if the directory cannot be written or another process holds the lock.
  explicit DirectoryLock(const std::filesystem::path& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int descriptor_;
};

/// The side that writes: a run's one process, or rank 0. Locked: two runs must not mix their
/// checkpoints.
class CheckpointDirectory {
 public:
  /// Creates the directory if only its last component is missing, and removes what killed writers
  /// left. `keep` valid checkpoints stay, at least 1. `resumed_step`: of the checkpoint that the
  /// run went on from; none for a new run, whose directory must hold no checkpoint. Throws
  /// Error(kInput) if the directory cannot be written, is locked by another process, holds a
  /// checkpoint that the next --resume would take for this run's, or keep is 0.
  CheckpointDirectory(std::filesystem::path directory, std::uint64_t keep,
                      std::optional<std::uint64_t> resumed_step);

  /// Temporary files of killed writers, and shards without rank 0's, that were removed on opening.
  [[nodiscard]] const std::vector<std::filesystem::path>& removed_remains() const {
    return removed_remains_;
  }

  /// What a save did.
  struct Saved {
    std::filesystem::path path;
    std::vector<std::filesystem::path> removed;  ///< older checkpoints, by the rule of `keep`
  };

  /// Writes `checkpoint-<step>` with the sections that `fill` adds, replacing one of that name,
  /// reads it back and verifies it, and removes old ones: those older than the `keep` newest valid
  /// ones. Each of these has been verified in full once in this process. Damaged ones among them
  /// stay, for whoever wants to know why. Shards go with rank 0's, after it. Steps must not
  /// decrease. Throws Error(kRuntime) if the system fails, with every older checkpoint still there;
  /// what `fill` throws passes through.
  Saved save(std::uint64_t step, const std::function<void(CheckpointWriter&)>& fill);

 private:
  void reject_other_runs() const;
  void remove_remains();
  std::vector<std::filesystem::path> remove_old();
  bool is_valid(const CheckpointFile& file);

  std::filesystem::path directory_;
  std::uint64_t keep_;
  std::optional<std::uint64_t> last_step_;  // resumed from or saved
  DirectoryLock lock_;
  std::vector<std::filesystem::path> removed_remains_;
  std::vector<std::uint64_t> verified_;  // steps of files that were read back once
};

}  // namespace zenflow::runtime
