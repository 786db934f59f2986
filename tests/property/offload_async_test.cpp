/// The offload engine on a device that does everything as late as events allow. Nothing here
/// depends on timing: what lacks an event reads memory before it is written, or after it was
/// written again, in every run.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/device/host_stream.h"
#include "tests/support/offload_case.h"

namespace zenflow::runtime {
namespace {

using namespace testing;

const std::vector<std::vector<std::string>> kLazy = {
    {}, {"h2d"}, {}, {"d2h", "h2d"}, {"compute", "d2h", "h2d"}};

TEST(LazyStream, RunsNothingBeforeSomebodyWaits) {
  std::atomic<int> ran = 0;  // lives longer than the stream, which runs at its end what is left
  Recorder recorder(false);
  HostStream stream(recorder.add_track("s", sim::TrackKind::kHost), {.lazy = true});
  stream.run({}, [&] { ++ran; });
  const Event first = stream.record();
  stream.run({}, [&] { ++ran; });
  EXPECT_EQ(ran, 0);
  first.wait();
  EXPECT_EQ(ran, 1);
  EXPECT_FALSE(stream.record().complete());
}

TEST(LazyStream, AWaitOfAnotherStreamAsksForIt) {
  Recorder recorder(false);
  TrackRecorder& track = recorder.add_track("s", sim::TrackKind::kHost);
  std::vector<int> order;
  HostStream late(track, {.lazy = true});
  HostStream eager(recorder.add_track("e", sim::TrackKind::kHost), {});
  late.run({}, [&] { order.push_back(1); });
  eager.wait(late.record(), WaitCause::kD2H);
  eager.run({}, [&] { order.push_back(2); });
  eager.record().wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(LazyStream, EndsWithAllDone) {
  Recorder recorder(false);
  int ran = 0;
  {
    HostStream stream(recorder.add_track("s", sim::TrackKind::kHost), {.lazy = true});
    for (int i = 0; i < 5; ++i) stream.run({}, [&] { ++ran; });
  }
  EXPECT_EQ(ran, 5);
}

class LazyDevice : public ::testing::TestWithParam<int> {};

TEST_P(LazyDevice, TrainsAsTheSequentialProgram) {
  const auto& lazy = kLazy[static_cast<std::size_t>(GetParam())];
  for (std::uint64_t i = 0; i < tried(40U); ++i) {
    Case c = random_case(7000 + i);
    c.jitter = {};
    c.lazy = lazy;
    compare_with_sequential(c, 20);
    if (HasFatalFailure()) return;
  }
}

TEST_P(LazyDevice, KeepsTheGradientOfSharedWeightsApart) {
  for (std::uint64_t i = 0; i < tried(12U); ++i) {
    Case c = random_case(7500 + i);
    c.type = ElementType::kFloat32;
    c.tied = true;
    c.jitter = {};
    c.lazy = kLazy[static_cast<std::size_t>(GetParam())];
    compare_with_sequential(c, 14);
    if (HasFatalFailure()) return;
  }
}

TEST_P(LazyDevice, EndsCleanlyAfterAnyStep) {
  // Work is under way everywhere when the engine goes; sanitizers watch.
  for (std::uint64_t i = 0; i < 24; ++i) {
    Case c = random_case(7700 + i);
    c.lazy = kLazy[static_cast<std::size_t>(GetParam())];
    SCOPED_TRACE(describe(c));
    Trainer trainer(c);
    trainer.engine.load_weights(trainer.model.initial_weights());
    for (std::uint64_t t = 0; t < i % 9; ++t) trainer.step();
  }
}

TEST_P(LazyDevice, ResumesBitForBit) {
  for (std::uint64_t i = 0; i < tried(12U); ++i) {
    Case c = random_case(7900 + i);
    c.jitter = {};
    c.lazy = kLazy[static_cast<std::size_t>(GetParam())];
    SCOPED_TRACE(describe(c));
    const auto stop = static_cast<std::int64_t>(1 + i % 9);
    Trainer whole(c);
    whole.engine.load_weights(whole.model.initial_weights());
    for (std::int64_t t = 0; t < stop; ++t) whole.step();
    const Saved saved = save(whole.engine);
    Trainer resumed(c);
    restore(resumed.engine, saved);
    for (std::int64_t t = stop; t < 16; ++t) ASSERT_EQ(whole.step().loss, resumed.step().loss);
    EXPECT_EQ(save(whole.engine), save(resumed.engine));
  }
}

INSTANTIATE_TEST_SUITE_P(Streams, LazyDevice, ::testing::Range(0, 5));

/// Throws from the `nth` call of a model's forward or backward, on the training thread or, with
/// `in_stream`, from the kernel.
class BreakingModel final : public TrainableModel {
 public:
  BreakingModel(ToyModel& model, int nth, bool in_stream)
      : model_(model), left_(nth), in_stream_(in_stream) {}
  [[nodiscard]] const ParameterTable& parameters() const override { return model_.parameters(); }
  [[nodiscard]] bool shared(std::size_t p) const override { return model_.shared(p); }
  [[nodiscard]] double loss() const override { return model_.loss(); }
  void begin_micro_batch(std::size_t index) override { model_.begin_micro_batch(index); }
  void forward(std::size_t g, std::span<const void* const> weights, Stream& compute) override {
    maybe_break(compute);
    model_.forward(g, weights, compute);
  }
  void backward(std::size_t g, std::span<const void* const> weights,
                std::span<void* const> gradients, Stream& compute) override {
    maybe_break(compute);
    model_.backward(g, weights, gradients, compute);
  }

 private:
  void maybe_break(Stream& compute) {
    if (left_-- != 0) return;
    const auto fail = [] { throw Error(ErrorKind::kRuntime, "the model broke"); };
    if (!in_stream_) fail();
    run_on(compute, Operation::kProbe, fail);
  }
  ToyModel& model_;
  int left_;
  bool in_stream_;
};

TEST(OffloadEngineFaults, AModelThatFailsAnywhereStopsTheRunWithItsError) {
  for (int nth = 0; nth < 42; ++nth) {  // seven steps of three layers, there and back
    for (const bool in_stream : {false, true}) {
      Case c = random_case(static_cast<std::uint64_t>(8000 + nth));
      c.jitter = {};
      c.lazy = kLazy[static_cast<std::size_t>(nth) % kLazy.size()];
      SCOPED_TRACE(describe(c));
      Recorder recorder(false);
      SelfCommunicator self;
      const auto device = make_test_device({.lazy_streams = c.lazy}, recorder);
      ToyModel toy(c.widths, c.type, c.seed);
      BreakingModel model(toy, nth, in_stream);
      OffloadEngine engine(model, c.type, c.settings, *device, self, recorder);
      engine.load_weights(toy.initial_weights());
      try {
        for (int t = 0; t < 7; ++t) {
          toy.set_step(t);
          engine.step();
        }
        FAIL() << "went on";
      } catch (const Error& error) {
        EXPECT_TRUE(in_stream ? is_stream_failure(error, "the model broke")
                              : error.what() == std::string("the model broke"))
            << error.what();
      }
    }
  }
}

TEST(OffloadEngineFaults, AnOptimizerThatFailsAnywhereStopsWhateverComesNext) {
  // Next may be a step, the end of the run, an evaluation or a checkpoint.
  for (int nth = 0; nth < 12; ++nth) {
    for (int next = 0; next < 5; ++next) {
      Case c = random_case(static_cast<std::uint64_t>(8100 + nth));
      c.settings.full_warm_up_rounds = 0;
      c.settings.topk_ratio = 0.25;
      c.jitter = {};
      c.lazy = kLazy[static_cast<std::size_t>(nth) % kLazy.size()];
      SCOPED_TRACE(describe(c));
      int calls = 0;
      c.settings.before_update = [&calls, nth](std::size_t) {
        if (calls++ == nth) throw Error(ErrorKind::kRuntime, "the optimizer broke");
      };
      Trainer trainer(c);
      trainer.engine.load_weights(trainer.model.initial_weights());
      try {
        // Three groups an update: the failing one is that of this window.
        const std::int64_t last = (nth / 3 + 1) * c.settings.update_interval;
        for (std::int64_t t = 0; t < last; ++t) trainer.step();
        if (next == 0) trainer.engine.settle();
        if (next == 1) {
          (void)trainer.engine.device_weights();
          trainer.engine.compute().record().wait();
        }
        if (next == 2) (void)trainer.engine.weights(true);
        if (next == 3) (void)save(trainer.engine);
        for (std::int64_t t = 0; t < 3 * c.settings.update_interval; ++t) trainer.step();
        ADD_FAILURE() << "went on without the optimizer";
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "the optimizer broke") << "next " << next;
      }
    }
  }
}

TEST(OffloadEngineFaults, ADeviceThatIsShortOfAnythingIsRefusedBeforeTheFirstStep) {
  // Wherever device memory ends, exchanges of columns included: a run that has begun goes on.
  Case c = random_case(3);
  c.settings.topk_ratio = 0.5;
  c.settings.update_interval = 2;
  c.settings.select_interval = 2;
  c.settings.full_warm_up_rounds = 0;
  c.settings.overlap_step = true;
  c.jitter = {};
  c.lazy = {"compute"};
  std::uint64_t needed = 0;
  {
    Trainer probe(c);
    probe.engine.load_weights(probe.model.initial_weights());
    for (int t = 0; t < 12; ++t) probe.step();
    needed = probe.device.memory_use(MemoryKind::kDevice).peak;
  }
  int refused = 0;
  for (std::uint64_t less = 1; less < 6000; less += 150) {
    c.memory = Bytes(static_cast<double>(needed - less));
    try {
      Trainer trainer(c);
      ADD_FAILURE() << less << " bytes too few, and no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInfeasible);
      if (std::string(error.what()).find("column exchange needs") != std::string::npos) ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(OffloadEngineFaults, ASaveThatFailsLeavesTheRunAsItWas) {
  Case c = random_case(12);
  c.lazy = {"compute", "d2h", "h2d"};
  Trainer disturbed(c);
  Trainer other(c);
  for (Trainer* t : {&disturbed, &other}) t->engine.load_weights(t->model.initial_weights());
  struct FullDisk final : OffloadEngine::StateSink {
    int left = 0;  // arrays that still fit
    void begin(const std::string&, std::size_t) override {
      if (left-- == 0) throw Error(ErrorKind::kRuntime, "full");
    }
    void append(std::span<const std::byte>) override {}
    void end() override {}
  };
  for (int t = 0; t < 12; ++t) {
    FullDisk full;
    full.left = 3 * t;
    EXPECT_THROW(disturbed.engine.save(full), Error);
    ASSERT_EQ(disturbed.step().loss, other.step().loss);
  }
}

}  // namespace
}  // namespace zenflow::runtime
