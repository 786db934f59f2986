// Two answers to how large a buffer is: its formula as text, evaluated here, and what the simulated
// tasks take. For every shipped scenario under every schedule.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/report/fit.h"
#include "sim/schedule/live_work.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;

/// sum = product (("+" | "-") product)*; product = factor+ ("/" factor)*;
/// factor = number | symbol | "(" sum ")" | "max(" sum "," sum ")".
class Formula {
 public:
  Formula(const std::string& text, const std::map<std::string, double>& symbols)
      : text_(text), symbols_(symbols) {}

  /// Nothing if the text is not a formula of these symbols.
  std::optional<double> value() {
    const double result = sum();
    skip();
    if (failed_ || at_ != text_.size()) return std::nullopt;
    return result;
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool factor_follows() {
    skip();
    return at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '(');
  }
  double sum() {
    double total = product();
    for (;;) {
      if (take('+')) {
        total += product();
      } else if (take('-')) {
        total -= product();
      } else {
        return total;
      }
    }
  }
  double product() {
    double result = factor();
    while (!failed_) {
      if (take('/')) {
        result /= factor();
      } else if (factor_follows()) {
        result *= factor();
      } else {
        break;
      }
    }
    return result;
  }
  double factor() {
    if (take('(')) {
      const double inner = sum();
      failed_ = failed_ || !take(')');
      return inner;
    }
    std::string word;
    while (at_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[at_])) != 0) {
      word += text_[at_++];
    }
    if (word == "max" && take('(')) {
      const double first = sum();
      failed_ = failed_ || !take(',');
      const double second = sum();
      failed_ = failed_ || !take(')');
      return std::max(first, second);
    }
    if (!word.empty() && std::isdigit(static_cast<unsigned char>(word.front())) != 0) {
      return std::stod(word);
    }
    const auto known = symbols_.find(word);
    failed_ = failed_ || known == symbols_.end();
    return failed_ ? 0 : known->second;
  }

  const std::string& text_;
  const std::map<std::string, double>& symbols_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

TEST(FormulaOfThisTest, EvaluatesAsOneReads) {
  const std::map<std::string, double> symbols = {{"k", 0.5}, {"P", 8}, {"N", 4}, {"b", 2}};
  const auto value = [&](const std::string& text) { return Formula(text, symbols).value(); };
  EXPECT_EQ(value("2 b (k P + 1) / N"), 5);
  EXPECT_EQ(value("b (1 - k) P"), 8);
  EXPECT_EQ(value("b max(P, 3)"), 16);
  EXPECT_FALSE(value("b x"));
  EXPECT_FALSE(value("b (P"));
  EXPECT_FALSE(value("to 2^m, each block"));
}

Job job_of(const fs::path& scenario) {
  LoadOptions options;
  options.profile_directories = {fs::path(ZENFLOW_SOURCE_DIR) / "profiles"};
  Job job = make_job(load_scenario(scenario, options));
  if (!job.deepspeed.zenflow) {
    job.deepspeed.zenflow = ZenFlowSettings{};
    job.deepspeed.zenflow->update_interval = 4;
    job.deepspeed.zenflow->overlap_step = true;
  }
  return job;
}

std::vector<fs::path> scenarios() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(fs::path(ZENFLOW_SOURCE_DIR) / "scenarios")) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class ShippedScenario : public ::testing::TestWithParam<fs::path> {};

void expect_formulas_hold(const Fit& found) {
  std::map<std::string, double> symbols;
  for (const MemorySymbol& symbol : found.symbols) symbols[symbol.name] = symbol.value;
  for (const BufferUse& use : found.buffers) {
    const std::string& text = use.buffer.formula;
    // What depends on timing, and on each block's size, is said in words.
    if (text == "b a live parameter" || text.starts_with("to 2^m")) continue;
    const auto value = Formula(text, symbols).value();
    ASSERT_TRUE(value) << use.buffer.name << ": " << text;
    EXPECT_NEAR(*value, use.largest, 1e-9 * use.largest + 1) << use.buffer.name << ": " << text;
  }
}

void expect_buffers_add_up(const Fit& found, const MemoryReport& reported) {
  double gpu = 0;
  double host = 0;
  double framework = 0;
  for (const BufferUse& use : found.buffers) {
    EXPECT_LE(use.at_peak, use.largest * (1 + 1e-12)) << use.buffer.name;
    EXPECT_GE(use.at_peak, -1e-2) << use.buffer.name;
    const MemoryPlace place = place_of(use.buffer.home);
    if (use.buffer.of_framework) {
      framework += use.at_peak;
    } else if (place == MemoryPlace::kGpu) {
      gpu += use.at_peak;
    } else if (place == MemoryPlace::kHost) {
      host += use.at_peak;
    }
  }
  // Shortened and whole runs add in different orders.
  EXPECT_NEAR(gpu, reported.gpu.total, 1);
  EXPECT_NEAR(host, reported.host.total, 1);
  EXPECT_NEAR(framework, reported.host_framework, 1);
  EXPECT_NEAR(host + framework, reported.limit(MemoryLimit::kHost).need, 1);
}

bool is_before_super_offload(const Job& job) {
  const auto& release = job.scenario.deepspeed_version;
  return release && release->text.starts_with("0.17.");
}

TEST_P(ShippedScenario, HasBuffersThatAddUpToItsPeaksAndMatchTheirFormulas) {
  const Job loaded = job_of(GetParam());
  for (const auto& schedule : schedules()) {
    SCOPED_TRACE(schedule->name());
    const Job job = testing::suited_to(*schedule, loaded);
    const ModelSpec& model = job.scenario.model;
    if ((live_kind(schedule->name()) && model.trained() < model.parameters()) ||
        (schedule->name() == "deepspeed-zenflow" && model.stacked_tensor() != nullptr) ||
        (schedule->name() == "deepspeed-super-offload" && is_before_super_offload(job))) {
      EXPECT_THROW(schedule->check(job), Error);
      continue;
    }
    const Fit found = fit(job, *schedule);
    expect_buffers_add_up(found, simulate_schedule(job, *schedule).memory);
    expect_formulas_hold(found);
    EXPECT_EQ(found.memory.fits, simulate_schedule(job, *schedule).memory.fits);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, ShippedScenario, ::testing::ValuesIn(scenarios()),
                         [](const auto& one) { return one.param.stem().string(); });

}  // namespace
}  // namespace zenflow::sim
