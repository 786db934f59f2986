// What zenflow-validate holds predictions to where nothing is given: what the project promises.
#include <optional>

#include <gtest/gtest.h>

#include "tools/validate/options.h"

namespace zenflow::tools {
namespace {

void expect(const ValidateOptions& options, double mean, double worst, std::optional<double> stall,
            std::optional<double> bytes) {
  const sim::Tolerance limits = options.limits();
  EXPECT_DOUBLE_EQ(limits.mean_step, mean);
  EXPECT_DOUBLE_EQ(limits.worst_step, worst);
  EXPECT_EQ(limits.worst_stall, stall);
  EXPECT_EQ(limits.bytes, bytes);
}

TEST(ValidateLimits, AreThoseThatAreHeldForEachDevice) {
  ValidateOptions options;
  expect(options, 0.08, 0.15, 0.05, 0.001);  // traces
  options.live = true;
  expect(options, 0.08, 0.15, 0.05, 0.0);  // the host device: bytes exactly
  options.device = "cuda";
  expect(options, 0.03, 0.08, std::nullopt, 0.001);
}

TEST(ValidateLimits, WhatIsGivenCounts) {
  ValidateOptions options;
  options.live = true;
  options.device = "cuda";
  options.tolerance = 4;
  options.stall = "10";
  options.bytes = "any";
  expect(options, 0.04, 0.08, 0.1, std::nullopt);
}

}  // namespace
}  // namespace zenflow::tools
