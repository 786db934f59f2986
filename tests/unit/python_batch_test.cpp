// DeepSpeed's batch equation with every kind of number that a file can hold.
#include "sim/deepspeed/python_batch.h"

#include <string>

#include <gtest/gtest.h>

#include "sim/config/hjson.h"

namespace zenflow::sim {
namespace {

/// "train = micro x steps" and whether it holds; sizes as JSON, empty: not written.
std::string outcome(const std::string& train, const std::string& micro, const std::string& steps,
                    std::int64_t ranks) {
  const Node sizes =
      parse_hjson("[" + (train.empty() ? "null" : train) + "," + (micro.empty() ? "null" : micro) +
                      "," + (steps.empty() ? "null" : steps) + "]",
                  "sizes.json")
          .root;
  const auto written = [&sizes](std::size_t i) {
    return sizes.items[i].kind == Node::Kind::kNull ? nullptr : &sizes.items[i];
  };
  const auto batch = complete_batch({written(0), written(1), written(2)}, ranks);
  if (!batch) return "none";
  return batch->train + " = " + batch->micro + " x " + batch->steps +
         (batch->holds ? "" : " fails");
}

TEST(PythonBatch, FillsInWhatIsMissing) {
  EXPECT_EQ(outcome("16", "", "", 4), "16 = 4 x 1");
  EXPECT_EQ(outcome("16", "2", "", 4), "16 = 2 x 2");
  EXPECT_EQ(outcome("16", "", "2", 4), "16 = 2 x 2");
  EXPECT_EQ(outcome("", "2", "", 4), "8 = 2 x 1");
  EXPECT_EQ(outcome("", "2", "3", 4), "24 = 2 x 3");
  EXPECT_EQ(outcome("24", "2", "3", 4), "24 = 2 x 3");
}

TEST(PythonBatch, FailsWhereTheAssertionDoes) {
  EXPECT_EQ(outcome("6", "4", "", 1), "6 = 4 x 1 fails");
  EXPECT_EQ(outcome("4", "", "", 8), "4 = 0 x 1 fails");
  EXPECT_EQ(outcome("16", "2", "3", 4), "16 = 2 x 3 fails");
  EXPECT_EQ(outcome("", "0", "", 1), "? = 0 x ? fails");
  EXPECT_EQ(outcome("-8", "", "", 1), "-8 = ? x ? fails");
}

// Python compares and divides whatever it is given.
TEST(PythonBatch, ComputesWithFractionsAndBooleans) {
  EXPECT_EQ(outcome("", "2.5", "", 2), "5 = 2.5 x 1");
  EXPECT_EQ(outcome("24", "", "2.5", 4), "24 = 2 x 2.5 fails");
  EXPECT_EQ(outcome("20", "", "2.5", 4), "20 = 2 x 2.5");
  EXPECT_EQ(outcome("true", "", "2.5", 4), "1 = 0 x 2.5 fails");
  EXPECT_EQ(outcome("8.0", "true", "8", 1), "8 = 1 x 8");
}

TEST(PythonBatch, IsExactBeyondSixtyFourBits) {
  const std::string large = "1" + std::string(30, '0');
  EXPECT_EQ(outcome(large, "", "", 1), "(a number of 31 digits) = (a number of 31 digits) x 1");
  // 10^30 is no multiple of 3, though its nearest double is close to one.
  EXPECT_NE(outcome(large, "", "", 3).find("fails"), std::string::npos);
  EXPECT_EQ(outcome(std::string(400, '8'), "", "", 8).find("fails"), std::string::npos);
  EXPECT_NE(outcome(std::string(400, '9'), "", "", 8).find("fails"), std::string::npos);
  // An int and a float are compared exactly: 2^53 + 1 is no double.
  EXPECT_EQ(outcome("9007199254740993", "9007199254740992.0", "1", 1),
            "9007199254740993 = 9007199254740992 x 1 fails");
  EXPECT_EQ(outcome("", "1000000000000000000", "1000000000000000000", 1024).find("fails"),
            std::string::npos);
}

// OverflowError: int too large to convert to float. Whole floats below 10^10 hjson makes ints.
TEST(PythonBatch, FailsWhereNoFloatHoldsANumber) {
  EXPECT_EQ(outcome(std::string(400, '8'), "2.5", "", 1), "? = ? x ? fails");
  EXPECT_EQ(outcome(std::string(400, '8'), "2.0", "", 1).find("fails"), std::string::npos);
}

// 1.0 // 0.1 is 9.0: CPython divides what fmod leaves.
TEST(PythonBatch, DividesFloatsAsPython) {
  EXPECT_EQ(outcome("1", "0.1", "", 1), "1 = 0.1 x 9 fails");
}

TEST(PythonBatch, LeavesOtherErrorsToOtherRules) {
  EXPECT_EQ(outcome("", "", "", 1), "none");
  EXPECT_EQ(outcome("", "", "4", 1), "none");
  EXPECT_EQ(outcome("\"8\"", "", "", 1), "none");
  EXPECT_EQ(outcome("8", "[]", "", 1), "none");
}

}  // namespace
}  // namespace zenflow::sim
