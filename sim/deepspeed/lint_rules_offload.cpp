// Offload, precision and core binding, with or without ZenFlow.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/deepspeed/lint_rules.h"

namespace zenflow::sim {
namespace {

constexpr const char* kOffload = "zero_optimization.offload_optimizer";

bool offloads(const LintContext& context) {
  return context.settings().offload == "cpu" || context.settings().offload == "nvme";
}

std::string in_offload(std::string_view key) {
  return fmt::format("{}.{}", kOffload, key);
}

void check_ratio_stage(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (s.ratio >= 1 || s.stage == 3) return;
  // With pydantic 1 DeepSpeed looks for the ratio in an attribute that is not there.
  const bool refused = context.has(Change::kPydantic2);
  context.report(rule,
                 {.path = in_offload("ratio"),
                  .what = refused ? "AssertionError: partial offload (Twin-Flow) is for stage 3 "
                                    "only"
                                  : "partial offload (Twin-Flow) is for stage 3: ignored here",
                  .instead = "1.0, or stage 3",
                  .edits = {set_key(in_offload("ratio"), "1.0")},
                  .severity = refused ? Severity::kError : Severity::kWarning,
                  .rejected_by = refused ? RejectedBy::kConfig : RejectedBy::kNobody});
}

void check_ratio_granularity(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  constexpr std::int64_t kDefault = 1'000'000'000;
  const std::int64_t group = context.integer("zero_optimization.sub_group_size").value_or(kDefault);
  if (s.ratio >= 1 || s.stage != 3 || s.zenflow) return;
  if (s.offload == "nvme") {
    // Swapped sub-groups lie on NVMe and are read into host memory, whatever the ratio says; those
    // that it would keep on the GPU have their step by torch.optim.AdamW, whose moments the swapper
    // does not know.
    context.report(rule,
                   {.path = in_offload("ratio"),
                    .what = "with device \"nvme\" nothing stays on the GPU: torch.optim.AdamW "
                            "updates that share on the CPU, its moments in host memory",
                    .instead = "1.0, or device \"cpu\"",
                    .edits = {set_key(in_offload("ratio"), "1.0")},
                    .reference = "deepspeed/runtime/zero/stage3.py "
                                 "_create_fp32_partitions, _optimizer_step"});
    return;
  }
  if (group < kDefault) return;
  context.report(rule,
                 {.path = in_offload("ratio"),
                  .what = fmt::format("whole sub-groups of {} parameters move, so most ratios "
                                      "have the same effect",
                                      group),
                  .instead = "\"sub_group_size\": 100000000 with it"});
}

void check_super_offload_stage(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.super_offload || s.zenflow || (s.stage == 3 && s.offload == "cpu")) return;
  context.report(rule, {.path = in_offload("super_offload"),
                        .what = "SuperOffload is for stage 3 with device \"cpu\": ignored here",
                        .instead = "stage 3, or false"});
}

void check_super_offload_clipping(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.super_offload || s.zenflow || s.stage != 3 || s.gradient_clipping == 0) return;
  context.report(rule, {.path = "gradient_clipping",
                        .what = fmt::format(
                            "with clipping ({}{}) SuperOffload updates after "
                            "backward, synchronously, instead of during it",
                            s.gradient_clipping,
                            context.set("gradient_clipping") == nullptr ? ", the default" : ""),
                        .instead = "\"gradient_clipping\": 0.0 if the training allows it"});
}

void check_nvme_path(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (s.stage != 3) return;
  for (const char* block :
       {"zero_optimization.offload_optimizer", "zero_optimization.offload_param"}) {
    const bool param = std::string_view(block).ends_with("param");
    if ((param ? s.offload_param : s.offload) != "nvme") continue;
    if (context.set(fmt::format("{}.nvme_path", block)) != nullptr) continue;
    context.report(rule, {.path = fmt::format("{}.nvme_path", block),
                          .what = "device \"nvme\" without a path: initialize fails",
                          .instead = R"("nvme_path": "/a/local/nvme")"});
  }
}

