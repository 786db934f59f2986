/// Any bytes as a file of rules for traces: patterns that can be matched, or an input error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/trace/import/rule_matcher.h"
#include "sim/trace/import/rules.h"
#include "tests/fuzz/expect_input_error.h"
#include "tests/fuzz/scratch_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zenflow;
  static const fuzz::ScratchFolder kFolder;
  const auto file =
      kFolder.write("rules.yaml", std::string_view(reinterpret_cast<const char*>(data), size));
  fuzz::is_taken([&file] {
    static const sim::TraceRules kBuiltIn = sim::default_rules();
    const sim::TraceRules rules = sim::read_rules(file);
    fuzz::require(rules.phases.size() >= kBuiltIn.phases.size() &&
                      rules.lanes.size() >= kBuiltIn.lanes.size(),
                  "the built-in ones follow");
    // Compiling the built-in ones takes far longer than reading a small file.
    for (std::size_t i = kBuiltIn.phases.size(); i < rules.phases.size(); ++i) {
      const sim::PhaseRule& own = rules.phases[i - kBuiltIn.phases.size()];
      for (const std::string& pattern : {own.kernel, own.range, own.operation, own.thread}) {
        fuzz::require(pattern.empty() || sim::is_pattern(pattern), "what is read can be matched");
      }
    }
    for (std::size_t i = kBuiltIn.steps.size(); i < rules.steps.size(); ++i) {
      const std::string& own = rules.steps[i - kBuiltIn.steps.size()];
      fuzz::require(sim::is_pattern(own), "what is read can be matched");
    }
  });
  return 0;
}
