// No file crashes the reader: cut off anywhere, or with any bit of its header flipped, a file is
// refused or, where the bit does not matter to the format, read within its bounds.
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/model/weight_file.h"
#include "sim/base/error.h"
#include "tests/support/model_step.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

using testing::model_config;
using testing::TemporaryFolder;
using testing::TensorStore;

const char* const kGpt2 = R"({"model_type": "gpt2", "vocab_size": 3, "n_embd": 2, "n_layer": 1,
    "n_head": 1, "n_inner": 3, "n_positions": 2})";

/// A file in memory: thousands of small ones on a disk take minutes.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("safetensors", MFD_CLOEXEC)) {}
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  /// Replaces the content; the name under which this process can open it.
  [[nodiscard]] std::string hold(const std::string& bytes) const {
    const auto size = static_cast<ssize_t>(bytes.size());
    if (::ftruncate(descriptor_, size) != 0 ||
        ::pwrite(descriptor_, bytes.data(), bytes.size(), 0) != size) {
      throw std::runtime_error("no file in memory");
    }
    return "/proc/self/fd/" + std::to_string(descriptor_);
  }

 private:
  int descriptor_;
};

class SafetensorsFaults : public ::testing::Test {
 protected:
  SafetensorsFaults()
      : config_(model_config(kGpt2)),
        table_(parameter_table(config_.model, config_.task)),
        weights_(table_, ElementType::kBfloat16) {
    write_weights(
        folder_ / "valid", table_, ElementType::kBfloat16,
        [&](std::size_t i) { return weights_.constant()[i]; }, false);
    std::ostringstream text;
    text << std::ifstream(folder_ / "valid", std::ios::binary).rdbuf();
    bytes_ = text.str();
  }

  /// Whether the file is accepted; then every tensor is read, into memory of its exact size.
  bool is_accepted(const std::string& bytes) {
    const std::filesystem::path path = faulty_.hold(bytes);
    try {
      const WeightFile file(path, config_, table_);
      TensorStore found(table_, ElementType::kFloat32);
      for (std::size_t i = 0; i < table_.parameters.size(); ++i) {
        file.read(i, ElementType::kFloat32, found.pointers()[i]);
      }
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
      EXPECT_TRUE(std::string(error.what()).starts_with(path.generic_string() + ": "))
          << error.what();
      return false;
    }
  }

  [[nodiscard]] std::size_t header_end() const {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), sizeof length);
    return sizeof length + length;
  }

  TemporaryFolder folder_;
  TransformerConfig config_;
  ParameterTable table_;
  TensorStore weights_;
  std::string bytes_;
  MemoryFile faulty_;
};

TEST_F(SafetensorsFaults, TruncatedAnywhereIsRefused) {
  ASSERT_TRUE(is_accepted(bytes_));
  for (std::size_t size = 0; size < bytes_.size(); ++size) {
    EXPECT_FALSE(is_accepted(bytes_.substr(0, size))) << size;
  }
  EXPECT_FALSE(is_accepted(bytes_ + '\0'));
}

/// One test a bit, so that none takes long.
class FlippedBit : public SafetensorsFaults, public ::testing::WithParamInterface<unsigned> {};

/// A flipped bit changes a name, a number, a type or the syntax, and each is refused. What remains
/// is the metadata's text, which means nothing here.
TEST_P(FlippedBit, AnywhereInTheHeaderIsRefused) {
  ASSERT_TRUE(is_accepted(bytes_));
  const std::size_t metadata = bytes_.find("format");
  const std::size_t metadata_end = bytes_.find('}', metadata);
  for (std::size_t place = 0; place < header_end(); ++place) {
    std::string flipped = bytes_;
    flipped[place] =
        static_cast<char>(static_cast<unsigned char>(flipped[place]) ^ (1U << GetParam()));
    if (place >= metadata && place < metadata_end) {
      static_cast<void>(is_accepted(flipped));
    } else {
      EXPECT_FALSE(is_accepted(flipped))
          << "byte " << place << ": '" << bytes_[place] << "' became '" << flipped[place] << "'";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(SafetensorsFaults, FlippedBit, ::testing::Range(0U, 8U));

TEST_F(SafetensorsFaults, HeadersOfAbsurdLengthAreRefused) {
  for (unsigned bit = 0; bit < 64; ++bit) {
    std::string absurd = bytes_;
    const std::uint64_t length = std::uint64_t{1} << bit;
    std::memcpy(absurd.data(), &length, sizeof length);
    EXPECT_FALSE(is_accepted(absurd)) << length;
  }
}

/// Several bytes of noise at once, at places and values from a fixed generator.
TEST_F(SafetensorsFaults, NoiseNeverCrashes) {
  for (std::uint32_t round = 0; round < 2000; ++round) {
    std::string noisy = bytes_;
    const auto words = philox({round, 0, 0, 0}, {1, 2});
    for (const std::uint32_t word : words) {
      noisy[(word >> 8U) % header_end()] = static_cast<char>(word & 0xFFU);
    }
    static_cast<void>(is_accepted(noisy));
  }
}

}  // namespace
}  // namespace zenflow::runtime
