/// Broken DeepSpeed configurations, and what the linter finds in each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/deepspeed/lint.h"

namespace zenflow::testing {

using sim::LaunchTarget;

// Stage 2 with ZenFlow, nothing to complain of. Tests replace one text by another.
inline const std::string kZenFlow = R"({
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 1,
  "bf16": {"enabled": true},
  "gradient_clipping": 1.0,
  "optimizer": {
    "type": "AdamW",
    "params": {"lr": 1e-5, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}
  },
  "zero_optimization": {
    "stage": 2,
    "overlap_comm": true,
    "reduce_bucket_size": 200000000,
    "offload_optimizer": {"device": "cpu", "pin_memory": true},
    "zenflow": {
      "topk_ratio": 0.1,
      "select_strategy": "step",
      "select_interval": 64,
      "update_interval": 4,
      "full_warm_up_rounds": 4,
      "overlap_step": true,
      "pt_reserved_cores_perc": 0.25
    }
  }
}
)";

// Offload without ZenFlow.
inline const std::string kPlain = R"({
  "train_micro_batch_size_per_gpu": 4,
  "bf16": {"enabled": true},
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
  "zero_optimization": {
    "stage": 2,
    "overlap_comm": true,
    "offload_optimizer": {"device": "cpu", "pin_memory": true}
  }
}
)";

inline std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

struct Case {
  std::string base = kZenFlow;
  std::string from{};
  std::string to{};
  std::string expected{};  ///< "ZF034 16:26", in the order of the file
  std::string version = "0.19.8";
  LaunchTarget target = LaunchTarget::kDeepSpeed;
  std::int64_t world_size = 0;
  std::int64_t cores = 0;
};

inline constexpr LaunchTarget kHf = LaunchTarget::kHf;
inline constexpr LaunchTarget kAccelerate = LaunchTarget::kAccelerate;

