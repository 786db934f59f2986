/// Heap memory while columns change place: that of one matrix, however many there are.
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include "tests/bench/allocation_meter.h"
#include "tests/support/offload_case.h"

namespace zenflow::runtime {
namespace {

using testing::Case;
using testing::Trainer;

/// Most bytes allocated at once within a step, over what was there before it.
std::size_t growth_in_step(Trainer& trainer) {
  zenflow::testing::reset_peak();
  const std::size_t before = zenflow::testing::live_bytes();
  trainer.step();
  trainer.engine.settle();  // the update that begins with its end has ended, too
  return zenflow::testing::peak_bytes() - before;
}

TEST(SelectionMemory, OfAChangeOfKIsThatOfOneMatrix) {
  constexpr std::size_t kWidth = 96;
  constexpr std::size_t kMatrices = 12;
  for (const bool overlap : {true, false}) {
    SCOPED_TRACE(overlap);
    Case c;
    c.widths.assign(kMatrices + 1, kWidth);
    c.settings.topk_ratio = 0.8;
    c.settings.topk_range = {0.1, 0.8};
    c.settings.update_interval = 1;
    c.settings.overlap_step = overlap;
    Trainer trainer(c);
    trainer.engine.load_weights(trainer.model.initial_weights());
    for (int t = 0; t < 3; ++t) trainer.step();
    trainer.engine.settle();
    const std::size_t ordinary = growth_in_step(trainer);
    trainer.engine.change_topk_ratio(0.1);
    const std::size_t changing = growth_in_step(trainer);
    ASSERT_EQ(trainer.engine.settings().topk_ratio, 0.1);
    // What is planned for one: 76 columns leave or enter, fp32 state of both and sums of one.
    constexpr std::size_t kOfOne = 28 * kWidth * 76;
    // State of the 67 columns, at least, that leave each, of a third of the matrices, is more.
    static_assert(12 * kWidth * 67 * (kMatrices / 3) > kOfOne);
    EXPECT_LE(changing, ordinary + kOfOne);
  }
}

}  // namespace
}  // namespace zenflow::runtime
