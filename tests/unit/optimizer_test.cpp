// Bytes of each optimizer, counted from the arrays that its update touches.
#include "sim/deepspeed/optimizer.h"

#include <gtest/gtest.h>

namespace zenflow::sim {
namespace {

OptimizerBytes of(Optimizer kind, bool momentum = false) {
  return optimizer_bytes({.kind = kind, .has_momentum = momentum}, 0);
}

TEST(Optimizer, IsFoundByItsNameInAnyCase) {
  EXPECT_EQ(find_optimizer("AdamW"), Optimizer::kAdam);
  EXPECT_EQ(find_optimizer("adam"), Optimizer::kAdam);
  EXPECT_EQ(find_optimizer("SGD"), Optimizer::kSgd);
  EXPECT_EQ(find_optimizer("Lamb"), std::nullopt);
}

TEST(Optimizer, MovesWhatItReadsAndWrites) {
  EXPECT_EQ(of(Optimizer::kAdam).traffic, 4 * (4 + 3));           // r p, g, m, v; w p, m, v
  EXPECT_EQ(of(Optimizer::kAdagrad).traffic, 4 * (3 + 2));        // r p, g, v; w p, v
  EXPECT_EQ(of(Optimizer::kLion).traffic, 4 * (3 + 2));           // r p, g, m; w p, m
  EXPECT_EQ(of(Optimizer::kSgd).traffic, 4 * (2 + 1));            // r p, g; w p
  EXPECT_EQ(of(Optimizer::kSgd, true).traffic, 4 * (2 + 3 + 3));  // m *= c; m += g; p += m
}

TEST(Optimizer, KeepsItsStates) {
  EXPECT_EQ(of(Optimizer::kAdam).states, 8);
  EXPECT_EQ(of(Optimizer::kLion).states, 8) << "the second one is allocated, and never read";
  EXPECT_EQ(of(Optimizer::kAdagrad).states, 4);
  EXPECT_EQ(of(Optimizer::kSgd).states, 0);
  EXPECT_EQ(of(Optimizer::kSgd, true).states, 4);
}

TEST(Optimizer, HasHalfOfAllWithSixteenBits) {
  OptimizerSettings settings{.narrow_master = true, .narrow_states = true};
  EXPECT_EQ(optimizer_bytes(settings, 0).master, 2);
  EXPECT_EQ(optimizer_bytes(settings, 0).gradient, 2);
  EXPECT_EQ(optimizer_bytes(settings, 0).states, 4);
  EXPECT_EQ(optimizer_bytes(settings, 0).traffic, 14);
  settings.narrow_states = false;
  EXPECT_EQ(optimizer_bytes(settings, 0).states, 8);
  EXPECT_EQ(optimizer_bytes(settings, 0).traffic, 3 * 2 + 4 * 4);
  settings = {.narrow_states = true};
  EXPECT_EQ(optimizer_bytes(settings, 0).states, 8) << "states are as wide as fp32 masters";
}

// p *= c; p += u: 5 accesses of matrices in blocks, and AdamW's 7 of the rest.
TEST(Optimizer, IsAdamWhereMuonTakesNoMatrix) {
  const OptimizerSettings muon{.kind = Optimizer::kMuon};
  EXPECT_EQ(optimizer_bytes(muon, 1).traffic, 20);
  EXPECT_EQ(optimizer_bytes(muon, 1).states, 4);
  EXPECT_EQ(optimizer_bytes(muon, 0.75).traffic, 0.75 * 20 + 0.25 * 28);
  EXPECT_EQ(optimizer_bytes(muon, 0.75).states, 0.75 * 4 + 0.25 * 8);
}

}  // namespace
}  // namespace zenflow::sim
