#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "sim/base/text.h"
#include "sim/config/hub/model_files.h"
#include "sim/config/reader.h"
#include "sim/deepspeed/ds_config.h"
#include "sim/deepspeed/ds_document.h"
#include "sim/deepspeed/lax_values.h"
#include "sim/job_files/adapted_modules.h"
#include "sim/job_files/job_inputs.h"
#include "sim/job_files/training_file.h"
#include "sim/job_files/training_reader.h"
#include "sim/job_files/typical_host.h"
#include "sim/job_files/unsimulated_keys.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kUsualLength = 2048;
constexpr const char* kUsualType = "bf16";

/// --set, above all else; what reaches into the DeepSpeed file is changed there.
void take_overrides(const std::vector<Override>& overrides, JobFacts& facts) {
  for (auto one = overrides.rbegin(); one != overrides.rend(); ++one) {  // the last one holds
    if (one->path.starts_with("deepspeed.")) continue;
    facts.state(one->path, one->value,
                source_named(fmt::format("--set {}={}", one->path, one->value)));
  }
}

/// Who says what a flag says.
Location source_of(const JobInputs& inputs, const char* flag) {
  return source_named(inputs.found.contains(flag) ? "--host this" : flag);
}

/// What the flags say themselves; the model and the card are looked up later.
void take_flags(const JobInputs& inputs, JobFacts& facts) {
  const auto number = [&](const auto& value, const char* path, const char* flag) {
    if (value) facts.state(path, std::to_string(*value), source_of(inputs, flag));
  };
  number(inputs.gpus, "gpus", "--gpus");
  number(inputs.nodes, "nodes", "--nodes");
  number(inputs.sequence_length, "training.sequence_length", "--sequence-length");
  number(inputs.micro_batch_size, "training.micro_batch_size_per_gpu", "--micro-batch-size");
  number(inputs.gradient_accumulation_steps, "training.gradient_accumulation_steps",
         "--gradient-accumulation-steps");
  if (inputs.dtype) facts.state("training.dtype", *inputs.dtype, source_named("--dtype"));
  if (inputs.activation_checkpointing) {
    facts.state("training.activation_checkpointing",
                *inputs.activation_checkpointing ? "true" : "false",
                source_named(*inputs.activation_checkpointing ? "--activation-checkpointing"
                                                              : "--no-activation-checkpointing"));
  }
  if (inputs.model) facts.state("model", *inputs.model, source_named("--model"));
  if (inputs.adapter) {
    facts.state("adapter", json_quoted(fs::absolute(*inputs.adapter).generic_string()),
                source_named("--adapter"));
  }
}

std::int64_t whole(const JobFacts& facts, std::string_view path) {
  return std::strtoll(facts.value_or(path, "1").c_str(), nullptr, 10);
}

/// The DeepSpeed configuration that the facts name, or none.
Node deepspeed_of(const JobFacts& facts) {
  const JobFact* const fact = facts.find("deepspeed");
  if (fact == nullptr) return map_node({});
  if (fact->value.starts_with('{')) return parse_ds_document(fact->value, "deepspeed").root;
  return load_ds_document(fact->value).root;
}

std::string text_at(const Node& root, std::string_view path) {
  const Node* const found = find_path(root, path);
  return found != nullptr && found->is_scalar() ? found->scalar : "";
}

bool is_map_at(const Node& root, std::string_view path) {
  const Node* const found = find_path(root, path);
  return found != nullptr && found->is_map();
}

}  // namespace

std::string schedule_for(const Node& deepspeed) {
  const std::string device = text_at(deepspeed, "zero_optimization.offload_optimizer.device");
  const bool offloads = device == "cpu" || device == "nvme";
  if (is_map_at(deepspeed, "zero_optimization.zenflow")) return "deepspeed-zenflow";
  if (!offloads) return "deepspeed-zero";
  // Below stage 3 all of the optimizer is in host memory, whatever else the block says.
  const Node* const stage = find_path(deepspeed, "zero_optimization.stage");
  if (stage == nullptr || lax_integer(*stage) != 3) return "deepspeed-zero-offload";
  if (device == "nvme") return "deepspeed-zero-infinity";
  const Node* const super =
      find_path(deepspeed, "zero_optimization.offload_optimizer.super_offload");
  if (super != nullptr && lax_boolean(*super).value_or(false)) return "deepspeed-super-offload";
  const Node* const ratio = find_path(deepspeed, "zero_optimization.offload_optimizer.ratio");
  if (ratio != nullptr && lax_number(*ratio).value_or(1) < 1) return "deepspeed-twin-flow";
  return "deepspeed-zero-offload";
}

