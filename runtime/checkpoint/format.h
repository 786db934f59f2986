/// The layout of a checkpoint file, format version 1. All numbers are little-endian.
///
///   header    24 bytes  magic "\x89ZFCKPT\n", u32 version, u32 CRC-32 of the other 20 bytes, u64
///   step payloads            those of all sections, one after the other in the order of the table
///   table               an entry per section:
///                         u32 length of the name, the name (UTF-8)
///                         u32 element type, u32 dimensions, u64 extent of each
///                         u64 bytes of payload, u32 CRC-32 of the payload
///   trailer   32 bytes  u64 bytes of the table, u64 bytes of the file, u32 sections,
///                       u32 CRC-32 of the table, u32 CRC-32 of the 24 bytes before,
///                       magic "ZFCE"
///
/// No byte is outside a checksum, a magic or a number that something else determines, so every
/// truncation, every extension and every change of one bit is found. The table comes last, so that
/// payloads are written as they come. Readers of any version find version and step where they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/bf16/bf16.h"

namespace zenflow::runtime {

inline constexpr std::uint32_t kCheckpointVersion = 1;

/// What a section's payload is an array of. The values are part of the format.
enum class SectionType : std::uint32_t {
  kU8 = 1,  ///< also text, in UTF-8
  kI32 = 2,
  kU32 = 3,
  kI64 = 4,
  kU64 = 5,
  kF32 = 6,
  kF64 = 7,
  kBf16 = 8,
};

template <class T>
inline constexpr SectionType kSectionTypeOf = SectionType{0};
template <>
inline constexpr SectionType kSectionTypeOf<std::uint8_t> = SectionType::kU8;
template <>
inline constexpr SectionType kSectionTypeOf<std::int32_t> = SectionType::kI32;
template <>
inline constexpr SectionType kSectionTypeOf<std::uint32_t> = SectionType::kU32;
template <>
inline constexpr SectionType kSectionTypeOf<std::int64_t> = SectionType::kI64;
template <>
inline constexpr SectionType kSectionTypeOf<std::uint64_t> = SectionType::kU64;
template <>
inline constexpr SectionType kSectionTypeOf<float> = SectionType::kF32;
template <>
inline constexpr SectionType kSectionTypeOf<double> = SectionType::kF64;
template <>
inline constexpr SectionType kSectionTypeOf<kernels::Bf16> = SectionType::kBf16;

/// What may be stored.
template <class T>
concept CheckpointElement = kSectionTypeOf<T>
!= SectionType{0};

/// In bytes; 0 if there is no such type.
[[nodiscard]] std::uint64_t size_of(SectionType type);
/// "f32", "u64", ...; "unknown" if there is no such type.
[[nodiscard]] std::string_view name_of(SectionType type);

struct Section {
  std::string name;
  SectionType type = SectionType::kU8;
  std::vector<std::uint64_t> shape;  ///< no extents: one element
  std::uint64_t bytes = 0;           ///< of payload: size_of(type) times the extents
  std::uint32_t crc = 0;             ///< of the payload
  std::uint64_t offset = 0;          ///< of the payload in the file; not stored
};

/// Bytes of a payload of this type and shape. Throws Error(kRuntime), naming the section, if the
/// type is unknown or 64 bits are too few.
[[nodiscard]] std::uint64_t payload_bytes(const Section& section);

namespace checkpoint_format {

inline constexpr std::uint64_t kHeaderBytes = 24;
inline constexpr std::uint64_t kTrailerBytes = 32;
inline constexpr std::uint32_t kMaxNameBytes = 1024;
inline constexpr std::uint32_t kMaxDimensions = 8;
/// What a double counts exactly, as ranks agree on a step.
inline constexpr std::uint64_t kMaxStep = std::uint64_t{1} << 53U;

struct Trailer {
  std::uint64_t table_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::uint32_t sections = 0;
  std::uint32_t table_crc = 0;
};

[[nodiscard]] std::string encode_header(std::uint64_t step);
[[nodiscard]] std::string encode_table(const std::vector<Section>& sections);
[[nodiscard]] std::string encode_trailer(const Trailer& trailer);

/// The decoders throw Error(kInput) with what is wrong; the caller knows the file.
[[nodiscard]] std::uint64_t decode_header(std::span<const std::byte> bytes);
[[nodiscard]] Trailer decode_trailer(std::span<const std::byte> bytes);
/// Checks every entry and that the payloads fill [kHeaderBytes, table_begin) exactly.
[[nodiscard]] std::vector<Section> decode_table(std::span<const std::byte> bytes,
                                                std::uint32_t sections, std::uint64_t table_begin);

}  // namespace checkpoint_format
}  // namespace zenflow::runtime
