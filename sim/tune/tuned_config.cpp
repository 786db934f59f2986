#include "sim/tune/tuned_config.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/config/reader.h"
#include "sim/deepspeed/lax_values.h"
#include "sim/deepspeed/lint.h"
#include "sim/tune/space.h"

namespace zenflow::sim {
namespace {

constexpr const char* kOffload = "zero_optimization.offload_optimizer";
constexpr const char* kOffloadParam = "zero_optimization.offload_param";
constexpr const char* kZenFlow = "zero_optimization.zenflow";

/// The knob's key in DeepSpeed's zenflow block; empty: it is elsewhere.
std::string_view key_in_block(const KnobInfo& knob) {
  return knob.path.starts_with(kZenFlowBlock) ? knob.path.substr(kZenFlowBlock.size() + 1) : "";
}

bool is_number(const Node* node) {
  return node != nullptr && node->is_scalar() && !node->quoted;
}

std::string text(bool value) {
  return value ? "true" : "false";
}

/// Collects edits: only of what the configuration in force does not say already.
class Editor {
 public:
  Editor(const Node& document, const Job& own, const Setting& setting, std::int64_t accumulation)
      : document_(document), own_(own), setting_(setting), accumulation_(accumulation) {}

  std::vector<Edit> edits() {
    zero();
    offload();
    if (setting_.zenflow()) {
      zenflow();
    } else {
      erase(kZenFlow);
    }
    batch();
    return std::move(edits_);
  }

 private:
  void set(const std::string& path, std::string json) {
    edits_.push_back(set_key(path, std::move(json)));
  }
  [[nodiscard]] bool is_auto(const std::string& path) const {
    const Node* node = find_path(document_, path);
    return node != nullptr && node->is_scalar() && node->scalar == "auto";
  }
  [[nodiscard]] bool is_true(const std::string& path) const {
    const Node* node = find_path(document_, path);
    return node != nullptr && lax_boolean(*node).value_or(false);
  }
  /// Whether the block offloads; "auto" may: somebody else fills it in.
  [[nodiscard]] bool names_device(const std::string& block) const {
    const Node* device = find_path(document_, block + ".device");
    return device != nullptr && device->is_scalar() && device->scalar != "none";
  }
  void erase(const std::string& path) {
    const Node* node = find_path(document_, path);
    if (node != nullptr && node->kind != Node::Kind::kNull) edits_.push_back(erase_key(path));
  }

  void zero() {
    const DeepSpeedConfig& config = own_.deepspeed;
    // What fills in an "auto" stage may be told another one elsewhere.
    if (config.zero_stage != setting_.stage() || is_auto("zero_optimization.stage")) {
      set("zero_optimization.stage", std::to_string(setting_.stage()));
    }
    const std::int64_t bucket = setting_.whole(Knob::kBucket);
    if (config.reduce_bucket_size != bucket) {
      set("zero_optimization.reduce_bucket_size", std::to_string(bucket));
    }
    if (setting_.stage() == 0) return;  // nothing reads the next one
    // The default of overlap_comm follows the stage, which may be another now.
    const bool overlap = setting_.flag(Knob::kOverlapComm);
    if (config.overlap_comm.value_or(setting_.stage() == 3) != overlap) {
      set("zero_optimization.overlap_comm", text(overlap));
    }
  }

  void offload() {
    const Placement placement = setting_.placement();
    if (placement == Placement::kGpu) {
      if (names_device(kOffload)) erase(kOffload);
      if (is_true("zero_optimization.cpu_offload")) {
        for (const char* legacy : {"cpu_offload", "cpu_offload_use_pin_memory"}) {
          erase(std::string("zero_optimization.") + legacy);
        }
      }
    }
    offload_param();
    if (placement != Placement::kCpu && placement != Placement::kZenFlow) return;
    if (own_.deepspeed.offload_optimizer != OffloadDevice::kCpu) {
      set(std::string(kOffload) + ".device", "\"cpu\"");
    }
    const bool pinned = setting_.flag(Knob::kPinMemory);
    if (own_.deepspeed.pin_memory != pinned) {
      set(std::string(kOffload) + ".pin_memory", text(pinned));
    }
    if (own_.deepspeed.offload_ratio != 1) erase(std::string(kOffload) + ".ratio");
    if (own_.deepspeed.super_offload) erase(std::string(kOffload) + ".super_offload");
  }

