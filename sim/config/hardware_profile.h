/// What a node can do: every number measured, from a datasheet, or fitted, with its source.
///
/// A profile is a YAML file in profiles/. Each number is written
/// `{value: 25 GB/s, source: "nvbandwidth #53, A100, pinned"}`; a number without a unit
/// or without a source is an error. docs/model.md says which formula uses which number.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/config/document.h"
#include "sim/config/number_reader.h"
#include "sim/offload/training_setup.h"

namespace zenflow::sim {

/// Source: the four rows of llm-foundry on eight A100, whose batches are published; the GPU's part
/// of the ZenFlow blog's steps on four A100, and a step of Qwen2.5-1.5B on two, agree.
inline constexpr double kMultiGpuGemmShare = 0.73;

struct GpuProfile {
  std::string name;
  std::int64_t count = 1;  ///< GPUs in the node
  Bytes memory;
  Bytes context_memory;                  ///< CUDA context, libraries, communicator buffers
  BytesPerSecond memory_bandwidth;       ///< datasheet
  std::map<DType, FlopsPerSecond> peak;  ///< dense matrix peak by element type, datasheet
  double gemm_efficiency = 0;            ///< share of peak that a very large GEMM reaches
  /// Share of a benchmark's rate that products hold where several GPUs train together: collectives
  /// run beside them, and the slowest GPU is waited for. Alone they hold all of it
  /// (docs/accuracy/h200).
  double multi_gpu_gemm_share = kMultiGpuGemmShare;
  Flops gemm_half_size;             ///< FLOPs of a GEMM that reaches half of that; 0: not stated
  double attention_efficiency = 0;  ///< share of peak of the fused attention kernel
  double elementwise_efficiency =
      0;                            ///< share of memory bandwidth of framework element-wise chains
  double streaming_efficiency = 0;  ///< share of memory bandwidth of one fused streaming kernel
  /// Share of memory bandwidth of kernels that pick columns of a matrix; empty: as
  /// streaming_efficiency.
  std::optional<double> column_efficiency;
  Seconds kernel_launch;             ///< device time lost per kernel
  std::int64_t multiprocessors = 0;  ///< 0: not stated
  std::int64_t lanes = 0;            ///< fp32 lanes of a multiprocessor; 0: not stated
  double clock = 0;                  ///< hertz; 0: not stated
  /// Cores of the host that the device computes on: the runtime's host device. 0: a GPU.
  std::int64_t host_cores = 0;

  [[nodiscard]] bool runs_on_host() const { return host_cores > 0; }
  [[nodiscard]] double gemm_share_among(std::int64_t ranks) const {
    return ranks > 1 ? multi_gpu_gemm_share : 1;
  }
  [[nodiscard]] double column_share_of_bandwidth() const {
    return column_efficiency.value_or(streaming_efficiency);
  }
};

struct HostProfile {
  std::string name;
  std::int64_t sockets = 1;
  std::int64_t cores = 1;  ///< physical cores of the node
  Bytes memory;
  Bytes shared_memory;  ///< size of /dev/shm
  /// What a process may lock, `ulimit -l`; infinite for "unlimited", empty if not stated.
  std::optional<Bytes> locked_memory_limit;
  BytesPerSecond dram_bandwidth;  ///< achieved by streaming on all sockets
  BytesPerSecond core_bandwidth;  ///< achieved by one core streaming
  BytesPerSecond adam_bandwidth;  ///< memory traffic of CPU Adam (28 B/parameter), all cores
  /// The same of a process of its own with one bound thread a core and state local to it; empty:
  /// as adam_bandwidth.
  std::optional<BytesPerSecond> worker_adam_bandwidth;
  double adam_half_cores = 0;  ///< cores at which CPU Adam reaches half of its limit
  /// Time that a call of CPU Adam takes besides its traffic: its threads wake up and meet again.
  Seconds adam_launch;
  BytesPerSecond elementwise_bandwidth;  ///< traffic of CPU casts, scaling, accumulation, all cores
  /// Time that the device idles in a step because the training thread, having learnt the
  /// gradient's norm, has to wake up and enqueue. The live schedules read it.
  Seconds step_gap;
  /// Share of the CPU rates that is left when the launcher does not bind ranks to cores. A profile
  /// without it gives its rates for how its ranks run, and binding then makes no difference.
  double unbound_efficiency = 1;
};

/// Capacity of one path between GPUs and host memory.
struct HostPath {
  BytesPerSecond h2d;
  BytesPerSecond d2h;
  BytesPerSecond bidirectional;  ///< both directions together
};

/// GPUs that reach the host through one upstream port.
struct HostSwitch {
  std::vector<std::int64_t> gpus;
  HostPath path;
};

struct HostLinkProfile {
  std::string kind;  ///< "PCIe 4.0 x16"
  HostPath pinned;   ///< of one GPU, page-locked memory
  BytesPerSecond pageable_h2d;
  BytesPerSecond pageable_d2h;
  Seconds latency;  ///< of one copy
  std::vector<HostSwitch> switches;
};

struct GpuLinkProfile {
  std::string kind;          ///< "NVLink 3"
  BytesPerSecond bandwidth;  ///< achieved bus bandwidth per GPU, one direction
  Seconds latency;           ///< per step of a collective
};

struct NvmeProfile {
  BytesPerSecond read;                                              ///< of the node
  BytesPerSecond write;                                             ///< of the node
  Bytes capacity = Bytes(std::numeric_limits<double>::infinity());  ///< infinite: not stated
  Seconds latency;
};

struct NetworkProfile {
  BytesPerSecond bandwidth;  ///< per node, one direction
  Seconds latency;
};

struct HardwareProfile {
  std::string name;
  std::string description;
  GpuProfile gpu;
  HostProfile host;
  HostLinkProfile host_link;
  std::optional<GpuLinkProfile> gpu_link;  ///< required when gpu.count > 1
  std::optional<NvmeProfile> nvme;
  std::optional<NetworkProfile> network;
  std::vector<SourcedNumber> numbers;
};

/// A profile with all its keys: where a file may name a catalogue entry or a node's parts, load it
/// with `load_hardware` (sim/config/scenario.h).
/// Throws Error(kInput), located, for a missing or unknown key, a number without unit or
/// source, a rate <= 0, an efficiency outside (0,1], a switch that names a GPU twice or
/// one that does not exist, an elementwise or Adam bandwidth above dram_bandwidth.
[[nodiscard]] HardwareProfile read_hardware_profile(const Node& root);

}  // namespace zenflow::sim
