/// The files of a scenario that is simulated in milliseconds.
#pragma once

namespace zenflow::testing {

inline constexpr const char* kProfile = R"(name: node
description: a node
gpu:
  name: GPU
  count: {value: 2, source: s}
  memory: {value: 80 GiB, source: s}
  context_memory: {value: 1 GiB, source: s}
  memory_bandwidth: {value: 1000 GB/s, source: s}
  peak: {bf16: {value: 100 TFLOPS, source: s}}
  gemm_efficiency: {value: 0.5, source: s}
  gemm_half_size: {value: 1 GFLOP, source: s}
  attention_efficiency: {value: 0.25, source: s}
  elementwise_efficiency: {value: 0.5, source: s}
  streaming_efficiency: {value: 0.8, source: s}
  kernel_launch: {value: 5 us, source: s}
host:
  name: CPU
  sockets: {value: 1, source: s}
  cores: {value: 32, source: s}
  memory: {value: 512 GiB, source: s}
  shared_memory: {value: 64 GiB, source: s}
  dram_bandwidth: {value: 400 GB/s, source: s}
  core_bandwidth: {value: 10 GB/s, source: s}
  adam_bandwidth: {value: 160 GB/s, source: s}
  adam_half_cores: {value: 8, source: s}
  elementwise_bandwidth: {value: 200 GB/s, source: s}
host_link:
  kind: PCIe
  h2d: {value: 20 GB/s, source: s}
  d2h: {value: 10 GB/s, source: s}
  bidirectional: {value: 30 GB/s, source: s}
  pageable_h2d: {value: 5 GB/s, source: s}
  pageable_d2h: {value: 4 GB/s, source: s}
  latency: {value: 10 us, source: s}
gpu_link:
  kind: NVLink
  bandwidth: {value: 100 GB/s, source: s}
  latency: {value: 2 us, source: s}
)";

inline constexpr const char* kModel =
    R"({"model_type": "opt", "hidden_size": 32, "num_hidden_layers": 3,
  "num_attention_heads": 4, "ffn_dim": 128, "vocab_size": 100, "max_position_embeddings": 64})";

inline constexpr const char* kDeepSpeed =
    R"({"zero_optimization": {"stage": 2, "zenflow": {"topk_ratio": 0.1, "update_interval": 4},
  "offload_optimizer": {"device": "cpu"}},
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}})";

inline constexpr const char* kScenario = R"(name: one
model: models/tiny.json
hardware: node
gpus: 2
training: {micro_batch_size_per_gpu: 2, sequence_length: 64}
deepspeed: ds/zenflow.json
schedules: [zero-offload, zenflow]
run: {warmup_steps: 3, steps: 5}
)";

}  // namespace zenflow::testing
