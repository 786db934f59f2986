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

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "checkpoint-";

[[noreturn]] void fail(ErrorKind kind, const fs::path& path, std::string_view what) {
  throw Error(kind, fmt::format("{}: {}", path.generic_string(), what));
}

std::optional<std::uint64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  std::uint64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  const bool is_canonical = error == std::errc() && end == name.data() + name.size() &&
                            (name.size() == 1 || name.front() != '0');
  return is_canonical ? std::optional(step) : std::nullopt;
}

/// Whether a killed writer of ours may have left a file of this name.
bool is_temporary(std::string_view name) {
  const std::size_t infix = name.find(OutputFile::kTemporaryInfix);
  return infix != std::string_view::npos && step_of(name.substr(0, infix)).has_value();
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
void verify_file(const CheckpointFile& file) {
  const CheckpointReader reader(file.path);
  if (reader.step() != file.step) {
    fail(ErrorKind::kInput, file.path,
         fmt::format("holds step {}, which is not what its name says", reader.step()));
  }
  reader.verify();
}

/// Damaged ones stay where they are, and latest_valid says what is wrong with them.
bool is_sound(const CheckpointFile& file) {
  try {
    verify_file(file);
  } catch (const Error&) {
    return false;
  }
  return true;
}

/// Throws Error(kRuntime): what has just been written is not the user's mistake.
void read_back(const CheckpointFile& file) {
  try {
    verify_file(file);
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

void remove_file(const fs::path& path) {
  if (::unlink(path.c_str()) != 0) {
    fail(ErrorKind::kRuntime, path, std::string("cannot remove: ") + std::strerror(errno));
  }
}

}  // namespace

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
  remove_temporaries();
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

void CheckpointDirectory::remove_temporaries() {
  for (const fs::path& path : entries(directory_)) {
    if (!is_temporary(path.filename().string())) continue;
    remove_file(path);
    removed_temporaries_.push_back(path);
  }
}

CheckpointDirectory::Saved CheckpointDirectory::save(
    std::uint64_t step, const std::function<void(CheckpointWriter&)>& fill) {
  Saved saved;
  saved.path = directory_ / fmt::format("{}{}", kPrefix, step);
  if (last_step_ && step < *last_step_) {
    fail(ErrorKind::kRuntime, saved.path, fmt::format("comes after step {}", *last_step_));
  }
  std::erase(verified_, step);
  CheckpointWriter writer(saved.path, step);
  fill(writer);
  writer.commit();
  read_back({saved.path, step});
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
    remove_file(file.path);
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
