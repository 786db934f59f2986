#include "runtime/checkpoint/checkpoint_directory.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checkpoint/checkpoint_reader.h"
#include "sim/base/error.h"
#include "sim/base/stop.h"

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kRankInfix = ".rank-";

[[noreturn]] void fail(ErrorKind kind, const fs::path& path, std::string_view what) {
  throw Error(kind, fmt::format("{}: {}", path.generic_string(), what));
}

/// A decimal number without leading zeros.
std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_canonical = error == std::errc() && end == text.data() + text.size() &&
                            (text.size() == 1 || text.front() != '0');
  return is_canonical ? std::optional(number) : std::nullopt;
}

/// By the name of rank 0's shard.
std::optional<std::uint64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  return number_of(name.substr(kPrefix.size()));
}

/// By the name of another rank's.
std::optional<std::uint64_t> step_of_shard(std::string_view name) {
  const std::size_t infix = name.find(kRankInfix);
  if (infix == std::string_view::npos) return std::nullopt;
  const auto rank = number_of(name.substr(infix + kRankInfix.size()));
  return rank.value_or(0) > 0 ? step_of(name.substr(0, infix)) : std::nullopt;
}

/// Whether a killed writer of ours may have left a file of this name.
bool is_temporary(std::string_view name) {
  const std::size_t infix = name.find(OutputFile::kTemporaryInfix);
  if (infix == std::string_view::npos) return false;
  const std::string_view shard = name.substr(0, infix);
  return step_of(shard).has_value() || step_of_shard(shard).has_value();
}

std::vector<fs::path> entries(const fs::path& directory) {
  std::error_code error;
  std::vector<fs::path> paths;
  // Incremented by hand: the range-based loop throws what is not our Error.
  fs::directory_iterator it(directory, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) paths.push_back(it->path());
  if (error == std::errc::no_such_file_or_directory) {
    fail(ErrorKind::kInput, directory, "no such directory");
  }
  if (error) fail(ErrorKind::kInput, directory, "cannot read: " + error.message());
  std::ranges::sort(paths);
  return paths;
}

/// Throws Error if it is damaged, unreadable or under a wrong name.
void verify_shard(const CheckpointFile& file) {
  const CheckpointReader reader(file.path);
  if (reader.step() != file.step) {
    fail(ErrorKind::kInput, file.path,
         fmt::format("holds step {}, which is not what its name says", reader.step()));
  }
  reader.verify();
}

void verify_file(const CheckpointFile& file) {
  const std::vector<fs::path> shards = shard_paths(file);
  for (const fs::path& shard : shards) verify_shard({shard, file.step});
  if (shards.size() == 1) return;
  // A job that ends while it writes a step again leaves shards of both times.
  const auto writing = [](const fs::path& shard) {
    return CheckpointReader(shard).read_value<std::uint64_t>(kWriting);
  };
  for (const fs::path& shard : shards) {
    if (writing(shard) != writing(file.path)) {
      fail(ErrorKind::kInput, shard,
           "was not written with " + file.path.filename().generic_string());
    }
  }
}

/// Damaged ones stay where they are, and latest_valid says what is wrong with them.
bool is_sound(const CheckpointFile& file) {
  try {
    verify_file(file);
  } catch (const Stopped&) {
    throw;
  } catch (const Error&) {
    return false;
  }
  return true;
}

/// Throws Error(kRuntime): what has just been written is not the user's mistake.
void read_back(const CheckpointFile& file) {
  try {
    verify_shard(file);
  } catch (const Error& error) {
    throw Error(ErrorKind::kRuntime, std::string(error.what()) + " (just written and read back)");
  }
}

/// The directory, which is there afterwards.
fs::path created(fs::path directory) {
  constexpr mode_t kAll = 0777;  // less the umask
  if (::mkdir(directory.c_str(), kAll) != 0 && errno != EEXIST) {
    fail(ErrorKind::kInput, directory,
         std::string("cannot create the directory: ") + std::strerror(errno));
  }
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    fail(ErrorKind::kInput, directory, "is not a directory");
  }
  return directory;
}

/// A directory of such a name is none of ours, and stays.
bool is_ours(const fs::path& path) {
  std::error_code unknown;
  return !fs::is_directory(fs::symlink_status(path, unknown));
}

void remove_file(const fs::path& path) {
  if (::unlink(path.c_str()) != 0) {
    fail(ErrorKind::kRuntime, path, std::string("cannot remove: ") + std::strerror(errno));
  }
}

void write_shard(const CheckpointFile& file, const std::function<void(CheckpointWriter&)>& fill) {
  CheckpointWriter writer(file.path, file.step);
  fill(writer);
  writer.commit();
  read_back(file);
}

}  // namespace

fs::path shard_path(const fs::path& directory, std::uint64_t step, int rank) {
  const std::string name = fmt::format("{}{}", kPrefix, step);
  return directory / (rank == 0 ? name : fmt::format("{}{}{}", name, kRankInfix, rank));
}

