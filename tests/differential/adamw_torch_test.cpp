/// AdamW against trajectories of torch.optim.AdamW (tests/data/adamw_torch.py).
#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/adamw/adamw.h"

namespace zenflow::kernels {
namespace {

struct Step {
  std::vector<float> gradient;
  std::vector<float> parameters;
  std::vector<float> first_moment;
  std::vector<float> second_moment;
};

struct Trajectory {
  AdamWSettings settings;
  std::vector<float> parameters;
  std::vector<Step> steps;
};

/// The name that a line begins with, and the numbers after it.
struct Line {
  std::string name;
  std::vector<float> numbers;
};

std::vector<Line> read_lines() {
  std::ifstream file(ZENFLOW_SOURCE_DIR "/tests/data/adamw_torch.txt");
  std::vector<Line> lines;
  for (std::string text; std::getline(file, text);) {
    if (text.starts_with('#')) continue;
    std::istringstream words(text);
    Line line;
    words >> line.name;
    for (std::string word; words >> word;) {
      const auto bits = static_cast<std::uint32_t>(std::stoul(word, nullptr, 16));
      line.numbers.push_back(std::bit_cast<float>(bits));
    }
    lines.push_back(line);
  }
  return lines;
}

std::vector<Trajectory> read_trajectories() {
  std::vector<Trajectory> all;
  for (const Line& line : read_lines()) {
    const auto& x = line.numbers;
    if (line.name == "case") {
      all.push_back({.settings = {x.at(0), x.at(1), x.at(2), x.at(3), x.at(4)},
                     .parameters = {},
                     .steps = {}});
    } else if (line.name == "gradient") {
      all.back().steps.push_back({x, {}, {}, {}});
    } else if (line.name == "first_moment") {
      all.back().steps.back().first_moment = x;
    } else if (line.name == "second_moment") {
      all.back().steps.back().second_moment = x;
    } else if (all.back().steps.empty()) {
      all.back().parameters = x;
    } else {
      all.back().steps.back().parameters = x;
    }
  }
  return all;
}

/// PyTorch rounds in other places: it interpolates m, scales p by 1 - decay (an error of half a
/// unit of 1 in each step, ours has none there) and divides by sqrt(1 - beta2^t). On either side a
/// step adds at most: to v 5 relative roundings; to m 3 of the larger of m and g; to p 2 of p, and
/// of the update, at most 2 learning rates here, 9 and the error of m. Twice that for two sides.
TEST(AdamWTorch, TrajectoriesAgreeUpToRounding) {
  const auto trajectories = read_trajectories();
  ASSERT_EQ(trajectories.size(), 3U);
  const float u = std::ldexp(1.0F, -24);
  for (const Trajectory& trajectory : trajectories) {
    ASSERT_EQ(trajectory.steps.size(), 5U);
    std::vector<float> p = trajectory.parameters;
    std::vector<float> m(p.size(), 0.0F);
    std::vector<float> v(p.size(), 0.0F);
    float steps = 0;
    for (const Step& step : trajectory.steps) {
      steps += 1;
      adamw(trajectory.settings, bias_correction(trajectory.settings, static_cast<unsigned>(steps)),
            1.0F, p.size(), AdamWState<float, float>{p.data(), m.data(), v.data()},
            step.gradient.data());
      const float sides = 2 * steps * u;
      for (std::size_t i = 0; i < p.size(); ++i) {
        SCOPED_TRACE(testing::Message() << "step " << steps << ", element " << i);
        const float largest = std::sqrt(step.second_moment[i] / (1 - trajectory.settings.beta2));
        EXPECT_NEAR(v[i], step.second_moment[i], 5 * sides * step.second_moment[i]);
        EXPECT_NEAR(m[i], step.first_moment[i], 3 * sides * largest);
        EXPECT_NEAR(p[i], step.parameters[i],
                    sides * (2 * std::fabs(p[i]) + 24 * trajectory.settings.learning_rate));
      }
    }
  }
}

}  // namespace
}  // namespace zenflow::kernels
