/// Any bytes as a GLUE file, the first one choosing the task: examples that encode, or an input
/// error with a line.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/data/glue_batch.h"
#include "runtime/data/glue_reader.h"
#include "sim/base/error.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zenflow::runtime;
  using zenflow::fuzz::require;
  if (size == 0) return 0;
  const GlueTaskInfo& task = glue_tasks()[data[0] % glue_tasks().size()];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (const MalformedRows malformed : {MalformedRows::kRefuse, MalformedRows::kSkip}) {
    try {
      const GlueData parsed = parse_glue(task, text, "x.tsv", malformed);
      require(!parsed.examples.empty(), "nothing is an error");
      require(parsed.skipped.empty() || malformed == MalformedRows::kSkip, "only if asked");
      for (const GlueExample& example : parsed.examples) {
        require(task.is_regression()
                    ? example.score >= 0.0F && example.score <= 5.0F
                    : example.category >= 0 &&
                          static_cast<std::size_t>(example.category) < task.classes.size(),
                "labels are those of the task");
        const auto tokens = encode(task, example, 16);
        require(!tokens.empty() && tokens.size() <= 16, "tokens fit");
        require(tokens.back() == kEndToken, "the last one is the end");
      }
    } catch (const zenflow::Error& error) {
      require(error.kind() == zenflow::ErrorKind::kInput, "bad text is bad input");
      require(std::string_view(error.what()).starts_with("x.tsv:"), "the error has a place");
    }
  }
  return 0;
}
