#include "sim/trace/import/byte_source.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <zlib.h>

#include "sim/base/error.h"
#include "sim/base/input_file.h"
#include "sim/base/stop.h"

namespace zenflow::sim {
namespace {

constexpr std::size_t kPiece = 256 * 1024;

class FileBytes : public ByteSource {
 public:
  explicit FileBytes(InputFile file) : file_(std::move(file)) {}

  std::size_t read(std::span<char> out) override {
    const auto left = file_.size() - position_;
    const std::size_t count = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), left));
    file_.read_at(position_, std::as_writable_bytes(out.first(count)));
    position_ += count;
    return count;
  }
  [[nodiscard]] std::uint64_t position() const override { return position_; }
  [[nodiscard]] std::uint64_t size() const override { return file_.size(); }
  [[nodiscard]] const std::string& damage() const override { return damage_; }

 private:
  InputFile file_;
  std::uint64_t position_ = 0;
  std::string damage_;
};

class MemoryBytes : public ByteSource {
 public:
  explicit MemoryBytes(std::span<const char> bytes) : bytes_(bytes) {}

  std::size_t read(std::span<char> out) override {
    const std::size_t count = std::min(out.size(), bytes_.size() - position_);
    if (count > 0) std::memcpy(out.data(), bytes_.data() + position_, count);
    position_ += count;
    return count;
  }
  [[nodiscard]] std::uint64_t position() const override { return position_; }
  [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }
  [[nodiscard]] const std::string& damage() const override { return damage_; }

 private:
  std::span<const char> bytes_;
  std::size_t position_ = 0;
  std::string damage_;
};

class GzipBytes : public ByteSource {
 public:
  GzipBytes(std::unique_ptr<ByteSource> compressed, std::string name)
      : compressed_(std::move(compressed)), name_(std::move(name)), input_(kPiece) {
    constexpr int kGzip = 15 + 16;  // largest window, plus 16 for gzip's header and checksum
    if (inflateInit2(&stream_, kGzip) != Z_OK) {
      throw Error(ErrorKind::kRuntime, name_ + ": cannot inflate: zlib did not start");
    }
  }
  ~GzipBytes() override { static_cast<void>(inflateEnd(&stream_)); }
  GzipBytes(const GzipBytes&) = delete;
  GzipBytes& operator=(const GzipBytes&) = delete;

  std::size_t read(std::span<char> out) override {
    constexpr std::size_t kMost = 1U << 30;  // zlib counts in 32 bits
    const std::size_t wanted = std::min(out.size(), kMost);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    out_ = stream_.next_out;
    stream_.avail_out = static_cast<uInt>(wanted);
    while (!ended_ && stream_.avail_out == wanted) {
      if (stream_.avail_in == 0 && !fill()) {
        ended_ = true;
        if (in_member_) {
          damage_ = fmt::format("the gzip data end at byte {} in the middle: the file is cut short",
                                compressed_->position());
        }
        break;
      }
      if (!in_member_ && !begin_member()) break;
      inflate_some();
    }
    produced_ += wanted - stream_.avail_out;
    return wanted - stream_.avail_out;
  }
  [[nodiscard]] std::uint64_t position() const override {
    return compressed_->position() - stream_.avail_in;
  }
  [[nodiscard]] std::uint64_t size() const override { return compressed_->size(); }
  [[nodiscard]] const std::string& damage() const override { return damage_; }

 private:
  bool fill() {
    const std::size_t count = compressed_->read(input_);
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(count);
    return count > 0;
  }

  /// Whether another gzip member follows; zeros and garbage after the last are left alone, as gzip
  /// leaves them.
  bool begin_member() {
    if (members_ > 0 && *stream_.next_in != 0x1F) {
      if (*stream_.next_in != 0) {
        damage_ = fmt::format("what follows the gzip data at byte {} is not gzip and was ignored",
                              position());
      }
      ended_ = true;
      return false;
    }
    if (members_ > 0) inflateReset(&stream_);
    ++members_;
    in_member_ = true;
    return true;
  }

  void inflate_some() {
    const int status = inflate(&stream_, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      in_member_ = false;
      return;
    }
    if (status == Z_OK || status == Z_BUF_ERROR) return;
    if (status == Z_MEM_ERROR)
      throw Error(ErrorKind::kRuntime, name_ + ": cannot inflate: no memory");
    throw Error(ErrorKind::kInput,
                fmt::format("{}: the gzip data are damaged at byte {} ({}), after {} bytes of text",
                            name_, position(), stream_.msg == nullptr ? "?" : stream_.msg,
                            produced_ + static_cast<std::uint64_t>(stream_.next_out - out_)));
  }

  std::unique_ptr<ByteSource> compressed_;
  std::string name_;
  std::vector<char> input_;
  z_stream stream_{};
  const Bytef* out_ = nullptr;  // where the text of this `read` begins
  std::uint64_t produced_ = 0;  // by those before
  int members_ = 0;
  bool in_member_ = false;
  bool ended_ = false;
  std::string damage_;
};

class WatchedBytes : public ByteSource {
 public:
  WatchedBytes(std::unique_ptr<ByteSource> source,
               std::function<void(std::uint64_t, std::uint64_t)> progress)
      : source_(std::move(source)), progress_(std::move(progress)) {}

  std::size_t read(std::span<char> out) override {
    if (progress_) progress_(position(), size());
    throw_if_stopped();
    return source_->read(out);
  }
  [[nodiscard]] std::uint64_t position() const override { return source_->position(); }
  [[nodiscard]] std::uint64_t size() const override { return source_->size(); }
  [[nodiscard]] const std::string& damage() const override { return source_->damage(); }

 private:
  std::unique_ptr<ByteSource> source_;
  std::function<void(std::uint64_t, std::uint64_t)> progress_;
};

bool is_gzip(std::span<const std::byte> first) {
  return first.size() >= 2 && first[0] == std::byte{0x1F} && first[1] == std::byte{0x8B};
}

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path) {
  InputFile file(path);
  std::byte first[2] = {};
  const std::size_t known = static_cast<std::size_t>(std::min<std::uint64_t>(2, file.size()));
  file.read_at(0, std::span(first).first(known));
  auto plain = std::make_unique<FileBytes>(std::move(file));
  if (!is_gzip(std::span(first).first(known))) return plain;
  return std::make_unique<GzipBytes>(std::move(plain), path.generic_string());
}

std::unique_ptr<ByteSource> watched_bytes(
    std::unique_ptr<ByteSource> source,
    std::function<void(std::uint64_t, std::uint64_t)> progress) {
  return std::make_unique<WatchedBytes>(std::move(source), std::move(progress));
}

std::unique_ptr<ByteSource> memory_bytes(std::span<const char> bytes) {
  auto plain = std::make_unique<MemoryBytes>(bytes);
  if (!is_gzip(std::as_bytes(bytes.first(std::min<std::size_t>(2, bytes.size()))))) return plain;
  return std::make_unique<GzipBytes>(std::move(plain), "memory");
}

}  // namespace zenflow::sim
