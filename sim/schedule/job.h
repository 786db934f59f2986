/// A scenario with its DeepSpeed configuration read and checked: what schedules build from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/config/scenario.h"
#include "sim/deepspeed/ds_config.h"
#include "sim/deepspeed/launch_target.h"
#include "sim/deepspeed/versions.h"

namespace zenflow::sim {

struct Job {
  Scenario scenario;
  DeepSpeedConfig deepspeed;
  Version version = newest_version();  ///< of DeepSpeed
  LaunchTarget target = LaunchTarget::kDeepSpeed;
  /// What was taken for something that the files leave open, or only in part; one sentence each.
  std::vector<std::string> assumptions;

  /// Whether the job's DeepSpeed release has the change.
  [[nodiscard]] bool has(Change change) const { return has_change(version, change); }

  [[nodiscard]] double partition() const {  ///< trained parameters of one rank, P / N
    return static_cast<double>(scenario.model.trained()) / static_cast<double>(scenario.ranks());
  }
};

/// What every result of the job has to say besides its figures: its assumptions, and the keys of
/// its DeepSpeed file that are not modelled. One sentence each, with the file's name.
/// `of_deepspeed`: false of a run that does not see DeepSpeed's file, of which nothing is said
/// then.
[[nodiscard]] std::vector<std::string> job_notes(const Job& job, bool of_deepspeed = true);

/// Threads of the training processes' CPU work: the optimizer of the deepspeed-* schedules that
/// does not have a process of its own, and the passes around it.
struct RankThreads {
  std::int64_t of_rank = 1;  ///< what OpenMP starts in each rank
  double cores = 1;          ///< of the node that are at work: at most all, whatever is started
  std::string why;           ///< "OMP_NUM_THREADS=8"; "torchrun's default of one"
};
/// `launch.omp_num_threads`, or what the launcher does without it. torchrun, and with it accelerate
/// launch and LLaMA-Factory, sets OMP_NUM_THREADS=1 for more than one process a node. The deepspeed
/// launcher sets nothing, so that each rank starts a thread on every core, or binds ranks to equal
/// parts of the cores. Source: torch/distributed/run.py, deepspeed/launcher/launch.py,
/// utils/numa.py.
[[nodiscard]] RankThreads rank_threads(const Job& job);
/// OMP_NUM_THREADS for a job whose threads leave cores idle: an equal part of them for each rank.
/// Empty: they do not.
[[nodiscard]] std::optional<std::int64_t> advised_threads(const Job& job);

/// Whether reductions of gradients run beside backward: overlap_comm, which stage 1 ignored before
/// kStage1Overlaps, and BF16_Optimizer ignores.
[[nodiscard]] bool overlaps_communication(const Job& job);
/// Whether BF16_Optimizer runs a job without offloading, which sums every gradient in fp32 on each
/// rank: bf16 in stage 1 with grad_accum_dtype fp32, and before kBf16WithoutZero without ZeRO.
/// Source: deepspeed/runtime/engine.py (_do_optimizer_sanity_check), runtime/bf16_optimizer.py.
[[nodiscard]] bool runs_bf16_optimizer(const Job& job);
/// Whether weights are fp32 and PyTorch casts them for every product: torch_autocast without ZeRO,
/// which is as plain PyTorch trains, too. With ZeRO it is not modelled.
[[nodiscard]] bool casts_weights(const Job& job);
/// Parameters of which a rank's GPU runs the optimizer where it is not offloaded: all without ZeRO,
/// unless BF16_Optimizer divides them.
[[nodiscard]] double updated_on_gpu(const Job& job);
/// Whether stages 1 and 2 send updated weights up as fp32, to be cast on the GPU: between
/// kFp32Upload and kBufferedUpload.
[[nodiscard]] bool sends_fp32_weights(const Job& job);

/// Bytes a parameter of the job's optimizer on the CPU.
[[nodiscard]] OptimizerBytes optimizer_bytes(const Job& job);
/// Whether micro steps add up in an fp32 buffer of the partition on the GPU and go down once, at
/// the boundary: grad_accum_dtype fp32, stages 1 and 2, from kFp32SumsOnGpu on, not for Muon.
[[nodiscard]] bool sums_on_gpu(const Job& job);

/// Fills in what `config`, read from `document`, leaves open: the release's defaults, what the
/// launcher puts in the place of "auto", and gradient_accumulation_steps where the batch sizes say
/// them. `job`: its release, launcher and model.
void complete_config(const Node& document, const Job& job, std::int64_t ranks,
                     DeepSpeedConfig& config);

/// Reads the scenario's DeepSpeed document, completes it and checks it against the scenario.
/// Throws Error(kInput), located, if micro-batch, precision or batch equation contradict,
/// or for an unknown release or launcher.
[[nodiscard]] Job make_job(Scenario scenario);

}  // namespace zenflow::sim
