/// Whether a GPU is usable here, and if not, why and what to do.
#pragma once

#include <optional>
#include <string>

namespace zenflow::runtime {

/// What the CUDA runtime and the driver say, as they say it.
struct DriverAnswer {
  int built_with = 0;   ///< CUDART_VERSION of this build: 13000; 0: built without CUDA
  int status = 0;       ///< of cudaGetDeviceCount; not asked if built without CUDA
  std::string error{};  ///< CUDA's name for `status`
  int devices = 0;      ///< 0 unless `status` is 0
  int supports = 0;  ///< cudaDriverGetVersion: the newest CUDA that the driver runs; 0: no driver
  std::optional<std::string> release{};  ///< "535.104.05", of the kernel module or NVML
};

enum class DriverState {
  kUsable,
  kNotBuilt,  ///< this build has no CUDA in it
  kNoDriver,  ///< no libcuda: no driver, or a container without its libraries
  kTooOld,    ///< cudaErrorInsufficientDriver with a driver
  kStub,      ///< cudaErrorStubLibrary: the libcuda that is for linking, not for running
  kNoDevice,  ///< a driver without a GPU
  kFailed,    ///< anything else
};

struct DriverVerdict {
  DriverState state;
  std::string found;     ///< "driver 535.104.05 (CUDA up to 12.2)"
  std::string expected;  ///< "driver 580 or newer, for CUDA 13.0"
  std::string advice;    ///< empty if usable
};

[[nodiscard]] DriverVerdict judge_driver(const DriverAnswer& answer);

/// The oldest driver branch that runs programs built with this CUDA: 580 for CUDA 13, 525 for
/// CUDA 12, 450 for CUDA 11. Source: NVIDIA, CUDA Compatibility, "minor version compatibility".
/// 0 if CUDA's major version is another.
[[nodiscard]] int required_driver(int cuda_version);

/// "13.0" of 13000.
[[nodiscard]] std::string cuda_version_text(int cuda_version);

/// Asks the CUDA runtime and /proc/driver/nvidia/version. Never throws because of what it finds.
[[nodiscard]] DriverAnswer ask_driver();

/// Throws Error(kDevice), `what` first, unless a GPU is usable: what was found, what is required
/// and what to do.
void require_gpu(const DriverAnswer& answer, const std::string& what);

/// Throws Error(kInput), `flag` first, unless there is a GPU of that number: they count from 0.
/// Precondition: a GPU is usable.
void require_gpu_number(const DriverAnswer& answer, int number, const std::string& flag);

/// The release that /proc/driver/nvidia/version names: the first word of digits and dots that
/// follows "Kernel Module"; nothing if there is none.
[[nodiscard]] std::optional<std::string> driver_release(const std::string& proc_version);

}  // namespace zenflow::runtime
