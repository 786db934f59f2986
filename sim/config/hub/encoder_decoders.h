/// Encoder-decoders: T5's, BART's and what came of them, Whisper.
#pragma once

#include "sim/config/hub/hub_config.h"

namespace zenflow::sim::hub {

// Both streams have the training's sequence length, but Whisper's encoder: it hears as many tokens
// as max_source_positions says.
// Each throws Error(kInput) at values outside what its family may have.
void read_t5(HubConfig& config, ModelSpec& model);
void read_mt5(HubConfig& config, ModelSpec& model);
void read_umt5(HubConfig& config, ModelSpec& model);
void read_bart(HubConfig& config, ModelSpec& model);
void read_mbart(HubConfig& config, ModelSpec& model);
void read_pegasus(HubConfig& config, ModelSpec& model);
void read_m2m_100(HubConfig& config, ModelSpec& model);
void read_marian(HubConfig& config, ModelSpec& model);
void read_blenderbot(HubConfig& config, ModelSpec& model);
void read_blenderbot_small(HubConfig& config, ModelSpec& model);
void read_plbart(HubConfig& config, ModelSpec& model);
void read_mvp(HubConfig& config, ModelSpec& model);
void read_whisper(HubConfig& config, ModelSpec& model);

}  // namespace zenflow::sim::hub
