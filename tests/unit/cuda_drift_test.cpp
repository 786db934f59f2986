/// A GPU's stream that gets slower in the middle of a training, which its events tell without a
/// recording, is noticed and answered. On the emulator's asynchronous streams.
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/tuned_training.h"

namespace zenflow::runtime {
namespace {

using namespace std::chrono_literals;
using namespace testing;

constexpr std::int64_t kMostSteps = 4000;

/// The next event of a kind, from this one on; the end if there is none.
template <class Iterator>
Iterator find_kind(Iterator from, Iterator end, TuneEvent::Kind kind) {
  return std::find_if(from, end, [&](const TuneEvent& event) { return event.kind == kind; });
}

/// A profile is there, and the tuner has had nothing to say for a while.
bool has_settled(const TuningLog& log) {
  constexpr std::int64_t kQuiet = 8;  // windows
  const auto drift = find_kind(log.events.rbegin(), log.events.rend(), TuneEvent::Kind::kDrift);
  const auto fitted = find_kind(log.events.rbegin(), log.events.rend(), TuneEvent::Kind::kFitted);
  return fitted < drift && log.windows.back().window >= log.events.back().window + kQuiet;
}

/// For whoever has to find out why it failed.
std::string text_of(const TuningLog& log) {
  std::string text;
  for (const TuneEvent& event : log.events) {
    text += fmt::format("  window {} {}: S={}, {}\n", event.window, to_string(event.kind),
                        event.to.update_interval, event.reason);
  }
  return text;
}

double predicted(const TuneEvent& fitted, std::int64_t interval) {
  for (const TunePrediction& one : fitted.predictions) {
    if (one.point.update_interval == interval) return one.step_seconds;
  }
  return 0;
}

/// Sleeping is never shorter than asked for: gradients of a step, 8 kB, go down in 20 ms, whatever
/// S is, and the weights of a window come up in 2 ms; then they take 80 ms, which more steps hide.
/// Nothing here is compared with a time that was measured.
TEST(CudaDrift, AnUploadThatGetsSlowIsNoticedAndAnsweredWithLongerWindows) {
  const Case c = tuned_case();
  const TransformerConfig config = family_config("llama");
  const FamilyOracle oracle(config, c);
  TunedTraining training(config, c, kMostSteps, {c.settings.topk_ratio});
  training.engine().load_weights(oracle.initial());
  const TuningLog& log = training.log();
  const auto step = [&] {
    ASSERT_LT(training.engine().steps_done(), kMostSteps) << text_of(log);
    training.step(family_batches(c, training.engine().steps_done(), config.model.vocab));
  };
  emulator::limit_copies(cudaMemcpyDeviceToHost, 4e5);
  emulator::limit_copies(cudaMemcpyHostToDevice, 4e6);
  while ((log.windows.empty() || !has_settled(log)) && !HasFatalFailure()) step();
  if (HasFatalFailure()) return;

  emulator::limit_copies(cudaMemcpyHostToDevice, 1e5);
  const auto told = static_cast<std::ptrdiff_t>(log.events.size());
  const std::int64_t windows = static_cast<std::int64_t>(log.windows.size());
  const auto busy_before = training.busy("h2d");
  const auto knows_it = [](const TuneEvent& event) {
    return predicted(event, 1) > 1.5 * predicted(event, 5);
  };
  const auto answer = [&] {
    return std::find_if(log.events.begin() + told, log.events.end(), knows_it);
  };
  while (answer() == log.events.end() && !HasFatalFailure()) step();
  if (HasFatalFailure()) return;
  const auto drift = find_kind(log.events.begin() + told, answer(), TuneEvent::Kind::kDrift);
  EXPECT_NE(drift, answer()) << text_of(log);
  // Uploads of every window but the last two, whose own may be under way or still to come.
  const std::int64_t uploads = static_cast<std::int64_t>(log.windows.size()) - windows - 2;
  EXPECT_GE(training.busy("h2d") - busy_before, uploads * 80ms) << text_of(log);
  while (training.engine().settings().update_interval == 1 && !HasFatalFailure()) step();
}

}  // namespace
}  // namespace zenflow::runtime
