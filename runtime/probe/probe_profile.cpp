#include "runtime/probe/probe_profile.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/probe/cpu_adam.h"
#include "sim/base/json_text.h"
#include "sim/base/text.h"
#include "sim/calibrate/tile_fit.h"

namespace zenflow::runtime {
namespace {

constexpr double kGiga = 1e9;

/// Lines "key: {value: ..., source: ...}" below a section.
class ProfileText {
 public:
  ProfileText(const ProbedMachine& machine, std::span<const Figure> figures)
      : machine_(machine), figures_(figures) {}

  void line(const std::string& text) { text_ += text + "\n"; }
  void number(int depth, const std::string& key, const std::string& value,
              const std::string& source) {
    line(fmt::format("{:{}}{}: {{value: {}, source: {}}}", "", 2 * depth, key, value,
                     json_quoted(source)));
  }
  /// "measured 2026-11-20 on Some CPU, zenflow-calibrate probe ..., WHAT".
  [[nodiscard]] std::string measured(const std::string& what) const {
    return fmt::format("measured {} on {}, {}: {}", machine_.date, machine_.cpu_name,
                       machine_.command, what);
  }
  [[nodiscard]] std::string described(const Figure& f) const {
    return fmt::format("{}, median of {}, spread {:.4g} to {:.4g} {}", f.id, f.value.repetitions,
                       f.value.low, f.value.high, f.unit);
  }
  /// A figure as it is, under a key.
  void figure_as(const std::string& key, const std::string& id) {
    const Figure& f = get(id);
    number(1, key, fmt::format("{:.5g} {}", f.value.median, f.unit), measured(described(f)));
  }
  [[nodiscard]] const Figure& get(const std::string& id) const { return figure(figures_, id); }
  [[nodiscard]] double median(const std::string& id) const { return get(id).value.median; }

