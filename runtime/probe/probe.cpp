#include "runtime/probe/probe.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace zenflow::runtime {
namespace {

/// Hidden and intermediate size of the models in scenarios/models.
struct ModelSize {
  const char* name;
  std::int64_t hidden;
  std::int64_t intermediate;
};
constexpr std::array kModels = {
    ModelSize{"opt_125m", 768, 3072},      ModelSize{"llama2_7b", 4096, 11008},
    ModelSize{"gpt2_xl", 1600, 6400},      ModelSize{"llama2_13b", 5120, 13824},
    ModelSize{"llama2_70b", 8192, 28672},  ModelSize{"llama3_8b", 4096, 14336},
    ModelSize{"qwen2_5_1_5b", 1536, 8960}, ModelSize{"qwen2_5_3b", 2048, 11008},
    ModelSize{"qwen2_5_7b", 3584, 18944}};
constexpr std::size_t kQuickModels = 2;
constexpr std::int64_t kTokens = 4096;
constexpr std::int64_t kTokenStep = 16;  // rows of a tile, so that no shape is a ragged one

double flops(const GemmShape& shape) {
  return 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
         static_cast<double>(shape.k);
}

/// As many tokens as fit in `largest`, or none.
std::optional<NamedProduct> layer(const ModelSize& model, const char* part, std::int64_t out,
                                  std::int64_t in, double largest) {
  const double per_token = flops({1, out, in});
  auto tokens = static_cast<std::int64_t>(largest / per_token);
  tokens = std::min(kTokens, tokens / kTokenStep * kTokenStep);
  if (tokens == 0) return std::nullopt;
  return NamedProduct{fmt::format("{}.{}_{}x{}x{}", model.name, part, tokens, out, in),
                      {tokens, out, in}};
}

}  // namespace

std::string size_name(std::size_t bytes) {
  constexpr std::size_t kKiB = 1024;
  if (bytes % (kKiB * kKiB * kKiB) == 0) return fmt::format("{}GiB", bytes / (kKiB * kKiB * kKiB));
  if (bytes % (kKiB * kKiB) == 0) return fmt::format("{}MiB", bytes / (kKiB * kKiB));
  return fmt::format("{}KiB", bytes / kKiB);
}

std::vector<NamedProduct> probe_products(double largest, bool quick) {
  std::vector<NamedProduct> products;
  const std::int64_t step = quick ? 4 : 2;
  for (std::int64_t n = 64; flops({n, n, n}) <= largest; n *= step) {
    products.push_back({fmt::format("square_{}", n), {n, n, n}});
  }
  const std::size_t models = quick ? kQuickModels : kModels.size();
  for (std::size_t i = 0; i < models; ++i) {
    const ModelSize& model = kModels.at(i);
    for (const auto& product : {layer(model, "attention", model.hidden, model.hidden, largest),
                                layer(model, "up", model.intermediate, model.hidden, largest),
                                layer(model, "down", model.hidden, model.intermediate, largest)}) {
      if (product) products.push_back(*product);
    }
  }
  return products;
}

std::vector<std::size_t> adam_call_sizes(std::size_t most, bool quick) {
  std::vector<std::size_t> sizes;
  for (std::size_t n = std::size_t{4} << 10; n < most; n *= quick ? 16 : 4) sizes.push_back(n);
  return sizes;
}

std::string adam_call_id(std::size_t parameters) {
  return fmt::format("adam.{}Ki", parameters >> 10);
}

std::vector<int> thread_counts(int cores, bool quick) {
  std::vector<int> counts;
  for (int threads = 1; threads < cores; threads *= 2) {
    if (!quick || threads == 1) counts.push_back(threads);
  }
  counts.push_back(cores);
  return counts;
}

ProbeSettings probe_settings(bool quick, std::size_t available_memory, std::size_t cache) {
  ProbeSettings settings;
  settings.quick = quick;
  // Up to five arrays at once, and the system keeps the rest.
  std::size_t limit = available_memory / 8 / kMiB * kMiB;
  limit = std::max(limit, kMiB);
  if (quick) {
    settings.array_bytes = settings.device_array_bytes = 160 * kMiB;
    settings.largest_copy = 256 * kMiB;
    settings.largest_product = 2e9;
    settings.attention.heads = 12;
  }
  settings.array_bytes = std::max(settings.array_bytes, 2 * cache / kMiB * kMiB);
  for (std::size_t* bytes : {&settings.array_bytes, &settings.device_array_bytes}) {
    *bytes = std::min(*bytes, limit);
  }
  while (settings.largest_copy > limit) settings.largest_copy /= 4;
  return settings;
}

ProbeSettings gpu_probe_settings(bool quick, std::size_t available_memory, std::size_t cache,
                                 std::size_t free_memory) {
  ProbeSettings settings = probe_settings(quick, std::min(available_memory, free_memory), cache);
  settings.array_bytes = probe_settings(quick, available_memory, cache).array_bytes;
  settings.largest_product = quick ? 5e11 : 4e12;
  settings.attention = {.heads = 32, .length = 2048, .head_dim = 128};  // 256 MiB of scores
  return settings;
}

ExperimentGroups make_experiments(ProbeDevice& device, const CpuTopology& topology,
                                  const ProbeSettings& settings) {
  ExperimentGroups groups;
  groups.push_back(copy_experiments(device, topology, settings));
  groups.push_back(memory_experiments(device, settings));
  groups.push_back(product_experiments(device, settings));
  groups.push_back(latency_experiments(device));
  groups.push_back(cpu_experiments(topology, settings));
  groups.push_back(dram_experiments(topology, settings));
  if (settings.nvme) groups.push_back(nvme_experiments(*settings.nvme, settings));
  return groups;
}

}  // namespace zenflow::runtime
