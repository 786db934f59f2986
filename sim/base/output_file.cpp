#include "sim/base/output_file.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>
#include <zlib.h>

#include "sim/base/error.h"

namespace zenflow {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(ErrorKind kind, const fs::path& path, const std::string& what) {
  throw Error(kind, path.generic_string() + ": " + what);
}

fs::path temporary_name(fs::path path) {
  path += std::string(OutputFile::kTemporaryInfix) + std::to_string(::getpid());
  return path;
}

std::string gzip(const fs::path& path, std::string_view content) {
  z_stream stream{};
  constexpr int kGzip = 15 + 16;  // window bits, plus 16 for a gzip header
  constexpr int kMemoryLevel = 8;
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, kMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    fail(ErrorKind::kRuntime, path, "cannot compress: zlib did not start");
  }
  std::string compressed(deflateBound(&stream, static_cast<uLong>(content.size())), '\0');
  // zlib's interface is not const-correct: next_in is only read.
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  const int status = deflate(&stream, Z_FINISH);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) fail(ErrorKind::kRuntime, path, "cannot compress: zlib failed");
  return compressed;
}

}  // namespace

void check_output(const fs::path& path, bool overwrite) {
  std::error_code ignored;
  const std::string name = path.filename().string();
  if (name.empty() || name == "." || name == "..") {
    fail(ErrorKind::kInput, "\"" + path.generic_string() + "\"", "is not the name of a file");
  }
  // Such as a name that is too long, be it only with what is added until it is whole.
  std::error_code failure;
  if (fs::symlink_status(temporary_name(path), failure).type() == fs::file_type::none) {
    fail(ErrorKind::kInput, path, "cannot write: " + failure.message());
  }
  // Renaming over a device, a pipe or a link would replace it by a file.
  const fs::file_status status = fs::symlink_status(path, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status)) {
    fail(ErrorKind::kInput, path, "is there and is not a regular file");
  }
  if (fs::is_directory(path, ignored)) fail(ErrorKind::kInput, path, "is a directory");
  if (!overwrite && fs::exists(path, ignored)) {
    fail(ErrorKind::kInput, path, "exists already; give -f to overwrite it");
  }
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(directory, ignored)) {
    fail(ErrorKind::kInput, path, "no such directory \"" + directory.generic_string() + "\"");
  }
  if (::access(directory.c_str(), W_OK) != 0) {
    fail(ErrorKind::kInput, path, std::string("cannot write: ") + std::strerror(errno));
  }
}

void write_output(const fs::path& path, std::string_view content, bool overwrite) {
  check_output(path, overwrite);
  const std::string compressed = path.extension() == ".gz" ? gzip(path, content) : std::string();
  OutputFile file(path, overwrite);
  file.write(path.extension() == ".gz" ? std::string_view(compressed) : content);
  file.commit(OutputFile::Durable::kNo);
}

OutputFile::OutputFile(fs::path path, bool overwrite)
    : path_(std::move(path)), temporary_(temporary_name(path_)), overwrite_(overwrite) {
  check_output(path_, overwrite_);
  constexpr mode_t kReadWrite = 0666;  // less the umask
  descriptor_ =
      ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kReadWrite);
  if (descriptor_ < 0) fail("cannot write", errno);
  is_temporary_ = true;
}

OutputFile::~OutputFile() {
  // What failed has been reported, or the caller gave up: nothing more to say.
  if (descriptor_ >= 0) static_cast<void>(::close(descriptor_));
  if (is_temporary_) static_cast<void>(::unlink(temporary_.c_str()));
}

void OutputFile::fail(const char* what, int error) const {
  zenflow::fail(ErrorKind::kRuntime, path_, std::string(what) + ": " + std::strerror(error));
}

void OutputFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    // One call writes at most 2 GiB, and less if the disk is nearly full: the next one says so.
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write", errno);
    if (written == 0) fail("cannot write", ENOSPC);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void OutputFile::commit(Durable durable) {
  if (durable == Durable::kYes && ::fsync(descriptor_) != 0) fail("cannot write", errno);
  close();
  give_name();
  if (durable == Durable::kNo) return;
  const fs::path directory = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail("written, but its directory cannot be synchronised", errno);
  const int error = ::fsync(descriptor) == 0 ? 0 : errno;
  static_cast<void>(::close(descriptor));  // opened for reading: nothing can be lost
  if (error != 0) fail("written, but its directory cannot be synchronised", error);
}

void OutputFile::close() {
  // Closed even if it fails; network file systems report a full disk here.
  const int status = ::close(std::exchange(descriptor_, -1));
  if (status != 0) fail("cannot write", errno);
}

void OutputFile::give_name() {
  if (overwrite_) {
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot write", errno);
    is_temporary_ = false;
    return;
  }
  // A link fails if the name has come to exist meanwhile; a rename would replace it.
  if (::link(temporary_.c_str(), path_.c_str()) == 0) {
    if (::unlink(temporary_.c_str()) != 0) fail("written, but its temporary name stays", errno);
    is_temporary_ = false;
    return;
  }
  if (errno == EEXIST) {
    zenflow::fail(ErrorKind::kInput, path_, "exists already; give -f to overwrite it");
  }
  fail("cannot write", errno);
}

void OutputFiles::write(const fs::path& path, std::string_view content) {
  files_.push_back(std::make_unique<OutputFile>(path, overwrite_));
  files_.back()->write(content);
}

void OutputFiles::commit() {
  // What can fail for want of space fails here, before any name is given.
  for (const auto& file : files_) file->close();
  std::vector<Named> named;
  try {
    for (const auto& file : files_) {
      named.push_back({file.get(), keep_replaced(*file)});
      file->give_name();
    }
  } catch (...) {
    take_back(named);
    throw;
  }
  for (const Named& one : named) {
    if (!one.replaced.empty()) static_cast<void>(::unlink(one.replaced.c_str()));
  }
}

/// A second name for what the file is about to replace.
fs::path OutputFiles::keep_replaced(const OutputFile& file) const {
  if (!overwrite_) return {};
  fs::path kept = file.path_;
  kept += ".replaced-" + std::to_string(::getpid());
  static_cast<void>(::unlink(kept.c_str()));  // of a killed program with the same process id
  if (::link(file.path_.c_str(), kept.c_str()) == 0) return kept;
  if (errno != ENOENT) file.fail("cannot write", errno);
  return {};
}

void OutputFiles::take_back(const std::vector<Named>& named) {
  for (const Named& one : named) {
    // What made the names impossible is reported; of what cannot be put back the second name stays.
    const bool is_named = !one.file->is_temporary_;
    if (is_named && !one.replaced.empty()) {
      static_cast<void>(::rename(one.replaced.c_str(), one.file->path_.c_str()));
    } else if (is_named) {
      static_cast<void>(::unlink(one.file->path_.c_str()));
    } else if (!one.replaced.empty()) {
      static_cast<void>(::unlink(one.replaced.c_str()));
    }
  }
}

}  // namespace zenflow
