#include "runtime/model/initialize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "kernels/bf16/bf16.h"
#include "sim/base/fnv1a.h"
#include "sim/base/stop.h"

namespace zenflow::runtime {
namespace {

constexpr std::uint32_t low(std::uint64_t x) {
  return static_cast<std::uint32_t>(x);
}
constexpr std::uint32_t high(std::uint64_t x) {
  return static_cast<std::uint32_t>(x >> 32U);
}

std::array<double, 2> box_muller(std::uint32_t a, std::uint32_t b) {
  const double u = (static_cast<double>(a) + 1.0) * 0x1p-32;
  const double angle = 2.0 * std::numbers::pi * static_cast<double>(b) * 0x1p-32;
  const double radius = std::sqrt(-2.0 * std::log(u));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

std::array<double, 4> normals(std::uint64_t block, std::uint64_t tensor, std::uint64_t seed) {
  const std::array<std::uint32_t, 4> words =
      philox({low(block), high(block), low(tensor), high(tensor)}, {low(seed), high(seed)});
  const std::array<double, 2> first = box_muller(words[0], words[1]);
  const std::array<double, 2> second = box_muller(words[2], words[3]);
  return {first[0], first[1], second[0], second[1]};
}

void put(ElementType type, void* values, std::int64_t at, float value) {
  if (type == ElementType::kFloat32) {
    static_cast<float*>(values)[at] = value;
  } else {
    static_cast<kernels::Bf16*>(values)[at] = kernels::round_to_bf16(value);
  }
}

double standard_deviation(const TransformerConfig& config, const Parameter& parameter) {
  const bool is_residual = config.model.type == "gpt2" && parameter.name.ends_with("c_proj.weight");
  const double halves = 2.0 * static_cast<double>(config.model.layers());
  return is_residual ? config.initializer_range / std::sqrt(halves) : config.initializer_range;
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) {
  constexpr std::array<std::uint64_t, 2> kMultiplier = {0xD2511F53, 0xCD9E8D57};
  constexpr std::array<std::uint32_t, 2> kWeyl = {0x9E3779B9, 0xBB67AE85};
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t a = kMultiplier[0] * counter[0];
    const std::uint64_t b = kMultiplier[1] * counter[2];
    counter = {high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)};
    key = {key[0] + kWeyl[0], key[1] + kWeyl[1]};
  }
  return counter;
}

void initialize(const TransformerConfig& config, const Parameter& parameter, std::uint64_t seed,
                ElementType type, void* values, ThreadPool& pool) {
  const std::int64_t elements = parameter.elements();
  if (!parameter.is_matrix) {
    const float value =
        parameter.name.ends_with(".bias") ? 0.0F : static_cast<float>(config.norm.initial_weight());
    for (std::int64_t e = 0; e < elements; ++e) put(type, values, e, value);
    return;
  }
  const std::uint64_t tensor = fnv1a(parameter.name);
  const double deviation = standard_deviation(config, parameter);
  constexpr std::int64_t kPiece = 1 << 20;
  const auto pieces = static_cast<std::size_t>((elements + kPiece - 1) / kPiece);
  pool.run(pieces, [&](std::size_t piece) {
    throw_if_stopped();
    const std::int64_t begin = static_cast<std::int64_t>(piece) * kPiece;
    const std::int64_t end = std::min(elements, begin + kPiece);
    for (std::int64_t first = begin; first < end; first += 4) {
      const std::array<double, 4> block =
          normals(static_cast<std::uint64_t>(first) / 4, tensor, seed);
      for (std::int64_t e = first; e < end && e < first + 4; ++e) {
        put(type, values, e,
            static_cast<float>(deviation * block[static_cast<std::size_t>(e % 4)]));
      }
    }
  });
}

}  // namespace zenflow::runtime