inline std::vector<Case> structure_cases() {
  return {
      {.from = "{\n", .to = "{ // why\n", .expected = "ZF001 1:3"},
      {.from = "\"stage\"", .to = "\"stag\": 1, \"stage\"", .expected = "ZF002 11:5"},
      {.from = "topk_ratio\": 0.1", .to = "topk_rati\": 0.1", .expected = "ZF002 16:7"},
      {.from = "{\"enabled\": true}",
       .to = "{\"enabled\": true, \"auto_cast\": true}",
       .expected = "ZF002 4:29"},
      {.from = "\"stage\"", .to = "\"mics_shard_size\": 2, \"stage\"", .expected = "ZF003 11:5"},
      {.base = kPlain,
       .from = "\"stage\"",
       .to = "\"parameter_alignment\": true, \"stage\"",
       .expected = "ZF003 6:5",
       .version = "0.19.6"},
      {.from = "{\n", .to = "{\"nebula\": {\"enabled\": false},\n", .expected = "ZF004 1:12"},
      {.base = kPlain,
       .from = "{\n",
       .to = "{\"elasticity\": {\"enabled\": true},\n",
       .expected = "ZF004 1:16",
       .version = "0.19.5"},
      {.base = kPlain,
       .from = "{\n",
       .to = "{\"amp\": {}, \"curriculum_learning\": 0,\n",
       .expected = "ZF005 1:9, ZF005 1:36",
       .version = "0.19.5"},
      {.from = "\"overlap_comm\": true",
       .to = "\"overlap_comm\": \"maybe\"",
       .expected = "ZF005 12:21, ZF069 12:21"},
      {.from = "{\"enabled\": true}",
       .to = "{\"enabled\": null}",
       .expected = "ZF074 4:11, ZF005 4:23"},
      {.base = kPlain, .from = "{\n", .to = "{\"data_types\": [],\n", .expected = "ZF005 1:16"},
      {.base = kPlain, .from = "{\n", .to = "{\"tensor_parallel\": 4,\n", .expected = "ZF005 1:21"},
      {.base = kPlain, .from = "{\n", .to = "{\"aio\": null,\n", .expected = ""},
      {.base = kPlain,
       .from = "{\n",
       .to = "{\"wall_clock_breakdown\": \"yes\",\n",
       .expected = "ZF005 1:26"},
      {.base = kPlain, .from = "{\n", .to = "{\"wall_clock_breakdown\": 1,\n", .expected = ""},
      {.base = kPlain,
       .from = "{\n",
       .to = "{\"flops_profiler\": {\"enabled\": null},\n",
       .expected = "ZF005 1:32"},
      {.from = "{\n", .to = "{\"bfloat16\": 1,\n", .expected = "ZF075 1:14"},
      {.from = "\"full_warm_up_rounds\": 4",
       .to = "\"full_warm_up_rounds\": \" +4 \"",
       .expected = "ZF006 20:30"},
      {.from = "\"full_warm_up_rounds\": 4",
       .to = "\"full_warm_up_rounds\": \"4.\"",
       .expected = "ZF005 20:30, ZF043 20:30"},
      {.base = kPlain,
       .from = "\"stage\"",
       .to = "\"sub_group_size\": 100000000000000000000, \"stage\"",
       .expected = ""},
      {.from = "\"update_interval\": 4",
       .to = "\"update_interval\": \"4\"",
       .expected = "ZF005 19:26"},
      {.from = "\"full_warm_up_rounds\": 4",
       .to = "\"full_warm_up_rounds\": \"4\"",
       .expected = "ZF006 20:30"},
      {.from = "\"overlap_comm\": true", .to = "\"overlap_comm\": 1", .expected = "ZF006 12:21"},
      {.from = "\"stage\": 2", .to = "\"stage\": 4", .expected = "ZF007 11:14"},
      {.from = "\"topk_ratio\": 0.1", .to = "\"topk_ratio\": 1.0", .expected = "ZF007 16:21"},
      {.from = "\"update_interval\": 4", .to = "\"update_interval\": 0", .expected = "ZF007 19:26"},
      {.from = "\"step\"", .to = "\"custom\"", .expected = "ZF008 17:26"},
      {.base = kPlain,
       .from = "{\n",
       .to = "{\"data_types\": {\"grad_accum_dtype\": \"bfloat\", \"param_dtype\": 16},\n",
       .expected = "ZF008 1:37, ZF008 1:62"},
      {.base = kPlain,
       .from = "{\n",
       .to = "{\"data_types\": {\"param_dtype\": \"bfloat\"},\n",
       .expected = "",
       .version = "0.19.1"},
      {.base = kPlain,
       .from = "\"stage\"",
       .to = "\"prefetch_bucket_size\": 1, \"stage3_prefetch_bucket_size\": 1, \"stage\"",
       .expected = "ZF002 6:5"},
      {.base = kPlain,
       .from = "\"stage\"",
       .to = "\"prefetch_bucket_size\": \"auto\", \"stage3_prefetch_bucket_size\": 1, \"stage\"",
       .expected = "ZF100 6:29"},
      {.base = with(kPlain, "\"stage\": 2", "\"stage\": 3"),
       .from = "\"stage\"",
       .to = "\"stage3_gather_fp16_weights_on_model_save\": true, "
             "\"stage3_gather_16bit_weights_on_model_save\": true, \"stage\"",
       .expected = "ZF012 6:49"},
      {.from = "\"zero_optimization\"", .to = "\"zero_optimisation\"", .expected = "ZF009 10:3"},
      {.from = "{\n", .to = "{\"my_own_tool\": 1,\n", .expected = "ZF010 1:2"},
      {.base = kPlain,
       .from = "{\n",
       .to = "{\"gradient_allreduce_op\": \"sum\",\n",
       .expected = "ZF010 1:2",
       .version = "0.19.5"},
      {.from = "{\n", .to = "{\"zenflow\": {},\n", .expected = "ZF011 1:2"},
      {.base = kPlain,
       .from = "\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}",
       .to = "\"cpu_offload\": true",
       .expected = "ZF012 8:20"},
      {.from = "\"stage\"", .to = "\"legacy_stage1\": true, \"stage\"", .expected = "ZF013 11:22"},
      {.from = "\"train_micro",
       .to = "steps_per_print: 5\n  \"train_micro",
       .expected = "ZF014 2:3, ZF014 3:3"},
      {.from = "\"cpu\", \"pin_memory\": true}",
       .to = "cpu,\n \"pin_memory\": true}",
       .expected = "ZF008 14:37, ZF014 14:37, ZF023 14:37, ZF014 15:2"},
  };
}

