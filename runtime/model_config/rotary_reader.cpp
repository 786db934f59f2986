#include "runtime/model_config/rotary_reader.h"

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace zenflow::runtime {
namespace {

constexpr double kMaxTheta = 1e12;
constexpr double kMaxFactor = 1e6;
constexpr double kMaxPositions = 1e9;

/// What the scalings need of the file beside their own map.
struct RotaryContext {
  MapReader& config;
  const RotaryDefaults& defaults;
  double max_positions;
  double share = 1.0;  ///< of a head's columns that turn
};

/// Of the file, or of the map, or as many as the model has.
double original_positions(MapReader& map, const RotaryContext& context) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  for (MapReader* const reader : {&context.config, &map}) {
    if (const auto value = reader->optional(kKey)) return value->number(1.0, kMaxPositions);
  }
  return context.defaults.phi_positions > 0.0 ? context.defaults.phi_positions
                                              : context.max_positions;
}

/// Only Phi3's class turns a part of a head; the others pass over the key.
double read_share(MapReader& map, const RotaryContext& context) {
  const auto value = map.optional("partial_rotary_factor");
  if (!value) return context.share;
  const double share = value->number(0.0, 1.0);
  if (share != 1.0 && context.defaults.phi_positions == 0.0) {
    value->fail(
        fmt::format("expected 1, found {}: the class of this family turns whole heads", share));
  }
  return share;
}

void read_llama3(MapReader& map, const RotaryContext& context, RotarySettings& rotary) {
  rotary.scaling = RotarySettings::Scaling::kLlama3;
  rotary.factor = map.require("factor").number(1.0, kMaxFactor);
  rotary.low_frequency_factor = map.require("low_freq_factor").number(1e-6, kMaxFactor);
  rotary.high_frequency_factor = map.require("high_freq_factor").number(1e-6, kMaxFactor);
  rotary.original_max_positions = original_positions(map, context);
  if (rotary.high_frequency_factor <= rotary.low_frequency_factor) {
    map.fail("high_freq_factor",
             fmt::format("expected more than low_freq_factor ({}), found {}",
                         rotary.low_frequency_factor, rotary.high_frequency_factor));
  }
}

/// Source of the default of attention_factor: Peng et al. 2023 (YaRN), equation 22; with mscale as
/// DeepSeek has it.
void read_yarn(MapReader& map, const RotaryContext& context, RotarySettings& rotary) {
  rotary.scaling = RotarySettings::Scaling::kYarn;
  rotary.factor = map.require("factor").number(1.0, kMaxFactor);
  rotary.original_max_positions = original_positions(map, context);
  rotary.fast_turns = map.number_or("beta_fast", 32.0, 1e-6, kMaxFactor);
  rotary.slow_turns = map.number_or("beta_slow", 1.0, 1e-6, kMaxFactor);
  rotary.rounds_range = map.boolean_or("truncate", true);
  const auto of = [&rotary](double scale) {
    return rotary.factor > 1.0 ? 0.1 * scale * std::log(rotary.factor) + 1.0 : 1.0;
  };
  const double scale = map.number_or("mscale", 0.0, 0.0, kMaxFactor);
  const double all = map.number_or("mscale_all_dim", 0.0, 0.0, kMaxFactor);
  const double usual = scale > 0.0 && all > 0.0 ? of(scale) / of(all) : of(1.0);
  rotary.attention_factor = map.number_or("attention_factor", usual, 1e-6, kMaxFactor);
}

/// Source of the default of attention_factor: Microsoft's Phi-3, as Hugging Face has it.
void read_long_rope(MapReader& map, const RotaryContext& context, RotarySettings& rotary) {
  rotary.scaling = RotarySettings::Scaling::kLongRope;
  rotary.original_max_positions = original_positions(map, context);
  rotary.factor = map.number_or("factor", context.max_positions / rotary.original_max_positions,
                                0.0, kMaxFactor);
  const double log = std::log(rotary.original_max_positions);
  const double usual =
      rotary.factor > 1.0 && log > 0.0 ? std::sqrt(1.0 + std::log(rotary.factor) / log) : 1.0;
  rotary.attention_factor = map.number_or("attention_factor", usual, 1e-6, kMaxFactor);
  const auto factors = [&map](std::string_view key) {
    std::vector<double> numbers;
    for (const ValueReader& value : map.require(key).items()) {
      numbers.push_back(value.number(1e-6, kMaxFactor));
    }
    return numbers;
  };
  rotary.short_factors = factors("short_factor");
  rotary.long_factors = factors("long_factor");
}

void read_scaling(MapReader& map, RotaryContext& context, RotarySettings& rotary) {
  rotary.theta = map.number_or("rope_theta", rotary.theta, 1.0, kMaxTheta);
  context.share = read_share(map, context);
  std::optional<ValueReader> type = map.optional("rope_type");
  if (!type) type = map.optional("type");  // the key's older name
  const std::string name = type ? type->string() : "default";
  if (name == "default") return;
  const bool is_long = name == "longrope" ||
                       (context.defaults.phi_positions > 0.0 && (name == "su" || name == "yarn"));
  if (is_long) return read_long_rope(map, context, rotary);
  if (name == "llama3") return read_llama3(map, context, rotary);
  if (name == "yarn") return read_yarn(map, context, rotary);
  if (name != "linear") {
    type->fail(
        fmt::format("rotary scaling \"{}\" is not supported by the trainer; supported: "
                    "default, linear, llama3, yarn, longrope",
                    name));
  }
  rotary.scaling = RotarySettings::Scaling::kLinear;
  rotary.factor = map.require("factor").number(1.0, kMaxFactor);
}

/// Either one map, or one for each kind of layer. Where transformers would pass over one, because
/// its class looks for it in the other place, it is refused.
void read_map(MapReader map, std::string_view key, RotaryContext& context, TransformerConfig& out) {
  constexpr std::string_view kWindow = "sliding_attention";
  constexpr std::string_view kFull = "full_attention";
  const bool has_kinds = map.node().find(kFull) != nullptr || map.node().find(kWindow) != nullptr;
  const bool wants_kinds = context.defaults.window_theta > 0.0 && key == "rope_parameters";
  if (has_kinds != wants_kinds && !map.node().entries.empty()) {
    context.config.fail(key, wants_kinds
                                 ? fmt::format("expected {} and {} in it: this family has one for "
                                               "each kind of layer",
                                               kFull, kWindow)
                                 : "expected one for all layers");
  }
  if (!has_kinds) {
    if (context.defaults.window_theta > 0.0 && map.optional("type") && !map.optional("rope_type")) {
      map.fail("type", "expected rope_type: this family's class does not read the older name");
    }
    return read_scaling(map, context, out.rotary);
  }
  if (auto part = map.optional_map(kFull)) read_scaling(*part, context, out.rotary);
  auto part = map.optional_map(kWindow);
  if (!part) return;
  if (!out.window_rotary) out.window_rotary = RotarySettings{};
  read_scaling(*part, context, *out.window_rotary);
}

void check_columns(const MapReader& config, const TransformerConfig& out) {
  if (out.rotary_columns % 2 != 0 || out.rotary_columns == 0) {
    config.fail(
        out.rotary_columns == out.model.head_dim ? "head_dim" : "partial_rotary_factor",
        fmt::format("expected an even number of rotary columns, found {}", out.rotary_columns));
  }
  const auto pairs = static_cast<std::size_t>(out.rotary_columns / 2);
  const auto check = [&](const RotarySettings& rotary) {
    if (rotary.scaling != RotarySettings::Scaling::kLongRope) return;
    for (const auto* const factors : {&rotary.short_factors, &rotary.long_factors}) {
      if (factors->size() == pairs) continue;
      config.fail("rope_scaling", fmt::format("expected {} factors, one for each pair of columns; "
                                              "found {}",
                                              pairs, factors->size()));
    }
  };
  check(out.rotary);
  if (out.window_rotary) check(*out.window_rotary);
}

}  // namespace

void read_rotary(MapReader& config, const RotaryDefaults& defaults, TransformerConfig& out) {
  RotaryContext context{config, defaults, static_cast<double>(out.model.max_positions)};
  context.share = read_share(config, context);
  if (config.optional("rope_scaling") && config.optional("rope_parameters")) {
    config.fail("rope_scaling", "expected either it or rope_parameters");
  }
  out.rotary.theta = config.number_or("rope_theta", defaults.theta, 1.0, kMaxTheta);
  if (defaults.window_theta > 0.0) {
    out.window_rotary = RotarySettings{};
    out.window_rotary->theta =
        config.number_or("rope_local_base_freq", defaults.window_theta, 1.0, kMaxTheta);
  }
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (std::optional<MapReader> map = config.optional_map(key)) {
      read_map(std::move(*map), key, context, out);
    }
  }
  if (out.window_rotary == out.rotary) out.window_rotary.reset();
  out.rotary_columns =
      static_cast<std::int64_t>(static_cast<double>(out.model.head_dim) * context.share);
  check_columns(config, out);
}

}  // namespace zenflow::runtime
