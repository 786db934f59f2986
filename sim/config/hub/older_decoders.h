/// Decoders from before Llama, with names and layouts of their own.
#pragma once

#include "sim/config/hub/hub_config.h"

namespace zenflow::sim::hub {

// Each throws Error(kInput) at values outside what its family may have.
void read_gpt2(HubConfig& config, ModelSpec& model);
void read_opt(HubConfig& config, ModelSpec& model);
void read_biogpt(HubConfig& config, ModelSpec& model);
void read_xglm(HubConfig& config, ModelSpec& model);
void read_openai_gpt(HubConfig& config, ModelSpec& model);
void read_bloom(HubConfig& config, ModelSpec& model);
void read_falcon(HubConfig& config, ModelSpec& model);
void read_gpt_neox(HubConfig& config, ModelSpec& model);
void read_gptj(HubConfig& config, ModelSpec& model);
void read_codegen(HubConfig& config, ModelSpec& model);
void read_gpt_neo(HubConfig& config, ModelSpec& model);
void read_gpt_bigcode(HubConfig& config, ModelSpec& model);
void read_phi(HubConfig& config, ModelSpec& model);
void read_stablelm(HubConfig& config, ModelSpec& model);
void read_persimmon(HubConfig& config, ModelSpec& model);
void read_mpt(HubConfig& config, ModelSpec& model);
void read_dbrx(HubConfig& config, ModelSpec& model);
void read_internlm3(HubConfig& config, ModelSpec& model);

}  // namespace zenflow::sim::hub