void check_nvme_stage(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (s.offload != "nvme" || s.stage == 3 || s.stage == 0) return;
  context.report(rule, {.path = in_offload("device"),
                        .what = "below stage 3 \"nvme\" is treated as \"cpu\": the state stays in "
                                "host memory",
                        .instead = "\"cpu\", or stage 3"});
}

void check_parameter_offload(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (s.offload_param == "none" || s.stage == 3) return;
  context.report(rule, {.path = "zero_optimization.offload_param",
                        .what = "parameters are offloaded in stage 3 only: ignored here",
                        .instead = "stage 3, or no offload_param"});
}

void check_offload_stage(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!offloads(context) || s.stage != 0) return;
  // These become DeepSpeed's optimizers for the CPU, whatever the stage.
  const bool fails = makes_deepspeed_adam(s) || s.optimizer == "lion" || s.optimizer == "adagrad";
  context.report(rule, {.path = kOffload,
                        .what = fails ? "without ZeRO (stage 0, the default) nothing is offloaded, "
                                        "but the optimizer is the one for the CPU: AssertionError "
                                        "in the first step, as its parameters are on the GPU"
                                      : "without ZeRO (stage 0, the default) nothing is offloaded",
                        .instead = "\"stage\": 2 in zero_optimization",
                        .severity = fails ? Severity::kError : Severity::kWarning,
                        .rejected_by = fails ? RejectedBy::kEngine : RejectedBy::kNobody});
}

void check_pinned(LintContext& context, const Rule& rule) {
  const std::string path = in_offload("pin_memory");
  if (!offloads(context) || context.settings().stage == 0) return;
  const Node* written = context.set(path);
  if (written == nullptr && context.has(Change::kPinnedByDefault)) return;
  if (context.flag(path, false)) return;
  context.report(
      rule, {.path = path,
             .what = written == nullptr ? "false by default before 0.19.5: copies are pageable, "
                                          "synchronous and at a fraction of PCIe's bandwidth"
                                        : "copies are pageable, synchronous and at a fraction of "
                                          "PCIe's bandwidth",
             .instead = "true, if ulimit -l and the memory allow",
             .edits = {set_key(path, "true")}});
}

void check_overlap_comm(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!offloads(context) || s.overlap_comm || s.stage == 0) return;
  if (s.zenflow && context.flag("zero_optimization.zenflow.offload", false)) return;  // an error
  context.report(rule,
                 {.path = "zero_optimization.overlap_comm",
                  .what = fmt::format("{}: gradient copies run on the compute stream, so PCIe "
                                      "and backward take turns",
                                      context.set("zero_optimization.overlap_comm") == nullptr
                                          ? "off by default below stage 3"
                                          : "off"),
                  .instead = "true",
                  .edits = {set_key("zero_optimization.overlap_comm", "true")}});
}

void check_buffer_count(LintContext& context, const Rule& rule) {
  constexpr std::int64_t kAdamStates = 4;
  const auto count = context.integer(in_offload("buffer_count"));
  if (context.settings().offload != "nvme" || !count || *count >= kAdamStates) return;
  context.report(rule, {.path = in_offload("buffer_count"),
                        .what = "Adam swaps four buffers per sub-group",
                        .instead = "4 or more",
                        .edits = {set_key(in_offload("buffer_count"), "4")}});
}

void check_bucket_alignment(LintContext& context, const Rule& rule) {
  const char* path = "zero_optimization.allgather_bucket_size";
  const auto size = context.integer(path);
  const LintSettings& s = context.settings();
  if (!size || *size % 2 == 0 || (s.stage != 1 && s.stage != 2)) return;
  context.report(rule, {.path = path,
                        .what = "odd: AssertionError (must be a multiple of 2)",
                        .instead = std::to_string(*size + 1),
                        .edits = {set_key(path, std::to_string(*size + 1))}});
}