namespace {

/// Sets what the user says of the host, and estimates the rest.
class HostFacts {
 public:
  HostFacts(const JobInputs& inputs, const CatalogueGpu& card, int gpus, JobScenario& scenario)
      : inputs_(inputs), host_(typical_host(card, gpus)), why_(host_.name), scenario_(scenario) {}

  void take() {
    JobFacts& facts = scenario_.facts;
    if (inputs_.ram) {
      check_ram();
      facts.state("hardware.host.memory", *inputs_.ram, source_of(inputs_, "--ram"));
    } else {
      facts.estimate("hardware.host.memory", fmt::format("{:.0f} GiB", host_.memory_gib), why_);
    }
    take_cores();
    estimate("dram_channels_per_socket", host_.dram_channels_per_socket);
    facts.estimate("hardware.host.dram_rate", fmt::format("{} MT/s", host_.dram_rate), why_);
  }
  [[nodiscard]] const TypicalHost& host() const { return host_; }
  [[nodiscard]] const std::string& why() const { return why_; }

 private:
  void check_ram() const {
    constexpr double kMost = 0x1p50;
    const Node text = text_node(*inputs_.ram, source_of(inputs_, "--ram"));
    const ValueReader size(text, "");
    if (size.bytes().value() > kMost) size.fail("expected at most 1024 TiB for a node");
  }
  void estimate(const char* key, int value) {
    const std::string path = fmt::format("hardware.host.{}", key);
    scenario_.facts.estimate(path, std::to_string(value), why_);
    if (!scenario_.facts.find(path)->is_estimate) return;
    // Real hosts vary by a factor of two either way.
    const auto vary = [&](std::vector<JobFact>& list, int other) {
      list.push_back(
          {fmt::format("hardware.host.{}", key), std::to_string(other), source_named(why_), true});
    };
    vary(scenario_.slower_host, std::max(1, value / 2));
    vary(scenario_.faster_host, 2 * value);
  }
  void take_cores() {
    JobFacts& facts = scenario_.facts;
    const std::int64_t sockets = inputs_.sockets.value_or(
        inputs_.cores && *inputs_.cores % host_.sockets != 0 ? 1 : host_.sockets);
    if (inputs_.sockets) {
      facts.state("hardware.host.sockets", std::to_string(sockets),
                  source_of(inputs_, "--sockets"));
    } else {
      facts.estimate("hardware.host.sockets", std::to_string(sockets), why_);
    }
    if (!inputs_.cores) return estimate("cores_per_socket", host_.cores_per_socket);
    if (*inputs_.cores % sockets != 0) {
      fail_at(
          source_named("--cores"), "",
          fmt::format("expected a multiple of the {} sockets, found {}", sockets, *inputs_.cores));
    }
    facts.state("hardware.host.cores_per_socket", std::to_string(*inputs_.cores / sockets),
                source_of(inputs_, "--cores"));
  }

