/// Selection among the columns of all matrices, by numbers worked by hand, and what ranks send each
/// other for it.
#include "runtime/offload/global_selection.h"

#include <atomic>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/model_config/transformer_config.h"
#include "runtime/offload/layout.h"
#include "tests/support/thread_ranks.h"

namespace zenflow::runtime {
namespace {

/// [4, 10], a vector, [16, 5]: with k = 0.3 each 12 and 16 elements of 40 and 80 if it stood alone.
ParameterTable two_matrices() {
  ParameterTable table;
  table.groups = {{"layers.0", 0, 2}, {"layers.1", 2, 1}};
  table.parameters = {{"a", 4, 10, true, 0}, {"b", 1, 6, false, 0}, {"c", 16, 5, true, 1}};
  return table;
}

std::vector<std::size_t> selected(const std::vector<float>& norms, NormKind norm = NormKind::kL2) {
  const std::vector<bool> flags =
      select_from_all(ranked_matrices(two_matrices(), 0.3), norms, norm);
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i]) columns.push_back(i);
  }
  return columns;
}

using Columns = std::vector<std::size_t>;

TEST(GlobalSelection, KnowsMatricesOfWhichColumnsAreChosen) {
  const std::vector<RankedMatrix> matrices = ranked_matrices(two_matrices(), 0.3);
  ASSERT_EQ(matrices.size(), 2U);
  EXPECT_EQ(matrices[1].parameter, 2U);
  EXPECT_EQ(matrices[1].first, 10U);
  EXPECT_EQ(columns_of(matrices), 15U);
  EXPECT_EQ(elements_of(matrices), 120U);
  EXPECT_EQ(selected_elements(matrices), 28U);
  EXPECT_TRUE(ranked_matrices(two_matrices(), 1).empty());
  EXPECT_TRUE(ranked_matrices(two_matrices(), 0).empty());
}

TEST(GlobalSelection, TakesWhatHoldsMostForAnElement) {
  // Of the tall matrix a norm of 4 is as much for an element as 2 of the other one. Room for 28
  // elements: one column of each, 4 and 16, and 8 more, for two short columns but no tall one.
  std::vector<float> norms = {1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 7.9F, 9, 1, 1, 1};
  EXPECT_EQ(selected(norms), (Columns{2, 3, 4, 11}));
  norms[11] = norms[10] = 100;  // the second of them does not fit, and is passed over
  EXPECT_EQ(selected(norms), (Columns{2, 3, 4, 10}));
  // By means of absolute values a tall column needs four times as much.
  norms = {1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 17, 16, 1, 1, 1};
  EXPECT_EQ(selected(norms, NormKind::kL1), (Columns{2, 3, 4, 10}));
}

TEST(GlobalSelection, KeepsOneColumnOfEitherKindOfEveryMatrix) {
  std::vector<float> norms(15, 0.0F);
  for (std::size_t j = 0; j < 10; ++j) norms[j] = 100.0F + static_cast<float>(j);
  EXPECT_EQ(selected(norms), (Columns{7, 8, 9, 10}));  // of zeros the first
}

TEST(GlobalSelection, TiesKeepWhoIsSelected) {
  std::vector<float> norms(15, 1.0F);
  EXPECT_EQ(selected(norms), (Columns{0, 1, 2, 10}));
  norms = std::vector<float>(15, 0.0F);
  for (const std::size_t j : {3U, 8U, 9U, 14U}) norms[j] = -0.0F;
  EXPECT_EQ(selected(norms), (Columns{3, 8, 9, 14}));
  for (const std::size_t j : {1U, 5U}) norms[j] = 1e-30F;
  EXPECT_EQ(selected(norms), (Columns{1, 3, 5, 14}));
}

ParameterTable llama2_7b() {
  return parameter_table(
      load_transformer_config(ZENFLOW_SOURCE_DIR "/scenarios/models/llama2_7b.json", {}).model, {});
}

TEST(GlobalSelection, SendsAFractionOfTheGradientsOfLlama27B) {
  constexpr int kRanks = 4;
  const ParameterTable table = llama2_7b();
  const std::vector<RankedMatrix> matrices = ranked_matrices(table, 0.1);
  const std::vector<int> owners = parameter_owners(table, kRanks);
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    std::atomic<std::uint64_t> sent = 0;
    std::atomic<int> equal = 0;
    zenflow::testing::ThreadRanks(kRanks).run([&](Communicator& ranks) {
      std::vector<float> norms(columns_of(matrices), -1.0F);
      const auto value = [](std::size_t column) { return static_cast<float>(column % 128); };
      for (const RankedMatrix& one : matrices) {
        if (owners[one.parameter] != ranks.rank()) continue;
        for (std::size_t j = one.first; j < one.first + one.columns; ++j) norms[j] = value(j);
      }
      exchange_norms(ranks, matrices, owners, type, norms);
      sent += ranks.traffic().selection;
      bool all = true;
      for (std::size_t j = 0; j < norms.size(); ++j) all = all && norms[j] == value(j);
      equal += all ? 1 : 0;
    });
    EXPECT_EQ(equal, kRanks);
    const std::size_t width = bytes_per_element(type);
    const std::uint64_t gradients = (kRanks - 1) * width * elements_of(matrices);
    EXPECT_EQ(sent, (kRanks - 1) * width * 1'146'880);  // columns
    EXPECT_GE(gradients, 4000 * sent);
    EXPECT_EQ(gradients / sent, 5875U);
  }
}

TEST(GlobalSelection, ExchangesWithRanksThatOwnNothing) {
  const ParameterTable table = two_matrices();
  const std::vector<RankedMatrix> matrices = ranked_matrices(table, 0.3);
  for (const int count : {1, 2, 3, 9}) {
    const std::vector<int> owners = parameter_owners(table, count);
    std::atomic<int> equal = 0;
    zenflow::testing::ThreadRanks(count).run([&](Communicator& ranks) {
      std::vector<float> norms(15, 0.0F);
      for (const RankedMatrix& one : matrices) {
        if (owners[one.parameter] != ranks.rank()) continue;
        for (std::size_t j = one.first; j < one.first + one.columns; ++j) {
          norms[j] = static_cast<float>(j) - 7;
        }
      }
      exchange_norms(ranks, matrices, owners, ElementType::kFloat32, norms);
      bool all = true;
      for (std::size_t j = 0; j < norms.size(); ++j)
        all = all && norms[j] == static_cast<float>(j) - 7;
      equal += all ? 1 : 0;
    });
    EXPECT_EQ(equal, count);
  }
}

}  // namespace
}  // namespace zenflow::runtime
