/// Settings of a scenario, measured and predicted: what zenflow-validate compares.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/accuracy/comparison.h"
#include "sim/accuracy/overlay.h"
#include "sim/calibrate/live_fit.h"
#include "sim/config/document.h"
#include "sim/trace/import/import_trace.h"

namespace zenflow::sim {

/// What is compared, each named as its flag is.
struct ComparisonFlags {
  std::filesystem::path scenario;
  std::optional<std::string> profile;
  std::vector<std::filesystem::path> profile_directories;  ///< where named profiles are
  std::vector<std::string> set;
  std::vector<std::string> calibrate = {"zero-offload", "zenflow:0.1:4"};
  bool calibrate_given = false;
  std::vector<std::filesystem::path> traces;
  std::vector<std::string> settings;   ///< of traces of zenflow-train
  std::vector<std::string> schedules;  ///< of others
  std::int64_t first_step = -1;        ///< -1: after two windows of zenflow-train, else 0
  std::string steps;                   ///< regular expression for ranges that are steps
  std::filesystem::path rules;
  std::filesystem::path overlay;  ///< empty: no file is written
  bool shows_overlay = false;     ///< a page does, also without that file

  [[nodiscard]] bool wants_overlay() const { return shows_overlay || !overlay.empty(); }
};

/// Both sides of a setting, for an overlay.
struct OverlayPart {
  std::string name;
  Timeline predicted;
  Timeline measured;
  TimelineStretch predicted_stretch;  ///< its timeline is set when the overlay is made
  TimelineStretch measured_stretch;
};

struct Comparison {
  std::vector<ComparedSetting> settings;
  std::optional<LiveFit> fit;
  Node base_profile;      ///< as a document, if there is a fit
  std::string fitted_to;  ///< "6 live runs of llama_10m, zenflow-validate --live, 2026-11-20"
  std::string scenario;
  std::string device;
  std::string machine;
  std::vector<std::string> notes;
  std::vector<OverlayPart> overlay;  ///< if one was asked for
  bool stopped = false;              ///< before there was anything to compare
};

/// Prediction and overlay of one setting. `overlay`: null, or what was measured, of which as many
/// steps are shown as of the prediction.
void predict_setting(const Job& job, const Schedule& schedule, ComparedSetting& setting,
                     OverlayPart* overlay);
/// Lanes of all of them one above the other. Throws Error(kInput) "--overlay: ..." if there is
/// nothing to show.
[[nodiscard]] Timeline overlay(const std::vector<OverlayPart>& parts);

/// Reads recorded runs. `date`: of the measurement. Throws Error(kInput).
[[nodiscard]] Comparison compare_traces(const ComparisonFlags& flags, const ReadTrace& read,
                                        const std::string& date);

}  // namespace zenflow::sim