void check_max_grad_norm(LintContext& context, const Rule& rule) {
  const char* path = "optimizer.params.max_grad_norm";
  const Node* node = context.find(path);
  const Node* type = context.find("optimizer.type");
  if (node == nullptr || type == nullptr || type->kind == Node::Kind::kNull) return;
  // The configuration classes compare it with 0; the engine then refuses any value.
  const bool comparable = is_number(*node) || is_boolean(*node);
  context.report(rule,
                 {.path = path,
                  .what = comparable ? "ValueError: not a parameter of an optimizer"
                                     : "TypeError: not a number, and no optimizer's parameter",
                  .instead = "gradient_clipping at the top",
                  .edits = {erase_key(path)},
                  .rejected_by = comparable ? RejectedBy::kEngine : RejectedBy::kConfig});
}

void check_both_precisions(LintContext& context, const Rule& rule) {
  if (!context.settings().bf16 || !context.settings().fp16) return;
  context.report(rule, {.path = "fp16.enabled",
                        .what = "AssertionError: bf16 and fp16 cannot both be enabled",
                        .instead = "one of the two",
                        .edits = {set_key("fp16.enabled", "false")}});
}

void check_no_precision(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (s.bf16 || s.fp16 || !offloads(context) || !context.plain()) return;
  if (context.set("torch_autocast") != nullptr) return;
  context.report(rule, {.path = "bf16",
                        .what = "neither bf16 nor fp16: gradients and parameters cross PCIe in "
                                "fp32, twice the bytes",
                        .instead = R"("bf16": {"enabled": true})"});
}

void check_two_bf16_blocks(LintContext& context, const Rule& rule) {
  if (context.set("bf16") == nullptr || context.set("bfloat16") == nullptr) return;
  context.report(rule, {.path = "bfloat16",
                        .what = "bf16 is there too, so this block is not read",
                        .instead = "one block, bf16",
                        .edits = {erase_key("bfloat16")}});
}

/// 16-bit master weights are for DeepSpeedCPUAdam alone.
void check_master_optimizer(LintContext& context, const Rule& rule, const std::string& path) {
  const LintSettings& s = context.settings();
  const bool offloaded = offloads(context);
  if (s.zenflow || (offloaded && (s.optimizer.empty() || makes_deepspeed_adam(s)))) return;
  context.report(rule, {.path = path,
                        .what = offloaded ? "AssertionError: needs DeepSpeed's CPU Adam"
                                          : "AssertionError: needs an offloaded optimizer",
                        .instead = "false, or offload_optimizer with Adam or AdamW",
                        .edits = {set_key(path, "false")},
                        .rejected_by = RejectedBy::kEngine,
                        .reference = "deepspeed/runtime/base_optimizer.py "
                                     "_configure_master_weights; zero/stage_1_and_2.py"});
}

void check_master_stage(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  const bool new_rule = has_change(context.options().version, Change::kEngineRunsBackward);
  const bool wrong = new_rule ? s.stage == 0 : s.stage != 2;
  const std::string block = context.set("bf16") != nullptr ? "bf16" : "bfloat16";
  const std::string bf16_master = block + ".bf16_master_weights_and_grads";
  const bool strict = context.has(Change::kStrictPrecision);
  for (const std::string& path : {std::string("fp16.fp16_master_weights_and_grads"), bf16_master}) {
    if (!context.precision_flag(path)) continue;
    // The older readers know no such key of bf16, and look at fp16's only where it is enabled.
    if (!strict && (path == bf16_master || !s.fp16)) continue;
    if (!wrong) {
      // bf16 states may stay on the GPU with their master weights.
      const bool on_gpu = path == bf16_master &&
                          (!new_rule || (!offloads(context) &&
                                         context.flag(block + ".bf16_optimizer_states", false)));
      if (!on_gpu) check_master_optimizer(context, rule, path);
      continue;
    }
    context.report(rule, {.path = path,
                          .what = new_rule ? "AssertionError: needs ZeRO"
                                           : "AssertionError: stage 2 only before 0.18.3",
                          .instead = "false",
                          .edits = {set_key(path, "false")}});
  }
  const std::string states = block + ".bf16_optimizer_states";
  if (!strict || !context.flag(states, false) || (context.flag(bf16_master, false) && !wrong))
    return;
  context.report(rule, {.path = states,
                        .what = "AssertionError: requires ZeRO and bf16_master_weights_and_grads",
                        .instead = "false",
                        .edits = {set_key(states, "false")}});
}

