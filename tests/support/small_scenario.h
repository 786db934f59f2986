/// A model of two small layers on the host device, as files.
#pragma once

#include "tests/support/temporary_folder.h"

namespace zenflow::testing {

/// small.json and small.yaml.
inline void write_small_scenario(const TemporaryFolder& folder) {
  folder.write("small.json", R"({"model_type": "llama", "vocab_size": 260, "hidden_size": 32,
"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 64,
"max_position_embeddings": 32, "rms_norm_eps": 1e-5, "tie_word_embeddings": true})");
  folder.write("small.yaml", R"(name: small
model: small.json
hardware: this_host
gpus: 1
nodes: 1
training: {micro_batch_size_per_gpu: 1, sequence_length: 16, dtype: fp32, activation_checkpointing: false}
deepspeed:
  zero_optimization:
    stage: 2
    offload_optimizer: {device: cpu}
    zenflow: {topk_ratio: 0.1, update_interval: 4, select_interval: 0, select_strategy: step, overlap_step: true}
launch: {bind_cores_to_rank: false}
schedules: [live-zenflow]
run: {warmup_steps: 16, steps: 32}
)");
}

}  // namespace zenflow::testing