  const JobInputs& inputs_;
  TypicalHost host_;
  std::string why_;
  JobScenario& scenario_;
};

bool needs_nvme(const Node& deepspeed) {
  for (const char* block : {"offload_optimizer", "offload_param"}) {
    if (text_at(deepspeed, fmt::format("zero_optimization.{}.device", block)) == "nvme")
      return true;
  }
  return false;
}

void take_hardware(const JobInputs& inputs, const JobSources& sources, JobScenario& scenario) {
  JobFacts& facts = scenario.facts;
  facts.estimate("gpus", "1", "one, unless --gpus says more");
  facts.state("nodes", "1", source_named("one, unless --nodes says more"));
  if (inputs.host) {
    facts.state("hardware", json_quoted(fs::absolute(*inputs.host).generic_string()),
                source_named("--host"));
    const std::pair<bool, const char*> others[] = {
        {inputs.gpu.has_value(), "--gpu"},       {inputs.ram.has_value(), "--ram"},
        {inputs.cores.has_value(), "--cores"},   {inputs.sockets.has_value(), "--sockets"},
        {inputs.link.has_value(), "--gpu-link"}, {inputs.network.has_value(), "--network"}};
    for (const auto& [given, flag] : others) {
      if (given) fail_at(source_named(flag), "", "--host is a profile, which says that itself");
    }
    return;
  }
  if (!inputs.gpu) {
    throw Error(ErrorKind::kInput,
                "--gpu: required, for example --gpu \"RTX 4090\" (zenflow-sim list gpus), or "
                "--host this, or --host FILE, a profile by zenflow-calibrate probe");
  }
  const GpuCatalogue catalogue(sources.profile_directories);
  const Location at = source_of(inputs, "--gpu");
  std::vector<std::string> others;
  const std::string key = find_gpu(catalogue, *inputs.gpu, at, others);
  if (!others.empty()) {
    scenario.notes.push_back(fmt::format("--gpu {}: taken as {}; it may also be {}", *inputs.gpu,
                                         key, fmt::join(others, ", ")));
  }
  facts.state("hardware.gpu", key, at);
  const auto gpus = static_cast<int>(whole(facts, "gpus"));
  facts.state("hardware.gpus_per_node", std::to_string(gpus), source_named("as many as are used"));
  const CatalogueGpu card = read_catalogue_gpu(catalogue.load(key, at, "gpu").second, key);
  const bool has_bf16 = card.gpu.peak.contains(DType::kBf16);
  facts.estimate("training.dtype", has_bf16 ? "bf16" : "fp16", "the usual type on such a card");
  HostFacts host(inputs, card, gpus, scenario);
  host.take();
  if (inputs.slot && card.pcie) {
    const Location this_machine = source_named("--host this");
    facts.state("hardware.host_link.pcie", std::to_string(inputs.slot->generation), this_machine);
    facts.state("hardware.host_link.lanes", std::to_string(inputs.slot->lanes), this_machine);
  }
  if (inputs.link) {
    facts.state("hardware.gpu_link", *inputs.link, source_named("--gpu-link"));
  } else if (gpus > 1 && !card.default_link) {
    facts.estimate("hardware.gpu_link", "pcie", host.why());
  }
  if (inputs.network) {
    facts.state("hardware.network.rate", *inputs.network, source_named("--network"));
  } else if (whole(facts, "nodes") > 1) {
    facts.estimate("hardware.network.rate", fmt::format("{} Gb/s", host.host().network_gbit),
                   host.why());
  }
  if (needs_nvme(deepspeed_of(facts))) {
    facts.estimate("hardware.nvme", "{drives: 1, read: 6.9 GB/s, write: 5.0 GB/s}",
                   "one drive of PCIe 4");
  }
}

bool is_stated(const JobFacts& facts, std::string_view path) {
  const JobFact* const fact = facts.find(path);
  return fact != nullptr && fact->source.file != nullptr && fact->source.file->starts_with("--");
}

/// A whole number of the DeepSpeed document; 0: none, or "auto".
std::int64_t number_at(const Node& root, std::string_view path) {
  const Node* const found = find_path(root, path);
  return found != nullptr && is_number(*found)
             ? static_cast<std::int64_t>(std::strtod(found->scalar.c_str(), nullptr))
             : 0;
}

/// DeepSpeed works out the one of micro-batch and accumulation that its file leaves open.
void derive_batch(const Node& deepspeed, JobFacts& facts) {
  constexpr const char* kMicro = "training.micro_batch_size_per_gpu";
  constexpr const char* kSteps = "training.gradient_accumulation_steps";
  const std::int64_t all = number_at(deepspeed, "train_batch_size");
  const std::int64_t ranks = whole(facts, "gpus") * whole(facts, "nodes");
  if (all == 0 || all % ranks != 0) return;
  const Location source = source_named("train_batch_size of the DeepSpeed file");
  const std::int64_t written = number_at(deepspeed, "gradient_accumulation_steps");
  if (facts.find(kMicro) == nullptr) {
    const std::int64_t steps =
        std::max<std::int64_t>(1, written > 0 ? written : whole(facts, kSteps));
    if (all / ranks % steps == 0) facts.state(kMicro, std::to_string(all / ranks / steps), source);
  } else if (written == 0 && facts.find(kSteps) == nullptr &&
             all / ranks % whole(facts, kMicro) == 0) {
    facts.state(kSteps, std::to_string(all / ranks / whole(facts, kMicro)), source);
  }
}

/// Changes in the document what flags and --set say otherwise; whether there was anything.
bool change(Node& deepspeed, const std::vector<Override>& overrides, const JobFacts& facts) {
  bool changed = false;
  const auto set = [&](std::string_view path, const std::string& value) {
    set_path(deepspeed, path, value);
    changed = true;
  };
  for (const auto& [path, key] :
       {std::pair{"training.micro_batch_size_per_gpu", "train_micro_batch_size_per_gpu"},
        {"training.gradient_accumulation_steps", "gradient_accumulation_steps"}}) {
    const std::int64_t written = number_at(deepspeed, key);
    if (!is_stated(facts, path) || written == 0 || written == whole(facts, path)) continue;
    set(key, facts.value_or(path, "1"));
    erase_key(deepspeed, "train_batch_size");
  }
  if (is_stated(facts, "training.dtype") &&
      text_at(deepspeed, "torch_autocast.enabled") != "true") {
    for (const std::string dtype : {"bf16", "fp16"}) {
      const bool wanted = facts.value_or("training.dtype", "") == dtype;
      const std::string key = dtype + ".enabled";
      const std::string written = text_at(deepspeed, key);
      if (written == "true" && !wanted) set(key, "false");
      if (written != "true" && written != "auto" && wanted) set(key, "true");
    }
  }
  constexpr std::string_view kBlock = "deepspeed.";
  for (const Override& one : overrides) {
    if (one.path.starts_with(kBlock)) set(one.path.substr(kBlock.size()), one.value);
  }
  return changed;
}

/// What neither flags nor files nor programs say.
void take_rest(const std::vector<Override>& overrides, bool under_deepspeed,
               JobScenario& scenario) {
  JobFacts& facts = scenario.facts;
  if (facts.find("deepspeed") == nullptr) {
    const std::string dtype = facts.value_or("training.dtype", kUsualType);
    const std::string precision =
        dtype == "fp32"   ? ""
        : under_deepspeed ? fmt::format(R"(, "{}": {{"enabled": true}})", dtype)
                          : fmt::format(R"(, "torch_autocast": {{"enabled": true, "dtype": "{}"}})",
                                        dtype == "fp16" ? "float16" : "bfloat16");
    facts.estimate("deepspeed",
                   fmt::format(R"({{"zero_optimization": {{"stage": 0}}{}}})", precision),
                   "no DeepSpeed file: plain data parallelism");
  }
  Node deepspeed = deepspeed_of(facts);
  if (change(deepspeed, overrides, facts)) {
    const std::string from = facts.find("deepspeed")->source.text();
    facts.replace("deepspeed", one_line_json(deepspeed), source_named(from + ", changed by flags"));
  }
  derive_batch(deepspeed, facts);
  facts.estimate("training.micro_batch_size_per_gpu", "1", "one, as nothing says otherwise");
  facts.estimate("training.activation_checkpointing", "false", "off, as nothing says otherwise");
  facts.state("schedules", fmt::format("[{}]", schedule_for(deepspeed)),
              source_named("what that configuration does"));
  facts.state("launch.bind_cores_to_rank", "false", source_named("DeepSpeed's default"));
}

void set_located(Node& root, const JobFact& fact) {
  set_path(root, fact.path, fact.value);
  // Errors name the flag or file and not --set.
  Node* node = &root;
  for (std::size_t at = 0; node != nullptr && at <= fact.path.size();) {
    const std::size_t end = std::min(fact.path.find('.', at), fact.path.size());
    node = node->find(std::string_view(fact.path).substr(at, end - at));
    at = end + 1;
  }
  if (node == nullptr) return;
  const std::function<void(Node&)> locate = [&](Node& one) {
    one.at = fact.source;
    for (Node& item : one.items) locate(item);
    for (Node::Entry& entry : one.entries) {
      entry.key_at = fact.source;
      locate(entry.value);
    }
  };
  locate(*node);
}

}  // namespace

