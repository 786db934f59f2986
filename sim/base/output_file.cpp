#include "sim/base/output_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>

#include <unistd.h>
#include <zlib.h>

#include "sim/base/error.h"

namespace zenflow {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(ErrorKind kind, const fs::path& path, const std::string& what) {
  throw Error(kind, path.generic_string() + ": " + what);
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
  if (path.extension() == ".gz") content = compressed;
  fs::path temporary = path;
  temporary += ".partial-" + std::to_string(::getpid());
  errno = 0;
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  std::error_code error;
  if (!file) {
    const std::string reason = std::strerror(errno);
    fs::remove(temporary, error);
    fail(ErrorKind::kRuntime, path, "cannot write: " + reason);
  }
  if (overwrite) {
    fs::rename(temporary, path, error);
  } else {
    // A link fails if the name has come to exist meanwhile; a rename would replace it.
    fs::create_hard_link(temporary, path, error);
    std::error_code ignored;
    fs::remove(temporary, ignored);
    if (error == std::errc::file_exists) {
      fail(ErrorKind::kInput, path, "exists already; give -f to overwrite it");
    }
  }
  if (error) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    fail(ErrorKind::kRuntime, path, "cannot write: " + error.message());
  }
}

}  // namespace zenflow