inline std::vector<Case> zenflow_cases() {
  const std::string zero = "\"stage\": 2";
  const std::string device = "\"device\": \"cpu\", \"pin_memory\": true";
  return {
      {.from = "",
       .to = "",
       .expected = "ZF039 1:1, ZF020 15:16, ZF047 15:16",
       .version = "0.19.0"},
      {.from = zero, .to = "\"stage\": 0", .expected = "ZF021 11:14, ZF067 14:26"},
      {.from = zero,
       .to = "\"stage\": 3",
       .expected = "ZF039 1:1, ZF022 11:14, ZF047 15:16",
       .version = "0.18.0"},
      {.from = "\"device\": \"cpu\"", .to = "\"device\": \"none\"", .expected = "ZF023 14:37"},
      {.from = "{\n", .to = "{\"gradient_allreduce_op\": \"sum\",\n", .expected = "ZF024 1:27"},
      {.from = "\"optimizer\"", .to = "\"my_optimizer_\"", .expected = "ZF025 1:1, ZF010 6:3"},
      {.from = "\"AdamW\"", .to = "\"Lion\"", .expected = "ZF026 7:13"},
      {.from = "\"lr\": 1e-5",
       .to = "\"torch_adam\": true, \"lr\": 1e-5",
       .expected = "ZF026 8:30"},
      {.from = "\"lr\": 1e-5",
       .to = "\"adam_w_mode\": true, \"lr\": 1e-5",
       .expected = "ZF027 8:16"},
      // False or true, it stays among the parameters.
      {.from = "\"lr\": 1e-5",
       .to = "\"torch_adam\": false, \"lr\": 1e-5",
       .expected = "ZF027 8:16"},
      {.from = device + "}", .to = device + ", \"ratio\": 0.5}", .expected = "ZF060 14:73"},
      {.from = "{\"enabled\": true}",
       .to = "{\"enabled\": true, \"bf16_master_weights_and_grads\": true}",
       .expected = "ZF029 4:62"},
      {.from = device, .to = device + ", \"super_offload\": true", .expected = "ZF030 14:81"},
      {.from = zero, .to = zero + ", \"reduce_scatter\": false", .expected = "ZF031 11:35"},
      {.from = "\"step\"", .to = "\"auto\"", .expected = "ZF034 18:26"},
      {.from = "64", .to = "\"auto\"", .expected = "ZF035 18:26"},
      {.from = "64", .to = "2", .expected = "ZF036 18:26"},
      {.from = "\"update_interval\": 4",
       .to = "\"update_interval\": \"auto\"",
       .expected = "ZF037 19:26"},
      {.from = "\"update_interval\": 4",
       .to = "\"update_interval\": 0",
       .expected = "ZF039 1:1, ZF047 15:16, ZF038 19:26",
       .version = "0.18.2"},
      {.from = zero, .to = zero + ", \"compute_grad_norm\": false", .expected = "ZF040 11:38"},
  };
}

