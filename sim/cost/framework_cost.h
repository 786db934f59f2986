/// Host time of PyTorch in eager mode and of DeepSpeed's Python, for which a fast GPU waits.
///
/// Measured with one H200 and 16 cores of a Xeon (Emerald Rapids), PyTorch 2.11, transformers 5.17,
/// DeepSpeed 0.19.8, one rank, 2026-11-26 (docs/accuracy/h200): Qwen2.5-0.5B, 24 blocks, 290
/// gradients, 218 modules with parameters. Where not said, what is left of a phase when the terms
/// above are taken off:
///
///   a kernel                     forward of 512 tokens takes 20 ms for the 951 kernels that its
///                                trace has: 21 us. Backward under stage 2 comes out with the same
///   ZeRO-1 to 3, a gradient      stage 2 without offloading: backward takes 58 ms, of which the
///                                trace has a third in the hooks that fill the bucket, and 5 ms
///                                of copies from it
///   a gradient that goes down    stages 1 and 2: backward takes 85 ms more when the optimizer is
///                                offloaded, of which 36 are the copies that each waits for, and 3
///                                its norm, check and cast on the GPU (deepspeed_step.cpp); 26
///                                calls
///   ZenFlow, a gradient          stages 1 and 2: micro steps without an update take 139 to 180 ms,
///                                45 more than the terms above: selected columns are cut out,
///                                copied and broadcast, 17 calls
///   its running sum              not measured: up, added to and down again are 8 calls of those 26
///   ZeRO-3, a module             forward takes 166 and 130 ms (parameters on the GPU, in RAM),
///                                backward 142 to 185 and 221 to 252 ms
///   step, a tensor               stages 1 and 2: 42 ms. The optimizer offloaded: 25 ms of norms
///                                and of cutting tensors out, in its trace. Stage 3: 32 ms. Stage 0
///                                has no hooks; its all-reduce flattens gradients and cuts them out
///                                again, which is taken to cost as much
///
/// The same on the CPU accelerator (one core of a Zen 4, tests/interop/steps.py's machine) takes
/// 13.7 us a kernel, 0.09 ms a gradient's hook, 0.18 and 0.14 ms a module, 0.1 ms a tensor: CUDA's
/// calls, streams and events are missing there. The published forward passes of 0.2 s under ZeRO-3
/// for 32 blocks (Deep Optimizer States' log) and of 0.51 s for 64 (MLP-Offload's) are 0.7 and 0.9
/// ms a module with the kernels that it contains.
#pragma once

#include "sim/base/units.h"

namespace zenflow::sim {

inline constexpr Seconds kKernelDispatch(21e-6);
inline constexpr Seconds kModuleHooksForward(0.58e-3);
inline constexpr Seconds kModuleHooksBackward(0.42e-3);
inline constexpr Seconds kGradientHook(0.085e-3);
inline constexpr Seconds kGradientDown(0.16e-3);
inline constexpr Seconds kGradientSelected(0.16e-3);
inline constexpr Seconds kGradientSum(8.0 / 26 * kGradientDown.value());
inline constexpr Seconds kStepOfTensor(0.15e-3);
inline constexpr Seconds kStepOfOffloadedTensor(0.08e-3);
inline constexpr Seconds kStepOfShard(0.1e-3);  ///< stage 3

}  // namespace zenflow::sim
