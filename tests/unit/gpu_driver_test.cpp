#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/gpu/driver.h"
#include "tests/support/error_of.h"

namespace zenflow::runtime {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;

TEST(Driver, OfAnOlderBranchIsTooOldAndSaysBothVersions) {
  const DriverAnswer answer{.built_with = 13000,
                            .status = 35,
                            .error = "cudaErrorInsufficientDriver",
                            .supports = 12020,
                            .release = "535.104.05"};
  EXPECT_EQ(judge_driver(answer).state, DriverState::kTooOld);
  const auto [kind, message] = error_of([&] { require_gpu(answer, "--device cuda"); });
  EXPECT_EQ(kind, ErrorKind::kDevice);
  EXPECT_THAT(message, AllOf(HasSubstr("--device cuda: found driver 535.104.05 (CUDA up to 12.2)"),
                             HasSubstr("required: driver 580 or newer, for CUDA 13.0"),
                             HasSubstr("upgrade the driver, or build with the CUDA")));
}

TEST(Driver, ThatIsMissingGivesTheSameErrorButAnotherVerdict) {
  const DriverAnswer answer{
      .built_with = 12040, .status = 35, .error = "cudaErrorInsufficientDriver"};
  const DriverVerdict verdict = judge_driver(answer);
  EXPECT_EQ(verdict.state, DriverState::kNoDriver);
  EXPECT_EQ(verdict.found, "no driver");
  EXPECT_EQ(verdict.expected, "driver 525 or newer, for CUDA 12.4");
}

TEST(Driver, WithoutItsLibraryIsNotTooOld) {
  // A container without the driver's libraries on a machine with the kernel module.
  const DriverAnswer answer{.built_with = 13000, .status = 35, .release = "580.65.06"};
  EXPECT_EQ(judge_driver(answer).state, DriverState::kNoDriver);
  EXPECT_EQ(judge_driver(answer).found, "driver 580.65.06 without its library libcuda.so.1");
}

TEST(Driver, StubIsNamed) {
  const DriverVerdict verdict =
      judge_driver({.built_with = 13000, .status = 34, .error = "cudaErrorStubLibrary"});
  EXPECT_EQ(verdict.state, DriverState::kStub);
  EXPECT_THAT(verdict.found, HasSubstr("stub libcuda"));
  EXPECT_THAT(verdict.advice, HasSubstr("LD_LIBRARY_PATH"));
}

TEST(Driver, WithoutAGpuIsNotUsable) {
  const DriverAnswer hidden{.built_with = 13000, .status = 100, .supports = 13000};
  EXPECT_EQ(judge_driver(hidden).state, DriverState::kNoDevice);
  const DriverAnswer none{.built_with = 13000, .status = 0, .devices = 0, .supports = 13000};
  EXPECT_EQ(judge_driver(none).state, DriverState::kNoDevice);
}

TEST(Driver, OtherErrorsKeepTheirNumberAndName) {
  const DriverVerdict verdict = judge_driver(
      {.built_with = 13000, .status = 802, .error = "cudaErrorSystemNotReady", .supports = 13000});
  EXPECT_EQ(verdict.state, DriverState::kFailed);
  EXPECT_THAT(verdict.found, HasSubstr("CUDA error 802 (cudaErrorSystemNotReady)"));
}

TEST(Driver, UsableNeedsNoAdvice) {
  const DriverAnswer answer{
      .built_with = 13000, .status = 0, .devices = 2, .supports = 13000, .release = "580.65.06"};
  const DriverVerdict verdict = judge_driver(answer);
  EXPECT_EQ(verdict.state, DriverState::kUsable);
  EXPECT_EQ(verdict.found, "driver 580.65.06 (CUDA up to 13.0), 2 GPUs");
  EXPECT_EQ(verdict.advice, "");
  EXPECT_NO_THROW(require_gpu(answer, "x"));
}

TEST(Driver, AGpuThatIsNotThereIsTheUsersMistake) {
  DriverAnswer answer{.built_with = 13000, .devices = 2, .supports = 13000};
  EXPECT_NO_THROW(require_gpu_number(answer, 0, "--gpu"));
  EXPECT_NO_THROW(require_gpu_number(answer, 1, "--gpu"));
  const auto refused = [&](int number) {
    return error_of([&] { require_gpu_number(answer, number, "--gpu"); });
  };
  EXPECT_EQ(refused(2).first, ErrorKind::kInput);
  EXPECT_EQ(refused(2).second, "--gpu 2: expected a visible GPU, of which there are 2, 0 to 1");
  EXPECT_EQ(refused(-1).first, ErrorKind::kInput);
  answer.devices = 1;
  EXPECT_EQ(refused(1).second, "--gpu 1: expected a visible GPU, of which there is one, 0");
}

TEST(Driver, BuildWithoutCudaSaysSo) {
  const auto [kind, message] = error_of([] { require_gpu({}, "--device cuda"); });
  EXPECT_EQ(kind, ErrorKind::kDevice);
  EXPECT_THAT(message, AllOf(HasSubstr("this build has no CUDA"), HasSubstr("-DZENFLOW_CUDA=ON")));
}

TEST(Driver, ReleaseIsReadFromTheKernelModulesText) {
  EXPECT_EQ(driver_release("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 "
                           "01:15:15 UTC 2023\nGCC version:  gcc version 12.2.0 (Debian 12.2.0)\n"),
            "535.104.05");
  EXPECT_EQ(driver_release("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  "
                           "Release Build\nGCC version: gcc 12.2.0\n"),
            "580.65.06");
  EXPECT_EQ(driver_release(""), std::nullopt);
  EXPECT_EQ(driver_release("something else"), std::nullopt);
}

}  // namespace
}  // namespace zenflow::runtime