inline std::vector<Case> behaviour_cases() {
  return {
      {.from = "64", .to = "0", .expected = "ZF041 18:26"},
      {.from = "\"select_strategy\": \"step\",\n      \"select_interval\": 64,\n",
       .to = "",
       .expected = "ZF041 15:5"},
      {.from = "64", .to = "10", .expected = "ZF042 18:26"},
      {.from = "\"full_warm_up_rounds\": 4",
       .to = "\"full_warm_up_rounds\": 2",
       .expected = "ZF042 20:30"},
      {.from = "\"full_warm_up_rounds\": 4",
       .to = "\"full_warm_up_rounds\": 0",
       .expected = "ZF043 20:30"},
      {.from = "\"topk_ratio\"",
       .to = "\"steps_per_epoch\": 9, \"topk_ratio\"",
       .expected = "ZF044 16:26"},
      {.from = "\"gradient_accumulation_steps\": 1",
       .to = "\"gradient_accumulation_steps\": 8",
       .expected = "ZF045 3:34"},
      {.from = "{\n",
       .to = "{\"managed_gradient_accumulation\": false,\n",
       .expected = "ZF046 1:35"},
      {.from = "", .to = "", .expected = "ZF047 15:16", .version = "0.19.7"},
      {.from = "\"update_interval\": 4", .to = "\"update_interval\": 2", .expected = "ZF048 19:26"},
      {.from = "\"topk_ratio\": 0.1",
       .to = "\"topk_ratio\": 0.001",
       .expected = "ZF047 15:16, ZF049 16:21",
       .version = "0.19.5"},
      {.from = "\"full_warm_up_rounds\": 4,\n      \"overlap_step\": true",
       .to = "\"full_warm_up_rounds\": -4,\n      \"overlap_step\": false",
       .expected = "ZF050 20:30"},
      {.from = "{\n",
       .to = "{\"scheduler\": {\"type\": \"WarmupLR\"},\n",
       .expected = "ZF114 1:2, ZF051 1:15"},
  };
}

inline std::vector<Case> offload_cases() {
  const std::string device = "\"device\": \"cpu\", \"pin_memory\": true";
  const std::string zero = "\"stage\": 2";
  const std::string nvme = "\"device\": \"nvme\", \"pin_memory\": true";
  return {
      {.base = kPlain, .from = device, .to = device + ", \"ratio\": 0.5", .expected = "ZF060 8:73"},
      {.base = with(kPlain, zero, "\"stage\": 3"),
       .from = device,
       .to = device + ", \"ratio\": 0.5",
       .expected = "ZF061 8:73"},
      {.base = kPlain,
       .from = device,
       .to = device + ", \"super_offload\": true",
       .expected = "ZF062 8:81"},
      {.base = with(kPlain, zero, "\"stage\": 3"),
       .from = device,
       .to = device + ", \"super_offload\": true",
       .expected = "ZF063 1:1"},
      {.base = with(kPlain, zero, "\"stage\": 3"),
       .from = device,
       .to = nvme,
       .expected = "ZF064 8:5"},
      {.base = kPlain, .from = device, .to = nvme, .expected = "ZF065 8:37"},
      {.base = kPlain,
       .from = zero,
       .to = zero + ", \"offload_param\": {\"device\": \"cpu\"}",
       .expected = "ZF066 6:34"},
      {.base = kPlain, .from = zero, .to = "\"stage\": 0", .expected = "ZF067 8:26"},
      {.base = kPlain, .from = "true}\n  }", .to = "false}\n  }", .expected = "ZF068 8:58"},
      {.base = kPlain,
       .from = ", \"pin_memory\": true",
       .to = "",
       .expected = "ZF068 8:5",
       .version = "0.19.4"},
      {.base = kPlain, .from = "\"overlap_comm\": true,\n", .to = "", .expected = "ZF069 5:3"},
      {.base = with(kPlain, zero, "\"stage\": 3"),
       .from = device,
       .to = nvme + ", \"nvme_path\": \"/nvme\", \"buffer_count\": 3",
       .expected = "ZF070 8:103"},
      {.base = kPlain,
       .from = zero,
       .to = zero + ", \"allgather_bucket_size\": 5",
       .expected = "ZF071 6:42"},
      {.base = kPlain,
       .from = "\"lr\"",
       .to = "\"max_grad_norm\": 1, \"lr\"",
       .expected = "ZF072 4:62"},
      {.base = kPlain,
       .from = "\"bf16\"",
       .to = "\"fp16\": {\"enabled\": true}, \"bf16\"",
       .expected = "ZF073 3:23"},
      {.base = kPlain,
       .from = "\"enabled\": true",
       .to = "\"enabled\": false",
       .expected = "ZF074 3:11"},
      {.base = kPlain,
       .from = "\"bf16\"",
       .to = "\"bfloat16\": {\"enabled\": true}, \"bf16\"",
       .expected = "ZF075 3:15"},
      {.base = kPlain,
       .from = "\"enabled\": true",
       .to = "\"enabled\": true, \"bf16_optimizer_states\": true",
       .expected = "ZF076 3:54"},
      {.base = with(kPlain, "bf16", "fp16"),
       .from = "\"enabled\": true",
       .to = "\"enabled\": true, \"min_loss_scale\": 0",
       .expected = "ZF077 3:47"},
      {.from = "0.25", .to = "1.0", .expected = "ZF078 22:33"},
      {.from = "", .to = "", .expected = "ZF079 14:37, ZF078 22:33", .cores = 4},
      {.base = kPlain, .expected = "ZF079 8:37", .cores = 64},
      {.base = kPlain, .expected = "ZF084 8:37", .target = kHf, .cores = 64},
      {.base = with(kPlain, "AdamW", "Muon"),
       .from = "\"stage\": 2",
       .to = "\"stage\": 3",
       .expected = "ZF083 5:3"},
      {.base = kPlain,
       .from = "AdamW",
       .to = "Muon",
       .expected = "ZF083 4:25",
       .version = "0.17.5"},
      // Below stage 3 a share of the optimizer is refused by pydantic 2 alone.
      {.base = kPlain,
       .from = "\"cpu\"",
       .to = "\"cpu\", \"ratio\": 0.5",
       .expected = "ZF060 8:53",
       .version = "0.14.5"},
  };
}

