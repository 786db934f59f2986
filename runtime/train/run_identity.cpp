#include "runtime/train/run_identity.h"

#include <algorithm>
#include <sstream>
#include <variant>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/offload/knobs.h"

namespace zenflow::runtime {

namespace {

class Lines {
 public:
  template <class Value>
  void operator()(std::string_view key, const Value& value) {
    text_ += fmt::format("{}: {}\n", key, value);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string_view decay_name(Decay decay) {
  switch (decay) {
    case Decay::kConstant:
      return "constant";
    case Decay::kLinear:
      return "linear";
    case Decay::kCosine:
      return "cosine";
  }
  return "";
}

void describe(const RotarySettings& rotary, const std::string& of, Lines& line) {
  line("rope_theta" + of, rotary.theta);
  if (rotary.scaling == RotarySettings::Scaling::kNone) return;
  line("rope_scaling" + of,
       fmt::format("{} {} {} {} {}", static_cast<int>(rotary.scaling), rotary.factor,
                   rotary.low_frequency_factor, rotary.high_frequency_factor,
                   rotary.original_max_positions));
  if (rotary.scaling < RotarySettings::Scaling::kYarn) return;
  line("rope_scaling factors" + of,
       fmt::format("{} {} {} {} {} {}", rotary.attention_factor, rotary.fast_turns,
                   rotary.slow_turns, rotary.rounds_range, fmt::join(rotary.short_factors, " "),
                   fmt::join(rotary.long_factors, " ")));
}

/// 1 for each layer that has one; empty if all or none do.
std::string windows_of(const TransformerConfig& config) {
  std::string layers;
  for (std::int64_t layer = 0; layer < config.model.layers(); ++layer) {
    layers += config.window(layer) > 0 ? '1' : '0';
  }
  return layers.find_first_not_of(layers.front()) == std::string::npos ? "" : layers;
}

/// What the tensors' shapes do not show: two models with the same tensors may compute differently.
void describe(const TransformerConfig& config, Lines& line) {
  const sim::ModelSpec& model = config.model;
  line("model family", model.type);
  line("layers", model.layers());
  line("hidden size", model.hidden);
  line("attention heads", model.heads);
  line("key-value heads", model.kv_heads);
  line("vocabulary", model.vocab);
  line("tied embeddings", model.tied_embeddings);
  line("activation function", static_cast<int>(config.activation));
  line("norm epsilon", config.norm.epsilon);
  line("sliding window", config.largest_window());
  line("attention scaling",
       fmt::format("{} {}", config.scales_attention, config.scales_attention_by_layer));
  if (config.attention_scale > 0.0) line("attention scale", config.attention_scale);
  if (config.attention_cap > 0.0) line("attention cap", config.attention_cap);
  if (config.logit_cap > 0.0) line("logit cap", config.logit_cap);
  if (const std::string windows = windows_of(config); !windows.empty()) {
    line("layers with a window", windows);
  }
  if (!config.has_rotary()) return;
  if (config.rotary_columns != model.head_dim) line("rotary columns", config.rotary_columns);
  describe(config.rotary, "", line);
  if (config.window_rotary) describe(*config.window_rotary, " of layers with a window", line);
}

/// One of two places is written as whether it is the second.
std::string identity_text(const sim::SetupKnob& knob, const sim::TrainingSetup& setup) {
  const bool is_bool = std::holds_alternative<bool sim::TrainingSetup::*>(knob.field);
  if (is_bool) return knob_value(knob, setup) != 0 ? "true" : "false";
  return knob_text(knob, setup);
}

constexpr std::string_view kVectorDecay = "weight decay of norms and biases";

constexpr std::string_view kScaling = "deferred scaling";

/// With several ranks it is theirs together.
constexpr std::string_view kMicroBatches = "gradient accumulation steps";

/// As a message names it.
std::string name_of(const std::string& key) {
  return key == kMicroBatches ? "ranks times " + key : key;
}

/// Checkpoints of before have its number.
std::string scaling_text(const std::string& value) {
  const bool is_number = value.size() == 1 && value.front() >= '0' && value.front() <= '2';
  if (!is_number) return value;
  return std::string(kDeferredScalings.at(static_cast<std::size_t>(value.front() - '0')));
}

/// "not set" but for knobs that came later, of which checkpoints of before say nothing.
std::string unsaid(const std::string& key) {
  if (key == kVectorDecay) return "that of matrices";
  for (const sim::SetupKnob& knob : sim::setup_knobs()) {
    if (knob.came_later && knob.identity == key) return identity_text(knob, {});
  }
  return "not set";
}

/// The lines of a saved identity and of this run's, by key.
std::string value_of(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key + ": ")) continue;
    const std::string value = line.substr(key.size() + 2);
    return key == kScaling ? scaling_text(value) : value;
  }
  return unsaid(key);
}

std::vector<std::string> keys_of(const std::string& text) {
  std::vector<std::string> keys;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) keys.push_back(line.substr(0, line.find(':')));
  return keys;
}

}  // namespace

