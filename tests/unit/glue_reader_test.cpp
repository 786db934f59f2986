// GLUE's files in the layouts in which they are distributed, and their sentences as tokens. The
// rows are invented; the header lines are those of the files (runtime/data/glue_task.h).
#include "runtime/data/glue_reader.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/glue_batch.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::TemporaryFolder;

GlueData parse(GlueTask task, const std::string& text,
               MalformedRows malformed = MalformedRows::kRefuse) {
  return parse_glue(glue_task(task), text, "x.tsv", malformed);
}

std::string refusal(GlueTask task, const std::string& text) {
  const auto [kind, what] = error_of([&] { static_cast<void>(parse(task, text)); });
  EXPECT_EQ(kind, ErrorKind::kInput);
  return what;
}

/// "first|second|class|score" of each example.
std::vector<std::string> rows(const GlueData& data) {
  std::vector<std::string> result;
  for (const GlueExample& example : data.examples) {
    std::string score = std::to_string(example.score);
    score.resize(4);
    result.push_back(example.first + "|" + example.second + "|" + std::to_string(example.category) +
                     "|" + score);
  }
  return result;
}

TEST(GlueReader, ReadsSst2) {
  EXPECT_THAT(rows(parse(GlueTask::kSst2, "sentence\tlabel\nno fun \t0\na \"joy\"\t1\n")),
              ElementsAre("no fun ||0|0.00", "a \"joy\"||1|0.00"));
}

TEST(GlueReader, ReadsColaWhichHasNoHeader) {
  EXPECT_THAT(rows(parse(GlueTask::kCola, "gj04\t1\t\tShe left.\nks08\t0\t*\tShe leave.\n")),
              ElementsAre("She left.||1|0.00", "She leave.||0|0.00"));
}

// The corpus that GLUE's script takes has a byte order mark; copies on Windows end lines in CR LF.
TEST(GlueReader, ReadsMrpcWithByteOrderMarkQuotesAndCarriageReturns) {
  const std::string text =
      "\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n"
      "1\t7\t8\t\"Yes, he said.\tHe said \"yes\".\r\n"
      "0\t9\t10\tA\tB\r\n";
  EXPECT_THAT(rows(parse(GlueTask::kMrpc, text)),
              ElementsAre("\"Yes, he said.|He said \"yes\".|1|0.00", "A|B|0|0.00"));
}

TEST(GlueReader, ReadsRteAndQnli) {
  EXPECT_THAT(rows(parse(GlueTask::kRte,
                         "index\tsentence1\tsentence2\tlabel\n"
                         "0\tA\tB\tnot_entailment\n1\tC\tD\tentailment\n")),
              ElementsAre("A|B|1|0.00", "C|D|0|0.00"));
  EXPECT_THAT(rows(parse(GlueTask::kQnli,
                         "index\tquestion\tsentence\tlabel\n"
                         "0\tWho?\tMe.\tentailment\n")),
              ElementsAre("Who?|Me.|0|0.00"));
}

TEST(GlueReader, ReadsQqp) {
  EXPECT_THAT(rows(parse(GlueTask::kQqp,
                         "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
                         "5\t1\t2\tWhy?\tHow so?\t1\n")),
              ElementsAre("Why?|How so?|1|0.00"));
}

// Training has one annotator's label before the gold label, development has five.
TEST(GlueReader, ReadsBothLayoutsOfMnli) {
  const std::string shared =
      "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
      "sentence1_parse\tsentence2_parse\tsentence1\tsentence2\t";
  EXPECT_THAT(rows(parse(GlueTask::kMnli, shared + "label1\tgold_label\n"
                                                   "0\t1\t1n\tfiction\tb\tb\tp\tp\tA\tB\tneutral\t"
                                                   "neutral\n")),
              ElementsAre("A|B|1|0.00"));
  EXPECT_THAT(
      rows(parse(GlueTask::kMnli, shared + "label1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label\n"
                                           "0\t1\t1n\tslate\tb\tb\tp\tp\tA\tB\tneutral\tneutral\t"
                                           "neutral\tentailment\tneutral\tcontradiction\n")),
      ElementsAre("A|B|2|0.00"));
  EXPECT_THAT(glue_task(GlueTask::kMnli).validation_files,
              ElementsAre("dev_matched.tsv", "dev_mismatched.tsv"));
}

TEST(GlueReader, ReadsScoresOfStsb) {
  const std::string header =
      "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n";
  const std::string row = "0\tmain-captions\tMSRvid\t2012test\t0001\tnone\tnone\tA\tB\t";
  EXPECT_THAT(rows(parse(GlueTask::kStsb, header + row + "5.000\n" + row + "0.25\n")),
              ElementsAre("A|B|0|5.00", "A|B|0|0.25"));
  for (const char* score : {"5.1", "-0.1", "nan", "inf", "", "3x", "three"}) {
    EXPECT_EQ(refusal(GlueTask::kStsb, header + row + score + "\n"),
              std::string("x.tsv:2: expected a score from 0 to 5, found \"") + score + "\"");
  }
}

