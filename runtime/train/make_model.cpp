#include "runtime/train/make_model.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/cuda_model.h"
#include "runtime/train/host_model.h"
#include "runtime/train/memory_plan.h"

namespace zenflow::runtime {
namespace {

void require_host_memory(const std::string& name, std::vector<PlannedMemory> parts) {
  const std::uint64_t there = machine_memory();
  require_memory(name + ": this machine's memory", parts, there, there);
}

/// Held in vectors while the engine takes them in.
PlannedMemory initial_weights_of(const sim::ModelSpec& model) {
  return {"initial weights, fp32, while they are loaded",
          sizeof(float) * static_cast<std::uint64_t>(model.parameters())};
}

/// A host device's memory is the machine's; --device-memory is its own books' to refuse.
std::unique_ptr<TrainingModel> on_host(const TransformerConfig& config,
                                       const TrainOptions& options) {
  MemoryPlan plan = plan_memory(config.model, options);
  std::vector<PlannedMemory> parts = std::move(plan.device);
  parts.insert(parts.end(), plan.host.begin(), plan.host.end());
  parts.push_back(initial_weights_of(config.model));
  parts.push_back({"activations", host_activation_bytes(config.model, options.feed)});
  require_host_memory(config.model.name, std::move(parts));
  return std::make_unique<HostModel>(HostTransformer(
      config, options.feed.sequences, options.feed.length, options.dtype, options.threads));
}

std::unique_ptr<TrainingModel> on_gpu(const TransformerConfig& config, const TrainOptions& options,
                                      Device& device) {
  MemoryPlan plan = plan_memory(config.model, options);
  plan.device.push_back({"activations", cuda_model_bytes(config, options.feed.sequences,
                                                         options.feed.length, options.dtype)});
  const CudaMemoryFacts memory = cuda_memory(options.cuda->ordinal);
  std::uint64_t free = memory.free;
  if (options.cuda->memory) {
    free = std::min(free, static_cast<std::uint64_t>(options.cuda->memory->value()));
  }
  require_memory(fmt::format("{}: memory of {}", config.model.name, device.name()), plan.device,
                 free, memory.total);
  plan.host.push_back(initial_weights_of(config.model));
  require_host_memory(config.model.name, std::move(plan.host));
  return make_cuda_model(config, options.feed.sequences, options.feed.length, options.dtype,
                         options.cuda->libraries, device);
}

}  // namespace

std::uint64_t machine_memory() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::unique_ptr<Device> make_training_device(const TrainOptions& options, Recorder& recorder,
                                             Recorder& stream_times, LaunchLog* launches,
                                             const std::function<bool()>& stop) {
  if (options.cuda) {
    CudaDeviceSettings gpu = *options.cuda;
    gpu.launches = launches;
    return make_cuda_device(gpu, stream_times);
  }
  HostDeviceSettings settings = options.device;
  settings.link_released = stop;
  return std::make_unique<HostDevice>(std::move(settings), recorder);
}

std::unique_ptr<TrainingModel> make_training_model(const TransformerConfig& config,
                                                   const TrainOptions& options, Device& device) {
  return options.cuda ? on_gpu(config, options, device) : on_host(config, options);
}

}  // namespace zenflow::runtime
