#include "sim/trace/import/import_trace.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/input_file.h"

namespace zenflow::sim {
namespace {

constexpr std::size_t kHead = 64 * 1024;

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

std::string_view skip_space(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}

/// Whether a Chrome trace begins here: an object, or an array of objects. Log lines may begin with
/// a bracket too.
bool is_json(std::string_view head) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (head.starts_with(kByteOrderMark)) head.remove_prefix(kByteOrderMark.size());
  head = skip_space(head);
  if (head.empty() || (head.front() != '{' && head.front() != '[')) return false;
  const bool is_object = head.front() == '{';
  head = skip_space(head.substr(1));
  if (head.empty()) return true;
  if (is_object) return head.front() == '"' || head.front() == '}';
  return head.front() == '{' || head.front() == ']';
}

/// Where the object or array at the start of `head` ends; npos if not within it.
std::size_t end_of_value(std::string_view head) {
  std::size_t depth = 0;
  bool is_text = false;
  for (std::size_t i = head.find_first_of("{["); i < head.size(); ++i) {
    const char c = head[i];
    if (is_text && c == '\\') {
      ++i;
    } else if (c == '"') {
      is_text = !is_text;
    } else if (is_text) {
      continue;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return i + 1;
    }
  }
  return head.npos;
}

/// Whether it is a log whose first lines are JSON: jobs print their configuration first.
bool is_log_behind_json(std::string_view head) {
  const std::size_t end = end_of_value(head);
  if (end == head.npos || skip_space(head.substr(end)).empty()) return false;
  const std::string_view value = head.substr(0, end);
  return value.find("\"traceEvents\"") == value.npos && value.find("\"ph\"") == value.npos;
}

struct Other {
  std::string_view magic;
  std::string_view what;
};

/// What people have at hand instead.
constexpr std::array<Other, 7> kOthers{{
    {"PK\x03\x04", "a ZIP archive: unpack it"},
    {"\x28\xB5\x2F\xFD", "compressed with Zstandard: unpack it with zstd -d"},
    {"\xFD"
     "7zXZ",
     "compressed with xz: unpack it with xz -d"},
    {"\xFF\xFE", "UTF-16: convert it with iconv -f UTF-16 -t UTF-8"},
    {"\xFE\xFF", "UTF-16: convert it with iconv -f UTF-16 -t UTF-8"},
    {"BZh", "compressed with bzip2: unpack it with bzip2 -d"},
    {"\x7F"
     "ELF",
     "a program, not a trace"},
}};

std::string fill(ByteSource& source) {
  std::string head(kHead, '\0');
  std::size_t size = 0;
  while (size < head.size()) {
    const std::size_t count = source.read({head.data() + size, head.size() - size});
    if (count == 0) break;
    size += count;
  }
  head.resize(size);
  return head;
}

/// Control characters that no log has.
bool is_binary(std::string_view head) {
  std::size_t strange = 0;
  for (const char c : head) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_usual = byte >= 0x20 || is_space(c) || c == '\x1B' || c == '\b' || c == '\f';
    if (!is_usual) ++strange;
  }
  constexpr std::size_t kShare = 100;
  return kShare * strange > head.size();
}

}  // namespace

ImportedTrace import_trace(const std::filesystem::path& path, const ImportOptions& options) {
  const std::string name = path.generic_string();
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kInput, name + ": " + what);
  };
  const auto probe = open_bytes(path);
  const std::string head = fill(*probe);
  if (head.empty()) {
    fail(probe->damage().empty() ? "is empty" : "nothing can be read: " + probe->damage());
  }
  constexpr std::string_view kSqlite("SQLite format 3\0", 16);
  if (head.starts_with(kSqlite)) {
    const InputFile file(path);
    std::array<std::byte, kSqlite.size()> first{};
    file.read_at(0, std::span(first).first(std::min<std::size_t>(first.size(), file.size())));
    const bool is_plain = std::memcmp(first.data(), kSqlite.data(), kSqlite.size()) == 0;
    if (!is_plain) fail("a compressed database: unpack it with gzip -d");
    return import_nsight(path, options);
  }
  constexpr std::size_t kTarMagic = 257;
  if (head.size() > kTarMagic && std::string_view(head).substr(kTarMagic).starts_with("ustar")) {
    fail("is a tar archive: unpack it");
  }
  if (is_json(head) && !is_log_behind_json(head)) {
    const auto source = watched_bytes(open_bytes(path), options.progress);
    return import_chrome(*source, name, options);
  }
  for (const Other& other : kOthers) {
    if (head.starts_with(other.magic)) fail("is " + std::string(other.what));
  }
  // Without a mark of its byte order: every second byte of what a program writes is 0.
  const bool is_little = head.size() > 3 && head[1] == '\0' && head[3] == '\0';
  const bool is_big = head.size() > 3 && head[0] == '\0' && head[2] == '\0';
  if (is_little != is_big) {
    fail(fmt::format("seems to be UTF-16: convert it with iconv -f UTF-16{} -t UTF-8",
                     is_little ? "LE" : "BE"));
  }
  if (is_binary(head)) {
    fail(
        "is no trace that is known: Chrome JSON (PyTorch profiler), SQLite of Nsight Systems (make "
        "one "
        "of a .nsys-rep or .qdrep with \"nsys export --type sqlite\"), or a log with DeepSpeed's "
        "timers");
  }
  const auto source = watched_bytes(open_bytes(path), options.progress);
  return import_timer_log(*source, name, options);
}

}  // namespace zenflow::sim
