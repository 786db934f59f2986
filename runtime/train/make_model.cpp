#include "runtime/train/make_model.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/cuda_model.h"
#include "runtime/machine/system_files.h"
#include "runtime/train/host_model.h"
#include "runtime/train/memory_plan.h"

namespace zenflow::runtime {
namespace {

void require_host_memory(const std::string& name, const std::vector<PlannedMemory>& parts) {
  const HostMemory there = host_memory();
  require_memory(fmt::format("{}: {}", name,
                             there.is_of_control_group ? "the memory of this control group"
                                                       : "this machine's memory"),
                 parts, there.free, there.bytes);
}

TransformerSettings settings_of(const TrainOptions& options) {
  const sim::TrainingSettings& training = options.training;
  return {.max_sequences = training.micro_batch_size_per_gpu,
          .max_length = training.sequence_length,
          .type = element_type(training.dtype),
          .checkpoints_activations = training.activation_checkpointing};
}

/// Held in vectors while the engine takes them in.
PlannedMemory initial_weights_of(const sim::ModelSpec& model) {
  return {"initial weights, fp32, while they are loaded",
          sizeof(float) * static_cast<std::uint64_t>(model.parameters())};
}

/// A host device's memory is the machine's. The engine's part of it is also limited by
/// --device-memory, whose books may refuse a little more: every tensor begins at an address of its
/// own.
std::unique_ptr<TrainingModel> on_host(const TransformerConfig& config, const TrainOptions& options,
                                       MemoryPlan plan) {
  // The plan is of one rank alone, which needs most.
  if (const auto& limit = options.device.memory; limit && options.ranks() == 1) {
    std::vector<PlannedMemory> counted = plan.device;
    std::erase_if(counted, is_of_the_model);
    const auto bytes = static_cast<std::uint64_t>(limit->value());
    require_memory(config.model.name + ": --device-memory", counted, bytes, bytes);
  }
  std::vector<PlannedMemory> parts = std::move(plan.device);
  parts.insert(parts.end(), plan.host.begin(), plan.host.end());
  parts.push_back(initial_weights_of(config.model));
  require_host_memory(config.model.name, parts);
  return std::make_unique<HostModel>(
      HostTransformer(config, settings_of(options), static_cast<std::size_t>(options.threads)));
}

std::unique_ptr<TrainingModel> on_gpu(const TransformerConfig& config, const TrainOptions& options,
                                      MemoryPlan plan, Device& device) {
  const CudaMemoryFacts memory = cuda_memory(options.cuda->ordinal);
  std::uint64_t free = memory.free;
  if (options.cuda->memory) {
    free = std::min(free, static_cast<std::uint64_t>(options.cuda->memory->value()));
  }
  require_memory(fmt::format("{}: memory of {}", config.model.name, device.name()), plan.device,
                 free, memory.total);
  plan.host.push_back(initial_weights_of(config.model));
  require_host_memory(config.model.name, plan.host);
  return make_cuda_model(config, settings_of(options), options.cuda->libraries, device);
}

}  // namespace

ElementType element_type(sim::DType dtype) {
  return dtype == sim::DType::kFp32 ? ElementType::kFloat32 : ElementType::kBfloat16;
}

HostMemory host_memory(const std::filesystem::path& root) {
  const std::uint64_t machine = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                                static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const ControlGroupLimits group = control_group_limits(root);
  const bool is_of_control_group = group.memory && *group.memory < machine;
  const std::uint64_t bytes = is_of_control_group ? *group.memory : machine;
  std::uint64_t free = bytes;
  const auto available = meminfo_bytes(text_of(root / "proc/meminfo"), "MemAvailable");
  for (const auto& left : {available, group.memory_left})
    free = std::min(free, left.value_or(free));
  return {bytes, free, is_of_control_group};
}

std::unique_ptr<Device> make_training_device(const TrainOptions& options, Recorder& recorder,
                                             LaunchLog* launches,
                                             const std::function<bool()>& stop) {
  if (options.cuda) {
    CudaDeviceSettings gpu = *options.cuda;
    gpu.launches = launches;
    return make_cuda_device(gpu, recorder);
  }
  HostDeviceSettings settings = options.device;
  settings.link_released = stop;
  return std::make_unique<HostDevice>(std::move(settings), recorder);
}

std::unique_ptr<TrainingModel> make_training_model(const TransformerConfig& config,
                                                   const TrainOptions& options,
                                                   const MemoryPlan& plan, Device& device) {
  return options.cuda ? on_gpu(config, options, plan, device) : on_host(config, options, plan);
}

}  // namespace zenflow::runtime
