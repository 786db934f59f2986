/// The optimizers that a DeepSpeed file can name: what they keep for each parameter, and the memory
/// traffic of their update on the CPU.
///
///   optimizer     states   CPU traffic, fp32       as
///   Adam, AdamW   m, v     28 = 3 x 4 + 4 x 4      one pass: reads p, g, m, v; writes p, m, v
///   Adagrad       v        20 = 3 x 4 + 2 x 4      one pass
///   Lion          m, v     20 = 3 x 4 + 2 x 4      one pass; v is allocated, and never touched
///   SGD           none     12 = 3 x 4              p += g
///   SGD, momentum m        32                      m *= c; m += g; p += m, one pass each
///   Muon          m        20                      of matrices: p *= c; p += u. Others as AdamW
///
/// With 16-bit master weights p and g have 2 bytes, and the states too if they are 16-bit: Adam
/// moves 14 bytes then.
/// Source: deepspeed/ops/{adam/cpu_adam,adagrad/cpu_adagrad,lion/cpu_lion}.py and their kernels,
/// runtime/zero/muon/muon_optimizer.py, torch/optim/sgd.py; traffic counted from the arrays
/// touched. Without: Muon's orthogonalisation, which runs on the GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace zenflow::sim {

enum class Optimizer : std::uint8_t { kAdam, kAdagrad, kLion, kSgd, kMuon };

/// By its name in optimizer.type, whatever its case. Empty: none of those that are modelled.
[[nodiscard]] std::optional<Optimizer> find_optimizer(std::string_view type);

/// What the file says of the optimizer.
struct OptimizerSettings {
  Optimizer kind = Optimizer::kAdam;
  bool has_momentum = false;   ///< SGD's
  bool narrow_master = false;  ///< {bf16,fp16}_master_weights_and_grads
  bool narrow_states = false;  ///< bf16_optimizer_states, or fp32_optimizer_states false
};

/// Bytes of each parameter that the CPU updates.
struct OptimizerBytes {
  double master = 4;
  double gradient = 4;  ///< as the update reads it
  double states = 8;
  double traffic = 28;  ///< of memory, in one update
};
/// `in_matrices`: the share of parameters that Muon takes, those of matrices in blocks.
[[nodiscard]] OptimizerBytes optimizer_bytes(const OptimizerSettings& settings, double in_matrices);

}  // namespace zenflow::sim