  void offload_param() {
    constexpr const char* kLegacy = "zero_optimization.cpu_offload_param";
    const auto device = static_cast<OffloadDevice>(setting_.whole(Knob::kOffloadParam));
    if (!setting_.offloads_param()) {
      if (names_device(kOffloadParam)) erase(kOffloadParam);
      if (is_true(kLegacy)) erase(kLegacy);
      return;
    }
    if (own_.deepspeed.offload_param == device) return;
    if (is_true(kLegacy)) erase(kLegacy);
    set(std::string(kOffloadParam) + ".device", '"' + to_string(device) + '"');
    if (own_.deepspeed.offload_param == OffloadDevice::kNone) {
      set(std::string(kOffloadParam) + ".pin_memory", text(setting_.flag(Knob::kPinMemory)));
    }
  }

  [[nodiscard]] bool writes_cores() const {
    return setting_.flag(Knob::kOverlapStep) && own_.has(Change::kWorkerCores);
  }

  /// Whether a block that is written anew has the knob's key.
  [[nodiscard]] bool belongs(Knob knob) const {
    if (knob == Knob::kReservedCores) return writes_cores();
    return knob != Knob::kSelectedOffload || setting_.flag(knob);
  }

  /// Whether the block in force says something else than the setting.
  [[nodiscard]] bool differs(Knob knob) const {
    const ZenFlowSettings& now = *own_.deepspeed.zenflow;
    const std::int64_t select = setting_.whole(Knob::kSelectInterval);
    if (knob == Knob::kReservedCores && !writes_cores()) return false;
    if (knob == Knob::kUpdateInterval && !now.update_interval) return true;  // "auto"
    if (knob != Knob::kSelectInterval) return setting_of(own_).get(knob) != setting_.get(knob);
    return now.select_interval != select && (select > 0 || now.select_strategy == "step");
  }

  void zenflow() {
    const Node* block = find_path(document_, kZenFlow);
    const bool is_new = block == nullptr || !block->is_map() || !own_.deepspeed.zenflow;
    std::vector<std::pair<std::string_view, std::string>> keys;
    for (const KnobInfo& one : knobs()) {
      const std::string_view key = key_in_block(one);
      if (key.empty()) continue;
      if (one.knob == Knob::kSelectInterval &&
          (is_new ||
           (setting_.flag(one.knob) && own_.deepspeed.zenflow->select_strategy != "step"))) {
        keys.emplace_back("select_strategy", "\"step\"");
      }
      if (is_new ? belongs(one.knob) : differs(one.knob)) {
        keys.emplace_back(key, value_text(one.knob, setting_.get(one.knob)));
      }
    }
    std::string whole;
    for (auto& [key, json] : keys) {
      if (is_new) {
        whole += fmt::format("{}\"{}\": {}", whole.empty() ? "" : ", ", key, json);
      } else {
        set(fmt::format("{}.{}", kZenFlow, key), std::move(json));
      }
    }
    if (is_new) set(kZenFlow, "{" + whole + "}");
  }

  /// Keys that state batch sizes are brought in line; "auto" stays where it means the same.
  void batch() {
    const std::int64_t micro = setting_.whole(Knob::kMicroBatch);
    const std::int64_t ranks = setting_.whole(Knob::kGpus) * own_.scenario.nodes;
    const Node* total = find_path(document_, "train_batch_size");
    const Node* written_micro = find_path(document_, "train_micro_batch_size_per_gpu");
    const Node* written_steps = find_path(document_, "gradient_accumulation_steps");
    const auto agrees = [](const Node* node, std::int64_t value) {
      return is_number(node) &&
             ValueReader(*node, "").number(-1e18, 1e18) == static_cast<double>(value);
    };
    const bool as_before = micro == own_.scenario.training.micro_batch_size_per_gpu;
    if (is_number(total) && !agrees(total, micro * accumulation_ * ranks)) {
      set("train_batch_size", std::to_string(micro * accumulation_ * ranks));
    }
    if (written_micro == nullptr
            ? total == nullptr
            : !agrees(written_micro, micro) && (is_number(written_micro) || !as_before)) {
      set("train_micro_batch_size_per_gpu", std::to_string(micro));
    }
    // DeepSpeed divides the other two sizes if it has both; else it takes 1.
    const bool divides =
        own_.target == LaunchTarget::kDeepSpeed && is_number(total) && is_number(written_micro);
    const bool is_open = written_steps == nullptr || written_steps->kind == Node::Kind::kNull;
    const bool default_holds = is_open && (accumulation_ == 1 || divides);
    const bool same_steps = accumulation_ == own_.deepspeed.gradient_accumulation_steps;
    if (!default_holds && !agrees(written_steps, accumulation_) &&
        !(same_steps && written_steps != nullptr && !is_number(written_steps))) {
      set("gradient_accumulation_steps", std::to_string(accumulation_));
    }
  }

