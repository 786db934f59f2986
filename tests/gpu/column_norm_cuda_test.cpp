#include "kernels/column_norm/column_norm_cuda.h"

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <string_view>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_check.h"

namespace zenflow::kernels {
namespace {

struct DeviceFree {
  void operator()(void* memory) const noexcept { static_cast<void>(cudaFree(memory)); }
};

/// `values` on the device; never empty, so that its address is one.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : count_(values.size()) {
    void* memory = nullptr;
    cuda_check(cudaMalloc(&memory, count_ * sizeof(T) + 1), "cudaMalloc");
    memory_.reset(memory);
    cuda_check(cudaMemcpy(memory, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice),
               "cudaMemcpy");
  }
  [[nodiscard]] T* get() const { return static_cast<T*>(memory_.get()); }
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> values(count_);
    cuda_check(cudaMemcpy(values.data(), get(), count_ * sizeof(T), cudaMemcpyDeviceToHost),
               "cudaMemcpy");
    return values;
  }

 private:
  std::size_t count_;
  std::unique_ptr<void, DeviceFree> memory_;
};

/// rows, columns, elements between the last column and the stride
using Shape = std::tuple<std::size_t, std::size_t, std::size_t>;

/// Skips without a GPU, or fails if ZENFLOW_REQUIRE_GPU=1 says that there has to be one.
class ColumnNormCuda : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    if (status == cudaSuccess && devices > 0) return;
    const char* why = status == cudaSuccess ? "no device" : cudaGetErrorString(status);
    const char* required = std::getenv("ZENFLOW_REQUIRE_GPU");
    if (required != nullptr && std::string_view(required) == "1") {
      FAIL() << "ZENFLOW_REQUIRE_GPU=1, but no usable GPU: " << why;
    }
    GTEST_SKIP() << "no usable GPU: " << why;
  }
};

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> result;
  for (const float value : values) result.push_back(std::bit_cast<std::uint32_t>(value));
  return result;
}

template <class Element>
void expect_same_bits(const std::vector<Element>& values, const Shape& shape) {
  const auto [rows, columns, gap] = shape;
  const std::vector<float> blank(columns, -1.0F);

  std::vector<float> l1 = blank;
  std::vector<float> l2 = blank;
  column_norms_scalar(MatrixView<Element>{values.data(), rows, columns, columns + gap},
                      {l1.data(), l2.data()});

  const OnDevice<Element> matrix(values);
  const OnDevice<float> device_l1(blank);
  const OnDevice<float> device_l2(blank);
  column_norms_cuda(MatrixView<Element>{matrix.get(), rows, columns, columns + gap},
                    {device_l1.get(), device_l2.get()}, nullptr);
  cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");

  EXPECT_EQ(bits(device_l1.read()), bits(l1));
  EXPECT_EQ(bits(device_l2.read()), bits(l2));
}

std::size_t element_count(const Shape& shape) {
  const auto [rows, columns, gap] = shape;
  return rows * (columns + gap);
}

/// Any bit pattern, hence also denormals, infinities and NaNs; mostly of ordinary size, or
/// every column would overflow.
TEST_P(ColumnNormCuda, Fp32MatchesScalarBitForBit) {
  std::mt19937 random(1);
  std::vector<float> values(element_count(GetParam()));
  for (float& value : values) {
    const auto pattern = static_cast<std::uint32_t>(random());
    const bool is_ordinary = random() % 1024 != 0;
    value = std::bit_cast<float>(is_ordinary ? (pattern & 0x81FFFFFFU) | 0x3A000000U : pattern);
  }
  expect_same_bits(values, GetParam());
}

TEST_P(ColumnNormCuda, Bf16MatchesScalarBitForBit) {
  std::mt19937 random(2);
  std::vector<Bf16> values(element_count(GetParam()));
  for (Bf16& value : values) {
    const auto pattern = static_cast<std::uint32_t>(random());
    const bool is_ordinary = random() % 1024 != 0;
    value.bits =
        static_cast<std::uint16_t>(is_ordinary ? (pattern & 0x81FFU) | 0x3A00U : pattern & 0xFFFFU);
  }
  expect_same_bits(values, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shapes, ColumnNormCuda,
                         testing::Values(Shape{0, 0, 0}, Shape{0, 3, 0}, Shape{3, 0, 0},
                                         Shape{1, 1, 0}, Shape{2, 15, 1}, Shape{7, 255, 0},
                                         Shape{31, 256, 3}, Shape{17, 257, 5},
                                         Shape{1000, 1031, 7}));

}  // namespace
}  // namespace zenflow::kernels
