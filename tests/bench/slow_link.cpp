/// zenflow-slow-link: how much of ZeRO-Offload's stall ZenFlow removes when the host link is slow.
///
/// All schedules train the same model in one process, by turns, each first as often as the others,
/// so that what disturbs the machine disturbs them alike; ratios are taken within a turn. Exit code
/// 4: the machine was too busy for the figures to mean anything; 1: the claim does not hold.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/offload/traffic.h"
#include "runtime/probe/statistics.h"
#include "runtime/train/make_model.h"
#include "runtime/train/trainer.h"
#include "sim/base/error.h"
#include "tests/support/mix.h"

namespace zenflow::testing {
namespace {

using runtime::OffloadSchedule;
using runtime::Spread;
using runtime::spread_of;
using runtime::StepTimes;

struct Options {
  std::size_t turns = 5;
  std::int64_t steps = 24;
  double megabytes_per_second = 100;
  double wanted_cut = 0.85;
};

/// A schedule, and what was measured of it in every turn.
struct Contestant {
  std::string name;
  OffloadSchedule schedule;
  bool overlap = true;
  std::vector<StepTimes> turns{};
};

constexpr double kTopkRatio = 0.1;
constexpr std::int64_t kUpdateInterval = 4;
/// More than this much of a core taken by other programs, or this spread of the computing that all
/// turns have in common, and times are those of the other programs.
constexpr double kMostOthers = 0.25;
constexpr double kMostSpread = 0.15;

runtime::TrainOptions train_options(const Options& options, const Contestant& contestant,
                                    const std::filesystem::path& text) {
  runtime::TrainOptions t;
  t.model = std::string(ZENFLOW_SOURCE_DIR) + "/scenarios/training/llama_3m.json";
  t.data = text;
  t.training.micro_batch_size_per_gpu = 8;
  t.feed.validation_fraction = 0;
  t.steps = options.steps;
  t.offload.schedule = contestant.schedule;
  t.offload.topk_ratio = kTopkRatio;
  t.offload.update_interval = kUpdateInterval;
  t.offload.overlap_step = contestant.overlap;
  t.offload = runtime::settings_for(t.offload.schedule, t.offload);
  t.threads = 1;
  t.device.link_bandwidth = BytesPerSecond(options.megabytes_per_second * 1e6);
  return t;
}

/// Bytes must be those of the schedule's formula: else it is not the schedule that was timed.
void check_traffic(const runtime::TrainOptions& options, const runtime::TrainReport& report) {
  const runtime::TransformerConfig config =
      runtime::load_transformer_config(options.model, runtime::Task::language_modelling());
  const runtime::ParameterTable table =
      runtime::parameter_table(config.model, runtime::Task::language_modelling());
  const runtime::Layout layout = runtime::make_layout(table, options.offload.topk_ratio,
                                                      options.offload.everything_on_device(), 0, 1);
  const std::int64_t interval = options.offload.update_interval;
  const runtime::LinkBytes window = runtime::window_traffic(
      layout, runtime::element_type(options.training.dtype), options.offload, interval);
  const auto windows = static_cast<std::uint64_t>(report.times.steps / interval);
  const std::uint64_t down =
      report.traffic.d2h.at(static_cast<std::size_t>(runtime::Traffic::kGradients));
  const std::uint64_t up =
      report.traffic.h2d.at(static_cast<std::size_t>(runtime::Traffic::kParameters));
  if (down == windows * window.d2h && up == windows * window.h2d) return;
  throw Error(ErrorKind::kRuntime,
              fmt::format("{} windows moved {} and {} bytes, expected {} and {}", windows, down, up,
                          windows * window.d2h, windows * window.h2d));
}

/// A file of letters that is gone in the end: times do not depend on what is learned.
struct RandomText {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("zenflow_slow_link_{}.txt", ::getpid());

