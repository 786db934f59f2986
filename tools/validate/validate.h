/// The two ways of zenflow-validate to a comparison, and what becomes of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/accuracy/document.h"
#include "sim/accuracy/overlay.h"
#include "sim/config/document.h"
#include "tools/validate/options.h"

namespace zenflow::tools {

/// Both sides of a setting, for an overlay.
struct OverlayPart {
  std::string name;
  sim::Timeline predicted;
  sim::Timeline measured;
  sim::TimelineStretch predicted_stretch;  ///< its timeline is set when the overlay is made
  sim::TimelineStretch measured_stretch;
};

struct Comparison {
  std::vector<sim::ComparedSetting> settings;
  std::optional<sim::LiveFit> fit;
  Node base_profile;      ///< as a document, if there is a fit
  std::string fitted_to;  ///< "6 live runs of llama_10m, zenflow-validate --live, 2026-11-20"
  std::string scenario;
  std::string device;
  std::string machine;
  std::vector<std::string> notes;
  std::vector<OverlayPart> overlay;  ///< if one was asked for
  int signal = 0;  ///< exit code if a signal ended it before there was anything to compare
};

/// Trains. Throws Error; kDevice for a device that cannot.
[[nodiscard]] Comparison compare_live(const ValidateOptions& options, const std::string& date);
/// Reads recorded runs. Throws Error(kInput).
[[nodiscard]] Comparison compare_traces(const ValidateOptions& options, const std::string& date);

/// Prediction and overlay of one setting. `measured`, `steps`: what the overlay shows.
void predict_setting(const sim::Job& job, const sim::Schedule& schedule,
                     sim::ComparedSetting& setting, OverlayPart* overlay);

/// Prints and writes what was asked for. The exit code.
[[nodiscard]] int report(const ValidateOptions& options, const std::string& date,
                         const Comparison& comparison);

/// Writes the page from the data beside it. Throws Error.
void write_page(const ValidateOptions& options);

}  // namespace zenflow::tools
