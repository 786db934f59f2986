#include "runtime/data/glue_task.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

const std::vector<GlueTaskInfo>& table() {
  using enum GlueTask;
  using enum GlueMetric;
  static const std::vector<std::string_view> kDev = {"dev.tsv"};
  // Binary labels are digits in the files; their meaning is 1 for positive, acceptable, equivalent,
  // duplicate.
  static const std::vector<std::string_view> kDigits = {"0", "1"};
  static const std::vector<std::string_view> kEntailment = {"entailment", "not_entailment"};
  static const std::vector<GlueTaskInfo> kTable = {
      {kSst2, "sst-2", 0, "sentence", "", "label", kDigits, {kAccuracy}, kDev},
      // No header: source, label, the author's original mark, sentence.
      {kCola, "cola", 4, "sentence", "", "label", kDigits, {kMatthews}, kDev},
      {kMrpc, "mrpc", 0, "#1 String", "#2 String", "Quality", kDigits, {kAccuracy, kF1}, kDev},
      {kRte, "rte", 0, "sentence1", "sentence2", "label", kEntailment, {kAccuracy}, kDev},
      {kQnli, "qnli", 0, "question", "sentence", "label", kEntailment, {kAccuracy}, kDev},
      {kQqp, "qqp", 0, "question1", "question2", "is_duplicate", kDigits, {kAccuracy, kF1}, kDev},
      {kMnli,
       "mnli",
       0,
       "sentence1",
       "sentence2",
       "gold_label",
       {"entailment", "neutral", "contradiction"},
       {kAccuracy},
       {"dev_matched.tsv", "dev_mismatched.tsv"}},
      {kStsb, "sts-b", 0, "sentence1", "sentence2", "score", {}, {kPearson, kSpearman}, kDev},
  };
  return kTable;
}

std::string folded(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c == '-' || c == '_') continue;
    result += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return result;
}

}  // namespace

std::string_view name_of(GlueMetric metric) {
  switch (metric) {
    case GlueMetric::kAccuracy:
      return "accuracy";
    case GlueMetric::kF1:
      return "f1";
    case GlueMetric::kMatthews:
      return "matthews_correlation";
    case GlueMetric::kPearson:
      return "pearson";
    case GlueMetric::kSpearman:
      return "spearman";
  }
  return "unknown";
}

const GlueTaskInfo& glue_task(GlueTask task) {
  return table()[static_cast<std::size_t>(task)];
}

std::span<const GlueTaskInfo> glue_tasks() {
  return table();
}

const GlueTaskInfo& find_glue_task(std::string_view name) {
  std::string known;
  for (const GlueTaskInfo& task : table()) {
    if (folded(task.name) == folded(name)) return task;
    known += (known.empty() ? "" : ", ") + std::string(task.name);
  }
  throw Error(ErrorKind::kInput,
              fmt::format("there is no GLUE task \"{}\"; known are {}", name, known));
}

}  // namespace zenflow::runtime
