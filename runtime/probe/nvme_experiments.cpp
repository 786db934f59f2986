#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "runtime/probe/probe.h"
#include "runtime/trace/recorder.h"
#include "sim/base/error.h"
#include "sim/base/thread_pool.h"

namespace zenflow::runtime {
namespace {

constexpr double kGiga = 1e9;
constexpr std::size_t kBlock = std::size_t{4} << 20;
constexpr std::size_t kSmall = 4096;  // also the alignment that O_DIRECT asks for
constexpr int kThreads = 8;

struct Free {
  void operator()(void* address) const { std::free(address); }
};
using Aligned = std::unique_ptr<std::byte, Free>;

Aligned aligned(std::size_t bytes) {
  Aligned memory(static_cast<std::byte*>(std::aligned_alloc(kSmall, bytes)));
  if (!memory) throw Error(ErrorKind::kInfeasible, fmt::format("no {} bytes of memory", bytes));
  std::memset(memory.get(), 0x5A, bytes);
  return memory;
}

/// Reads and writes of a file beside the page cache, from threads.
class Nvme final : public ExperimentGroup {
 public:
  Nvme(const std::filesystem::path& folder, const ProbeSettings& settings)
      : path_(folder / fmt::format("zenflow-probe-{}", ::getpid())),
        bytes_(settings.quick ? std::size_t{256} << 20 : std::size_t{1} << 30) {}
  ~Nvme() override { close_file(); }

  [[nodiscard]] std::string name() const override { return "NVMe"; }
  void prepare() override {
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC, 0600);
    if (file_ < 0) fail("cannot be opened with O_DIRECT");
    for (Aligned& block : blocks_) block = aligned(kBlock);
    pool_ = std::make_unique<ThreadPool>(ThreadPool::OwnThreads{"reading", kThreads});
    write_all();  // space is allocated once, outside the measurement
  }
  void release() override {
    close_file();
    pool_.reset();
    blocks_ = {};
  }

  [[nodiscard]] std::vector<Experiment> experiments() override {
    const std::string what =
        fmt::format("of {}, O_DIRECT, 4 MiB blocks, {} threads", size_name(bytes_), kThreads);
    return {
        {"nvme.write", "GB/s", "write " + what, [this] { return rate([this] { write_all(); }); }},
        {"nvme.read", "GB/s", "read " + what,
         [this] {
           return rate([this] {
             each_block(
                 [this](std::byte* block, off_t at) { return ::pread(file_, block, kBlock, at); },
                 kBlock);
           });
         }},
        {"nvme.latency", "us", "one read of 4 KiB, O_DIRECT, mean of 64 places", [this] {
           constexpr int kReads = 64;
           const auto begin = Clock::now();
           for (int i = 0; i < kReads; ++i) {
             // Far apart, in an order that no read-ahead follows.
             const auto place = static_cast<std::size_t>(i * 37 % kReads) * (bytes_ / kReads);
             check(::pread(file_, blocks_[0].get(), kSmall, static_cast<off_t>(place)), kSmall);
           }
           return std::chrono::duration<double>(Clock::now() - begin).count() / kReads * 1e6;
         }}};
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: {}: {}", path_.string(), what, std::strerror(errno)));
  }
  void check(ssize_t moved, std::size_t expected) const {
    if (moved < 0) fail("cannot be read or written");
    if (static_cast<std::size_t>(moved) != expected) {
      throw Error(ErrorKind::kRuntime,
                  fmt::format("{}: {} of {} bytes at once", path_.string(), moved, expected));
    }
  }
  /// A thread's share of the file at a time: each has a block of memory of its own.
  template <class Access>
  void each_block(Access access, std::size_t expected) {
    const std::size_t blocks = bytes_ / kBlock;
    pool_->run(kThreads, [&](std::size_t t) {
      for (std::size_t b = t; b < blocks; b += kThreads) {
        check(access(blocks_.at(t).get(), static_cast<off_t>(b * kBlock)), expected);
      }
    });
  }
  void write_all() {
    each_block(
        [this](const std::byte* block, off_t at) { return ::pwrite(file_, block, kBlock, at); },
        kBlock);
  }
  template <class Work>
  double rate(Work work) {
    const auto begin = Clock::now();
    work();
    const std::chrono::duration<double> time = Clock::now() - begin;
    return static_cast<double>(bytes_) / time.count() / kGiga;
  }
  void close_file() {
    if (file_ < 0) return;
    ::close(file_);
    file_ = -1;
    std::error_code ignored;  // the file is temporary; nothing more can be done about it
    std::filesystem::remove(path_, ignored);
  }

  std::filesystem::path path_;
  std::size_t bytes_;
  int file_ = -1;
  std::array<Aligned, kThreads> blocks_;
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace

std::unique_ptr<ExperimentGroup> nvme_experiments(const std::filesystem::path& folder,
                                                  const ProbeSettings& settings) {
  return std::make_unique<Nvme>(folder, settings);
}

}  // namespace zenflow::runtime