  /// The fastest of the figures whose id `wanted` accepts.
  template <class Wanted>
  [[nodiscard]] const Figure& fastest(Wanted wanted) const {
    const Figure* best = nullptr;
    for (const Figure& f : figures_) {
      if (wanted(f.id) && (best == nullptr || f.value.median > best->value.median)) best = &f;
    }
    return best == nullptr ? get("the fastest of a kind") : *best;
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  const ProbedMachine& machine_;
  std::span<const Figure> figures_;
  std::string text_;
};

std::string gigabytes(double rate) {
  return fmt::format("{:.5g} GB/s", rate);
}
std::string mebibytes(std::uint64_t bytes) {
  return fmt::format("{} MiB", bytes >> 20);
}

struct MeasuredProduct {
  GemmShape shape;
  ProductTime time;
};

/// Products that no memory bound explains, with their times; all of them if memory bounds all.
std::vector<MeasuredProduct> computed_products(const ProfileText& text,
                                               const ProbeSettings& settings, double bandwidth,
                                               sim::DType type) {
  std::vector<MeasuredProduct> all;
  std::vector<MeasuredProduct> computed;
  const auto width = static_cast<double>(sim::bytes_per_element(type));
  for (const NamedProduct& product : probe_products(settings.largest_product, settings.quick)) {
    const auto m = static_cast<double>(product.shape.m);
    const auto n = static_cast<double>(product.shape.n);
    const auto k = static_cast<double>(product.shape.k);
    const double flops = 2 * m * n * k;
    const double seconds = flops / (text.median("product." + product.name) * kGiga);
    const double memory = width * (m * k + k * n + m * n) / (bandwidth * kGiga);
    all.push_back({product.shape, {flops, seconds}});
    if (memory < 0.5 * seconds) computed.push_back(all.back());
  }
  return computed.size() < 2 ? all : computed;
}

void write_processors(ProfileText& text, const ProbedMachine& machine) {
  text.number(1, "multiprocessors", fmt::format("{}", machine.multiprocessors),
              "as the driver states it");
  if (machine.lanes > 0) {
    text.number(
        1, "lanes", fmt::format("{}", machine.lanes),
        "CUDA C++ Programming Guide, by compute capability: fp32 lanes of a multiprocessor");
  }
  if (machine.clock > 0) {
    text.number(1, "clock", fmt::format("{:.4g} GHz", machine.clock / kGiga),
                "the highest, as the driver states it");
  }
}

void write_products(ProfileText& text, const ProbedMachine& machine, const ProbeSettings& settings,
                    double bandwidth) {
  const auto products = computed_products(text, settings, bandwidth, machine.product_type);
  std::vector<ProductTime> points;
  for (const MeasuredProduct& one : products) points.push_back(one.time);
  const ProductFit fit = fit_products(points);
  const Figure& best = text.fastest([](const auto& id) { return id.starts_with("product."); });
  const double peak = std::max(fit.rate / kGiga, best.value.median);
  const std::string source =
      text.measured(fmt::format("the larger of the fastest product ({}) and the rate fitted to {} "
                                "products, {:.5g} GFLOPS",
                                text.described(best), points.size(), fit.rate / kGiga));
  const std::string value = fmt::format("{:.5g} GFLOPS", peak);
  text.line("  peak:");
  text.number(2, sim::to_string(machine.product_type), value, source);
  if (machine.product_type == sim::DType::kFp32) {
    text.number(2, "bf16", value, "as fp32: the host device computes bf16 products in fp32");
  }
  const auto attention = [&] {
    text.number(1, "attention_efficiency",
                fmt::format("{:.4f}", std::min(1.0, text.median("attention") / peak)),
                text.measured(text.described(text.get("attention")) + ", of the peak above"));
  };
  if (machine.multiprocessors > 0) {
    if (machine.product_type == sim::DType::kBf16) {
      text.number(2, "fp16", value, "as bf16: tensor cores multiply both at one rate");
    }
    sim::GpuProfile gpu;
    gpu.multiprocessors = machine.multiprocessors;
    gpu.peak = {{machine.product_type, FlopsPerSecond(peak * kGiga)}};
    gpu.memory_bandwidth = BytesPerSecond(bandwidth * kGiga);
    gpu.streaming_efficiency = text.median("memory.update") / bandwidth;
    gpu.kernel_launch = Seconds(text.median("latency.kernel") * 1e-6);
    std::vector<sim::TimedProduct> timed;
    for (const MeasuredProduct& one : products) {
      timed.push_back({static_cast<double>(one.shape.m), static_cast<double>(one.shape.n),
                       static_cast<double>(one.shape.k), Seconds(one.time.seconds)});
    }
    write_processors(text, machine);
    text.number(1, "gemm_efficiency",
                fmt::format("{:.4f}", sim::fit_gemm_efficiency(gpu, machine.product_type, timed)),
                fmt::format("fitted to {} products of at least 64x64x64, which take as long "
                            "together by tiles and multiprocessors, {} {}",
                            points.size(), machine.command, machine.date));
    attention();
    return;
  }
  const std::string fitted = fmt::format(
      "fitted to {} products of at least 64x64x64, time = (F + "
      "half_size) / rate, {} {}",
      points.size(), machine.command, machine.date);
  text.number(1, "gemm_efficiency", fmt::format("{:.4f}", fit.rate / kGiga / peak), fitted);
  constexpr double kMega = 1e6;
  text.number(
      1, "gemm_half_size", fmt::format("{:.6f} MFLOP", std::max(1.0, fit.half_size) / kMega),
      fit.half_size >= 1 ? fitted : fitted + "; they show no fixed loss, so the least amount");
  attention();
}

void write_device(ProfileText& text, const ProbedMachine& machine, const ProbeSettings& settings) {
  text.line("gpu:");
  text.line("  name: " + json_quoted(machine.device_name));
  text.number(1, "count", "1", "the probe measures one device");
  text.number(1, "memory", mebibytes(machine.device_memory), machine.device_memory_source);
  text.number(1, "context_memory", mebibytes(machine.context_memory),
              machine.context_memory_source);
  const Figure& best =
      text.fastest([](const auto& id) { return id == "memory.update" || id == "memory.pass"; });
  const double nominal = machine.device_bandwidth.value_or(0) / kGiga;
  const double bandwidth = std::max(nominal, best.value.median);
  text.number(1, "memory_bandwidth", gigabytes(bandwidth),
              nominal >= best.value.median
                  ? "derived from the memory's clock and bus width, as the driver states them"
                  : text.measured("the faster of its streaming loops: " + text.described(best)));
  write_products(text, machine, settings, bandwidth);
  for (const auto& [key, id] : {std::pair{"elementwise_efficiency", "memory.pass"},
                                std::pair{"streaming_efficiency", "memory.update"}}) {
    text.number(1, key, fmt::format("{:.4f}", text.median(id) / bandwidth),
                text.measured(text.described(text.get(id)) + ", of the bandwidth above"));
  }
  text.figure_as("kernel_launch", "latency.kernel");
}

/// Traffic of casts and accumulation on all cores, weighted by bytes.
double pass_bandwidth(const ProfileText& text, const std::string& threads) {
  return 22 / (6 / text.median("cast_down" + threads) + 6 / text.median("cast_up" + threads) +
               10 / text.median("accumulate" + threads));
}

void write_host(ProfileText& text, const ProbedMachine& machine, const ProbeSettings& settings) {
  const std::string all = fmt::format(".threads{}", machine.cores);
  text.line("host:");
  text.line("  name: " + json_quoted(machine.cpu_name));
  text.number(1, "sockets", std::to_string(machine.sockets), "hwloc, " + machine.date);
  text.number(1, "cores", std::to_string(machine.cores),
              "hwloc, " + machine.date + ", physical cores that the probe could use");
  text.number(1, "memory", mebibytes(machine.host_memory), machine.host_memory_source);
  text.number(1, "shared_memory", mebibytes(std::min(machine.shared_memory, machine.host_memory)),
              "statvfs /dev/shm, " + machine.date + ", bounded by host.memory");
  const Figure& dram = text.fastest([&](const std::string& id) {
    return id.starts_with("dram.node") || id == "dram.all" || id == "adam" + all ||
           id == "cast_down" + all || id == "cast_up" + all || id == "accumulate" + all;
  });
  text.number(1, "dram_bandwidth", gigabytes(dram.value.median),
              text.measured("the fastest of its streaming loops: " + text.described(dram)));
  const Figure& core = text.fastest([](const std::string& id) {
    return (id.starts_with("dram.node") && id.ends_with(".threads1")) || id == "adam.threads1";
  });
  text.number(1, "core_bandwidth", gigabytes(core.value.median),
              text.measured("the fastest of its streaming loops: " + text.described(core)));
  text.figure_as("adam_bandwidth", "adam" + all);
  std::vector<ThreadRate> rates;
  for (const int threads : thread_counts(machine.cores, settings.quick)) {
    rates.push_back(
        {static_cast<double>(threads), text.median(fmt::format("adam.threads{}", threads))});
  }
  text.number(
      1, "adam_half_cores", fmt::format("{:.4g}", fit_half_threads(rates)),
      fmt::format("fitted to adam.threads1 to adam{}, rate(c) = limit c / (c + half), {} {}", all,
                  machine.command, machine.date));
  std::vector<ProductTime> calls;
  const auto add_call = [&](double parameters, const std::string& id) {
    const double bytes = parameters * kAdamBytesPerParameter;
    calls.push_back({bytes, bytes / (text.median(id) * kGiga)});
  };
  const std::size_t largest = settings.array_bytes / sizeof(float);
  for (const std::size_t n : adam_call_sizes(largest, settings.quick)) {
    add_call(static_cast<double>(n), adam_call_id(n));
  }
  add_call(static_cast<double>(largest), "adam" + all);
  const ProductFit call = fit_products(calls);
  text.number(
      1, "adam_launch", fmt::format("{:.4g} us", 1e6 * call.half_size / call.rate),
      fmt::format("fitted to adam{} and adam.4Ki to {}, time = launch + bytes / rate, {} {}", all,
                  adam_call_id(adam_call_sizes(largest, settings.quick).back()), machine.command,
                  machine.date));
  text.number(1, "elementwise_bandwidth", gigabytes(pass_bandwidth(text, all)),
              text.measured(fmt::format("cast_down{0}, cast_up{0} and accumulate{0}, weighted by "
                                        "bytes: 22 B an element",
                                        all)));
}

void write_link(ProfileText& text, const ProbedMachine& machine) {
  text.line("host_link:");
  text.line("  kind: " + json_quoted(machine.link_kind));
  text.figure_as("h2d", "copy.h2d.pinned.largest");
  text.figure_as("d2h", "copy.d2h.pinned.largest");
  text.figure_as("bidirectional", "copy.both");
  text.figure_as("pageable_h2d", "copy.h2d.pageable.largest");
  text.figure_as("pageable_d2h", "copy.d2h.pageable.largest");
  text.figure_as("latency", "latency.copy");
  if (!machine.nvme_bytes) return;
  text.line("nvme:");
  text.figure_as("read", "nvme.read");
  text.figure_as("write", "nvme.write");
  text.number(1, "capacity", mebibytes(*machine.nvme_bytes),
              "statvfs of the probed folder, " + machine.date + ": free space");
  text.figure_as("latency", "nvme.latency");
}

}  // namespace

std::string probe_profile(const ProbedMachine& machine, std::span<const Figure> figures,
                          const ProbeSettings& settings) {
  ProfileText text(machine, figures);
  text.line(
      "# Measured by zenflow-calibrate; docs/calibration.md says how. All figures are below.");
  text.line("name: " + json_quoted(machine.profile_name));
  text.line("description: " + json_quoted(fmt::format("{}; {}; measured {}", machine.device_name,
                                                      machine.cpu_name, machine.date)));
  write_device(text, machine, settings);
  write_host(text, machine, settings);
  write_link(text, machine);
  text.line("\n# " + machine.command);
  for (const std::string& line : machine.topology) text.line("# " + line);
  const std::string table = figures_table(figures);
  std::string commented;
  for (std::size_t at = 0; at < table.size();) {
    const std::size_t end = table.find('\n', at);
    commented += "# " + table.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return text.take() + commented;
}

std::string figures_table(std::span<const Figure> figures) {
  std::size_t widest = 6;
  for (const Figure& f : figures) widest = std::max(widest, f.id.size());
  std::string table = fmt::format("{:<{}}  {:>9} {:<7} {:>9} {:>9} {:>4}  {}\n", "figure", widest,
                                  "median", "unit", "low", "high", "n", "what");
  for (const Figure& f : figures) {
    table +=
        fmt::format("{:<{}}  {:>9.4g} {:<7} {:>9.4g} {:>9.4g} {:>4}  {}\n", f.id, widest,
                    f.value.median, f.unit, f.value.low, f.value.high, f.value.repetitions, f.what);
  }
  return table;
}

std::string figures_json(const ProbedMachine& machine, std::span<const Figure> figures,
                         std::string_view version) {
  nlohmann::ordered_json document;
  document["schema_version"] = 1;
  document["tool"] = "zenflow-calibrate probe";
  document["version"] = version;
  document["command"] = machine.command;
  document["date"] = machine.date;
  document["device"] = machine.device_name;
  document["cpu"] = machine.cpu_name;
  document["topology"] = machine.topology;
  document["figures"] = nlohmann::ordered_json::array();
  for (const Figure& f : figures) {
    document["figures"].push_back({{"id", f.id},
                                   {"unit", f.unit},
                                   {"median", f.value.median},
                                   {"low", f.value.low},
                                   {"high", f.value.high},
                                   {"repetitions", f.value.repetitions},
                                   {"what", f.what}});
  }
  return json_text(document);
}

}  // namespace zenflow::runtime