void check_loss_scale(LintContext& context, const Rule& rule) {
  if (!context.has(Change::kNativeWorker) || !context.settings().fp16) return;
  if (context.number("fp16.loss_scale").value_or(0) != 0) return;
  for (const char* path : {"fp16.loss_scale_window", "fp16.min_loss_scale"}) {
    const auto value = context.integer(path);
    if (!value || *value > 0) continue;
    context.report(rule, {.path = path,
                          .what = "ValueError: must be > 0 with dynamic loss scaling",
                          .instead = "1 or more"});
  }
}

void check_core_split(LintContext& context, const Rule& rule) {
  const char* path = "zero_optimization.zenflow.pt_reserved_cores_perc";
  const LintSettings& s = context.settings();
  if (!s.zenflow || !s.overlap_step) return;
  const double share = context.number(path).value_or(0.5);
  const LintOptions& options = context.options();
  std::string found;
  if (share <= 0 || share >= 1) found = fmt::format("{}", share);
  if (options.cores_per_node && options.gpus_per_node) {
    const std::int64_t cores = *options.cores_per_node / *options.gpus_per_node;
    const auto kept = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(cores)));
    if (kept <= 0 || kept >= cores) {
      found = fmt::format("{} of {} cores per rank", share, cores);
    }
  }
  if (found.empty()) return;
  context.report(rule,
                 {.path = path,
                  .what = found + " leaves one side no cores, so training and the optimizer's "
                                  "worker share all of them",
                  .instead = "a share that leaves both at least one core, e.g. 0.25"});
}

/// Whether more than one rank of a node shares its cores, as far as the options say.
bool shares_cores(const LintOptions& options) {
  return options.gpus_per_node.value_or(options.world_size.value_or(2)) > 1;
}

/// torchrun, which accelerate launch and most who run Trainer use, sets one thread for each of
/// several processes; empty: OMP_NUM_THREADS is not set.
std::optional<std::int64_t> omp_threads(const LintContext& context) {
  const LintOptions& options = context.options();
  if (options.omp_num_threads || options.bind_cores_to_rank) return options.omp_num_threads;
  if (context.plain() || !shares_cores(options)) return std::nullopt;
  return 1;
}

void check_oversubscription(LintContext& context, const Rule& rule) {
  const LintOptions& options = context.options();
  if (!offloads(context) || context.settings().stage == 0) return;
  if (!options.cores_per_node || !options.gpus_per_node || *options.gpus_per_node < 2) return;
  const std::int64_t cores = *options.cores_per_node;
  const std::int64_t ranks = *options.gpus_per_node;
  std::int64_t threads = omp_threads(context).value_or(cores);
  if (options.bind_cores_to_rank) threads = std::max<std::int64_t>(cores / ranks, 1);
  if (threads > cores / ranks || cores < ranks) {
    context.report(rule,
                   {.path = in_offload("device"),
                    .what = fmt::format("{} ranks with {} optimizer threads each on {} cores: "
                                        "the CPU updates slow each other down",
                                        ranks, threads, cores),
                    .instead = fmt::format("deepspeed --bind_cores_to_rank, or "
                                           "OMP_NUM_THREADS={}",
                                           std::max<std::int64_t>(cores / ranks, 1))});
  }
}

/// ZenFlow's and SuperOffload's workers take their cores themselves.
void check_one_thread(LintContext& context, const Rule& rule) {
  const LintOptions& options = context.options();
  const LintSettings& s = context.settings();
  if (!offloads(context) || s.stage == 0 || (s.zenflow && s.overlap_step) || s.super_offload) {
    return;
  }
  if (omp_threads(context) != 1) return;
  const bool known = options.cores_per_node && options.gpus_per_node;
  const std::int64_t cores = known ? *options.cores_per_node / *options.gpus_per_node : 0;
  if (known && cores < 2) return;
  const char* who = options.omp_num_threads
                        ? "OMP_NUM_THREADS is 1"
                        : "torchrun and accelerate launch set OMP_NUM_THREADS=1 "
                          "for more than one process";
  context.report(
      rule, {.path = in_offload("device"),
             .what = fmt::format("one optimizer thread: {}, and the CPU update runs on "
                                 "one core of each rank",
                                 who),
             .instead = known ? fmt::format("set OMP_NUM_THREADS={}", cores)
                              : "set OMP_NUM_THREADS to the cores of a rank",
             .severity = known || options.omp_num_threads ? Severity::kWarning : Severity::kNote});
}

