/// zenflow-tune --trace from end to end: any bytes as what was recorded, imported, put together as
/// a job, fitted, searched in a small space, and answered in words; or an input error. The first
/// byte chooses: changes of a recording, or a trace or log as it is.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/command/train_command.h"
#include "sim/base/text.h"
#include "sim/trace/import/byte_source.h"
#include "sim/trace/import/import_trace.h"
#include "sim/tune/tuned_answer.h"
#include "tests/fuzz/check_timeline.h"
#include "tests/fuzz/expect_input_error.h"
#include "tests/fuzz/tuned_scenario.h"
#include "tools/tune/tune.h"

namespace {

using namespace zenflow;
using fuzz::require;

/// Three recordings: of zenflow-train under ZenFlow and ZeRO-Offload, and of a simulated run. An
/// event a line.
std::vector<std::string> read_lines(const std::string& name) {
  const auto source =
      sim::open_bytes(std::filesystem::path(ZENFLOW_SOURCE_DIR "/tests/fuzz/recordings") / name);
  std::string text;
  std::array<char, 4096> piece{};
  while (const std::size_t count = source->read(piece)) text.append(piece.data(), count);
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// The files that a user gives.
struct Given {
  fuzz::ScratchFolder folder;
  std::array<std::vector<std::string>, 3> recordings{read_lines("zenflow.json.gz"),
                                                     read_lines("zero_offload.json.gz"),
                                                     read_lines("simulated.json.gz")};
  Given() {
    static_cast<void>(fuzz::write_job(folder));
    std::filesystem::copy_file(ZENFLOW_SOURCE_DIR "/profiles/this_host.yaml",
                               folder.path() / "host.yaml");
    static_cast<void>(folder.write("ds/offload.json", R"({"train_micro_batch_size_per_gpu": 2,
        "bf16": {"enabled": true},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}})"));
    static_cast<void>(folder.write("recorded.json", R"({"model_type": "opt", "hidden_size": 32,
        "num_hidden_layers": 1, "num_attention_heads": 4, "ffn_dim": 128, "vocab_size": 100,
        "max_position_embeddings": 64})"));
  }
};

/// Puts `text` in the place of a number or text of an event.
void replace_value(std::string& line, std::size_t which, std::string_view text) {
  std::vector<std::size_t> values;
  for (std::size_t i = 0; i + 1 < line.size(); ++i) {
    if (line[i] == ':' && line[i + 1] != '{' && line[i + 1] != '[') values.push_back(i + 1);
  }
  if (values.empty()) return;
  const std::size_t at = values[which % values.size()];
  const std::size_t end =
      line[at] == '"' ? line.find('"', at + 1) + 1 : line.find_first_of(",}]", at);
  line.replace(at, std::max(at, std::min(end, line.size())) - at, text);
}

/// A recording with changes. Each has two bytes for the event, one for what is changed of it and
/// one for how long the text that follows is, which is written there; 255: the event comes twice.
std::string changed(std::vector<std::string> lines, std::string_view changes) {
  constexpr std::size_t kHead = 4;
  constexpr std::size_t kTwice = 255;
  while (changes.size() >= kHead) {
    const auto number = [&changes](std::size_t i) {
      return std::size_t{static_cast<unsigned char>(changes[i])};
    };
    const std::size_t event = (number(0) << 8U | number(1)) % lines.size();
    const std::size_t which = number(2);
    const std::size_t length = number(3);
    changes.remove_prefix(kHead);
    if (length == kTwice) {
      lines.push_back(lines[event]);
      std::rotate(lines.begin() + static_cast<std::ptrdiff_t>(event), lines.end() - 1, lines.end());
      continue;
    }
    const std::string_view text = changes.substr(0, length);
    changes.remove_prefix(text.size());
    if (text.empty()) {
      lines[event].clear();
    } else {
      replace_value(lines[event], which, text);
    }
  }
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

/// `simulates_more`: what changes of knobs and numbers do, which takes far longer than the search.
void check_answer(bool simulates_more, const tools::TuneOptions& options,
                  const sim::LoadedRequest& loaded,
                  const std::optional<sim::TracedRequest>& traced) {
  sim::Candidates candidates(loaded.request);
  const sim::SearchOptions search;
  tools::TuneAnswer answer{{loaded, candidates, sim::search(candidates, search)}, options, traced};
  const sim::SearchCounts& counts = answer.result.counts;
  require(counts.points == counts.simulated + counts.equal + counts.excluded_by_bound +
                               counts.infeasible + counts.not_reached,
          "every point met an end");
  answer.unsearched = sim::unsearched_changes(candidates);
  static_cast<void>(tools::reasons_text(counts) + tools::unsearched_text(answer));
  if (!answer.result.chosen) return;
  if (simulates_more) {
    answer.knobs = sim::knob_effects(candidates, answer.result, search);
    answer.numbers = sim::number_effects(candidates, answer.result, loaded.uncertainty, search);
  }
  sim::write_config(answer);
  answer.command = loaded.request.family == sim::Family::kDeepSpeed
                       ? sim::launch_command(answer, options.train_command)
                       : runtime::train_command(answer, options.model, options.output);
  static_cast<void>(tools::summary_json(answer));
  static_cast<void>(printable(tools::summary_text(answer)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const Given kGiven;
  const unsigned choice = data[0];
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  // A text as it is, or changes of a recording.
  const std::size_t which = choice % 5;
  const bool is_log = which == 4;
  const std::string text = which < kGiven.recordings.size()
                               ? changed(kGiven.recordings[which], rest)
                               : std::string(rest);
  const auto read = [&](const std::filesystem::path& file, sim::ImportOptions how) {
    how.rules = fuzz::rules_for(size);
    const auto source = sim::memory_bytes({text.data(), text.size()});
    sim::ImportedTrace trace = is_log ? sim::import_timer_log(*source, file.string(), how)
                                      : sim::import_chrome(*source, file.string(), how);
    fuzz::check_timeline(trace);
    return trace;
  };
  tools::TuneOptions options;
  const std::filesystem::path& folder = kGiven.folder.path();
  const bool is_of_host = which < 2;
  options.traces = {folder / "trace"};
  options.profile_directories = {folder};
  options.profile = is_of_host ? "host" : "node";
  options.model = folder / "recorded.json";
  if (!is_of_host) {
    options.base = folder / "ds/offload.json";
    options.sequence_length = 64;
  }
  options.vary = {"update_interval=4", "topk_ratio=0.1", "stage=2"};
  options.front_within = 0;
  fuzz::is_taken([&] {
    std::optional<sim::TracedRequest> traced;
    const sim::LoadedRequest loaded =
        sim::load_traced_request(options, read, folder, traced.emplace());
    constexpr double kMany = 1000;  // of the others nothing is learnt that these do not say
    if (loaded.request.space.points() <= kMany) {
      check_answer(size % 16 == 0, options, loaded, traced);
    }
  });
  return 0;
}
