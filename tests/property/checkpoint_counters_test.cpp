// Whoever writes a checkpoint can give it a right checksum: every counter of every section, at
// every extreme, is refused with the file's name before anything is counted or sized by it.
#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/checkpoint/checkpoint_writer.h"
#include "runtime/train/trainer.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/train_program.h"

namespace zenflow::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using zenflow::testing::error_of;
using zenflow::testing::kTinyLlama;
using zenflow::testing::TemporaryFolder;

namespace fs = std::filesystem;

/// A number of `bytes` bytes at a place of a section, and what it must not be.
struct Place {
  std::size_t at;
  std::vector<std::string> extremes;
};

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

template <class T>
std::vector<std::string> as_bytes(std::initializer_list<T> values) {
  std::vector<std::string> all;
  for (const T value : values) all.push_back(bytes_of(value));
  return all;
}

const std::vector<std::string> kWide =
    as_bytes<std::int64_t>({std::numeric_limits<std::int64_t>::min(), -2, std::int64_t{1} << 62U,
                            std::numeric_limits<std::int64_t>::max()});
const std::vector<std::string> kNarrow =
    as_bytes<std::uint32_t>({std::numeric_limits<std::uint32_t>::max(), 1U << 31U, 1U << 30U});
const std::vector<std::string> kDouble = as_bytes<double>(
    {-1, -1e300, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
     -std::numeric_limits<double>::infinity()});

std::vector<Place> all_of(std::size_t bytes, std::size_t width,
                          const std::vector<std::string>& extremes) {
  std::vector<Place> places;
  for (std::size_t at = 0; at < bytes; at += width) places.push_back({at, extremes});
  return places;
}

/// The counters of a section; none of arrays of weights, sums and losses, and of texts.
std::vector<Place> counters_of(const Section& section) {
  const auto is = [&](std::string_view begin) { return section.name.starts_with(begin); };
  if (is("engine/counters") || is("data position") || is("total steps")) {
    return all_of(section.bytes, 8, kWide);
  }
  if (is("engine/deferred/updates/") || is("engine/selected/updates/") || is("engine/slots/")) {
    auto places = all_of(section.bytes, 4, kNarrow);
    if (places.size() > 2) places = {places.front(), places.back()};
    return places;
  }
  if (is("engine/topk_ratios")) return all_of(section.bytes, 8, kDouble);
  if (is("validations")) return all_of(section.bytes, 16, kDouble);  // rows of step and loss
  if (is("engine/window_importance/")) {
    using Row = SliceImportance;
    return {{offsetof(Row, parameter), kWide},
            {offsetof(Row, square_sum), kDouble},
            {offsetof(Row, selected_square_sum), kDouble},
            {offsetof(Row, columns), kWide},
            {offsetof(Row, selected), kWide}};
  }
  for (const char* numbers : {"engine/weights/", "engine/deferred/", "engine/selected/",
                              "engine/sums/", "losses", "identity", "validation metrics"}) {
    if (is(numbers)) return {};
  }
  ADD_FAILURE() << section.name << ": a new section: which counters does it have?";
  return {};
}

/// Copies a checkpoint, as of `step`, with some bytes of one section replaced.
void write_changed(const fs::path& from, const fs::path& to, std::uint64_t step,
                   const std::string& section, const std::function<void(std::string&)>& change) {
  const CheckpointReader reader(from);
  CheckpointWriter writer(to, step);
  const InputFile file(from);
  for (const Section& one : reader.sections()) {
    std::string bytes(one.bytes, '\0');
    file.read_at(one.offset, std::as_writable_bytes(std::span(bytes)));
    std::vector<std::uint64_t> shape = one.shape;
    if (one.name == section) {
      change(bytes);
      if (bytes.size() != one.bytes) shape = {bytes.size() / size_of(one.type)};
    }
    writer.begin(one.name, one.type, std::move(shape));
    writer.append(std::as_bytes(std::span(bytes)));
    writer.end();
  }
  writer.commit();
}

class CheckpointCounters : public ::testing::Test {
 protected:
  CheckpointCounters() {
    folder_.write("llama.json", kTinyLlama);
    folder_.write("text.txt", zenflow::testing::some_text(3000));
  }

  [[nodiscard]] TrainOptions options() const {
    TrainOptions o;
    o.model = folder_.path() / "llama.json";
    o.data = folder_.path() / "text.txt";
    o.checkpoint = folder_.path() / "good";
    o.training.sequence_length = 8;
    o.evaluate_interval = 2;
    o.steps = 5;
    o.offload.update_interval = 2;
    o.offload.select_interval = 2;
    o.offload = settings_for(OffloadSchedule::kZenFlow, o.offload);
    return o;
  }