void check_muon(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  const char* path = "zero_optimization.reduce_scatter";
  if (s.optimizer != "muon") return;
  if (!context.has(Change::kMuon)) {
    context.report(rule,
                   {.path = "optimizer.type",
                    .what = fmt::format("Muon is in DeepSpeed from 0.17.6: {} does not know it",
                                        to_string(context.options().version)),
                    .instead = "\"AdamW\", or a newer DeepSpeed"});
    return;
  }
  if (s.stage != 3 || !context.flag(path, true)) return;
  context.report(rule, {.path = path,
                        .what = "ValueError: stage 3 refuses Muon with reduce_scatter, which is on "
                                "by default",
                        .instead = "false",
                        .edits = {set_key(path, "false")}});
}

void note_binding(LintContext& context, const Rule& rule) {
  const LintOptions& options = context.options();
  if (!offloads(context) || options.bind_cores_to_rank || options.cores_per_node) return;
  context.report(rule, {.path = in_offload("device"),
                        .what = "unbound ranks compete for cores (3084 ms a step against 2383 ms "
                                "bound, Qwen2.5-3B on two A100)",
                        .instead = "deepspeed --bind_cores_to_rank"});
}

void note_all_reduce(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (s.stage != 1 && s.stage != 2) return;
  if (!context.flag("zero_optimization.use_multi_rank_bucket_allreduce", true)) return;
  context.report(rule, {.path = "zero_optimization.use_multi_rank_bucket_allreduce",
                        .what = "on by default: gradients are all-reduced bucket by bucket, twice "
                                "the bytes of a reduce-scatter",
                        .instead = "nothing; zenflow-sim counts it"});
}

void check_torch(LintContext& context, const Rule& rule) {
  constexpr TorchVersion kOldest{2, 1};
  const auto& torch = context.options().torch_version;
  if (!context.settings().zenflow || (torch && *torch >= kOldest)) return;
  const std::string found = torch
                                ? fmt::format(", not {}.{}: ValueError", torch->major, torch->minor)
                                : ", else ValueError; which one runs it is not in the file";
  context.report(rule, {.path = "zero_optimization.zenflow",
                        .what = "ZenFlow needs PyTorch 2.1 or newer" + found,
                        .instead = "a newer PyTorch, or no zenflow block",
                        .severity = torch ? Severity::kError : Severity::kNote,
                        .rejected_by = RejectedBy::kEngine});
}