std::vector<fs::path> shard_paths(const CheckpointFile& file) {
  constexpr std::int32_t kMostRanks = 1 << 20;
  CheckpointReader reader(file.path);
  const std::int32_t ranks = reader.contains(kRanks) ? reader.read_value<std::int32_t>(kRanks) : 1;
  if (ranks < 1 || ranks > kMostRanks) {
    fail(ErrorKind::kInput, file.path, fmt::format("is of {} ranks", ranks));
  }
  std::vector<fs::path> paths;
  for (int rank = 0; rank < ranks; ++rank) {
    paths.push_back(shard_path(file.path.parent_path(), file.step, rank));
  }
  return paths;
}

void save_shard(const fs::path& directory, std::uint64_t step, int rank,
                const std::function<void(CheckpointWriter&)>& fill) {
  write_shard({shard_path(directory, step, rank), step}, fill);
}

std::vector<CheckpointFile> list_checkpoints(const fs::path& directory) {
  std::vector<CheckpointFile> files;
  for (const fs::path& path : entries(directory)) {
    if (const auto step = step_of(path.filename().string())) files.push_back({path, *step});
  }
  std::ranges::sort(files, std::ranges::greater(), &CheckpointFile::step);
  return files;
}

LatestCheckpoint latest_valid(const fs::path& directory) {
  LatestCheckpoint latest;
  for (const CheckpointFile& file : list_checkpoints(directory)) {
    try {
      verify_file(file);
      latest.valid = file;
      return latest;
    } catch (const Stopped&) {
      throw;
    } catch (const Error& error) {
      latest.rejected.push_back({file.path, error.what()});
    }
  }
  return latest;
}

DirectoryLock::DirectoryLock(const fs::path& directory) {
  constexpr mode_t kReadWrite = 0666;  // less the umask
  const fs::path path = directory / ".lock";
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kReadWrite);
  if (descriptor_ < 0) {
    fail(ErrorKind::kInput, directory, std::string("cannot write: ") + std::strerror(errno));
  }
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  static_cast<void>(::close(descriptor_));
  fail(ErrorKind::kInput, directory,
       error == EWOULDBLOCK ? "another process writes its checkpoints there"
                            : std::string("cannot lock: ") + std::strerror(error));
}

DirectoryLock::~DirectoryLock() {
  static_cast<void>(::close(descriptor_));
}

CheckpointDirectory::CheckpointDirectory(fs::path directory, std::uint64_t keep,
                                         std::optional<std::uint64_t> resumed_step)
    : directory_(created(std::move(directory))),
      keep_(keep),
      last_step_(resumed_step),
      lock_(directory_) {
  if (keep_ == 0) fail(ErrorKind::kInput, directory_, "at least one checkpoint has to be kept");
  reject_other_runs();
  remove_remains();
}

void CheckpointDirectory::reject_other_runs() const {
  for (const CheckpointFile& file : list_checkpoints(directory_)) {
    if (!last_step_) {
      fail(
          ErrorKind::kInput, file.path,
          "is a checkpoint of another run: go on from it with --resume, or give another directory");
    }
    if (file.step > *last_step_ && is_sound(file)) {
      fail(ErrorKind::kInput, file.path,
           fmt::format("is newer than step {}, which this run goes on from", *last_step_));
    }
  }
}

void CheckpointDirectory::remove_remains() {
  for (const fs::path& path : entries(directory_)) {
    const std::string name = path.filename().string();
    const auto step = step_of_shard(name);
    const bool is_alone = step && !fs::exists(shard_path(directory_, *step, 0));
    if ((!is_alone && !is_temporary(name)) || !is_ours(path)) continue;
    remove_file(path);
    removed_remains_.push_back(path);
  }
}

CheckpointDirectory::Saved CheckpointDirectory::save(
    std::uint64_t step, const std::function<void(CheckpointWriter&)>& fill) {
  Saved saved;
  saved.path = shard_path(directory_, step, 0);
  if (last_step_ && step < *last_step_) {
    fail(ErrorKind::kRuntime, saved.path, fmt::format("comes after step {}", *last_step_));
  }
  std::erase(verified_, step);
  write_shard({saved.path, step}, fill);
  last_step_ = step;
  verified_.push_back(step);
  saved.removed = remove_old();
  return saved;
}

std::vector<fs::path> CheckpointDirectory::remove_old() {
  std::vector<fs::path> removed;
  std::uint64_t valid = 0;
  for (const CheckpointFile& file : list_checkpoints(directory_)) {
    if (valid < keep_) {
      if (is_valid(file)) ++valid;
      continue;
    }
    if (!is_ours(file.path)) continue;
    remove_file(file.path);
    for (const fs::path& path : entries(directory_)) {
      const bool is_shard = step_of_shard(path.filename().string()) == file.step;
      if (is_shard && is_ours(path)) remove_file(path);
    }
    std::erase(verified_, file.step);
    removed.push_back(file.path);
  }
  return removed;
}

bool CheckpointDirectory::is_valid(const CheckpointFile& file) {
  if (std::ranges::find(verified_, file.step) != verified_.end()) return true;
  if (!is_sound(file)) return false;
  verified_.push_back(file.step);
  return true;
}

}  // namespace zenflow::runtime
