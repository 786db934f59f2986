// A job's own file: the first byte says whether it is YAML. What it says is facts of a scenario, or
// it is refused with a place.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/job_files/training_file.h"
#include "tests/fuzz/expect_input_error.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.empty()) return 0;
  const char* const name = text.front() == 'Y' ? "job.yaml" : "job.json";
  zenflow::fuzz::is_taken([&] {
    zenflow::sim::JobFacts facts;
    std::vector<std::string> notes;
    zenflow::sim::read_training_text(text.substr(1), name, facts, notes);
    for (const zenflow::sim::JobFact& fact : facts.all()) {
      zenflow::fuzz::require(!fact.value.empty(), "a fact without a value");
      zenflow::fuzz::require(!fact.source.text().empty(), "a fact from nowhere");
    }
  });
  return 0;
}
