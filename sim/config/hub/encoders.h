/// Encoders of text (BERT and what came of it) and of images (ViT and what came of it).
#pragma once

#include "sim/config/hub/hub_config.h"

namespace zenflow::sim::hub {

// Each throws Error(kInput) at values outside what its family may have.
void read_bert(HubConfig& config, ModelSpec& model);
void read_ernie(HubConfig& config, ModelSpec& model);
void read_megatron_bert(HubConfig& config, ModelSpec& model);
void read_roberta(HubConfig& config, ModelSpec& model);
void read_xlm_roberta(HubConfig& config, ModelSpec& model);
void read_xlm_roberta_xl(HubConfig& config, ModelSpec& model);
void read_data2vec_text(HubConfig& config, ModelSpec& model);
void read_roberta_prelayernorm(HubConfig& config, ModelSpec& model);
void read_esm(HubConfig& config, ModelSpec& model);
void read_eurobert(HubConfig& config, ModelSpec& model);
void read_camembert(HubConfig& config, ModelSpec& model);
void read_distilbert(HubConfig& config, ModelSpec& model);
void read_electra(HubConfig& config, ModelSpec& model);
void read_albert(HubConfig& config, ModelSpec& model);
void read_deberta_v2(HubConfig& config, ModelSpec& model);
void read_modernbert(HubConfig& config, ModelSpec& model);
void read_nomic_bert(HubConfig& config, ModelSpec& model);
void read_mpnet(HubConfig& config, ModelSpec& model);

void read_vit(HubConfig& config, ModelSpec& model);
void read_dinov2(HubConfig& config, ModelSpec& model);
void read_clip_vision(HubConfig& config, ModelSpec& model);
void read_clip_text(HubConfig& config, ModelSpec& model);
void read_siglip_vision(HubConfig& config, ModelSpec& model);
void read_siglip_text(HubConfig& config, ModelSpec& model);

}  // namespace zenflow::sim::hub
