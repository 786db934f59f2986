// The data set that script/toy-glue makes: valid, fair, not answered by words alone, and always the
// same. Written by the test fixtures of tests/runtime_data.cmake to ZENFLOW_TOY_GLUE/{a,b,c,noisy}:
// a and b with the same arguments, c with another seed, noisy with plain statements only and labels
// of which 15 % are the other one.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/data/glue_batch.h"
#include "runtime/data/glue_reader.h"
#include "tests/support/file_content.h"

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = ZENFLOW_TOY_GLUE;

std::vector<GlueExample> examples(const char* name) {
  return read_glue(glue_task(GlueTask::kSst2), kFolder / "a" / name, MalformedRows::kRefuse)
      .examples;
}

std::vector<std::string> words(const std::string& sentence) {
  std::istringstream text(sentence);
  return {std::istream_iterator<std::string>(text), {}};
}

TEST(ToyGlue, IsTheSameForTheSameSeed) {
  for (const char* name : {"train.tsv", "dev.tsv"}) {
    const std::string a = testing::file_content(kFolder / "a" / name);
    EXPECT_EQ(a, testing::file_content(kFolder / "b" / name));
    EXPECT_NE(a, testing::file_content(kFolder / "c" / name));
    EXPECT_LT(a.size(), 300'000U);
  }
}

TEST(ToyGlue, HasDifferentSentencesOfBothLabelsThatFit) {
  std::set<std::string> sentences;
  for (const char* name : {"train.tsv", "dev.tsv"}) {
    const std::vector<GlueExample> rows = examples(name);
    EXPECT_EQ(rows.size(), name[0] == 't' ? 3000U : 500U);
    double positive = 0;
    for (const GlueExample& row : rows) {
      EXPECT_TRUE(sentences.insert(row.first).second) << row.first << ": there twice";
      EXPECT_LE(row.first.size() + 1, 64U) << row.first;
      positive += row.category;
    }
    // Four standard deviations of fair coins.
    const auto count = static_cast<double>(rows.size());
    EXPECT_NEAR(positive / count, 0.5, 4 * 0.5 / std::sqrt(count));
  }
}

// In 20 rows, 12 are plain, which words answer; 4 are negated, which words then answer wrongly; 4
// contradict themselves, where they guess: 14 in 20 are right, give or take four standard
// deviations of 500 coins. A naive Bayes classifier over words stands for "words alone".
TEST(ToyGlue, IsAnsweredByWordsAloneInTwoRowsOfThreeOnly) {
  std::map<std::string, double> counts[2];
  double totals[2] = {0, 0};
  for (const GlueExample& row : examples("train.tsv")) {
    for (const std::string& word : words(row.first)) {
      ++counts[row.category][word];
      ++totals[row.category];
    }
  }
  const auto evidence = [&](const std::string& word) {
    return std::log((counts[1][word] + 1) / (totals[1] + 1)) -
           std::log((counts[0][word] + 1) / (totals[0] + 1));
  };
  double right = 0;
  const std::vector<GlueExample> rows = examples("dev.tsv");
  for (const GlueExample& row : rows) {
    double sum = 0;
    for (const std::string& word : words(row.first)) sum += evidence(word);
    if ((sum > 0) == (row.category == 1)) ++right;
  }
  const auto count = static_cast<double>(rows.size());
  EXPECT_NEAR(right / count, 0.7, 4 * 0.5 / std::sqrt(count));
}

const std::set<std::string> kGood = {"good",   "great",  "fine",   "warm",  "clever", "moving",
                                     "fresh",  "sharp",  "lovely", "funny", "smart",  "rich",
                                     "bright", "gentle", "honest", "grand"};

TEST(ToyGlue, DisagreesAsOftenAsAskedFor) {
  for (const auto& [name, expected] : {std::pair("train.tsv", 2000), std::pair("dev.tsv", 500)}) {
    const std::vector<GlueExample> rows =
        read_glue(glue_task(GlueTask::kSst2), kFolder / "noisy" / name, MalformedRows::kRefuse)
            .examples;
    EXPECT_EQ(rows.size(), static_cast<std::size_t>(expected));
    double other = 0;
    for (const GlueExample& row : rows) {
      const std::vector<std::string> said = words(row.first);
      ASSERT_EQ(said.size(), 4U) << row.first;  // a plain statement
      other += kGood.contains(said.back()) != (row.category == 1) ? 1 : 0;
    }
    // Four standard deviations of such a coin.
    EXPECT_NEAR(other / expected, 0.15, 4 * std::sqrt(0.15 * 0.85 / expected));
  }
}

// The order of words answers all rows: the rule by which a reader would decide.
TEST(ToyGlue, IsAnsweredByTheOrderOfWords) {
  const std::set<std::string> negations = {"not", "never", "hardly"};
  for (const char* name : {"train.tsv", "dev.tsv"}) {
    for (const GlueExample& row : examples(name)) {
      std::string clause = row.first;
      if (const auto but = clause.find(" but "); but != std::string::npos) {
        clause = clause.substr(but);
      } else if (clause.starts_with("although ")) {
        clause = clause.substr(clause.find(" , "));
      } else if (const auto although = clause.find(" although "); although != std::string::npos) {
        clause = clause.substr(0, although);
      }
      bool is_negated = false;
      for (const std::string& word : words(clause)) is_negated ^= negations.contains(word);
      const bool is_positive = kGood.contains(words(clause).back()) != is_negated;
      EXPECT_EQ(row.category, is_positive ? 1 : 0) << row.first;
    }
  }
}

}  // namespace
}  // namespace zenflow::runtime