bool JobInputs::empty() const {
  return !file && !model && !adapter && !gpu && !host && !gpus && !nodes && !ram && !sockets &&
         !cores && !link && !network && !sequence_length && !micro_batch_size &&
         !gradient_accumulation_steps && !dtype && !activation_checkpointing;
}

JobScenario job_scenario(const JobInputs& inputs, const JobSources& sources,
                         const std::vector<Override>& overrides) {
  JobScenario scenario;
  JobFacts& facts = scenario.facts;
  take_overrides(overrides, facts);
  take_flags(inputs, facts);
  if (inputs.file) {
    read_training_file(*inputs.file, facts, scenario.notes);
    scenario.narrow_weights = facts.take(kNarrowWeights).has_value();
    scenario.no_logits = facts.take(kWithoutLogits).has_value();
  }
  if (facts.find("model") == nullptr) {
    throw Error(ErrorKind::kInput,
                "--model: required: a config.json, its folder, weights, or a Hub name such as "
                "Qwen/Qwen3-8B (zenflow-sim list hub-models)");
  }
  const JobFact named = *facts.find("model");
  const JobFact model{
      "model",
      json_quoted(
          find_named_model(named.value, sources.model_directories, named.source).generic_string()),
      named.source};
  take_hardware(inputs, sources, scenario);
  refuse_divided(deepspeed_of(facts));
  const bool sets_deepspeed =
      std::any_of(overrides.begin(), overrides.end(),
                  [](const Override& one) { return one.path.starts_with("deepspeed."); });
  take_rest(overrides, inputs.under_deepspeed || sets_deepspeed, scenario);
  const bool needs_length = facts.find("training.sequence_length") == nullptr;
  if (needs_length || facts.find(kTowersFrozen) != nullptr ||
      facts.find(kLinearByName) != nullptr) {
    const ModelSpec described = read_model_files(
        load_model_files(ValueReader(parse_yaml(model.value, "--model"), "").string()));
    settle_adapted_modules(described, facts);
    const std::int64_t most = described.max_positions;
    facts.estimate("training.sequence_length", std::to_string(std::min(kUsualLength, most)),
                   "a usual length, as nothing says otherwise");
  }
  facts.estimate("training.dtype", kUsualType, "the usual type");
  scenario.root = map_node(source_named("the job"));
  const std::string gpu = facts.value_or("hardware.gpu", "host");
  std::string short_name = fs::path(named.value).filename().generic_string();
  for (const std::string_view end : {".json", ".safetensors"}) {
    if (short_name.ends_with(end)) {
      short_name = short_name.substr(0, short_name.size() - end.size());
    }
  }
  facts.state("name", json_quoted(short_name + " on " + gpu), source_named("the job"));
  for (const JobFact& fact : facts.all()) {
    JobFact written = fact.path == "model" ? model : fact;
    if (fact.path == "deepspeed" && !fact.value.starts_with('{'))
      written.value = json_quoted(fact.value);
    set_located(scenario.root, written);
    scenario.written.push_back(std::move(written));
  }
  return scenario;
}

