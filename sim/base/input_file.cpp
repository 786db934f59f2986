#include "sim/base/input_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "sim/base/error.h"
#include "sim/base/stop.h"
#include "sim/base/text.h"

namespace zenflow {

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  // Without O_NONBLOCK, opening a pipe would wait for someone to write to it.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail(std::string("cannot read: ") + std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    const std::string reason = known ? "is not a regular file" : std::strerror(errno);
    static_cast<void>(::close(std::exchange(descriptor_, -1)));
    fail(reason);
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) static_cast<void>(::close(descriptor_));
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      size_(other.size_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

void InputFile::fail(const std::string& what) const {
  throw Error(ErrorKind::kInput, printable_name(path_.generic_string()) + ": " + what);
}

void InputFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  constexpr std::size_t kMost = std::size_t{16} << 20U;  // read at once
  while (!out.empty()) {
    throw_if_stopped();
    const ssize_t count =
        ::pread(descriptor_, out.data(), std::min(out.size(), kMost), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw Error(ErrorKind::kRuntime, path_.generic_string() + ": cannot read at byte " +
                                           std::to_string(offset) + ": " + std::strerror(errno));
    }
    if (count == 0) {
      fail("ends at byte " + std::to_string(offset) + ", " + std::to_string(out.size()) +
           " more were expected");
    }
    offset += static_cast<std::uint64_t>(count);
    out = out.subspan(static_cast<std::size_t>(count));
  }
}

void InputFile::scan(
    std::uint64_t first, std::uint64_t last,
    const std::function<void(std::uint64_t, std::span<const std::byte>)>& consume) const {
  constexpr std::uint64_t kPiece = 1 << 20;
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::min(kPiece, last - std::min(first, last))));
  for (std::uint64_t offset = first; offset < last;) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, last - offset));
    const std::span<std::byte> piece = std::span(buffer).first(count);
    read_at(offset, piece);
    consume(offset, piece);
    offset += count;
  }
}

std::string read_file(const std::filesystem::path& path, std::uint64_t most) {
  const InputFile file(path);
  if (file.size() > most << 20U) {
    file.fail("cannot read: it is larger than " + std::to_string(most) + " MiB");
  }
  std::string content(static_cast<std::size_t>(file.size()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(content)));
  return content;
}

std::string read_standard_input(std::uint64_t most) {
  constexpr int kPatience = 100;  // milliseconds between two looks at signals
  constexpr std::size_t kPiece = 1 << 16;
  const auto fail = [](ErrorKind kind, const std::string& what) {
    throw Error(kind, "<stdin>: cannot read: " + what);
  };
  std::string content;
  while (true) {
    throw_if_stopped();
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const int ready = ::poll(&input, 1, kPatience);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const std::size_t size = content.size();
    content.resize(size + kPiece);
    const ssize_t count = ::read(STDIN_FILENO, content.data() + size, kPiece);
    const int error = errno;
    content.resize(size + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) return content;
    if (count < 0 && error == EINTR) continue;
    if (count < 0) fail(ErrorKind::kRuntime, std::strerror(error));
    if (content.size() > most << 20U) {
      fail(ErrorKind::kInput, "it is larger than " + std::to_string(most) + " MiB");
    }
  }
}

}  // namespace zenflow
