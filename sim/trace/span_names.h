/// What the names of GPU work say: direction and memories of copies, which kernels communicate or
/// multiply.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace zenflow::sim {

enum class CopyDirection : std::uint8_t { kH2D, kD2H, kD2D, kH2H, kPeer, kUnknown };
inline constexpr std::size_t kCopyDirections = 6;
enum class MemoryKind : std::uint8_t { kPinned, kPageable, kDevice, kManaged, kHost, kUnknown };
/// As CUPTI and Kineto write it: "HtoD".
[[nodiscard]] std::string to_string(CopyDirection direction);
[[nodiscard]] std::string to_string(MemoryKind kind);

struct CopyName {
  CopyDirection direction = CopyDirection::kUnknown;
  MemoryKind from = MemoryKind::kUnknown;
  MemoryKind to = MemoryKind::kUnknown;

  friend auto operator<=>(const CopyName&, const CopyName&) = default;
};

/// "Memcpy HtoD (Pinned -> Device)" (CUDA), "Memcpy DtoH (Device -> Host)" (ROCm, which does not
/// say whether host memory is pinned), "Memcpy M2D (Memory -> Device)" (XPU), and the like.
[[nodiscard]] CopyName copy_name(std::string_view name);

/// How our schedules, and zenflow-train between its ranks, call collectives.
inline constexpr std::array<std::string_view, 6> kOwnCollectives = {
    "all_gather", "reduce_scatter",   "all_reduce",
    "broadcast",  "reduce gradients", "gather weights"};
/// What kernels that communicate have in their names, in small letters: those of libraries, and
/// those that programs bring along.
inline constexpr std::array<std::string_view, 17> kCollectiveWords = {
    "nccl",
    "rccl",
    "oneccl",
    "msccl",
    "hccl_",
    "xccl",  // of NVIDIA, AMD, Intel, Microsoft, others
    "nvshmem",
    "ringkernel",
    "deep_ep",   // DeepEP's dispatch and combine of experts
    "multimem",  // PyTorch's symmetric memory, over NVLink's multicast
    "one_shot_all_reduce",
    "two_shot_all_reduce",  // the same, without multicast
    "oneshotallreduce",
    "twoshotallreduce",     // TensorRT-LLM's
    "cross_device_reduce",  // vLLM's and aiter's own all-reduce
    "allreduce_fusion",     // FlashInfer's and aiter's, with what follows
    "quickreduce"};         // AMD's
/// Whether a kernel communicates, by these words, or is one of our schedules' collectives.
[[nodiscard]] bool is_collective(std::string_view kernel);
/// Whether a kernel is a product of matrices or attention, by the names that libraries give:
/// cuBLAS, CUTLASS, rocBLAS; FlashAttention, cuDNN.
[[nodiscard]] bool is_product(std::string_view kernel);
[[nodiscard]] bool is_attention(std::string_view kernel);

}  // namespace zenflow::sim