  RandomText() {
    std::ofstream file(path);
    for (std::uint64_t i = 0; i < 40'000; ++i) file << static_cast<char>('a' + mix(i) % 26);
    if (!file.flush()) throw Error(ErrorKind::kRuntime, path.string() + ": cannot write");
  }
  ~RandomText() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  RandomText(const RandomText&) = delete;
  RandomText& operator=(const RandomText&) = delete;
};

/// Processor seconds: of the machine, and of this process.
struct ProcessorTime {
  double machine;
  double own;
};

ProcessorTime processor_time() {
  std::ifstream file("/proc/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(line.find(' ')));
  std::vector<double> ticks;
  for (double value = 0; fields >> value;) ticks.push_back(value);
  if (ticks.size() < 8) throw Error(ErrorKind::kRuntime, "/proc/stat: expected times of the CPU");
  double busy = 0;  // user, nice, system, irq, softirq, steal; not idle and iowait
  for (const std::size_t i : {0U, 1U, 2U, 5U, 6U, 7U}) busy += ticks[i];
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {.machine = busy / static_cast<double>(::sysconf(_SC_CLK_TCK)),
          .own = seconds(usage.ru_utime) + seconds(usage.ru_stime)};
}

double stall(const StepTimes& t) {
  return t.cpu_update + t.d2h + t.h2d + t.launch;
}

template <class Value>
Spread over_turns(std::size_t turns, Value value) {
  std::vector<double> samples;
  for (std::size_t i = 0; i < turns; ++i) samples.push_back(value(i));
  return spread_of(std::move(samples));
}

std::string with_spread(const Spread& s, double unit, int digits) {
  return fmt::format("{:.{}f} ({:.{}f} to {:.{}f})", s.median * unit, digits, s.low * unit, digits,
                     s.high * unit, digits);
}

/// One column of a contestant's times: the median of the turns, in ms.
double median_ms(const Contestant& c, double StepTimes::*part) {
  return 1e3 * over_turns(c.turns.size(), [&](std::size_t i) { return c.turns[i].*part; }).median;
}

void print_times(const std::vector<Contestant>& contestants) {
  fmt::print("{:<24} {:>26} {:>26} {:>26}  {}\n", "ms a step, medians", "step", "compute", "stall",
             "by cause: CPU update, d2h, h2d, launch");
  for (const Contestant& c : contestants) {
    const auto column = [&](auto value) {
      return with_spread(
          over_turns(c.turns.size(), [&](std::size_t i) { return value(c.turns[i]); }), 1e3, 1);
    };
    fmt::print("{:<24} {:>26} {:>26} {:>26}  {:.1f}, {:.1f}, {:.1f}, {:.1f}\n", c.name,
               column([](const StepTimes& t) { return t.total; }),
               column([](const StepTimes& t) { return t.compute; }), column(stall),
               median_ms(c, &StepTimes::cpu_update), median_ms(c, &StepTimes::d2h),
               median_ms(c, &StepTimes::h2d), median_ms(c, &StepTimes::launch));
  }
}

/// Ratios within a turn. Returns the median cut.
double print_claim(const Contestant& gpu_only, const Contestant& zero_offload,
                   const Contestant& zenflow, const Contestant& in_turn) {
  const auto paired = [&](auto value) {
    return over_turns(zenflow.turns.size(), [&](std::size_t i) {
      return value(gpu_only.turns[i], zero_offload.turns[i], zenflow.turns[i], in_turn.turns[i]);
    });
  };
  using T = const StepTimes&;
  const Spread cut = paired([](T, T zero, T zen, T) { return 1 - stall(zen) / stall(zero); });
  fmt::print("\nstall removed of ZeRO-Offload's          {} %\n", with_spread(cut, 100, 1));
  fmt::print("step, ZeRO-Offload / ZenFlow             {}\n",
             with_spread(paired([](T, T zero, T zen, T) { return zero.total / zen.total; }), 1, 2));
  fmt::print("  if both computed as fast as gpu-only   {}\n",
             with_spread(paired([](T gpu, T zero, T zen, T) {
                           return (gpu.compute + stall(zero)) / (gpu.compute + stall(zen));
                         }),
                         1, 2));
  fmt::print("computing, more than gpu-only's (not in the stall):\n");
  fmt::print(
      "  ZenFlow's columns, nothing beside      {} ms\n",
      with_spread(paired([](T gpu, T, T, T turn) { return turn.compute - gpu.compute; }), 1e3, 1));
  fmt::print(
      "  and threads of the optimizer beside    {} ms\n",
      with_spread(paired([](T, T, T zen, T turn) { return zen.compute - turn.compute; }), 1e3, 1));
  return cut.median;
}

int bench(const Options& options) {
  const RandomText text;
  std::vector<Contestant> contestants = {
      {"gpu-only", OffloadSchedule::kGpuOnly},
      {"zero-offload", OffloadSchedule::kZeroOffload},
      {"zenflow", OffloadSchedule::kZenFlow},
      {"zenflow, no overlap", OffloadSchedule::kZenFlow, false},
  };
  std::vector<double> others;  // cores that other programs kept busy, by turn
  for (std::size_t turn = 0; turn < options.turns; ++turn) {
    const ProcessorTime before = processor_time();
    const runtime::Clock::time_point start = runtime::Clock::now();
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      Contestant& c = contestants[(i + turn) % contestants.size()];
      const runtime::TrainOptions train = train_options(options, c, text.path);
      const runtime::TrainReport report = runtime::train(train, {});
      check_traffic(train, report);
      c.turns.push_back(report.times.mean);
    }
    const std::chrono::duration<double> elapsed = runtime::Clock::now() - start;
    const ProcessorTime after = processor_time();
    others.push_back(std::max(0.0, (after.machine - before.machine) - (after.own - before.own)) /
                     elapsed.count());
    fmt::print(stderr, "turn {} of {}: other programs kept {:.2f} cores busy\n", turn + 1,
               options.turns, others.back());
  }

  fmt::print(
      "link {} MB/s each way, 3 M parameters in fp32, 8 sequences of 128, one thread for the model "
      "and one for the optimizer, k {}, S {}; {} turns of {} steps; in brackets the middle 80 "
      "%\n\n",
      options.megabytes_per_second, kTopkRatio, kUpdateInterval, options.turns, options.steps);
  print_times(contestants);
  const double cut = print_claim(contestants[0], contestants[1], contestants[2], contestants[3]);

  const Spread busy = spread_of(others);
  const Spread compute =
      over_turns(options.turns, [&](std::size_t i) { return contestants[0].turns[i].compute; });
  const double spread = (compute.high - compute.low) / compute.median;
  fmt::print(
      "\nother programs kept {} of {} cores busy; gpu-only's computing spreads by {:.0f} %\n",
      with_spread(busy, 1, 2), std::thread::hardware_concurrency(), 100 * spread);
  if (busy.median > kMostOthers || spread > kMostSpread) {
    fmt::print("TOO BUSY to tell: at most {} cores and {:.0f} % are allowed\n", kMostOthers,
               100 * kMostSpread);
    return 4;
  }
  const bool holds = cut > options.wanted_cut;
  fmt::print("more than {:.0f} % of the stall removed: {}\n", 100 * options.wanted_cut,
             holds ? "yes" : "NO");
  return holds ? 0 : 1;
}

int run(int argc, char** argv) {
  CLI::App app{"Trains by turns over a slow link and compares stalls."};
  Options options;
  app.add_option("--turns", options.turns, "of all schedules")
      ->check(CLI::Range(3, 1000))
      ->capture_default_str();
  app.add_option("--steps", options.steps, "of a schedule in a turn")
      ->check(CLI::Range(16, 100000))
      ->capture_default_str();
  app.add_option("--link", options.megabytes_per_second, "MB/s in each direction")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return bench(options);
}

}  // namespace
}  // namespace zenflow::testing

int main(int argc, char** argv) {
  try {
    return zenflow::testing::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "zenflow-slow-link: {}\n", error.what());
    return 1;
  }
}
