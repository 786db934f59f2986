/// Reads GLUE's TSV files as they are distributed.
///
/// A line ends with LF or CR LF, fields are separated by tabs, quotes and backslashes mean
/// themselves, a byte order mark at the beginning is skipped. Columns are found by the names in the
/// header line (CoLA has none), so train.tsv and dev_matched.tsv of MNLI, which differ, both work.
/// Text stays bytes: nothing is decoded, trimmed or normalised.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/glue_task.h"
#include "runtime/data/token_source.h"

namespace zenflow::runtime {

struct GlueExample {
  std::string first;
  std::string second;         ///< empty if the task has one sentence
  std::int32_t category = 0;  ///< the class, if the task has classes
  float score = 0.0F;         ///< if it has a score
};

/// What to do with a row that has another number of columns than the header, or a label that the
/// task does not have. Some copies of QQP have such rows: the reader in transformers 2.1.1 drops
/// those that are too short.
enum class MalformedRows { kRefuse, kSkip };

struct GlueData {
  std::vector<GlueExample> examples;
  std::vector<std::string> skipped;  ///< "file:line: what", a message per skipped row
  Fingerprint fingerprint;
};

/// Throws Error(kInput), as `path:line: what was expected, what was found`, if the file cannot be
/// read, has not the task's columns, has no rows, or, unless they are to be skipped, has malformed
/// rows; GLUE's test files have no labels and are refused.
[[nodiscard]] GlueData read_glue(const GlueTaskInfo& task, const std::filesystem::path& path,
                                 MalformedRows malformed);

/// The same from text that is called `name` in messages.
[[nodiscard]] GlueData parse_glue(const GlueTaskInfo& task, std::string_view text,
                                  const std::string& name, MalformedRows malformed);

}  // namespace zenflow::runtime
