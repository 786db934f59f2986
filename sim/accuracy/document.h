/// The result of a validation as one JSON document: what `zenflow-validate --json` prints, and what
/// is kept of it as data.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sim/accuracy/comparison.h"
#include "sim/calibrate/live_fit.h"

namespace zenflow::sim {

/// Where measurements come from.
struct MeasurementOrigin {
  std::string device;   ///< "cpu", "cuda"; of traces what they call it, or empty
  std::string date;     ///< of the measurement: "2026-11-20"
  std::string machine;  ///< for people
  std::string command;  ///< with which the document was made
  std::vector<std::string> remarks{};
};

struct ValidationDocument {
  std::string version;  ///< of the simulator that predicted
  std::string scenario;
  MeasurementOrigin origin;
  std::vector<FittedNumber> numbers{};  ///< of the profile; empty: nothing was fitted
  std::vector<ComparedSetting> settings;
  Tolerance tolerance;
  ValidationSummary summary;
};

/// Rounds figures to what a document keeps, nanoseconds and bytes, and sums up: what a document
/// says of its figures follows from those that are in it.
void judge(ValidationDocument& document);

/// schema_version 1. What is not known is not in the document, or null in the summary; an error
/// relative to nothing is null. Precondition: `document` is judged.
[[nodiscard]] std::string document_json(const ValidationDocument& document);

/// A document that document_json wrote; `numbers` are not read. Errors and summary are computed
/// from its figures; those that it states have to agree to within 2e-6, as
/// have steps with the runs' and the window's times that they come from. The spread of runs is
/// computed where the document has their times, else it is what the document states: until
/// 2026-11-22 that was half the width of their middle half. Throws Error(kInput) "FILE:LINE:COLUMN:
/// ...".
[[nodiscard]] ValidationDocument read_document(const std::filesystem::path& file);

}  // namespace zenflow::sim