std::string scenario_text(const JobScenario& scenario) {
  std::string text =
      "# Put together from a job's own files. Behind each value is where it is from; what is\n"
      "# marked \"estimated\" nobody has said.\n";
  std::vector<std::string> open;  // maps that the last line is in
  std::vector<JobFact> sorted = scenario.written;
  const std::array<std::string_view, 10> order = {"name",   "model",    "adapter",  "hardware",
                                                  "gpus",   "nodes",    "training", "deepspeed",
                                                  "launch", "schedules"};
  const auto place = [&order](const JobFact& fact) {
    const std::string_view block = std::string_view(fact.path).substr(0, fact.path.find('.'));
    return std::find(order.begin(), order.end(), block) - order.begin();
  };
  // Below a block, keys of one map together.
  std::stable_sort(sorted.begin(), sorted.end(), [&place](const JobFact& a, const JobFact& b) {
    if (place(a) != place(b)) return place(a) < place(b);
    const auto parent = [](const JobFact& fact) {
      return fact.path.substr(0, fact.path.rfind('.'));
    };
    const bool nested_a = std::count(a.path.begin(), a.path.end(), '.') > 1;
    const bool nested_b = std::count(b.path.begin(), b.path.end(), '.') > 1;
    if (nested_a != nested_b) return nested_b;
    return nested_a && parent(a) < parent(b);
  });
  for (const JobFact& fact : sorted) {
    std::vector<std::string> keys;
    for (std::size_t at = 0; at <= fact.path.size();) {
      const std::size_t end = std::min(fact.path.find('.', at), fact.path.size());
      keys.push_back(fact.path.substr(at, end - at));
      at = end + 1;
    }
    std::size_t shared = 0;
    while (shared + 1 < keys.size() && shared < open.size() && open[shared] == keys[shared]) {
      ++shared;
    }
    open.assign(keys.begin(), keys.end() - 1);
    for (std::size_t i = shared; i + 1 < keys.size(); ++i) {
      text += fmt::format("{}{}:\n", std::string(2 * i, ' '), keys[i]);
    }
    std::string from = fact.source.text();
    std::replace(from.begin(), from.end(), '\n', ' ');
    text += fmt::format("{}{}: {}  # {}{}\n", std::string(2 * (keys.size() - 1), ' '), keys.back(),
                        fact.value, fact.is_estimate ? "estimated: " : "", from);
  }
  return text;
}

}  // namespace zenflow::sim
