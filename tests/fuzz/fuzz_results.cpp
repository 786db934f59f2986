/// Any bytes as a document that a program of this project wrote, the first one choosing which: of
/// zenflow-validate, which is judged anew and written as it was read, or of zenflow-calibrate
/// probe, whose figures agree with themselves.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/probe/comparison.h"
#include "sim/accuracy/document.h"
#include "tests/fuzz/expect_input_error.h"
#include "tests/fuzz/scratch_folder.h"

namespace {

using namespace zenflow;

void check_validation(const fuzz::ScratchFolder& folder, const std::filesystem::path& file) {
  const sim::ValidationDocument document = sim::read_document(file);
  const std::string text = sim::document_json(document);
  fuzz::require(sim::document_json(sim::read_document(folder.write("again.json", text))) == text,
                "a document is read as it was written");
}

void check_probe(const std::filesystem::path& file) {
  const std::vector<runtime::Figure> figures = runtime::read_figures(file);
  const runtime::ProbeComparison comparison = runtime::compare_probes(figures, figures);
  fuzz::require(comparison.missing.empty(), "nothing is missing of the same");
  static_cast<void>(runtime::comparison_text(comparison));
  static_cast<void>(runtime::comparison_json(comparison, "fuzz"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const fuzz::ScratchFolder kFolder;
  const auto file = kFolder.write(
      "fuzz.json", std::string_view(reinterpret_cast<const char*>(data) + 1, size - 1));
  const bool is_probe = data[0] % 2 == 1;
  fuzz::is_taken([&] {
    if (is_probe) {
      check_probe(file);
    } else {
      check_validation(kFolder, file);
    }
  });
  return 0;
}
