/// How long a sweep takes: 50 values of topk_ratio times 20 of update_interval.
#include <benchmark/benchmark.h>

#include "sim/report/sweep.h"
#include "sim/schedule/job.h"

namespace zenflow::sim {
namespace {

/// What `zenflow-sim sweep scenarios/llama2_7b_4xa100.yaml --schedule zenflow --vary ...` does,
/// without printing.
void sweep_llama2_7b(benchmark::State& state) {
  const std::filesystem::path root = ZENFLOW_SOURCE_DIR;
  LoadOptions options;
  options.profile_directories = {root / "profiles"};
  const ScenarioTree tree = load_scenario_tree(root / "scenarios/llama2_7b_4xa100.yaml", options);
  const std::vector<Variation> variations = {parse_variation("topk_ratio=0.01:0.5:0.01"),
                                             parse_variation("update_interval=1:20:1")};
  const std::size_t points = combinations(variations);
  for (auto _ : state) {
    Sweeper sweeper([&](const std::vector<Override>& settings) {
      return make_job(read_scenario(tree, settings));
    });
    for (std::size_t i = 0; i < points; ++i) {
      benchmark::DoNotOptimize(sweeper.simulate(combination(variations, i), {"zenflow"}));
    }
  }
  state.counters["points"] = static_cast<double>(points);
  state.counters["points_per_second"] = benchmark::Counter(
      static_cast<double>(points), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(sweep_llama2_7b)->Name("Sweep/1000")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace zenflow::sim
