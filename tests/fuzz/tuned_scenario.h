/// A small job to tune, for the readers of what a search is given.
#pragma once

#include <filesystem>

#include "sim/tune/request_reader.h"
#include "tests/fuzz/scratch_folder.h"
#include "tests/support/scenario_texts.h"

namespace zenflow::fuzz {

/// Writes the job's files into `folder`; the scenario's path.
inline std::filesystem::path write_job(const ScratchFolder& folder) {
  for (const char* name : {"models", "ds"}) std::filesystem::create_directory(folder.path() / name);
  static_cast<void>(folder.write("node.yaml", testing::kProfile));
  static_cast<void>(folder.write("models/tiny.json", testing::kModel));
  static_cast<void>(folder.write("ds/zenflow.json", R"({"train_micro_batch_size_per_gpu": 2,
      "bf16": {"enabled": true}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
      "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"},
      "zenflow": {"topk_ratio": 0.1, "update_interval": 4}}})"));
  return folder.write("one.yaml", testing::kScenario);
}

/// A search of few points, `flags` besides.
inline sim::LoadedRequest small_request(const sim::ScenarioTree& tree, sim::TuneFlags flags) {
  flags.vary = {"update_interval=4,8", "topk_ratio=0.1", "stage=2"};
  flags.front_within = 0;
  sim::LoadedRequest loaded;
  loaded.tree = tree;
  sim::complete_request(flags, sim::Family::kDeepSpeed, loaded);
  return loaded;
}

inline sim::ScenarioTree load_job(const ScratchFolder& folder) {
  sim::LoadOptions options;
  options.profile_directories = {folder.path()};
  return sim::load_scenario_tree(write_job(folder), options);
}

}  // namespace zenflow::fuzz
