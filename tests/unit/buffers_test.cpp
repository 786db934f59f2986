// Powers of two, partitions by tensor, symbols: worked out by hand.
#include "sim/schedule/buffers.h"

#include <vector>

#include <gtest/gtest.h>

#include "sim/report/fit.h"

namespace zenflow::sim {
namespace {

TEST(PinnedBlocks, AreRoundedUpToPowersOfTwo) {
  EXPECT_EQ(pinned_block_bytes(0), 0);
  EXPECT_EQ(pinned_block_bytes(1), 1);
  EXPECT_EQ(pinned_block_bytes(2), 2);
  EXPECT_EQ(pinned_block_bytes(3), 4);
  EXPECT_EQ(pinned_block_bytes(4095), 4096);
  EXPECT_EQ(pinned_block_bytes(4096), 4096);
  EXPECT_EQ(pinned_block_bytes(4097), 8192);
  // Neighbours of a power of two that a logarithm in double precision cannot tell from it.
  EXPECT_EQ(pinned_block_bytes(0x1p50), 0x1p50);
  EXPECT_EQ(pinned_block_bytes(0x1p50 + 1), 0x1p51);
  EXPECT_EQ(pinned_block_bytes(0x1p50 - 1), 0x1p50);
  EXPECT_EQ(pinned_block_bytes(2.5), 4);  // a partition need not be a whole number
}

TEST(PinnedBlocks, CostWhatRoundingAdds) {
  EXPECT_EQ(pinned_rounding(std::vector<double>{}), 0);
  EXPECT_EQ(pinned_rounding(std::vector<double>{3, 4, 5}), 1 + 0 + 3);
}

/// 10 + 2 x 4 + 6 = 24 parameters.
ModelSpec four_tensors() {
  ModelSpec model;
  model.embedding.tensors = {{"embed.weight", {5, 2}}};
  Layer block;
  block.tensors = {{"mlp.weight", {2, 2}}};
  model.kinds = {block};
  model.order = {0, 0};
  model.head.tensors = {{"norm.weight", {6}}};
  return model;
}

TEST(Partitions, HoldWholeTensorsAtTheirEdges) {
  //  0          10   14   18     24
  //  |    10    | 4  | 4  |  6   |
  //  |- rank 0 --12- rank 1 -----|
  const auto two = tensors_by_rank(four_tensors(), 2);
  EXPECT_EQ(two, (std::vector<std::vector<double>>{{10, 4}, {4, 4, 6}}));
  // Cuts at 6, 12, 18: the last one falls between two tensors.
  const auto four = tensors_by_rank(four_tensors(), 4);
  EXPECT_EQ(four, (std::vector<std::vector<double>>{{10}, {10, 4}, {4, 4}, {6}}));
  EXPECT_EQ(tensors_by_rank(four_tensors(), 1).front().size(), 4U);
}

TEST(Partitions, KnowTheLargestTensor) {
  EXPECT_EQ(largest_tensor(four_tensors()), 10);
}

TEST(Formulas, NameTheirSymbols) {
  EXPECT_EQ(formula_symbols("2 b (k P2 + P1) / N"),
            (std::vector<std::string>{"b", "k", "P2", "P1", "N"}));
  EXPECT_EQ(formula_symbols("Ae + n A"), (std::vector<std::string>{"Ae", "n", "A"}));
  EXPECT_TRUE(formula_symbols("12").empty());
}

}  // namespace
}  // namespace zenflow::sim
