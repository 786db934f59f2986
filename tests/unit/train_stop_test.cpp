// Ctrl-C while a training starts: whichever question is answered yes, the start ends with nothing
// written, and there are enough questions.
#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/model/initialize.h"
#include "runtime/train/trainer.h"
#include "sim/base/input_file.h"
#include "sim/base/large_array.h"
#include "sim/base/stop.h"
#include "tests/support/model_step.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/train_program.h"

namespace zenflow::runtime {
namespace {

using zenflow::testing::kTinyLlama;
using zenflow::testing::TemporaryFolder;

std::atomic<int> questions{0};
std::atomic<int> stop_at{0};

/// Answers yes from the `at`-th question on; questions that `action` asks.
int ask_while(int at, const std::function<void()>& action) {
  questions = 0;
  stop_at = at;
  set_stop_question([] { return ++questions >= stop_at; });
  try {
    action();
  } catch (...) {
    set_stop_question(nullptr);
    throw;
  }
  set_stop_question(nullptr);
  return questions;
}

int questions_of(const std::function<void()>& action) {
  return ask_while(std::numeric_limits<int>::max(), action);
}

class TrainStop : public ::testing::Test {
 protected:
  TrainStop() {
    folder_.write("llama.json", kTinyLlama);
    folder_.write("text.txt", zenflow::testing::some_text(3000));
  }

  [[nodiscard]] TrainOptions options() const {
    TrainOptions o;
    o.model = folder_.path() / "llama.json";
    o.data = folder_.path() / "text.txt";
    o.training.sequence_length = 8;
    o.steps = 2;
    o.offload = settings_for(OffloadSchedule::kZenFlow, o.offload);
    return o;
  }

  /// Trains with the question in force until the first step.
  static void start(const TrainOptions& options, bool& begun) {
    begun = false;
    TrainEvents events;
    events.steps_begin = [&begun] {
      begun = true;
      set_stop_question(nullptr);
    };
    static_cast<void>(train(options, events));
  }

  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file() && entry.path().filename() != ".lock") {
        names.push_back(entry.path().string());
      }
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  /// Each question of the start, answered yes, ends it.
  void expect_stopped_everywhere(const TrainOptions& options) {
    bool begun = false;
    TrainOptions whole = options;
    if (!options.resume) whole.checkpoint = folder_.path() / "whole";
    if (options.save_weights) whole.save_weights = folder_.path() / "whole.safetensors";
    const int all = questions_of([&] { start(whole, begun); });
    const std::vector<std::string> before = files();
    EXPECT_TRUE(begun);
    EXPECT_GT(all, 20);
    for (int at = 1; at <= all; ++at) {
      EXPECT_THROW(ask_while(at, [&] { start(options, begun); }), Stopped) << at << " of " << all;
      EXPECT_FALSE(begun) << at;
      EXPECT_EQ(files(), before) << at;
    }
  }

  TemporaryFolder folder_;
};

TEST_F(TrainStop, EndsTheStartAtEveryQuestion) {
  TrainOptions o = options();
  o.checkpoint = folder_.path() / "checkpoints";
  o.save_weights = folder_.path() / "weights.safetensors";
  expect_stopped_everywhere(o);
}

/// A checkpoint that was not read to its end is not a damaged one.
TEST_F(TrainStop, EndsAResumeAtEveryQuestion) {
  TrainOptions o = options();
  o.checkpoint = folder_.path() / "checkpoints";
  static_cast<void>(train(o, {}));
  o.resume = true;
  expect_stopped_everywhere(o);
}

/// A validation that is stopped counts for nothing; the resumed run begins with it.
TEST_F(TrainStop, EndsAValidationThatAResumeRepeats) {
  TrainOptions o = options();
  o.steps = 4;
  o.evaluate_interval = 2;
  o.feed.validation_fraction = 0.5;
  const TrainReport whole = train(o, {});
  o.checkpoint = folder_.path() / "checkpoints";
  std::size_t batches = 0;
  TrainEvents events;
  events.validating = [&batches](std::size_t done, std::size_t) { batches = done; };
  events.stop = [&batches] { return batches == 3; };
  const TrainReport stopped = train(o, events);
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.steps, 2);
  EXPECT_TRUE(stopped.validations.empty());
  o.resume = true;
  const TrainReport resumed = train(o, {});
  ASSERT_EQ(resumed.validations.size(), whole.validations.size());
  for (std::size_t i = 0; i < whole.validations.size(); ++i) {
    EXPECT_EQ(resumed.validations[i].step, whole.validations[i].step);
    EXPECT_EQ(resumed.validations[i].loss, whole.validations[i].loss);
  }
}

/// What takes long in one piece: a matrix, a buffer, an array, an order of samples, a file.
TEST(StopQuestion, IsAskedWithinLongWork) {
  constexpr std::size_t kMebi = std::size_t{1} << 20U;
  const auto config = testing::model_config(
      R"({"model_type": "gpt2", "vocab_size": 4096, "n_embd": 1024, "n_layer": 1, "n_head": 2,
          "n_positions": 16})");
  const Parameter embedding = parameter_table(config.model, Task()).parameters.front();
  ASSERT_EQ(embedding.elements(), 4 * kMebi);
  std::vector<float> values(4 * kMebi);
  ThreadPool pool(1);
  EXPECT_GE(questions_of([&] {
              initialize(config, embedding, 1, ElementType::kFloat32, values.data(), pool);
            }),
            4);
  Recorder recorder(false);
  HostDeviceSettings settings;
  settings.memory = Bytes(static_cast<double>(300 * kMebi));
  HostDevice device(settings, recorder);
  EXPECT_GE(questions_of([&] {
              static_cast<void>(device.allocate(MemoryKind::kDevice, 256 * kMebi, "test"));
            }),
            4);
  EXPECT_THROW(
      ask_while(
          2, [&] { static_cast<void>(device.allocate(MemoryKind::kDevice, 256 * kMebi, "test")); }),
      Stopped);
  // What was not filled to its end is given back.
  EXPECT_NO_THROW(static_cast<void>(device.allocate(MemoryKind::kDevice, 256 * kMebi, "test")));
  EXPECT_GE(questions_of([] {
              std::vector<float> array;
              fill_with_zeros(array, 64 * kMebi);
              EXPECT_EQ(array.size(), 64 * kMebi);
            }),
            4);
  EXPECT_GE(questions_of([] { static_cast<void>(epoch_order(4 * kMebi, 1, 0)); }), 4);
  const TemporaryFolder folder;
  folder.write("zeros", std::string(64 * kMebi, '\0'));
  EXPECT_GE(questions_of([&] { static_cast<void>(read_file(folder.path() / "zeros")); }), 4);
}

}  // namespace
}  // namespace zenflow::runtime
