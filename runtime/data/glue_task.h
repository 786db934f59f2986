/// The tasks of GLUE (Wang et al. 2019): columns, labels and metrics.
///
/// Columns as in the files that https://gluebenchmark.com/tasks distributes and
/// nyu-mll/GLUE-baselines download_glue_data.py writes (MRPC). Cross-checked with the readers in
/// transformers 2.1.1 (transformers/data/processors/glue.py, by column number) and in datasets 1.2
/// (datasets/glue/glue.py, by column name). The class of a label is its place in the order of
/// datasets' glue.py; for "0" and "1" that is the number itself. Metrics: table 1 of the paper.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zenflow::runtime {

enum class GlueTask { kSst2, kCola, kMrpc, kRte, kQnli, kQqp, kMnli, kStsb };

enum class GlueMetric { kAccuracy, kF1, kMatthews, kPearson, kSpearman };

/// "accuracy", "f1", "matthews_correlation", "pearson", "spearman".
[[nodiscard]] std::string_view name_of(GlueMetric metric);

struct GlueTaskInfo {
  GlueTask task;
  std::string_view name;    ///< "sst-2", "cola", ... as users write it
  std::size_t columns;      ///< if the file has no header line, its columns; otherwise 0
  std::string_view first;   ///< column of the sentence, or of the first one
  std::string_view second;  ///< column of the second sentence; empty if there is one only
  std::string_view label;   ///< column of the label
  std::vector<std::string_view> classes;  ///< label texts by class; empty: a score from 0 to 5
  std::vector<GlueMetric> metrics;
  std::vector<std::string_view> validation_files;  ///< beside train.tsv

  [[nodiscard]] bool is_pair() const { return !second.empty(); }
  [[nodiscard]] bool is_regression() const { return classes.empty(); }
};

[[nodiscard]] const GlueTaskInfo& glue_task(GlueTask task);
/// In the order of the enumeration.
[[nodiscard]] std::span<const GlueTaskInfo> glue_tasks();
/// Case does not matter, nor do '-' and '_'. Throws Error(kInput) that names all tasks.
[[nodiscard]] const GlueTaskInfo& find_glue_task(std::string_view name);

}  // namespace zenflow::runtime
