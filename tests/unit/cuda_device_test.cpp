/// The CUDA device on the emulator's asynchronous streams: what it promises beside training right.
#include "runtime/cuda/cuda_device.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/cuda/cuda_stream.h"
#include "tests/emulator/device_memory.h"
#include "tests/support/error_of.h"
#include "tests/support/offload_case.h"
#include "tests/support/sanitizers.h"

namespace zenflow::runtime {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using zenflow::testing::error_of;

struct CudaDeviceTest : ::testing::Test {
  void start(std::vector<std::string> lazy, std::optional<Bytes> memory = {}) {
    device = make_test_device({.memory = memory, .lazy_streams = std::move(lazy)}, recorder);
  }
  Recorder recorder{false};
  std::unique_ptr<Device> device;
};

TEST_F(CudaDeviceTest, ANameThatIsTheGpus) {
  start({});
  EXPECT_EQ(device->name(), "emulated GPU");
}

TEST_F(CudaDeviceTest, CopiesThereAndBack) {
  start({"compute", "d2h"});
  const auto up = device->make_stream("compute");
  const auto down = device->make_stream("d2h");
  const Buffer from = device->allocate(MemoryKind::kPinnedHost, 64, "from");
  const Buffer there = device->allocate(MemoryKind::kDevice, 64, "there");
  const Buffer back = device->allocate(MemoryKind::kPinnedHost, 64, "back");
  std::memset(from.data(), 7, 64);
  device->copy(*up, there.data(), from.data(), 64, CopyDirection::kHostToDevice,
               Traffic::kParameters, {});
  down->wait(up->record(), WaitCause::kCompute);
  device->copy(*down, back.data(), there.data(), 60, CopyDirection::kDeviceToHost,
               Traffic::kGradients, {});
  const Event done = down->record();
  EXPECT_FALSE(done.complete());  // nobody has waited
  done.wait();
  EXPECT_TRUE(done.complete());
  EXPECT_EQ(back.as<unsigned char>()[59], 7);
  EXPECT_EQ(back.as<unsigned char>()[60], 0xFF);
  EXPECT_EQ(device->traffic().h2d[static_cast<std::size_t>(Traffic::kParameters)], 64U);
  EXPECT_EQ(device->traffic().d2h[static_cast<std::size_t>(Traffic::kGradients)], 60U);
}

/// What a recording needs to call a GPU's work by the names that the host device's has.
TEST_F(CudaDeviceTest, SaysWhichOperationOfWhichStreamItLaunches) {
  LaunchLog log;
  start({});
  device = make_cuda_device({.launches = &log}, recorder);
  const auto down = device->make_stream("d2h");
  const Buffer there = device->allocate(MemoryKind::kDevice, 64, "there");
  const Buffer back = device->allocate(MemoryKind::kPinnedHost, 64, "back");
  device->copy(*down, back.data(), there.data(), 64, CopyDirection::kDeviceToHost,
               Traffic::kGradients, {Operation::kGradientsDown, 3});
  const OperationScope still_open = launching(*down, {Operation::kBackward});
  { const OperationScope scope = launching(*down, {Operation::kForward}); }
  down->record().wait();
  const std::vector<LaunchedOperation> operations = log.operations();
  ASSERT_EQ(operations.size(), 2U);
  EXPECT_EQ(operations[0].operation, Operation::kGradientsDown);
  EXPECT_EQ(operations[0].step, 3);
  EXPECT_EQ(operations[0].stream, "d2h");
  EXPECT_EQ(operations[0].thread, ::gettid());
  EXPECT_LE(operations[0].start, operations[0].end);
  EXPECT_EQ(operations[1].operation, Operation::kForward);
}

TEST_F(CudaDeviceTest, RefusesHostMemoryThatIsNotPageLocked) {
  start({});
  const auto stream = device->make_stream("compute");
  const Buffer there = device->allocate(MemoryKind::kDevice, 64, "there");
  const Buffer locked = device->allocate(MemoryKind::kPinnedHost, 64, "locked");
  std::vector<char> pageable(64);
  const auto copy_down = [&](void* to, std::size_t bytes) {
    return error_of([&] {
      device->copy(*stream, to, there.data(), bytes, CopyDirection::kDeviceToHost,
                   Traffic::kControl, {Operation::kLoss});
    });
  };
  const auto [kind, message] = copy_down(pageable.data(), 8);
  EXPECT_EQ(kind, ErrorKind::kRuntime);
  EXPECT_THAT(message, HasSubstr("loss: 8 bytes"));
  EXPECT_EQ(copy_down(locked.data(), 65).second.empty(), false);  // one byte beyond
  EXPECT_EQ(copy_down(locked.data(), 64).second, "");
  EXPECT_EQ(copy_down(locked.data() + 60, 4).second, "");
  EXPECT_EQ(emulator::counts().pageable_copies, 0U);
}

TEST_F(CudaDeviceTest, SaysWhatWantedHowMuchAndWhatHoldsTheRest) {
  start({}, Bytes(100));
  const Buffer held = device->allocate(MemoryKind::kDevice, 60, "weights");
  const auto [kind, message] =
      error_of([&] { (void)device->allocate(MemoryKind::kDevice, 41, "gradients"); });
  EXPECT_EQ(kind, ErrorKind::kInfeasible);
  EXPECT_EQ(message,
            "device memory: gradients needs 41 bytes, 40 of 100 are free; held: weights: 60");
}

TEST_F(CudaDeviceTest, SaysSoWhenTheGpuItselfHasNoMoreAndGoesOn) {
  start({});
  const auto [kind, message] = error_of(
      [&] { (void)device->allocate(MemoryKind::kDevice, emulator::kDeviceBytes + 1, "weights"); });
  EXPECT_EQ(kind, ErrorKind::kInfeasible);
  EXPECT_THAT(message, HasSubstr("are free; held: nothing"));
  EXPECT_TRUE(device->allocate(MemoryKind::kDevice, 64, "less"));
  EXPECT_EQ(device->memory_use(MemoryKind::kDevice).by_purpose.count("weights"), 1U);
}

TEST_F(CudaDeviceTest, MemoryThatIsGivenBackIsFree) {
  start({}, Bytes(100));
  { const Buffer held = device->allocate(MemoryKind::kDevice, 60, "weights"); }
  EXPECT_TRUE(device->allocate(MemoryKind::kDevice, 100, "all"));
  Buffer late = device->allocate(MemoryKind::kPinnedHost, 8, "late");
  device.reset();  // buffers may outlive it
}

TEST_F(CudaDeviceTest, ThereIsNoOtherGpu) {
  const auto [kind, message] = error_of([&] { (void)make_cuda_device({.ordinal = 1}, recorder); });
  EXPECT_EQ(kind, ErrorKind::kDevice);
  EXPECT_THAT(message, HasSubstr("no GPU number 1, there are 1"));
}

TEST_F(CudaDeviceTest, AStreamWaitsForASignal) {
  start({});
  const auto stream = device->make_stream("compute");
  auto signal = device->make_signal();
  std::atomic<bool> set = false;
  std::atomic<bool> early = false;
  stream->wait(signal->event(), WaitCause::kCpuUpdate);
  run_on(*stream, Operation::kBackward, [&] { early = !set; });
  const Event done = stream->record();
  EXPECT_FALSE(done.complete());
  std::thread other([&] {
    set = true;
    signal->set();
  });
  done.wait();
  other.join();
  EXPECT_FALSE(early);
  EXPECT_EQ(emulator::counts().host_functions, 1U);
}

TEST_F(CudaDeviceTest, WaitingForASignalThatIsSetCostsNothing) {
  start({});
  const auto stream = device->make_stream("compute");
  const auto signal = device->make_signal();
  signal->set();
  stream->wait(signal->event(), WaitCause::kCpuUpdate);
  stream->record().wait();
  EXPECT_EQ(emulator::counts().host_functions, 0U);
}

TEST_F(CudaDeviceTest, ASignalThatNobodySetsFailsEveryStreamBehindIt) {
  for (const bool before : {false, true}) {  // it fails, the streams wait
    start({});
    const auto first = device->make_stream("compute");
    const auto second = device->make_stream("d2h");
    auto signal = device->make_signal();
    const Event innocent = first->record();
    const Event event = signal->event();
    if (before) signal.reset();
    first->wait(event, WaitCause::kCpuUpdate);
    second->wait(first->record(), WaitCause::kCompute);
    const Event last = second->record();
    signal.reset();
    innocent.wait();
    EXPECT_THAT(error_of([&] { last.wait(); }).second, HasSubstr("has given up"));
    EXPECT_THAT(error_of([&] { first->record().wait(); }).second, HasSubstr("has given up"));
  }
}

TEST_F(CudaDeviceTest, AFailureOnTheGpuReachesEveryWaiterWithItsCall) {
  start({"compute"});  // it fails when it is waited for, and no call before sees it
  const auto stream = device->make_stream("compute");
  const auto other = device->make_stream("d2h");
  run_on(*stream, Operation::kProbe, [] { throw std::runtime_error("an illegal address"); });
  const Event event = stream->record();
  const auto [kind, message] = error_of([&] { event.wait(); });
  EXPECT_EQ(kind, ErrorKind::kDevice);
  EXPECT_THAT(message, HasSubstr("cuda_events.cpp:"));
  EXPECT_THAT(message, HasSubstr("an illegal address"));
  // As on a GPU: from then on nothing works.
  EXPECT_EQ(error_of([&] { (void)other->record(); }).first, ErrorKind::kDevice);
}

TEST_F(CudaDeviceTest, ALargerWorkspaceDoesNotTakeTheOneInUse) {
  start({"compute"});
  const auto stream = device->make_stream("compute");
  device->expect(*stream, 4, 4);
  const std::uint64_t before = device->memory_use(MemoryKind::kDevice).allocations;
  const Buffer values = device->allocate(MemoryKind::kDevice, 4096 * 64 * sizeof(float), "values");
  const Buffer norms = device->allocate(MemoryKind::kDevice, 64 * sizeof(float), "norms");
  const Buffer host = device->allocate(MemoryKind::kPinnedHost, 64 * sizeof(float), "norms");
  run_on(*stream, Operation::kProbe, [&] { std::fill_n(values.as<float>(), 4096 * 64, 1.0F); });
  device->column_norms(*stream, ElementType::kFloat32, {values.data(), 4, 4}, NormKind::kL2,
                       norms.as<float>(), {});
  device->column_norms(*stream, ElementType::kFloat32, {values.data(), 4096, 60}, NormKind::kL1,
                       norms.as<float>() + 4, {});
  device->copy(*stream, host.data(), norms.data(), 64 * sizeof(float), CopyDirection::kDeviceToHost,
               Traffic::kSelection, {});
  stream->record().wait();
  EXPECT_EQ(host.as<float>()[3], 2);
  EXPECT_EQ(host.as<float>()[4], 4096);
  EXPECT_EQ(host.as<float>()[63], 4096);
  // Only the larger shape had to allocate: the smaller was expected.
  EXPECT_EQ(device->memory_use(MemoryKind::kDevice).allocations - before, 3U);
}

TEST_F(CudaDeviceTest, StreamsSayWhatTheyDidAndWaitedFor) {
  using namespace std::chrono_literals;
  start({});
  const auto compute = device->make_stream("compute");
  const auto copies = device->make_stream("d2h");
  std::atomic<bool> is_waited_for = false;
  run_on(*compute, Operation::kProbe, [&] {
    is_waited_for.wait(false);
    std::this_thread::sleep_for(5ms);
  });
  copies->wait(compute->record(), WaitCause::kCompute);
  run_on(*copies, Operation::kProbe, [] {});
  is_waited_for = true;
  is_waited_for.notify_one();
  for (int i = 0; i < 2; ++i) {
    copies->record().wait();
    compute->record().wait();
  }
  // Marks behind those that are to be seen: times are taken in when more is enqueued.
  run_on(*compute, Operation::kProbe, [] {});
  run_on(*copies, Operation::kProbe, [] {});
  const auto totals = [&](const char* name) { return recorder.find(name)->totals(); };
  EXPECT_GE(totals("compute").busy, 5ms);
  EXPECT_GT(totals("d2h").waiting[static_cast<std::size_t>(WaitCause::kCompute)], 0ns);
  EXPECT_EQ(totals("compute").waiting[static_cast<std::size_t>(WaitCause::kD2H)], 0ns);
}

using CudaDeviceDeathTest = CudaDeviceTest;

#if !defined(ZENFLOW_THREAD_SANITIZER)  // it does not come back from a fault in a forked child
TEST_F(CudaDeviceDeathTest, HostCodeThatTouchesDeviceMemoryFaults) {
  // What the tests of the engine rely on.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        start({});
        const Buffer there = device->allocate(MemoryKind::kDevice, 64, "there");
        there.as<volatile char>()[0] = 1;
      },
      "");
}
#endif

