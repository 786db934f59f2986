// Safetensors files: bytes worked out by hand, conversions, and what is refused in which words.
#include "runtime/model/safetensors.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/bf16/bf16.h"
#include "sim/base/error.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::safetensors_bytes;
using testing::TemporaryFolder;

std::string content(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string error_of(const std::string& bytes) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.safetensors", bytes);
  try {
    const SafetensorsFile file(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    const std::string what = error.what();
    EXPECT_THAT(what, HasSubstr(path.generic_string() + ": "));
    return what.substr(path.generic_string().size() + 2);
  }
  ADD_FAILURE() << "the file was accepted";
  return "";
}

TEST(Safetensors, WritesTheFormatByteForByte) {
  const TemporaryFolder folder;
  const std::vector<float> a = {1.0F, -2.0F};
  const std::vector<float> b = {0.5F};
  const std::vector<TensorToWrite> tensors = {{"w", {2, 1}, [&] { return a.data(); }},
                                              {"b", {1}, [&] { return b.data(); }}};
  write_safetensors(folder / "x.safetensors", ElementType::kFloat32, tensors, false);
  std::string header =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::string values("\x00\x00\x80\x3F\x00\x00\x00\xC0\x00\x00\x00\x3F", 12);
  EXPECT_EQ(content(folder / "x.safetensors"), safetensors_bytes(header, 0) + values);
}

TEST(Safetensors, ReadsWhatItWrites) {
  const TemporaryFolder folder;
  std::vector<kernels::Bf16> stored;
  std::vector<float> expected;
  for (int i = 0; i < 700'000; ++i) {  // more than is converted at a time
    stored.push_back(kernels::round_to_bf16(std::sin(static_cast<float>(i))));
    expected.push_back(kernels::to_float(stored.back()));
  }
  const std::vector<TensorToWrite> tensors = {{"x", {700, 1000}, [&] { return stored.data(); }}};
  write_safetensors(folder / "x.safetensors", ElementType::kBfloat16, tensors, false);
  const SafetensorsFile file(folder / "x.safetensors");
  ASSERT_EQ(file.tensors().size(), 1U);
  const StoredTensor& tensor = file.tensors()[0];
  EXPECT_EQ(tensor.type, "BF16");
  EXPECT_THAT(tensor.shape, ElementsAre(700, 1000));
  std::vector<float> wide(stored.size());
  file.read_as(tensor, ElementType::kFloat32, wide.data());
  EXPECT_EQ(wide, expected);
  std::vector<kernels::Bf16> same(stored.size());
  file.read_as(tensor, ElementType::kBfloat16, same.data());
  EXPECT_EQ(std::memcmp(same.data(), stored.data(), 2 * stored.size()), 0);
}

TEST(Safetensors, IsNotOverwrittenUnlessAsked) {
  const TemporaryFolder folder;
  folder.write("x.safetensors", "mine");
  EXPECT_THROW(write_safetensors(folder / "x.safetensors", ElementType::kFloat32, {}, false),
               Error);
  EXPECT_EQ(content(folder / "x.safetensors"), "mine");
}

TEST(Safetensors, ConvertsHalfPrecision) {
  const TemporaryFolder folder;
  const std::vector<std::uint16_t> halves = {0x0000, 0x8000, 0x3C00, 0xC000, 0x7BFF,
                                             0x0001, 0x0400, 0x7C00, 0xFC00, 0x7E00};
  std::string bytes =
      safetensors_bytes(R"({"x":{"dtype":"F16","shape":[10],"data_offsets":[0,20]}})", 0);
  bytes.append(reinterpret_cast<const char*>(halves.data()), 20);
  const SafetensorsFile file(folder.write("x.safetensors", bytes));
  std::vector<float> x(10);
  file.read_as(file.tensors()[0], ElementType::kFloat32, x.data());
  const std::vector<float> expected = {0.0F,     -0.0F,    1.0F,     -2.0F,    65504.0F,
                                       0x1p-24F, 0x1p-14F, INFINITY, -INFINITY};
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(x[i], expected[i]);
    EXPECT_EQ(std::signbit(x[i]), std::signbit(expected[i]));
  }
  EXPECT_TRUE(std::isnan(x[9]));
}

TEST(Safetensors, WithoutTensorsOrWithEmptyOnesIsValid) {
  const TemporaryFolder folder;
  EXPECT_TRUE(SafetensorsFile(folder.write("a", safetensors_bytes("{}", 0))).tensors().empty());
  const SafetensorsFile file(folder.write(
      "b", safetensors_bytes(R"({"e":{"dtype":"F32","shape":[0,3],"data_offsets":[4,4]},
      "s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
                             4)));
  EXPECT_THAT(file.find("e")->shape, ElementsAre(0, 3));
  EXPECT_TRUE(file.find("s")->shape.empty());
  EXPECT_EQ(file.find("t"), nullptr);
}

