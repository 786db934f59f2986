#include <filesystem>
#include <memory>
#include <vector>

#include <CLI/CLI.hpp>

#include "sim/base/output_file.h"
#include "sim/trace/chrome_trace.h"
#include "sim/trace/merge_ranks.h"
#include "tools/calibrate/calibrate.h"
#include "tools/environment.h"
#include "tools/read_trace.h"

namespace zenflow::tools {
namespace {

struct MergeOptions {
  std::vector<std::filesystem::path> traces;
  std::filesystem::path output;
  bool overwrite = false;
  bool quiet = false;
};

int merge(const MergeOptions& options) {
  check_output(options.output, options.overwrite);
  std::vector<sim::RankRecording> recordings;
  for (const std::filesystem::path& file : options.traces) {
    sim::ImportOptions how;
    how.keep_fields = true;
    recordings.push_back({file.generic_string(), read_trace(file, how, !options.quiet).timeline});
  }
  write_output(options.output, sim::chrome_trace(sim::merge_ranks(std::move(recordings))),
               options.overwrite);
  return 0;
}

}  // namespace

void add_merge(CLI::App& app, Command& chosen) {
  const auto options = std::make_shared<MergeOptions>();
  CLI::App* command = app.add_subcommand(
      "merge", "put the traces of ranks that trained together into one, on one clock");
  command
      ->add_option("TRACE", options->traces,
                   "of every rank, in any order: mpirun -np 2 zenflow-train --trace t.json writes "
                   "t.json and t.rank-1.json")
      ->required();
  command->add_option("-o,--output", options->output, "write the merged trace here")->required();
  command->add_flag("-f,--force", options->overwrite, "overwrite it");
  command->add_flag("-q,--quiet", options->quiet, "no progress");
  command->callback([options, &chosen] { chosen = [options] { return merge(*options); }; });
}

}  // namespace zenflow::tools
