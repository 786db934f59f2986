/// Scalars for TensorBoard: an event file, as its writers make it.
///
/// Records of TFRecord: u64 length, u32 masked CRC-32C of it, the bytes, u32 masked CRC-32C of
/// them, all little-endian; masked is crc rotated right by 15, plus 0xA282EAD8. The bytes are a
/// protobuf `Event`: 1 wall_time (double), 2 step (int64), 3 file_version (string, of the first
/// record), 5 summary, of which each `value` (1) has a tag (1) and a simple_value (2, float), 7
/// session_log with its status (1). Source: TensorFlow's record_writer.h, event.proto and
/// summary.proto.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace zenflow::runtime {

struct Scalar {
  std::string_view tag;
  double value = 0;
};

class EventFile {
 public:
  /// A new file in `folder`, which is made. `first_step` above 0: a run goes on, and what an
  /// earlier file has of later steps is not true any longer. Throws Error(kInput) if it cannot be
  /// made.
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);

  /// Steps that are done. Reaches the file within some seconds, or by `flush`. Throws
  /// Error(kRuntime) if the system cannot write.
  void add(std::int64_t step, std::span<const Scalar> scalars);
  void flush();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  void append(std::int64_t step, std::string_view fields);

  std::filesystem::path path_;
  std::ofstream file_;
  std::chrono::steady_clock::time_point flushed_;
};

/// CRC-32C (Castagnoli): polynomial 0x1EDC6F41, bits reflected, start and final value inverted;
/// "123456789" gives 0xE3069283.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

}  // namespace zenflow::runtime
