/// The few functions of NVML that are used. NVML's header is not part of the CUDA toolkit
/// everywhere and its interface is stable, so they are declared here.
/// Source: nvml.h of NVIDIA's Python package nvidia-nvml-dev 13.5.37.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/gpu/dynamic_library.h"

namespace zenflow::runtime {

/// A GPU as NVML lists it, whatever CUDA_VISIBLE_DEVICES says. Links as they are at this moment: an
/// idle GPU may have lowered its link's generation.
struct NvmlGpu {
  std::string name{};
  std::string bus_id;  ///< "0000:3b:00.0"
  std::optional<unsigned> link_generation{};
  std::optional<unsigned> link_generation_max{};
  std::optional<unsigned> link_width{};
  std::optional<unsigned> link_width_max{};
};

/// NVML, initialised; shut down with its owner.
class Nvml {
 public:
  /// Throws Error(kDevice) if the library is missing or does not start (no driver).
  explicit Nvml(const LibraryFolders& folders);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] std::string driver_release() const;
  [[nodiscard]] std::vector<NvmlGpu> gpus() const;
  [[nodiscard]] const std::filesystem::path& path() const { return library_.path(); }

 private:
  void check(int status, const char* call) const;

  DynamicLibrary library_;
};

}  // namespace zenflow::runtime