inline std::vector<Case> batch_cases() {
  const std::string micro = "\"train_micro_batch_size_per_gpu\": 4,";
  return {
      {.base = kPlain, .from = micro, .to = "", .expected = "ZF090 1:1"},
      {.base = kPlain, .from = ": 4,", .to = ": 0,", .expected = "ZF091 2:37"},
      {.base = kPlain, .from = ": 4,", .to = ": \"4\",", .expected = "ZF091 2:37"},
      {.base = kPlain, .from = ": 4,", .to = ": 2.5,", .expected = "ZF091 2:37", .world_size = 2},
      {.base = kPlain,
       .from = micro,
       .to = "\"train_batch_size\": 24, \"gradient_accumulation_steps\": 2.5,",
       .expected = "ZF092 2:23, ZF091 2:58",
       .world_size = 4},
      {.base = kPlain,
       .from = micro,
       .to = micro + " \"train_batch_size\": 8,",
       .expected = "ZF092 2:60",
       .world_size = 4},
      {.base = kPlain,
       .from = micro,
       .to = micro + " \"train_batch_size\": 8,",
       .expected = "",
       .world_size = 2},
      // The product of all three is beyond 64 bits.
      {.base = kPlain,
       .from = micro,
       .to = "\"train_micro_batch_size_per_gpu\": 1000000000, "
             "\"gradient_accumulation_steps\": 1000000000, \"train_batch_size\": 8,",
       .expected = "ZF092 2:112",
       .world_size = std::int64_t{1} << 30},
      {.base = kPlain,
       .from = micro,
       .to = micro + " \"train_batch_size\": 6,",
       .expected = "ZF093 2:60"},
      {.base = kPlain,
       .from = micro,
       .to = micro +
             " \"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 0}},",
       .expected = "ZF094 2:105"},
      {.base = kPlain,
       .from = micro,
       .to = micro +
             " \"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 1e2}},",
       .expected = ""},
      {.base = kPlain,
       .from = micro,
       .to = micro +
             " \"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 0}},",
       .expected = "",
       .version = "0.19.2"},
      // hjson makes an integer of it, json.load a float.
      {.base = kPlain,
       .from = micro,
       .to = micro +
             " \"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 1e3}},",
       .expected = ""},
      {.base = kPlain,
       .from = micro,
       .to = micro +
             " \"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 1e3}},",
       .expected = "ZF094 2:105",
       .target = LaunchTarget::kHf},
      {.base = kPlain,
       .from = micro,
       .to = micro +
             " \"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 2e10}},",
       .expected = "ZF094 2:105"},
  };
}

