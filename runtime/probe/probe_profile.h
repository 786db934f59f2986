/// From figures to files: a hardware profile that the simulator reads, and all figures as JSON and
/// as text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/probe/probe.h"
#include "runtime/probe/statistics.h"

namespace zenflow::runtime {

/// What is not a figure.
struct ProbedMachine {
  std::string profile_name;  ///< the file's stem
  std::string command;       ///< as given
  std::string date;          ///< "2026-11-20"
  std::string cpu_name;
  std::string device_name;
  std::string link_kind;  ///< "memcpy", "PCIe 5.0 x16"
  sim::DType product_type = sim::DType::kFp32;
  std::uint64_t device_memory = 0;  ///< bytes
  std::string device_memory_source;
  std::uint64_t context_memory = 0;  ///< bytes
  std::string context_memory_source;
  /// A GPU's: 0 multiprocessors for other devices; 0 lanes if its generation is not known.
  int multiprocessors = 0;
  int lanes = 0;                             ///< fp32 lanes of a multiprocessor
  double clock = 0;                          ///< Hz, the highest
  std::optional<double> device_bandwidth{};  ///< bytes/s, from clock and width of the memory's bus
  std::uint64_t host_memory = 0;             ///< bytes
  std::string host_memory_source;
  std::uint64_t shared_memory = 0;  ///< bytes
  int sockets = 1;
  int cores = 1;
  std::vector<std::string> topology{};        ///< lines of topology_text.h
  std::optional<std::uint64_t> nvme_bytes{};  ///< free space, where one was measured
};

/// A complete profile for one device (profiles/README.md): every number with what measured it, and
/// all figures as comments behind it. What is measured is the median. Constants of formulas are
/// fitted (statistics.h). Where a rate may not exceed another by definition, the other is the
/// largest rate seen. Throws Error(kRuntime) if a figure is missing.
[[nodiscard]] std::string probe_profile(const ProbedMachine& machine,
                                        std::span<const Figure> figures,
                                        const ProbeSettings& settings);

/// A row a figure: id, median, spread, repetitions, what it is.
[[nodiscard]] std::string figures_table(std::span<const Figure> figures);

/// {"schema_version": 1, "tool", "version", "command", "date", "device", "cpu", "topology",
/// "figures": [{"id", "unit", "median", "low", "high", "repetitions", "what"}]}.
[[nodiscard]] std::string figures_json(const ProbedMachine& machine,
                                       std::span<const Figure> figures, std::string_view version);

}  // namespace zenflow::runtime