TEST(GlueReader, NamesFileAndLineOfMalformedRows) {
  EXPECT_EQ(refusal(GlueTask::kSst2, "sentence\tlabel\nfine\t1\nbroken\n"),
            "x.tsv:3: expected 2 columns, found 1");
  EXPECT_EQ(refusal(GlueTask::kSst2, "sentence\tlabel\nfine\t1\t1\n"),
            "x.tsv:2: expected 2 columns, found 3");
  EXPECT_EQ(refusal(GlueTask::kSst2, "sentence\tlabel\nfine\t2\n"),
            "x.tsv:2: expected a label among \"0\", \"1\", found \"2\"");
  EXPECT_EQ(refusal(GlueTask::kSst2, "sentence\tlabel\na\t1\n\nb\t1\n"),
            "x.tsv:3: expected 2 columns, found 1");
  EXPECT_EQ(refusal(GlueTask::kCola, "gj04\t1\tShe left.\n"),
            "x.tsv:1: expected 4 columns, found 3");
  EXPECT_EQ(refusal(GlueTask::kSst2, "sentence\tlabel\n" + std::string(100000, '\t') + "\n"),
            "x.tsv:2: expected 2 columns, found 100001");
  EXPECT_EQ(refusal(GlueTask::kSst2, std::string(1000, '\t') + "\nfine\t1\n"),
            "x.tsv:1: expected a header of at most 1000 columns, found 1001");
}

TEST(GlueReader, SkipsMalformedRowsIfAskedAndSaysWhich) {
  const GlueData data = parse(GlueTask::kQqp,
                              "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
                              "1\t1\t2\tA\tB\t1\n"
                              "2\t3\t4\tWith a\n"
                              "line break?\tB\t1\n"
                              "3\t1\t2\tC\tD\t0\n",
                              MalformedRows::kSkip);
  EXPECT_THAT(rows(data), ElementsAre("A|B|1|0.00", "C|D|0|0.00"));
  EXPECT_THAT(data.skipped, ElementsAre("x.tsv:3: expected 6 columns, found 4",
                                        "x.tsv:4: expected 6 columns, found 3"));
}

TEST(GlueReader, RefusesFilesOfOtherTasksAndWithoutLabels) {
  EXPECT_EQ(
      refusal(GlueTask::kSst2, "index\tsentence\n0\tfine\n"),
      "x.tsv:1: expected the header of a sst-2 file with labels, found no column \"label\" in "
      "\"index\", \"sentence\"");
  EXPECT_THAT(refusal(GlueTask::kMrpc, "sentence\tlabel\nfine\t1\n"),
              HasSubstr("no column \"#1 String\""));
  EXPECT_THAT(refusal(GlueTask::kSst2, ""), HasSubstr("no column \"sentence\""));
  EXPECT_EQ(refusal(GlueTask::kSst2, "sentence\tlabel\n"), "x.tsv:1: no examples");
  EXPECT_EQ(refusal(GlueTask::kCola, "\n\n"), "x.tsv:1: no examples");
}

TEST(GlueReader, IsIndifferentToTheEndOfTheFile) {
  for (const char* end : {"", "\n", "\r\n", "\n\n", "\r\n\r\n"}) {
    const GlueData data = parse(GlueTask::kSst2, std::string("sentence\tlabel\nfine\t1") + end);
    EXPECT_THAT(rows(data), ElementsAre("fine||1|0.00"));
    EXPECT_THAT(data.skipped, IsEmpty());
  }
}

TEST(GlueReader, ReadsFiles) {
  const TemporaryFolder folder;
  const std::string text = "sentence\tlabel\nfine\t1\n";
  const auto path = folder.write("train.tsv", text);
  const GlueData data = read_glue(glue_task(GlueTask::kSst2), path, MalformedRows::kRefuse);
  EXPECT_THAT(data.examples, SizeIs(1));
  EXPECT_EQ(data.fingerprint.bytes, text.size());
  EXPECT_EQ(data.fingerprint, parse(GlueTask::kSst2, text).fingerprint);
  EXPECT_THAT(error_of([&] {
                static_cast<void>(read_glue(glue_task(GlueTask::kSst2), folder / "dev.tsv",
                                            MalformedRows::kRefuse));
              }).second,
              EndsWith("dev.tsv: cannot read: No such file or directory"));
}

