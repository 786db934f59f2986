#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "runtime/trace/cupti/activity_chunks.h"
#include "runtime/trace/cupti/activity_file.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

using nlohmann::json;

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

/// A command line may hold any bytes; JSON may not.
std::string text_of(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string information(const ActivityLog& log) {
  return text_of({{"process", log.process},
                  {"program", log.program},
                  {"cupti_version", log.cupti_version},
                  {"low_overhead", log.low_overhead},
                  {"session_start", log.session_start},
                  {"untraced", log.untraced}});
}

std::string end(const ActivityLog& log) {
  return text_of({{"session_end", log.session_end},
                  {"notes", log.notes},
                  {"dropped_by_cupti", log.losses.dropped_by_cupti},
                  {"refused_buffers", log.losses.refused_buffers},
                  {"emergency_buffers", log.losses.emergency_buffers},
                  {"unknown_kinds", log.losses.unknown_kinds},
                  {"cut_records", log.losses.cut_records}});
}

}  // namespace

ActivityFileWriter::ActivityFileWriter(std::filesystem::path path) : path_(std::move(path)) {
  constexpr mode_t kOwnerOnly = 0600;
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnly);
  if (descriptor_ < 0) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: cannot create: {}", path_.string(), std::strerror(errno)));
  }
  write(kActivityFileMagic);
}

void ActivityFileWriter::begin(const ActivityLog& log) {
  chunk(kInformation, information(log));
}

ActivityFileWriter::~ActivityFileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void ActivityFileWriter::append(std::span<const Activity> activities,
                                const std::vector<std::string>& strings, std::uint64_t now) {
  for (; strings_written_ < strings.size(); ++strings_written_) {
    chunk(kString, strings[strings_written_]);
  }
  // A chunk's size has 32 bits; the largest buffer is far below that.
  if (!activities.empty()) {
    chunk(kActivities, {reinterpret_cast<const char*>(activities.data()), activities.size_bytes()});
  }
  chunk(kTime, bytes_of(now));
}

void ActivityFileWriter::finish(const ActivityLog& log) {
  chunk(kEnd, end(log));
}

void ActivityFileWriter::chunk(std::uint32_t type, std::string_view bytes) {
  if (bytes.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: a chunk of {} bytes is too large", path_.string(), bytes.size()));
  }
  const ActivityChunkHead head{type, static_cast<std::uint32_t>(bytes.size())};
  write(bytes_of(head));
  write(bytes);
}

void ActivityFileWriter::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      throw Error(ErrorKind::kRuntime,
                  fmt::format("{}: cannot write: {}", path_.string(), std::strerror(errno)));
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace zenflow::runtime