  void expect_refused(TrainOptions o, const std::string& section,
                      const std::function<void(std::string&)>& change) {
    const fs::path good = *o.checkpoint / ("checkpoint-" + std::to_string(o.steps));
    const fs::path bad = folder_.path() / "bad" / good.filename();
    fs::create_directories(bad.parent_path());
    write_changed(good, bad, static_cast<std::uint64_t>(o.steps), section, change);
    o.checkpoint = bad.parent_path();
    o.resume = true;
    o.steps += 2;
    const auto [kind, message] = error_of([&] { static_cast<void>(train(o, {})); });
    EXPECT_EQ(kind, ErrorKind::kInput) << section << ": " << message;
    EXPECT_THAT(message, StartsWith(bad.generic_string() + ": "));
  }

  /// Interrupts a training as a signal does, within a window, and changes what it has written.
  /// `with_arrays`: also what there is of every parameter.
  void expect_all_refused(TrainOptions o, bool with_arrays = false) {
    std::int64_t steps = 0;
    TrainEvents events;
    events.step = [&](const auto&...) { ++steps; };
    events.stop = [&] { return steps >= o.steps; };
    TrainOptions longer = o;
    longer.steps += 3;
    longer.learning_rate.total_steps = longer.steps;
    ASSERT_TRUE(train(longer, events).stopped);
    const fs::path good = *o.checkpoint / ("checkpoint-" + std::to_string(o.steps));
    const CheckpointReader reader(good);
    for (const Section& section : reader.sections()) {
      const bool is_array = std::count(section.name.begin(), section.name.end(), '/') > 1;
      if (is_array && !with_arrays) continue;
      for (const auto& [at, extremes] : counters_of(section)) {
        for (const std::string& extreme : extremes) {
          SCOPED_TRACE(section.name + " at byte " + std::to_string(at));
          expect_refused(o, section.name, [&, at = at](std::string& bytes) {
            bytes.replace(at, extreme.size(), extreme);
          });
        }
      }
    }
    o.resume = true;
    o.steps += 2;
    EXPECT_EQ(train(o, {}).steps, o.steps);  // what was not changed is read
  }

  TemporaryFolder folder_;
};

TEST_F(CheckpointCounters, WithinAWindowThatOverlapsAnUpdate) {
  TrainOptions o = options();
  o.offload.overlap_step = true;
  expect_all_refused(o, true);
}

TEST_F(CheckpointCounters, WithinAWindowWithoutOverlap) {
  TrainOptions o = options();
  o.offload.overlap_step = false;
  expect_all_refused(o);
}

TEST_F(CheckpointCounters, WithinAWarmUp) {
  TrainOptions o = options();
  o.offload.full_warm_up_rounds = 7;
  expect_all_refused(o);
}

TEST_F(CheckpointCounters, OfATrainingThatIsTuned) {
  TrainOptions o = options();
  o.tune_live = true;
  o.offload.interval_is_auto = true;
  o.offload.max_staleness = 9;
  o.offload.topk_ratio = 0.25;
  o.offload.topk_range = TopkRange{0.125, 0.5};
  o.offload = settings_for(OffloadSchedule::kZenFlow, o.offload);
  expect_all_refused(o);
}

/// As many losses as steps; steps that the file's name says; a step that no run comes to.
TEST_F(CheckpointCounters, StepsThatDoNotAgree) {
  const TrainOptions o = options();
  static_cast<void>(train(o, {}));
  expect_refused(o, "losses", [](std::string& bytes) { bytes.resize(bytes.size() - 8); });
  expect_refused(o, "data position", [](std::string& bytes) { bytes.resize(8); });
  const fs::path good = *o.checkpoint / "checkpoint-5";
  for (const std::uint64_t step : {std::uint64_t{1} << 62U, ~std::uint64_t{0}, std::uint64_t{7}}) {
    const fs::path bad =
        folder_.path() / std::to_string(step) / ("checkpoint-" + std::to_string(step));
    fs::create_directory(bad.parent_path());
    write_changed(good, bad, step, "", {});
    TrainOptions resumed = o;
    resumed.checkpoint = bad.parent_path();
    resumed.resume = true;
    resumed.steps = 10;
    const auto [kind, message] = error_of([&] { static_cast<void>(train(resumed, {})); });
    EXPECT_EQ(kind, ErrorKind::kInput) << message;
    EXPECT_THAT(message, HasSubstr(step == 7 ? "steps: expected 7, found 5" : "no run comes to"));
  }
}

}  // namespace
}  // namespace zenflow::runtime
