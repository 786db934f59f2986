/// Models of several towers: a decoder of text, an encoder of images or of sound, and what projects
/// from one to the other.
#pragma once

#include "sim/config/hub/hub_config.h"

namespace zenflow::sim::hub {

// Each throws Error(kInput) at values outside what its family may have, and at towers of a kind
// that is not known.
void read_llava(HubConfig& config, ModelSpec& model);
void read_llava_next(HubConfig& config, ModelSpec& model);
void read_mistral3(HubConfig& config, ModelSpec& model);
void read_gemma3(HubConfig& config, ModelSpec& model);
void read_paligemma(HubConfig& config, ModelSpec& model);
void read_idefics3(HubConfig& config, ModelSpec& model);
void read_smolvlm(HubConfig& config, ModelSpec& model);
void read_internvl(HubConfig& config, ModelSpec& model);
void read_qwen2_vl(HubConfig& config, ModelSpec& model);
void read_qwen2_5_vl(HubConfig& config, ModelSpec& model);
void read_qwen3_vl(HubConfig& config, ModelSpec& model);
void read_qwen3_vl_moe(HubConfig& config, ModelSpec& model);
void read_qwen3_5(HubConfig& config, ModelSpec& model);
void read_qwen3_5_moe(HubConfig& config, ModelSpec& model);
void read_llama4(HubConfig& config, ModelSpec& model);
void read_mllama(HubConfig& config, ModelSpec& model);
void read_qwen2_audio(HubConfig& config, ModelSpec& model);

}  // namespace zenflow::sim::hub