std::string run_identity(const TrainOptions& options, const TransformerConfig& config,
                         const ParameterTable& table, const Fingerprint& data) {
  const OffloadSettings& s = options.offload;
  Lines line;
  describe(config, line);
  line("parameters", table.elements());
  line("tensors", table.parameters.size());
  line("task", options.task.empty() ? "language modelling" : options.task);
  line("data bytes", data.bytes);
  line("data checksum", data.crc);
  line("validation fraction", options.feed.validation_fraction);
  line("seed", options.seed);
  sim::TrainingSetup setup = options.setup();
  // Of all ranks: a run may go on with another number of them.
  setup.gradient_accumulation_steps *= options.ranks();
  for (const sim::SetupKnob& knob : sim::setup_knobs()) {
    if (!knob.identity.empty()) line(knob.identity, identity_text(knob, setup));
  }
  line("update_interval",
       s.interval_is_auto ? std::string("auto") : std::to_string(s.update_interval));
  if (s.interval_is_auto) {
    line("auto_ratio", options.auto_ratio);
    line("max_staleness", s.max_staleness);
    line("tuned while training", options.tune_live);
  }
  if (s.topk_range) line("topk_range", fmt::format("{} {}", s.topk_range->low, s.topk_range->high));
  line("column norm", s.norm == NormKind::kL1 ? "l1" : "l2");
  line(kScaling, to_string(s.deferred_scaling));
  line("gradient clipping", s.gradient_clipping);
  line("learning rate", options.learning_rate.peak);
  line("decay of the learning rate", decay_name(options.learning_rate.decay));
  line("warm-up steps of the learning rate", options.learning_rate.warmup_steps);
  line("betas", fmt::format("{} {}", s.adamw.beta1, s.adamw.beta2));
  line("epsilon", s.adamw.epsilon);
  line("weight decay", s.adamw.weight_decay);
  if (s.adamw.weight_decay > 0 && !s.decays_vectors) line(kVectorDecay, 0);
  return line.text();
}

std::vector<Difference> differences(const std::string& there, const std::string& here) {
  std::vector<std::string> keys = keys_of(here);
  for (const std::string& key : keys_of(there)) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  std::vector<Difference> found;
  const auto decays = [](const std::string& text) { return value_of(text, "weight decay") != "0"; };
  for (const std::string& key : keys) {
    if (key == kVectorDecay && !(decays(there) && decays(here))) continue;  // nothing decays
    Difference one{key, value_of(there, key), value_of(here, key)};
    if (one.there != one.here) found.push_back(std::move(one));
  }
  return found;
}

void check_identity(const std::string& saved, const std::string& here,
                    const std::filesystem::path& checkpoint) {
  if (saved == here) return;
  std::string text;
  for (const Difference& one : differences(saved, here)) {
    text += fmt::format("{}{} was {}, is {} here", text.empty() ? "" : "; ", name_of(one.key),
                        one.there, one.here);
  }
  if (text.empty()) return;  // lines in another order, as checkpoints of before have them
  throw Error(ErrorKind::kInput,
              fmt::format("{}: it belongs to another run: {}", checkpoint.generic_string(), text));
}

void check_same_training(const std::string& first, const std::string& here) {
  if (first == here) return;
  std::string text;
  for (const Difference& one : differences(first, here)) {
    text += fmt::format("{}{} is {}, there {}", text.empty() ? "" : "; ", name_of(one.key),
                        one.here, one.there);
  }
  if (text.empty()) text = "another version of zenflow-train";
  throw Error(ErrorKind::kInput, "trains something else than rank 0: " + text);
}

}  // namespace zenflow::runtime
