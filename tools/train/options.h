/// What zenflow-train's command line says.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/train/trainer.h"
#include "sim/offload/training_setup.h"

namespace CLI {
class App;
}

namespace zenflow::tools {

/// As given, and in `train` as the trainer takes it.
struct TrainCommand {
  runtime::TrainOptions train;
  sim::TrainingSetup setup;  ///< by the table of its knobs, but for the next
  std::string update_interval = "4";
  std::string tune = "off";
  std::string topk_range;
  std::int64_t start_interval = 4;
  std::string device = "cpu";
  int gpu = 0;
  std::string decay = "constant";
  std::string column_norm = "l2";
  std::string deferred_scaling = "0.75";
  std::string link_bandwidth;
  std::string device_memory;
  std::string shard_size;
  std::filesystem::path trace;
  std::filesystem::path log_dir;
  std::vector<std::string> notes;  ///< what was given and has no effect
  double rank_timeout = 20;        ///< seconds
  std::string rank_binding = "cores";
  bool json = false;
  bool quiet = false;
  bool verbose = false;
};

/// $OMP_NUM_THREADS, of the outermost level. Throws Error(kInput) if it is no number from 1 on.
[[nodiscard]] std::optional<int> omp_num_threads();
/// As many threads as this process has cores, at most omp_num_threads().
[[nodiscard]] int default_threads();

/// Declares every flag; parsing fills `command`, which must outlive `app`.
void add_train_options(CLI::App& app, TrainCommand& command);

/// Completes `command` after parsing: names and quantities become what they stand for, flags that
/// have no effect become notes. Throws Error: kInput for what cannot be meant, kDevice for a GPU.
void interpret(const CLI::App& app, TrainCommand& command);
/// Of a model on a GPU: the cores that `offload` has for the optimizer are shared out between
/// updates and sums, unless flags say how.
void share_cores(const CLI::App& app, runtime::OffloadSettings& offload);

}  // namespace zenflow::tools