TEST_F(CudaDeviceTest, TheDefaultStreamIsOutOfBounds) {
  start({});
  EXPECT_THROW((void)emulator::enqueue(nullptr, [] {}), emulator::BrokenProgram);
}

/// A steady step neither allocates nor blocks but where it says so: at the gradients' norms.
TEST(CudaDeviceSteps, AllocateNothingAndHaveNoHiddenSynchronisation) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    Case c = random_case(90'000 + seed);
    c.settings.full_warm_up_rounds = 0;
    c.jitter = {};
    c.lazy = {"compute", "d2h", "h2d"};
    SCOPED_TRACE(describe(c));
    Trainer trainer(c);
    trainer.engine.load_weights(trainer.model.initial_weights());
    const std::int64_t s = c.settings.update_interval;
    for (std::int64_t t = 0; t < 3 * s; ++t) trainer.step();
    const emulator::Counts before = emulator::counts();
    for (std::int64_t t = 0; t < 4 * s; ++t) trainer.step();
    const emulator::Counts after = emulator::counts();
    EXPECT_EQ(after.allocations, before.allocations);
    EXPECT_EQ(after.synchronizations, before.synchronizations);
    EXPECT_EQ(after.pageable_copies, 0U);
    EXPECT_GT(after.operations, before.operations);
  }
}

}  // namespace
}  // namespace zenflow::runtime