inline std::vector<Case> launcher_cases() {
  const std::string bucket = "\"reduce_bucket_size\": 200000000";
  const std::string gas = "\"gradient_accumulation_steps\": 1";
  const std::string four = with(kZenFlow, gas, "\"gradient_accumulation_steps\": 4");
  return {
      {.from = bucket, .to = "\"reduce_bucket_size\": \"auto\"", .expected = "ZF100 13:27"},
      {.from = ": 4,", .to = ": \"auto\",", .expected = "ZF101 2:37"},
      {.from = "\"lr\": 1e-5", .to = "\"lr\": \"auto\"", .expected = "ZF101 8:22"},
      {.from = "{\n",
       .to = "{\"seq_parallel_communication_data_type\": \"auto\",\n",
       .expected = "ZF101 1:42"},
      {.base = four,
       .from = "\"eps\": 1e-8",
       .to = "\"eps\": \"auto\"",
       .expected = "ZF102 8:57",
       .target = kAccelerate},
      {.base = four,
       .from = "\"eps\": 1e-8",
       .to = "\"eps\": \"auto\"",
       .expected = "",
       .target = kHf},
      {.base = four,
       .from = "\"topk_ratio\": 0.1",
       .to = "\"topk_ratio\": \"auto\"",
       .expected = "ZF102 16:21",
       .target = kHf},
      {.base = R"({"train_batch_size": 8})", .expected = "ZF103 1:1", .target = kAccelerate},
      {.expected = "ZF104 3:34", .target = kHf},
      {.base = four, .from = "{\n", .to = "{ # c\n", .expected = "ZF001 1:3", .target = kHf},
  };
}

/// kPlain with another optimizer; on the GPU if `gpu`.
inline std::string with_optimizer(const std::string& block, bool gpu = false) {
  const std::string base =
      gpu ? with(kPlain, "\"device\": \"cpu\"", "\"device\": \"none\"") : kPlain;
  return with(base, R"({"type": "AdamW", "params": {"lr": 1e-5}})", block);
}

inline std::string with_scheduler(const std::string& block) {
  return with(kPlain, "{\n", "{\"scheduler\": " + block + ",\n");
}

