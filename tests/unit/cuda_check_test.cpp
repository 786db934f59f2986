#include "kernels/cuda/cuda_check.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/column_norm/column_norm_cuda.h"
#include "sim/base/error.h"

namespace zenflow::kernels {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(CudaCheck, SuccessPasses) {
  EXPECT_NO_THROW(cuda_check(cudaSuccess, "cudaNothing"));
}

TEST(CudaCheck, NamesTheCallTheErrorAndTheCallSite) {
  try {
    cuda_check(cudaErrorInvalidValue, "cudaMemcpyAsync");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDevice);
    EXPECT_THAT(std::string(error.what()),
                AllOf(HasSubstr("cuda_check_test.cpp:"), HasSubstr(": cudaMemcpyAsync: "),
                      HasSubstr("(cudaErrorInvalidValue)")));
  }
}

// A launch fails the same way with and without a GPU if there is no device to launch on.
TEST(Launch, AFailureNamesThePlaceOfTheLaunch) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) {
    GTEST_SKIP() << "there is a GPU: the launch would not fail";
  }
  float norm = 0;
  const float value = 1;
  try {
    float workspace[2];
    column_norms_cuda(MatrixView<float>{&value, 1, 1, 1}, {&norm, &norm}, workspace, nullptr);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDevice);
    EXPECT_THAT(std::string(error.what()),
                AllOf(HasSubstr("column_norm_cuda.cu:"), HasSubstr(": kernel launch: ")));
  }
}

}  // namespace
}  // namespace zenflow::kernels
