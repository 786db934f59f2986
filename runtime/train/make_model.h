/// The device that a run trains on, and the model on it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "runtime/offload/training_model.h"
#include "runtime/train/memory_plan.h"
#include "runtime/train/trainer.h"

namespace zenflow::runtime {

/// Precondition: not fp16, whose gradients would need loss scaling.
[[nodiscard]] ElementType element_type(sim::DType dtype);

/// `recorder` gets the device's streams; `launches`, unless null, what is launched on a GPU. Copies
/// stop waiting for the host device's link once `stop` says so: a step over a slow one takes hours.
/// Throws Error(kDevice) if there is no such GPU.
[[nodiscard]] std::unique_ptr<Device> make_training_device(const TrainOptions& options,
                                                           Recorder& recorder, LaunchLog* launches,
                                                           const std::function<bool()>& stop);

/// Refuses a plan that does not fit: Error(kInfeasible) with numbers. Where memory is promised
/// beyond what there is, allocating would succeed and using it end the process. Throws as
/// HostTransformer and make_cuda_model.
[[nodiscard]] std::unique_ptr<TrainingModel> make_training_model(const TransformerConfig& config,
                                                                 const TrainOptions& options,
                                                                 const MemoryPlan& plan,
                                                                 Device& device);

/// RAM that this process may use: the machine's, or less where a control group (a container, a
/// batch job) limits it. `root` stands for "/".
struct HostMemory {
  std::uint64_t bytes;  ///< free or not
  std::uint64_t free;   ///< what others leave of it and of the machine; file caches count as free
  bool is_of_control_group;
};
[[nodiscard]] HostMemory host_memory(const std::filesystem::path& root = "/");

}  // namespace zenflow::runtime
