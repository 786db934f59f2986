/// Any bytes as a file of published runs: rows that can be simulated or say why not, or an input
/// error.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "sim/accuracy/published_runs.h"
#include "tests/fuzz/expect_input_error.h"
#include "tests/fuzz/tuned_scenario.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zenflow;
  using fuzz::require;
  static const fuzz::ScratchFolder kFolder;
  static const auto kJob = fuzz::write_job(kFolder);  // a node and a model that rows can name
  const auto file =
      kFolder.write("rows.yaml", std::string_view(reinterpret_cast<const char*>(data), size));
  fuzz::is_taken([&file] {
    std::set<std::string> ids;
    for (const sim::PublishedRow& row :
         sim::read_published_rows(file, {{kFolder.path()}, {kFolder.path() / "models"}})) {
      require(ids.insert(row.id).second, "an id is there once");
      require(row.run || !row.judged, "what is judged is simulated");
      require(!row.run || (row.value > 0 && row.run->flop > 0),
              "there is something to hold against");
    }
  });
  return 0;
}