TEST(Safetensors, RefusesWhatIsNotOne) {
  EXPECT_EQ(error_of(""), "expected a safetensors file, found one of 0 bytes (is it truncated?)");
  EXPECT_EQ(error_of("PK\x03\x04 zip archive"),
            "expected a safetensors file, found a header of 8100139682727414608 bytes in a file of "
            "16 (not one, or truncated)");
  EXPECT_THAT(error_of(safetensors_bytes("[]", 0)), HasSubstr("expected a map of tensors"));
  EXPECT_THAT(error_of(safetensors_bytes("", 0)), HasSubstr("empty"));
  EXPECT_THAT(error_of(safetensors_bytes("{\"x\":", 0)), HasSubstr("header:1:"));
}

TEST(Safetensors, RefusesTensorsThatDoNotCoverTheFile) {
  const auto two = [](const char* first, const char* second) {
    return error_of(
        safetensors_bytes(std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)") + first +
                              R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}",
                          8));
  };
  EXPECT_EQ(two("[0,4]", "[2,6]"),
            "tensor \"b\": expected to begin at byte 4, where the one before it ends, found 2");
  EXPECT_THAT(two("[0,4]", "[5,9]"), HasSubstr("tensor \"b\": expected to begin at byte 4"));
  EXPECT_THAT(two("[1,5]", "[5,9]"), HasSubstr("tensor \"a\": expected to begin at byte 0"));
  EXPECT_THAT(
      error_of(safetensors_bytes(R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", 8)),
      HasSubstr("tensor \"a\": ends at byte 9, and the file has 8 after its header (is it "
                "truncated?)"));
  EXPECT_THAT(
      error_of(safetensors_bytes(R"({"a":{"dtype":"U8","shape":[7],"data_offsets":[0,7]}})", 8)),
      HasSubstr("the tensors end at byte 7, and the file has 8 after its header"));
}

TEST(Safetensors, RefusesMalformedEntries) {
  const auto entry = [](const char* text) {
    return error_of(safetensors_bytes(std::string(R"({"a":)") + text + "}", 4));
  };
  EXPECT_THAT(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"),
              HasSubstr("a.data_offsets: F32 [2] does not fit the byte range from 0 to 4"));
  EXPECT_THAT(entry(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})"),
              HasSubstr("does not fit"));
  EXPECT_THAT(entry(R"({"dtype":"F31","shape":[1],"data_offsets":[0,4]})"),
              HasSubstr("a.dtype: unknown element type \"F31\""));
  EXPECT_THAT(entry(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"), HasSubstr("a.shape"));
  EXPECT_THAT(entry(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]})"),
              HasSubstr("does not fit"));
  EXPECT_THAT(entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})"),
              HasSubstr("expected two offsets, found 1"));
  EXPECT_THAT(entry(R"({"dtype":"F32","shape":[1]})"), HasSubstr("data_offsets"));
  EXPECT_THAT(entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"stride":1})"),
              HasSubstr("a.stride: unknown key"));
  EXPECT_THAT(entry(R"(3)"), HasSubstr("a"));
  EXPECT_THAT(error_of(safetensors_bytes(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                                         R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                                         0)),
              HasSubstr("duplicate key \"a\""));
  EXPECT_THAT(error_of(safetensors_bytes(R"({"__metadata__":{"format":1}})", 0)),
              HasSubstr("expected a string"));
}

TEST(Safetensors, RefusesTypesThatAreNotWeights) {
  const TemporaryFolder folder;
  const SafetensorsFile file(folder.write(
      "x", safetensors_bytes(R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", 8)));
  float out = 0.0F;
  try {
    file.read_as(file.tensors()[0], ElementType::kFloat32, &out);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("tensor \"a\": expected F32, BF16 or F16, found I64"));
  }
}

TEST(Safetensors, RefusesAFileThatBecomesShorter) {
  const TemporaryFolder folder;
  const auto path = folder.write(
      "x", safetensors_bytes(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8));
  const SafetensorsFile file(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  std::vector<float> out(2);
  try {
    file.read_as(file.tensors()[0], ElementType::kFloat32, out.data());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("more were expected"));
  }
}

TEST(Safetensors, OfAFolderOrOfNothingIsAnError) {
  const TemporaryFolder folder;
  EXPECT_THROW(SafetensorsFile{folder.path()}, Error);
  EXPECT_THROW(SafetensorsFile{folder / "none"}, Error);
}

}  // namespace
}  // namespace zenflow::runtime