inline std::vector<Case> optimizer_cases() {
  const std::string zero = "\"stage\": 2";
  const std::string none = "\"device\": \"none\"";
  const std::string bf16 = "\"enabled\": true";
  const std::string master = bf16 + ", \"bf16_master_weights_and_grads\": true";
  const std::string on_gpu = with(kPlain, "\"device\": \"cpu\"", none);
  const std::string allowed = R"({"zero_allow_untested_optimizer": true,
)";
  return {
      // Types: DeepSpeed's in any case, PyTorch's as they are written.
      {.base = with_optimizer(R"({"type": "adamw_torch"})"), .expected = "ZF110 4:25"},
      {.base = with_optimizer(R"({"type": "DeepSpeedCPUAdam"})"), .expected = "ZF110 4:25"},
      {.base = with_optimizer(R"({"type": "sgd"})"), .expected = "ZF110 4:25"},
      {.base = with_optimizer(R"({"type": "ADAGRAD"})"), .expected = ""},
      {.base = with_optimizer(R"({"type": "OneBitAdam"})"), .expected = "ZF110 4:25"},
      {.base = with_optimizer(R"({"type": "OneBitAdam"})"),
       .expected = "ZF110 4:25",
       .version = "0.19.6"},
      {.base = with_optimizer(R"({"type": "OneBitAdam"})", true),
       .from = zero,
       .to = "\"stage\": 0",
       .expected = "",
       .version = "0.12.6"},
      {.base = with_optimizer(R"({"type": "SGD"})"), .expected = "ZF039 4:25"},
      {.base = with_optimizer(R"({"type": "Lamb"})"), .expected = "ZF039 4:25"},
      {.base = with_optimizer(R"({"type": "SGD"})"), .from = "{\n", .to = allowed, .expected = ""},
      {.base = with_optimizer(R"({"type": "SGD"})", true),
       .from = zero,
       .to = "\"stage\": 0",
       .expected = ""},
      {.base = with_optimizer(R"({"type": "AdamW", "params": {"lr": "1e-5"}})"),
       .expected = "ZF119 4:51"},
      // Parameters, by where the optimizer is.
      {.base = with_optimizer(R"({"type": "Adam", "params": {"set_grad_none": true}})"),
       .expected = "ZF111 4:44"},
      {.base = with_optimizer(R"({"type": "Adam", "params": {"set_grad_none": true}})", true),
       .expected = ""},
      {.base = with_optimizer(R"({"type": "Adam", "params": {"fused": true}})"),
       .expected = "ZF111 4:44"},
      {.base = with_optimizer(R"({"type": "Adam", "params": {"torch_adam": true, "fused": true}})"),
       .expected = ""},
      {.base = with_optimizer(R"({"type": "AdamW", "params": {"weight_deacy": 0.1}})"),
       .expected = "ZF111 4:45"},
      {.base = with_optimizer(R"({"type": "Lion", "params": {"eps": 1e-8}})"),
       .expected = "ZF111 4:44"},
      {.base = with_optimizer(R"({"type": "Lion", "params": {"eps": 1e-8}})", true),
       .expected = "ZF111 4:44"},
      {.base = with_optimizer(R"({"type": "Adagrad", "params": {"betas": 0.9}})"),
       .expected = "ZF111 4:47"},
      {.base = with_optimizer(R"({"type": "SGD", "params": {"momentum": 0.9, "eps": 1e-8}})"),
       .from = "{\n",
       .to = allowed,
       .expected = "ZF111 4:60"},
      {.base = with_optimizer(R"({"type": "Muon", "params": {"ns_method": "gram"}})"),
       .expected = ""},
      {.base = with_optimizer(R"({"type": "AdamW", "params": {"amsgrad": true}})"),
       .expected = "ZF112 4:56"},
      {.base = with_optimizer(R"({"type": "AdamW", "params": {"amsgrad": true}})", true),
       .expected = "ZF112 4:56",
       .version = "0.12.6"},
      {.base =
           with_optimizer(R"({"type": "AdamW", "params": {"amsgrad": true, "torch_adam": true}})"),
       .expected = ""},
      {.base = with_optimizer(R"({"type": "AdamW", "param": {"lr": 1e-5}})"),
       .expected = "ZF113 4:34"},
      {.base = with_scheduler(R"({"type": "warmuplr", "params": {}})"), .expected = "ZF114 1:24"},
      {.base = with_scheduler(R"({"type": "CosineAnnealingLR", "params": {"T_max": 9}})"),
       .expected = ""},
      {.base = with_scheduler(R"({"type": "StepLR"})"), .expected = "ZF114 1:2"},
      {.base = with_scheduler(R"({"type": "WarmupDecayLR", "params": {"warmup_num_steps": 9}})"),
       .expected = "ZF114 1:41"},
      {.base = with_scheduler(R"({"type": "WarmupLR", "params": {"warmup_steps": 9}})"),
       .expected = "ZF114 1:47"},
      // Where gradients are scattered their scale cannot be chosen.
      {.base = kPlain,
       .from = "{\n",
       .to = "{\"gradient_predivide_factor\": 2.0,\n",
       .expected = "ZF115 1:31"},
      {.base = kPlain, .from = "{\n", .to = "{\"gradient_predivide_factor\": 1,\n", .expected = ""},
      {.base = with(kPlain, zero, "\"stage\": 3"),
       .from = "{\n",
       .to = "{\"prescale_gradients\": true,\n",
       .expected = "ZF115 1:24"},
      {.base = with(kPlain, zero, "\"stage\": 1"),
       .from = "{\n",
       .to = "{\"prescale_gradients\": true,\n",
       .expected = ""},
      {.base = with(on_gpu, zero, "\"stage\": 1"),
       .from = "{\n",
       .to = "{\"prescale_gradients\": true,\n",
       .expected = "ZF115 1:24",
       .version = "0.12.6"},
      {.base = with(kPlain, zero, zero + ", \"reduce_scatter\": false"),
       .from = "{\n",
       .to = "{\"prescale_gradients\": true,\n",
       .expected = ""},
      {.base = kPlain,
       .from = "{\n",
       .to = "{\"prescale_gradients\": true, \"gradient_allreduce_op\": \"sum\",\n",
       .expected = ""},
      // Without ZeRO one type for gradients and their sums.
      {.base = with(on_gpu, zero, "\"stage\": 0"),
       .from = "{\n",
       .to = "{\"data_types\": {\"grad_accum_dtype\": \"fp32\"},\n",
       .expected = "ZF116 1:37"},
      {.base = with(on_gpu, zero, "\"stage\": 0"),
       .from = "{\n",
       .to = "{\"data_types\": {\"grad_accum_dtype\": \"fp32\"},\n",
       .expected = "",
       .version = "0.17.5"},
      {.base = kPlain,
       .from = "{\n",
       .to = "{\"data_types\": {\"grad_accum_dtype\": \"float32\"},\n",
       .expected = ""},
      {.base = kPlain,
       .from = "{\n",
       .to = "{\"data_types\": {\"param_dtype\": \"half\"},\n",
       .expected = "ZF116 1:32"},
      {.base = kPlain,
       .from = "{\n",
       .to = "{\"data_types\": {\"param_dtype\": \"bfloat16\"},\n",
       .expected = ""},
      // 16-bit master weights.
      {.base = on_gpu, .from = bf16, .to = master, .expected = "ZF076 3:62"},
      {.base = on_gpu,
       .from = bf16,
       .to = master + ", \"bf16_optimizer_states\": true",
       .expected = ""},
      {.base = kPlain, .from = bf16, .to = master, .expected = ""},
      {.base = with_optimizer(R"({"type": "Lion"})"),
       .from = bf16,
       .to = master,
       .expected = "ZF076 3:62"},
      {.base = with(on_gpu, "bf16", "fp16"),
       .from = bf16,
       .to = bf16 + ", \"fp16_master_weights_and_grads\": true",
       .expected = "ZF076 3:62",
       .version = "0.12.6"},
      // Twin-Flow's other half is an AdamW.
      {.base = with(with_optimizer(R"({"type": "Lion"})"), zero,
                    "\"stage\": 3, \"sub_group_size\": 100000000"),
       .from = "\"cpu\"",
       .to = "\"cpu\", \"ratio\": 0.5",
       .expected = "ZF117 8:53"},
      {.base = with(with_optimizer(R"({"type": "Adam", "params": {"torch_adam": true}})"), zero,
                    "\"stage\": 3, \"sub_group_size\": 100000000"),
       .from = "\"cpu\"",
       .to = "\"cpu\", \"ratio\": 0.5",
       .expected = "ZF117 8:53"},
      {.base = with(kPlain, zero, "\"stage\": 1"),
       .from = "{\n",
       .to = "{\"managed_gradient_accumulation\": false,\n",
       .expected = "ZF046 1:35, ZF118 1:35"},
      {.base = with(kPlain, zero, "\"stage\": 3"),
       .from = "{\n",
       .to = "{\"managed_gradient_accumulation\": false,\n",
       .expected = ""},
  };
}

inline std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto& topic : {structure_cases(), zenflow_cases(), behaviour_cases(), offload_cases(),
                            batch_cases(), launcher_cases(), optimizer_cases()}) {
    cases.insert(cases.end(), topic.begin(), topic.end());
  }
  return cases;
}

}  // namespace zenflow::testing
