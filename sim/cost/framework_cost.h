/// Host time of PyTorch in eager mode and of DeepSpeed's Python, for which a fast GPU waits.
///
/// Measured with PyTorch 2.15, transformers 5.23 and DeepSpeed 0.19.8 on the CPU accelerator, one
/// core of an EPYC (Zen 4, 2.6 GHz) virtual machine, 2026-11-25, CPU time of the training thread on
/// tensors so small that arithmetic does not count; where not said, first quartiles of 30 steps:
///
///   a Llama block, plain PyTorch 0.55 ms forward, 0.69 ms backward, the fastest of 20 steps (16
///                                less 8 blocks); forward has 40 kernels: 13.7 us each. Backward
///                                has 79, fills and sums of gradients among them, of which 54 are
///                                counted: at 13.7 us each they take 0.74 ms
///   ZeRO-3, a module             0.18 ms forward, 0.14 ms backward; 0.21 and 0.16 on two ranks
///   ZeRO-1 to 3, a gradient      0.09 ms in backward: its hook, which fills the bucket
///   step, a tensor               0.1 ms in stages 1 and 2, of those that the rank owns (half of it
///                                on two ranks); 0.05 ms in stage 3
///
/// Assumption: on a GPU all of it takes 1.5 times as long, with CUDA's and NCCL's calls, which a
/// CPU does not make. The published forward passes of 0.2 s under ZeRO-3 for 32 blocks (Deep
/// Optimizer States' log) and of 0.51 s for 64 (MLP-Offload's) are 0.7 and 0.9 ms a module with all
/// that they contain.
#pragma once

#include "sim/base/units.h"

namespace zenflow::sim {

inline constexpr double kWithCuda = 1.5;
inline constexpr Seconds kKernelDispatch(kWithCuda * 13.7e-6);
inline constexpr Seconds kModuleHooksForward(kWithCuda * 0.18e-3);
inline constexpr Seconds kModuleHooksBackward(kWithCuda * 0.14e-3);
inline constexpr Seconds kGradientHook(kWithCuda * 0.09e-3);
inline constexpr Seconds kStepOfTensor(kWithCuda * 0.1e-3);
inline constexpr Seconds kStepOfShard(kWithCuda * 0.05e-3);  ///< stage 3

}  // namespace zenflow::sim
