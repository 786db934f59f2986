// Initial weights: the generator's published values, the distribution, and what values depend on.
#include "runtime/model/initialize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/model_step.h"

namespace zenflow::runtime {
namespace {

using testing::model_config;

const char* const kGpt2 = R"({"model_type": "gpt2", "vocab_size": 512, "n_embd": 64, "n_layer": 8,
    "n_head": 2, "n_positions": 16, "initializer_range": 0.05})";

std::vector<float> values(const TransformerConfig& config, const Parameter& parameter,
                          std::uint64_t seed) {
  std::vector<float> out(static_cast<std::size_t>(parameter.elements()));
  ThreadPool pool(1);
  initialize(config, parameter, seed, ElementType::kFloat32, out.data(), pool);
  return out;
}

struct Moments {
  double mean;
  double deviation;
  double kurtosis;
};

Moments moments(const std::vector<float>& x) {
  const auto n = static_cast<double>(x.size());
  double mean = 0.0;
  for (const float value : x) mean += static_cast<double>(value) / n;
  double second = 0.0;
  double fourth = 0.0;
  for (const float value : x) {
    const double d = static_cast<double>(value) - mean;
    second += d * d / n;
    fourth += d * d * d * d / n;
  }
  return {mean, std::sqrt(second), fourth / (second * second)};
}

Parameter parameter(const TransformerConfig& config, const std::string& name) {
  const ParameterTable table = parameter_table(config.model, config.task);
  return table.parameters[table.find(name).value()];
}

/// Known answers of Random123's philox4x32, 10 rounds.
TEST(Philox, GivesThePublishedValues) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (std::array<std::uint32_t, 4>{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  constexpr std::uint32_t kOnes = 0xFFFFFFFF;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (std::array<std::uint32_t, 4>{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(philox({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}),
            (std::array<std::uint32_t, 4>{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

/// Bounds are six standard errors of 32768 independent normals.
TEST(Initialize, MatricesAreNormal) {
  const TransformerConfig config = model_config(kGpt2);
  const Moments words = moments(values(config, parameter(config, "transformer.wte.weight"), 1));
  constexpr double kCount = 512.0 * 64.0;
  EXPECT_LT(std::fabs(words.mean), 6.0 * 0.05 / std::sqrt(kCount));
  EXPECT_LT(std::fabs(words.deviation / 0.05 - 1.0), 6.0 / std::sqrt(2.0 * kCount));
  EXPECT_LT(std::fabs(words.kurtosis - 3.0), 6.0 * std::sqrt(24.0 / kCount));
}

TEST(Initialize, ResidualProjectionsOfGpt2AreScaledByDepth) {
  const TransformerConfig config = model_config(kGpt2);
  for (const char* name :
       {"transformer.h.3.attn.c_proj.weight", "transformer.h.3.mlp.c_proj.weight"}) {
    const Parameter projection = parameter(config, name);
    const double bound = 6.0 / std::sqrt(2.0 * static_cast<double>(projection.elements()));
    const double expected = 0.05 / std::sqrt(2.0 * 8.0);
    EXPECT_LT(std::fabs(moments(values(config, projection, 1)).deviation / expected - 1.0), bound);
  }
}

TEST(Initialize, NormsAreOneAndBiasesZero) {
  const TransformerConfig config = model_config(kGpt2);
  for (const char* name : {"transformer.h.0.ln_1.weight", "transformer.ln_f.weight"}) {
    EXPECT_EQ(values(config, parameter(config, name), 1), std::vector<float>(64, 1.0F));
  }
  for (const char* name : {"transformer.h.0.ln_1.bias", "transformer.h.0.attn.c_proj.bias"}) {
    EXPECT_EQ(values(config, parameter(config, name), 1), std::vector<float>(64, 0.0F));
  }
}

TEST(Initialize, AValueDependsOnSeedNameAndElementAlone) {
  const TransformerConfig config = model_config(kGpt2);
  Parameter matrix = parameter(config, "transformer.h.0.mlp.c_fc.weight");
  const std::vector<float> all = values(config, matrix, 7);
  EXPECT_EQ(values(config, matrix, 7), all);
  // A shorter tensor of that name begins with the same values, wherever a block of four ends.
  matrix.rows = 1;
  matrix.columns = 5;
  const std::vector<float> few = values(config, matrix, 7);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), all.begin()));
  EXPECT_NE(values(config, matrix, 8), few);
  EXPECT_NE(values(config, matrix, std::uint64_t{7} << 32U), few);
  matrix.name = "transformer.h.1.mlp.c_fc.weight";
  EXPECT_NE(values(config, matrix, 7), few);
}

/// Of more than two pieces, the last of which ends within a block of four.
TEST(Initialize, DoesNotDependOnTheThreads) {
  const TransformerConfig config = model_config(kGpt2);
  Parameter matrix = parameter(config, "transformer.wte.weight");
  matrix.rows = 2049;
  matrix.columns = 1025;
  ThreadPool three(3);
  std::vector<float> found(static_cast<std::size_t>(matrix.elements()));
  initialize(config, matrix, 5, ElementType::kFloat32, found.data(), three);
  EXPECT_EQ(found, values(config, matrix, 5));
}

TEST(Initialize, InBfloat16IsFp32Rounded) {
  const TransformerConfig config = model_config(kGpt2);
  const Parameter matrix = parameter(config, "transformer.wpe.weight");
  const std::vector<float> wide = values(config, matrix, 3);
  std::vector<kernels::Bf16> narrow(wide.size());
  ThreadPool pool(1);
  initialize(config, matrix, 3, ElementType::kBfloat16, narrow.data(), pool);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    EXPECT_EQ(narrow[i].bits, kernels::round_to_bf16(wide[i]).bits);
  }
}

}  // namespace
}  // namespace zenflow::runtime
