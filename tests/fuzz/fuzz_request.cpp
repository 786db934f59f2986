/// Any bytes as a file that a search is given; the first byte chooses which: a space, what
/// zenflow-train --importance recorded, or standard errors. What is read lies within its bounds, or
/// it is an input error.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/tune/setting.h"
#include "tests/fuzz/expect_input_error.h"
#include "tests/fuzz/tuned_scenario.h"

namespace {

using namespace zenflow;
using fuzz::require;

bool is_share(double number) {
  return number >= 0 && number <= 1;
}

void check(const sim::LoadedRequest& loaded) {
  const sim::Space& space = loaded.request.space;
  require(space.points() >= 1, "a space has a point");
  for (const sim::KnobInfo& one : sim::knobs()) {
    for (const double value : space.values(one.knob)) {
      require(std::isfinite(value), "a knob has numbers");
      static_cast<void>(sim::value_text(one.knob, value));
    }
  }
  if (const auto& curve = loaded.request.importance) {
    for (const double columns : {0.0, 0.005, 0.03, 0.1, 0.5, 1.0}) {
      require(is_share(curve->selected(columns)), "a share of the norm is one");
    }
  }
  for (const auto& [number, error] : loaded.uncertainty.relative) {
    require(is_share(error), "a relative error is one");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const fuzz::ScratchFolder kFolder;
  static const sim::ScenarioTree kTree = fuzz::load_job(kFolder);
  const auto file =
      kFolder.write("given", std::string_view(reinterpret_cast<const char*>(data) + 1, size - 1));
  sim::TuneFlags flags;
  constexpr unsigned kKinds = 3;
  switch (data[0] % kKinds) {
    case 0:
      flags.search_space = file;
      break;
    case 1:
      flags.importance = file;
      break;
    default:
      flags.standard_errors = file;
  }
  fuzz::is_taken([&flags] { check(fuzz::small_request(kTree, flags)); });
  return 0;
}
