/// Any bytes as what a recording says of how zenflow-train ran: a run that can be written and read
/// again, or an input error and no run.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "sim/trace/recorded_run.h"
#include "tests/fuzz/expect_input_error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zenflow;
  sim::Timeline timeline;
  timeline.metadata.emplace_back("zenflow_train",
                                 std::string(reinterpret_cast<const char*>(data), size));
  const bool is_taken =
      fuzz::is_taken([&timeline] { sim::check_recorded_run(timeline, "fuzz.json"); });
  const std::optional<sim::RecordedRun> run = sim::recorded_run(timeline);
  fuzz::require(is_taken || !run, "what is refused is no run");
  if (!run) return 0;
  sim::Timeline written;
  sim::write_recorded_run(written, *run);
  fuzz::require(sim::recorded_run(written) == run, "a run is read as it was written");
  sim::check_recorded_run(written, "written.json");
  return 0;
}
