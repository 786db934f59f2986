// Examples with labels: which sequences they become, and which files are refused.
#include "runtime/data/example_sequences.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using zenflow::testing::error_of;

constexpr std::int32_t kNo = kIgnoredLabel;

class Examples : public ::testing::Test {
 protected:
  [[nodiscard]] ExampleSequences open(std::int64_t length, double validation = 0) const {
    folder_.write("e.safetensors", bytes());
    return {folder_ / "e.safetensors", 10, length, validation};
  }
  void expect_refused(const std::string& words) const {
    EXPECT_THAT(error_of([this] { static_cast<void>(open(4)); }).second,
                ::testing::AllOf(HasSubstr("e.safetensors: "), HasSubstr(words)));
  }
  [[nodiscard]] std::string bytes() const {
    std::string header;
    std::string data;
    const auto add = [&](const char* name, const char* type, const auto& values) {
      const std::size_t begin = data.size();
      const auto stored = std::as_bytes(std::span(values));
      data.append(reinterpret_cast<const char*>(stored.data()), stored.size());
      header +=
          fmt::format(R"({}"{}": {{"dtype": "{}", "shape": [{}], "data_offsets": [{}, {}]}})",
                      header.empty() ? "" : ", ", name, type, values.size(), begin, data.size());
    };
    add("input_ids", "I32", ids_);
    add("labels", "I32", labels_);
    add("offsets", "I64", offsets_);
    return zenflow::testing::safetensors_bytes("{" + header + "}", 0) + data;
  }

  std::vector<std::int32_t> ids_ = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<std::int32_t> labels_ = {kNo, kNo, 3, 4, 5, 6, kNo, kNo, kNo};
  std::vector<std::int64_t> offsets_ = {0, 4, 6, 6, 9};
  zenflow::testing::TemporaryFolder folder_;
};

TEST_F(Examples, AreSequencesWhoseTargetsAreLabelsOfTheNextToken) {
  const ExampleSequences examples = open(4);
  EXPECT_EQ(examples.training_count(), 2U);
  EXPECT_EQ(examples.left_out(), 2U) << "nothing in it, and no label";
  EXPECT_EQ(examples.cut(), 0U);
  const TokenBatch batch = examples.training_batch(std::vector<std::uint64_t>{1, 0});
  EXPECT_EQ(batch.sequences, 2);
  EXPECT_EQ(batch.length, 4);
  EXPECT_THAT(batch.inputs, ElementsAre(5, 0, 0, 0, 1, 2, 3, 0));
  EXPECT_THAT(batch.targets, ElementsAre(6, kNo, kNo, kNo, kNo, 3, 4, kNo));
}

/// What is cut off does not count: with one input of the first example no label is left.
TEST_F(Examples, AreCutToTheSequence) {
  EXPECT_EQ(open(2).cut(), 1U);
  EXPECT_THAT(open(2).training_batch(std::vector<std::uint64_t>{0}).targets, ElementsAre(kNo, 3));
  EXPECT_EQ(open(1).left_out(), 3U);
}

TEST_F(Examples, LeaveTheLastOnesForValidation) {
  const ExampleSequences examples = open(4, 0.1);
  EXPECT_EQ(examples.training_count(), 1U);
  EXPECT_THAT(examples.validation_batch(0, 1).inputs, ElementsAre(5, 0, 0, 0));
}

TEST_F(Examples, AreRecognisedAgain) {
  const Fingerprint before = open(4).fingerprint();
  EXPECT_EQ(open(2).fingerprint(), before);
  labels_[3] = 5;
  EXPECT_NE(open(4).fingerprint(), before);
}

TEST_F(Examples, OfOtherFormsAreRefused) {
  ids_[4] = 10;
  expect_refused("token 4 is 10 with the label 5; the vocabulary has 10 ids");
  ids_[4] = 5;
  labels_[8] = -1;
  expect_refused("token 8 is 9 with the label -1");
  labels_[8] = kNo;
  const std::vector<std::vector<std::int64_t>> wrong = {
      {0, 4}, {1, 4, 9}, {0, 9, 4, 9}, {0, 4, 10}, {}};
  for (const std::vector<std::int64_t>& one : wrong) {
    offsets_ = one;
    expect_refused("offsets: expected them to rise from 0 to the 9 tokens");
  }
  offsets_ = {0, 2, 9};
  labels_.assign(9, kNo);
  expect_refused("0 example(s) with labels that count within 4 tokens are too few");
  labels_.pop_back();
  expect_refused("9 input_ids and 8 labels");
}

}  // namespace
}  // namespace zenflow::runtime