constexpr Rule kRules[] = {
    {"ZF060", Severity::kError, RejectedBy::kConfig, "partial offload below stage 3",
     "deepspeed/runtime/zero/config.py offload_ratio_check", check_ratio_stage},
    {"ZF061", Severity::kWarning, RejectedBy::kNobody,
     "partial offload that moves little or nothing", "DeepSpeed #4775", check_ratio_granularity},
    {"ZF062", Severity::kWarning, RejectedBy::kNobody, "SuperOffload where it is ignored",
     "deepspeed/runtime/engine.py _configure_zero_optimizer", check_super_offload_stage},
    {"ZF063", Severity::kWarning, RejectedBy::kNobody, "SuperOffload made synchronous by clipping",
     "deepspeed/runtime/superoffload/superoffload_stage3.py", check_super_offload_clipping},
    {"ZF064", Severity::kError, RejectedBy::kEngine, "NVMe without a path",
     "deepspeed/runtime/zero/stage3.py _configure_tensor_swapping", check_nvme_path},
    {"ZF065", Severity::kWarning, RejectedBy::kNobody, "NVMe offload below stage 3",
     "deepspeed/runtime/zero/stage_1_and_2.py __init__", check_nvme_stage},
    {"ZF066", Severity::kWarning, RejectedBy::kNobody, "parameter offload below stage 3",
     "deepspeed/runtime/zero/offload_config.py", check_parameter_offload},
    {"ZF067", Severity::kWarning, RejectedBy::kNobody, "offload without ZeRO",
     "deepspeed/runtime/engine.py zero_use_cpu_optimizer; ops/adam/cpu_adam.py step",
     check_offload_stage},
    {"ZF068", Severity::kWarning, RejectedBy::kNobody, "pageable offload copies",
     "DeepSpeed #8207, #7689", check_pinned},
    {"ZF069", Severity::kWarning, RejectedBy::kNobody, "copies that wait for backward",
     "deepspeed/runtime/zero/stage_1_and_2.py reduce_ipg_grads; DeepSpeed #4599",
     check_overlap_comm},
    {"ZF070", Severity::kWarning, RejectedBy::kNobody, "too few NVMe buffers",
     "deepspeed/runtime/zero/offload_config.py buffer_count", check_buffer_count},
    {"ZF071", Severity::kError, RejectedBy::kEngine, "odd allgather bucket",
     "deepspeed/runtime/zero/stage_1_and_2.py __init__", check_bucket_alignment},
    {"ZF072", Severity::kError, RejectedBy::kEngine, "max_grad_norm among optimizer parameters",
     "deepspeed/runtime/engine.py _configure_basic_optimizer", check_max_grad_norm},
    {"ZF073", Severity::kError, RejectedBy::kConfig, "bf16 and fp16 together",
     "deepspeed/runtime/config.py _initialize_params", check_both_precisions},
    {"ZF074", Severity::kWarning, RejectedBy::kNobody, "offload in fp32",
     "deepspeed/runtime/engine.py get_data_types", check_no_precision},
    {"ZF075", Severity::kWarning, RejectedBy::kNobody, "bf16 and bfloat16 blocks",
     "deepspeed/runtime/precision_config.py get_bfloat16_config", check_two_bf16_blocks},
    {"ZF076", Severity::kError, RejectedBy::kConfig, "16-bit master weights or states misplaced",
     "deepspeed/runtime/config.py _do_error_check", check_master_stage},
    {"ZF077", Severity::kError, RejectedBy::kConfig, "dynamic loss scale that cannot work",
     "deepspeed/runtime/precision_config.py", check_loss_scale},
    {"ZF078", Severity::kWarning, RejectedBy::kNobody, "core split that splits nothing",
     "deepspeed/runtime/zenflow/zenflow_utils.py _split_affinity; DeepSpeed #7478",
     check_core_split},
    {"ZF079", Severity::kWarning, RejectedBy::kNobody, "cores oversubscribed",
     "DeepSpeed #4687, #6629, #7474; DeepSpeedExamples #151", check_oversubscription},
    {"ZF080", Severity::kNote, RejectedBy::kNobody, "ranks not bound to cores",
     "DeepSpeed #7474, #7506", note_binding},
    {"ZF081", Severity::kNote, RejectedBy::kNobody, "gradients are all-reduced",
     "deepspeed/runtime/zero/stage_1_and_2.py average_tensor", note_all_reduce},
    {"ZF082", Severity::kError, RejectedBy::kEngine, "PyTorch too old for ZenFlow",
     "deepspeed/runtime/zenflow/engine.py configure_zenflow", check_torch},
    {"ZF083", Severity::kError, RejectedBy::kEngine, "Muon where it is refused",
     "deepspeed/runtime/engine.py _configure_basic_optimizer; zero/stage3.py __init__", check_muon},
    {"ZF084", Severity::kWarning, RejectedBy::kNobody, "one optimizer thread",
     "torch/distributed/run.py config_from_args", check_one_thread},
};

}  // namespace

std::span<const Rule> offload_rules() {
  return kRules;
}

}  // namespace zenflow::sim
