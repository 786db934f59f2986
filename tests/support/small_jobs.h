/// Machines, models and jobs small enough to work out by hand.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "sim/config/document.h"
#include "sim/config/hardware_profile.h"
#include "sim/config/hub/hub_model.h"
#include "sim/config/scenario.h"
#include "sim/model/model_spec.h"
#include "sim/schedule/job.h"
#include "sim/schedule/schedule.h"

namespace zenflow::sim::testing {

/// Round numbers. No link of it can bind: both directions of a copy together make what each
/// makes alone, and DRAM bears all lanes at once.
inline HardwareProfile round_node(std::int64_t gpus = 1) {
  using namespace literals;
  HardwareProfile node;
  node.name = "round";
  node.description = "round numbers";
  node.gpu.name = "GPU";
  node.gpu.count = gpus;
  node.gpu.memory = 80_GiB;
  node.gpu.context_memory = 1_GiB;
  node.gpu.memory_bandwidth = 1000.0_GBps;
  node.gpu.peak = {
      {DType::kBf16, 100.0_TFLOPS}, {DType::kFp16, 100.0_TFLOPS}, {DType::kFp32, 50.0_TFLOPS}};
  node.gpu.gemm_efficiency = 0.5;
  node.gpu.gemm_half_size = Flops(1e9);
  node.gpu.attention_efficiency = 0.25;
  node.gpu.elementwise_efficiency = 0.5;
  node.gpu.streaming_efficiency = 0.8;
  node.gpu.kernel_launch = 5.0_us;
  node.host.name = "CPU";
  node.host.sockets = 1;
  node.host.cores = 32;
  node.host.memory = 512_GiB;
  node.host.shared_memory = 64_GiB;
  node.host.dram_bandwidth = 2000.0_GBps;
  node.host.core_bandwidth = 10.0_GBps;
  node.host.adam_bandwidth = 160.0_GBps;
  node.host.adam_half_cores = 8;
  node.host.elementwise_bandwidth = 200.0_GBps;
  node.host_link.kind = "PCIe";
  node.host_link.pinned = {20.0_GBps, 10.0_GBps, 30.0_GBps};
  node.host_link.pageable_h2d = 5.0_GBps;
  node.host_link.pageable_d2h = 4.0_GBps;
  node.host_link.latency = 10.0_us;
  if (gpus > 1) node.gpu_link = GpuLinkProfile{"NVLink", 100.0_GBps, 2.0_us};
  return node;
}

/// As round_node, with every shared link narrow enough to bind.
inline HardwareProfile contended_node(std::int64_t gpus) {
  using namespace literals;
  HardwareProfile node = round_node(gpus);
  node.name = "contended";
  node.host.dram_bandwidth = 210.0_GBps;
  node.host_link.pinned.bidirectional = 23.0_GBps;
  if (gpus > 1) {
    HostSwitch above;
    for (std::int64_t gpu = 0; gpu < gpus; ++gpu) above.gpus.push_back(gpu);
    above.path = {31.0_GBps, 17.0_GBps, 37.0_GBps};
    node.host_link.switches.push_back(above);
  }
  node.nvme = NvmeProfile{6.0_GBps, 3.0_GBps, Bytes(4e12), 100.0_us};
  node.network = NetworkProfile{20.0_GBps, 5.0_us};
  return node;
}

/// 34,976 parameters: embedding 256 x 32, two blocks of 9,280, an untied head of 32 + 8,192.
inline ModelSpec tiny_llama() {
  return read_model(parse_json(R"({"model_type": "llama", "hidden_size": 32,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "intermediate_size": 64, "vocab_size": 256, "max_position_embeddings": 128,
      "tie_word_embeddings": false})",
                               "tiny_llama.json"),
                    "tiny_llama");
}

inline ModelSpec tiny_opt() {
  return read_model(parse_json(R"({"model_type": "opt", "hidden_size": 32,
      "num_hidden_layers": 3, "num_attention_heads": 4, "ffn_dim": 128, "vocab_size": 100,
      "max_position_embeddings": 64})",
                               "tiny_opt.json"),
                    "tiny_opt");
}

/// Large enough that copies and updates take longer than the latencies: 52.1 M parameters.
inline ModelSpec small_gpt2() {
  return read_model(parse_json(R"({"model_type": "gpt2", "n_embd": 512, "n_layer": 8,
      "n_head": 8, "vocab_size": 52000, "n_positions": 512})",
                               "small_gpt2.json"),
                    "small_gpt2");
}

struct JobOptions {
  std::int64_t gpus = 1;
  std::int64_t nodes = 1;
  int stage = 2;
  std::int64_t reduce_bucket_size = 500'000'000;
  std::int64_t accumulation = 1;
  double topk_ratio = 0.1;
  std::string update_interval = "4";
  std::string select_interval = "64";
  bool overlap_step = true;
  std::int64_t warm_up = 0;
  double reserved = 0.5;
  bool accumulate_on_device = false;
  bool with_zenflow = true;
  std::string optimizer_device = "cpu";
  std::string parameter_device = "none";
  bool pin_memory = true;
  TrainingSettings training{.micro_batch_size_per_gpu = 2, .sequence_length = 64};
  RunSettings run{.warmup_steps = 4, .steps = 16};
};

inline std::string deepspeed_text(const JobOptions& options) {
  std::string zenflow;
  if (options.with_zenflow) {
    zenflow = fmt::format(
        R"(, "zenflow": {{"topk_ratio": {}, "update_interval": {}, "select_interval": {},
           "select_strategy": "step", "overlap_step": {}, "full_warm_up_rounds": {},
           "pt_reserved_cores_perc": {}}})",
        options.topk_ratio, options.update_interval, options.select_interval, options.overlap_step,
        options.warm_up, options.reserved);
  }
  return fmt::format(
      R"({{"gradient_accumulation_steps": {}, "zero_optimization": {{"stage": {},
         "reduce_bucket_size": {}, "offload_optimizer": {{"device": "{}", "pin_memory": {}}},
         "offload_param": {{"device": "{}"}}{}}}}})",
      options.accumulation, options.stage, options.reduce_bucket_size, options.optimizer_device,
      options.pin_memory, options.parameter_device, zenflow);
}

inline Job make_small_job(HardwareProfile hardware, ModelSpec model, const JobOptions& options) {
  Scenario scenario;
  scenario.name = "small";
  scenario.model = std::move(model);
  scenario.hardware = std::move(hardware);
  scenario.gpus = options.gpus;
  scenario.nodes = options.nodes;
  scenario.training = options.training;
  scenario.offload.accumulate_on_device = options.accumulate_on_device;
  scenario.deepspeed = parse_json(deepspeed_text(options), "ds.json");
  scenario.run = options.run;
  return make_job(std::move(scenario));
}

/// The job with what the schedule cannot do without: stage 3, NVMe, one rank.
inline Job suited_to(const Schedule& schedule, Job job) {
  if (schedule.name().starts_with("live-")) {
    job.scenario.gpus = 1;
    job.scenario.nodes = 1;
  }
  for (const char* name :
       {"deepspeed-twin-flow", "deepspeed-zero-infinity", "deepspeed-super-offload"}) {
    if (schedule.name() == name) job.deepspeed.zero_stage = 3;
  }
  if (schedule.name() == "deepspeed-zero-infinity" && !job.scenario.hardware.nvme) {
    job.scenario.hardware.nvme =
        NvmeProfile{BytesPerSecond(3e9), BytesPerSecond(2e9), Bytes(1e12), Seconds(1e-4)};
  }
  return job;
}

}  // namespace zenflow::sim::testing