TEST(GlueTask, IsFoundByItsName) {
  EXPECT_EQ(find_glue_task("SST-2").task, GlueTask::kSst2);
  EXPECT_EQ(find_glue_task("sts_b").task, GlueTask::kStsb);
  EXPECT_EQ(find_glue_task("CoLA").task, GlueTask::kCola);
  EXPECT_EQ(error_of([] { static_cast<void>(find_glue_task("wnli")); }).second,
            "there is no GLUE task \"wnli\"; known are sst-2, cola, mrpc, rte, qnli, qqp, mnli, "
            "sts-b");
  for (const GlueTaskInfo& task : glue_tasks()) EXPECT_EQ(&glue_task(task.task), &task);
}

TEST(GlueBatch, HasBytesSeparatorEndAndPadding) {
  std::vector<GlueExample> examples(2);
  examples[0] = {"ab", "c", 1, 0.0F};
  examples[1] = {"\xC3", "", 0, 0.0F};
  const std::vector<std::uint64_t> indices = {1, 0};
  const ClassificationBatch batch =
      classification_batch(glue_task(GlueTask::kRte), examples, indices, 6);
  EXPECT_EQ(batch.sequences, 2);
  EXPECT_EQ(batch.length, 6);
  EXPECT_THAT(batch.inputs, ElementsAre(0xC3, 256, 257, 257, 257, 257,  //
                                        'a', 'b', 256, 'c', 257, 257));
  EXPECT_THAT(batch.lengths, ElementsAre(3, 5));
  EXPECT_THAT(batch.classes, ElementsAre(0, 1));
  EXPECT_THAT(batch.scores, IsEmpty());
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(batch.inputs[6 * i + static_cast<std::size_t>(batch.lengths[i]) - 1], kEndToken);
  }
}

TEST(GlueBatch, HasScoresOfRegressionAndOneSentenceWithoutSeparator) {
  std::vector<GlueExample> examples(1);
  examples[0] = {"a", "b", 0, 2.5F};
  const std::vector<std::uint64_t> indices = {0};
  const auto stsb = classification_batch(glue_task(GlueTask::kStsb), examples, indices, 4);
  EXPECT_THAT(stsb.scores, ElementsAre(2.5F));
  EXPECT_THAT(stsb.classes, IsEmpty());
  const auto sst2 = classification_batch(glue_task(GlueTask::kSst2), examples, indices, 3);
  EXPECT_THAT(sst2.inputs, ElementsAre('a', 257, 257));
  const std::vector<std::uint64_t> beyond = {1};
  EXPECT_THAT(
      error_of([&] {
        static_cast<void>(classification_batch(glue_task(GlueTask::kSst2), examples, beyond, 3));
      }).second,
      HasSubstr("example 1 of 1"));
}

// The rule as BERT's code states it: while too long, drop the last byte of the longer sentence, of
// the second if they are equally long.
TEST(GlueBatch, TruncatesTheLongerSentenceFirst) {
  for (std::size_t first = 0; first < 12; ++first) {
    for (std::size_t second = 0; second < 12; ++second) {
      for (std::int64_t length = 4; length < 26; ++length) {
        std::string a = std::string("abcdefghijkl").substr(0, first);
        std::string b = std::string("ABCDEFGHIJKL").substr(0, second);
        const std::vector<std::int32_t> tokens =
            encode(glue_task(GlueTask::kRte), {a, b, 0, 0.0F}, length);
        while (a.size() + b.size() > static_cast<std::size_t>(length) - 2) {
          (a.size() > b.size() ? a : b).pop_back();
        }
        std::vector<std::int32_t> expected(a.begin(), a.end());
        expected.push_back(kSeparatorToken);
        expected.insert(expected.end(), b.begin(), b.end());
        expected.push_back(kEndToken);
        ASSERT_EQ(tokens, expected) << first << ", " << second << " to " << length;
      }
    }
  }
  EXPECT_THAT(encode(glue_task(GlueTask::kSst2), {"abcdef", "", 0, 0.0F}, 4),
              ElementsAre('a', 'b', 'c', 257));
}

TEST(GlueBatch, NeedsRoomForEachSentence) {
  const auto message = [](GlueTask task, std::int64_t length) {
    return error_of([&] {
             static_cast<void>(encode(glue_task(task), {"a", "b", 0, 0.0F}, length));
           })
        .second;
  };
  EXPECT_EQ(message(GlueTask::kSst2, 1),
            "sequence length 1 is too short for sst-2: at least 2 is needed");
  EXPECT_EQ(message(GlueTask::kRte, 3),
            "sequence length 3 is too short for rte: at least 4 is needed");
  EXPECT_EQ(message(GlueTask::kRte, 4), "");
}

}  // namespace
}  // namespace zenflow::runtime