  const Node& document_;
  const Job& own_;
  const Setting& setting_;
  std::int64_t accumulation_;
  std::vector<Edit> edits_;
};

std::string refusal_by(const Finding& finding) {
  static const std::vector<Rule> rules = lint_rules();
  const auto rule = std::find_if(rules.begin(), rules.end(),
                                 [&](const Rule& one) { return one.code == finding.code; });
  const std::string where = finding.path.empty() ? "" : fmt::format(" ({})", finding.path);
  return fmt::format("lint {}: {}{}", finding.code, rule->title, where);
}

/// The first error, after those that the linter can correct have been corrected.
std::string correct(TunedConfig& config, const LintOptions& options) {
  constexpr int kRounds = 16;
  std::string refusal;
  for (int round = 0; round < kRounds; ++round) {
    refusal.clear();
    bool edited = false;
    for (const Finding& finding : lint({config.root, {}, {}}, options)) {
      if (finding.severity != Severity::kError) continue;
      if (refusal.empty()) refusal = refusal_by(finding);
      if (finding.edits.empty()) continue;
      for (const Edit& edit : finding.edits) {
        apply_edit(config.root, edit);
        config.edits.push_back(edit);
      }
      edited = true;
      break;
    }
    if (!edited) return refusal;
  }
  return refusal;
}

/// Whether the linter's corrections left what the setting decides alone.
bool still_says(const Node& root, const Job& own, const Setting& setting,
                std::int64_t accumulation) {
  Job job = own;
  DeepSpeedConfig& config = job.deepspeed;
  config = read_deepspeed_config(root);
  complete_config(root, own, setting.whole(Knob::kGpus) * own.scenario.nodes, config);
  if (config.zenflow.has_value() != setting.zenflow()) return false;
  if (config.gradient_accumulation_steps != accumulation) return false;
  const Setting now = setting_of(job);
  return std::all_of(knobs().begin(), knobs().end(), [&](const KnobInfo& one) {
    const bool is_of_zero =
        one.knob == Knob::kStage || one.knob == Knob::kOverlapComm || one.knob == Knob::kBucket;
    const bool is_of_block =
        setting.zenflow() && !key_in_block(one).empty() && one.knob != Knob::kReservedCores;
    return !(is_of_zero || is_of_block) || now.get(one.knob) == setting.get(one.knob);
  });
}

}  // namespace

TunedConfig changed_config(const Node& document, const Job& own, const Setting& setting,
                           std::int64_t accumulation) {
  TunedConfig config{document, Editor(document, own, setting, accumulation).edits(), {}};
  for (const Edit& edit : config.edits) apply_edit(config.root, edit);
  return config;
}

std::optional<std::int64_t> tuned_threads(const Job& own, const Setting& setting) {
  if (setting.placement() == Placement::kGpu) return std::nullopt;
  Job job = own;
  job.scenario.gpus = setting.whole(Knob::kGpus);
  job.scenario.bind_cores_to_rank = setting.flag(Knob::kBindCores);
  const auto advised = advised_threads(job);
  return advised ? advised : job.scenario.omp_num_threads;
}

LintOptions lint_options(const Job& own, const Setting& setting) {
  LintOptions options{.version = own.version, .target = own.target};
  options.world_size = setting.whole(Knob::kGpus) * own.scenario.nodes;
  options.cores_per_node = own.scenario.hardware.host.cores;
  options.gpus_per_node = setting.whole(Knob::kGpus);
  options.bind_cores_to_rank = setting.flag(Knob::kBindCores);
  options.omp_num_threads = tuned_threads(own, setting);
  return options;
}

TunedConfig tuned_config(const Node& document, const Job& own, const Setting& setting,
                         std::int64_t accumulation) {
  TunedConfig config = changed_config(document, own, setting, accumulation);
  const std::size_t before = config.edits.size();
  config.refusal = correct(config, lint_options(own, setting));
  if (!config.refusal.empty() || config.edits.size() == before) return config;
  if (!still_says(config.root, own, setting, accumulation)) {
    TunedConfig plain{config.root, {}, {}};
    plain.root = document;
    for (std::size_t i = 0; i < before; ++i) apply_edit(plain.root, config.edits[i]);
    for (const Finding& one : lint({plain.root, {}, {}}, lint_options(own, setting))) {
      if (one.severity != Severity::kError) continue;
      config.refusal = refusal_by(one);
      break;
    }
  }
  return config;
}

}  // namespace zenflow::sim
