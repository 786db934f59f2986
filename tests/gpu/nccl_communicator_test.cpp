// One rank over NCCL. Built for a GPU with the library itself, and for the emulator with its
// stand-in, where several ranks are a test of the engine (property/offload_ranks_test.cpp).
#include "runtime/cuda/nccl_communicator.h"

#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/nccl.h"
#include "runtime/gpu/libraries.h"
#include "sim/base/error.h"
#include "tests/support/error_of.h"
#include "tests/support/gpu_libraries.h"
#include "tests/support/on_device.h"
#if defined(ZENFLOW_FAKE_CUDA)
#include "tests/emulator/nccl.h"
#include "tests/emulator/streams.h"
#endif

namespace zenflow::runtime {
namespace {

using ::testing::HasSubstr;

#if defined(ZENFLOW_FAKE_CUDA)
std::unique_ptr<Communicator> over_nccl(Communicator& control) {
  emulator::start({});
  return make_nccl_communicator(control, emulator::nccl_stand_in(), 0);
}
#else
std::unique_ptr<Communicator> over_nccl(Communicator& control) {
  return make_nccl_communicator(control, zenflow::testing::library_folders_of_this_process(), 0);
}
#endif

/// Skipped where there is no NCCL, which one GPU does without.
class NcclCommunicatorTest : public kernels::testing::NeedsDevice<::testing::Test> {
 protected:
  void SetUp() override {
    NeedsDevice::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
#if !defined(ZENFLOW_FAKE_CUDA)
    const auto missing = zenflow::testing::error_of([] {
      static_cast<void>(DynamicLibrary::open(nccl_library(built_cuda_version() / 1000),
                                             zenflow::testing::library_folders_of_this_process()));
    });
    if (!missing.second.empty()) GTEST_SKIP() << missing.second;
#endif
  }
};

TEST_F(NcclCommunicatorTest, OneRankKeepsWhatItHas) {
  SelfCommunicator self;
  const std::unique_ptr<Communicator> nccl = over_nccl(self);
  EXPECT_EQ(nccl->rank(), 0);
  EXPECT_EQ(nccl->size(), 1);
  Recorder recorder(false);
  const std::unique_ptr<Device> device = make_cuda_device({}, recorder);
  const std::unique_ptr<Stream> stream = device->make_stream("compute");
  constexpr std::size_t kCount = 100'003;
  constexpr std::size_t kBytes = kCount * sizeof(float);
  const Buffer host = device->allocate(MemoryKind::kPinnedHost, kBytes, "test");
  const Buffer values = device->allocate(MemoryKind::kDevice, kBytes, "test");
  std::vector<float> expected(kCount);
  std::iota(expected.begin(), expected.end(), -5.0F);
  std::memcpy(host.data(), expected.data(), kBytes);
  device->copy(*stream, values.data(), host.data(), kBytes, CopyDirection::kHostToDevice,
               Traffic::kInitial, {});
  nccl->reduce(*device, *stream, {}, ElementType::kFloat32,
               std::array{OwnedTensor{0, values.data(), kCount}});
  // Two bfloat16 are as many bytes as a float: sums of one rank's change none.
  nccl->reduce(*device, *stream, {}, ElementType::kBfloat16,
               std::array{OwnedTensor{0, values.data(), 2 * kCount}});
  nccl->broadcast(*device, *stream, {}, ElementType::kFloat32,
                  std::array{OwnedTensor{0, values.data(), kCount}});
  device->copy(*stream, host.data(), values.data(), kBytes, CopyDirection::kDeviceToHost,
               Traffic::kInitial, {});
  stream->record().wait();
  EXPECT_EQ(std::memcmp(host.data(), expected.data(), kBytes), 0);
  std::vector<double> loss = {2.5};
  nccl->sum(loss);
  EXPECT_EQ(loss.front(), 2.5);
  EXPECT_EQ(nccl->traffic().gradients, 0U);
  EXPECT_EQ(nccl->traffic().weights, 0U);
}

#if defined(ZENFLOW_FAKE_CUDA)

TEST_F(NcclCommunicatorTest, AFailureOfAnotherRankIsSeenInTheNextStep) {
  SelfCommunicator self;
  const std::unique_ptr<Communicator> nccl = over_nccl(self);
  std::vector<double> loss = {2.5};
  nccl->sum(loss);
  constexpr int kRemoteError = 6;
  emulator::set_nccl_failure(kRemoteError);
  const auto error = zenflow::testing::error_of([&] { nccl->sum(loss); });
  emulator::set_nccl_failure(kNcclSuccess);
  EXPECT_EQ(error.first, ErrorKind::kRuntime);
  EXPECT_THAT(error.second, HasSubstr("NCCL: remote process exited"));
}

TEST_F(NcclCommunicatorTest, AVersionWithoutBfloat16IsRefused) {
  emulator::start({});
  SelfCommunicator self;
  NcclFunctions old = emulator::nccl_stand_in();
  old.get_version = [](int* version) {
    *version = 2804;  // 2.8.4, the last that is written in this way
    return kNcclSuccess;
  };
  const auto error =
      zenflow::testing::error_of([&] { static_cast<void>(make_nccl_communicator(self, old, 0)); });
  EXPECT_EQ(error.first, ErrorKind::kDevice);
  EXPECT_THAT(error.second, HasSubstr("NCCL 2.8.4: 2.10.0 or newer is needed"));
}

TEST_F(NcclCommunicatorTest, SaysWhatNcclSaysLast) {
  emulator::start({});
  SelfCommunicator self;
  NcclFunctions failing = emulator::nccl_stand_in();
  failing.comm_init_rank = [](NcclComm*, int, NcclUniqueId, int) { return 2; };
  failing.get_error_string = [](int) { return "unhandled system error"; };
  failing.get_last_error = [](NcclComm) { return "Duplicate GPU detected"; };
  const auto said = [&] {
    return zenflow::testing::error_of(
               [&] { static_cast<void>(make_nccl_communicator(self, failing, 0)); })
        .second;
  };
  EXPECT_EQ(said(), "ncclCommInitRank: unhandled system error (Duplicate GPU detected)");
  failing.get_last_error = nullptr;  // before 2.13
  EXPECT_EQ(said(), "ncclCommInitRank: unhandled system error");
}

#endif

}  // namespace
}  // namespace zenflow::runtime
