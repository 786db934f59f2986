// GLUE's metrics: by hand, and against scikit-learn and scipy.
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/metrics.h"
#include "tests/support/error_of.h"
#include "tests/support/mix.h"

namespace zenflow::runtime {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::mix;
using Classes = std::vector<std::int32_t>;
using Scores = std::vector<float>;

//   label       1 1 1 1 0 0 0 0 0 0
//   prediction  1 1 1 0 1 0 0 0 0 0     TP 3, FN 1, FP 1, TN 5
const Classes kLabels = {1, 1, 1, 1, 0, 0, 0, 0, 0, 0};
const Classes kPredictions = {1, 1, 1, 0, 1, 0, 0, 0, 0, 0};

TEST(GlueMetrics, OfClassesByHand) {
  EXPECT_DOUBLE_EQ(accuracy(kPredictions, kLabels), 0.8);
  EXPECT_DOUBLE_EQ(f1(kPredictions, kLabels), 6.0 / 8.0);
  EXPECT_DOUBLE_EQ(matthews_correlation(kPredictions, kLabels), (15.0 - 1.0) / 24.0);
  EXPECT_DOUBLE_EQ(matthews_correlation(kLabels, kLabels), 1.0);
  Classes opposite = kLabels;
  for (std::int32_t& value : opposite) value = 1 - value;
  EXPECT_DOUBLE_EQ(matthews_correlation(opposite, kLabels), -1.0);
  EXPECT_DOUBLE_EQ(accuracy(Classes{2, 1, 0}, Classes{2, 2, 0}), 2.0 / 3.0);
}

//   x  1 2 3 4     deviations -1.5 -0.5 0.5 1.5, squares 5
//   y  1 3 2 5     deviations -1.75 0.25 -0.75 2.25, squares 8.75; products 5.5
//   ranks of y  1 3 2 4: 1 - 6 * 2 / (4 * 15) = 0.8
TEST(GlueMetrics, OfScoresByHand) {
  const Scores x = {1, 2, 3, 4};
  const Scores y = {1, 3, 2, 5};
  EXPECT_DOUBLE_EQ(pearson(x, y), 5.5 / std::sqrt(5.0 * 8.75));
  EXPECT_DOUBLE_EQ(spearman(x, y), 0.8);
  EXPECT_DOUBLE_EQ(pearson(x, x), 1.0);
  EXPECT_DOUBLE_EQ(spearman(x, Scores{8, 4, 2, 1}), -1.0);
}

//   x  7 7 9      ranks 1.5 1.5 3: deviations -0.5 -0.5 1, squares 1.5
//   y  1 2 3      deviations -1 0 1, squares 2; products 1.5
TEST(GlueMetrics, SharesRanksOfEqualScores) {
  EXPECT_DOUBLE_EQ(spearman(Scores{7, 7, 9}, Scores{1, 2, 3}), 1.5 / std::sqrt(1.5 * 2.0));
}

// scikit-learn and scipy: 0 for Matthews and F1 (with a warning), NaN for the correlations.
TEST(GlueMetrics, OfPredictionsThatAreAllTheSame) {
  EXPECT_EQ(matthews_correlation(Classes{1, 1, 1}, Classes{0, 1, 1}), 0.0);
  EXPECT_EQ(f1(Classes{0, 0}, Classes{0, 0}), 0.0);
  EXPECT_TRUE(std::isnan(pearson(Scores{0.1F, 0.1F, 0.1F}, Scores{1, 2, 3})));
  EXPECT_TRUE(std::isnan(spearman(Scores{1, 1, 1}, Scores{1, 2, 3})));
  EXPECT_TRUE(std::isnan(pearson(Scores{1, NAN, 1}, Scores{1, 2, 3})));
  EXPECT_TRUE(std::isnan(spearman(Scores{1, INFINITY, 1}, Scores{1, 2, 3})));
}

// Expected values: scikit-learn 1.9.1 (accuracy_score, f1_score, matthews_corrcoef) and scipy
// 1.17.1 (pearsonr, spearmanr) on numpy 2.4.6, from the same formulas in Python. Both sides work in
// double precision in another order, hence 1e-12.
TEST(GlueMetrics, AgreeWithScikitLearnAndScipy) {
  constexpr double kRounding = 1e-12;
  Classes labels;
  Classes predictions;
  Classes rare_labels;
  Classes rare_predictions;
  Scores scores;
  Scores predicted_scores;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    labels.push_back(static_cast<std::int32_t>(mix(i) % 2));
    predictions.push_back(
        mix(10'000 + i) % 10 < 7 ? labels.back() : static_cast<std::int32_t>(mix(20'000 + i) % 2));
    rare_labels.push_back(mix(i) % 50 == 0 ? 1 : 0);
    rare_predictions.push_back(mix(i) % 60 == 0 || mix(50'000 + i) % 90 == 0 ? 1 : 0);
    scores.push_back(static_cast<float>(mix(30'000 + i) % 26) / 5.0F);
    predicted_scores.push_back(static_cast<float>(mix(30'000 + i) % 26) +
                               static_cast<float>(mix(40'000 + i) % 17));
  }
  EXPECT_NEAR(accuracy(predictions, labels), 0.845, kRounding);
  EXPECT_NEAR(f1(predictions, labels), 0.8451548451548452, kRounding);
  EXPECT_NEAR(matthews_correlation(predictions, labels), 0.690136591312299, kRounding);
  EXPECT_NEAR(f1(rare_predictions, rare_labels), 0.11764705882352941, kRounding);
  EXPECT_NEAR(matthews_correlation(rare_predictions, rare_labels), 0.09458655274258626, kRounding);
  EXPECT_NEAR(pearson(predicted_scores, scores), 0.8374377689527903, kRounding);
  EXPECT_NEAR(spearman(predicted_scores, scores), 0.8424495485055706, kRounding);
}

TEST(GlueMetrics, BelongToTheirTasks) {
  const auto names = [](std::string_view task) {
    std::string text;
    for (const GlueMetric metric : find_glue_task(task).metrics) {
      text += std::string(name_of(metric)) + " ";
    }
    return text;
  };
  // Wang et al. 2019, table 1.
  EXPECT_EQ(names("SST-2"), "accuracy ");
  EXPECT_EQ(names("CoLA"), "matthews_correlation ");
  EXPECT_EQ(names("MRPC"), "accuracy f1 ");
  EXPECT_EQ(names("QQP"), "accuracy f1 ");
  EXPECT_EQ(names("STS-B"), "pearson spearman ");
  EXPECT_EQ(names("MNLI"), "accuracy ");
  EXPECT_EQ(names("QNLI"), "accuracy ");
  EXPECT_EQ(names("RTE"), "accuracy ");

  const auto values = evaluate(glue_task(GlueTask::kMrpc), kPredictions, kLabels);
  ASSERT_EQ(values.size(), 2U);
  EXPECT_DOUBLE_EQ(values[0].value, 0.8);
  EXPECT_DOUBLE_EQ(values[1].value, 0.75);
  const auto scores = evaluate(glue_task(GlueTask::kStsb), Scores{1, 2, 3, 4}, Scores{1, 3, 2, 5});
  ASSERT_EQ(scores.size(), 2U);
  EXPECT_DOUBLE_EQ(scores[1].value, 0.8);
}

TEST(GlueMetrics, RefuseWhatHasNoMeaning) {
  const auto message = [](const auto& action) {
    const auto [kind, what] = error_of(action);
    EXPECT_EQ(kind, ErrorKind::kRuntime);
    return what;
  };
  EXPECT_THAT(message([] {
                static_cast<void>(accuracy(Classes{1}, Classes{1, 2}));
              }),
              HasSubstr("1 predictions and 2 labels"));
  EXPECT_THAT(message([] { static_cast<void>(pearson(Scores{}, Scores{})); }),
              HasSubstr("0 labels"));
  EXPECT_THAT(message([] { static_cast<void>(matthews_correlation(Classes{2}, Classes{1})); }),
              HasSubstr("classes other than 0 and 1"));
  EXPECT_THAT(message([] {
                static_cast<void>(evaluate(glue_task(GlueTask::kStsb), Classes{1}, Classes{1}));
              }),
              HasSubstr("sts-b has scores, not classes"));
  EXPECT_THAT(
      message([] { static_cast<void>(evaluate(glue_task(GlueTask::kRte), Scores{1}, Scores{1})); }),
      HasSubstr("rte has classes, not scores"));
}

}  // namespace
}  // namespace zenflow::runtime
