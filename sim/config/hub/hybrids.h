/// Linear attention, state spaces and convolutions: what stands in for attention in hybrid
/// decoders, and the families that consist of state spaces.
#pragma once

#include <cstdint>

#include "sim/config/hub/decoder.h"
#include "sim/config/hub/hub_config.h"

namespace zenflow::sim::hub {

extern const Mixer kDeltaNet;       ///< of Qwen3-Next
extern const Mixer kSplitDeltaNet;  ///< of Qwen3.5
extern const Mixer kOlmoDeltaNet;
extern const Mixer kKimiDeltaNet;
extern const Mixer kLightningAttention;  ///< of MiniMax
extern const Mixer kGraniteMamba;
extern const Mixer kBambaMamba;
extern const Mixer kFalconMamba2;  ///< of Falcon-H1, beside attention
extern const Mixer kJambaMamba;
extern const Mixer kShortConvolution;  ///< of LFM2
extern const Mixer kCrossAttention;    ///< of Mllama's text to its images

/// LFM2's columns of the MLP, rounded up as its config says.
[[nodiscard]] std::int64_t lfm2_width(HubConfig& config, std::int64_t intermediate);

// Each throws Error(kInput) at values outside what its family may have.
void read_mamba(HubConfig& config, ModelSpec& model);
void read_falcon_mamba(HubConfig& config, ModelSpec& model);
void read_mamba2(HubConfig& config, ModelSpec& model);
void read_nemotron_h(HubConfig& config, ModelSpec& model);
void read_recurrent_gemma(HubConfig& config, ModelSpec& model);

}  // namespace zenflow::sim::hub
