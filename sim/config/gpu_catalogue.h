/// GPUs by name: one file of profiles/gpus/ each, with what is known of the card alone.
///
/// A file has the keys of a profile's gpu block without `count`, and: `also_known_as`, the names
/// that drivers and older profiles use; `pcie`, generation and lanes of its slot; `gpu_links`, what
/// may join such cards; `default_link`, which of them (or `pcie`) a node has that says nothing;
/// `host_link`, where the card reaches host memory by another way than PCIe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/config/document.h"
#include "sim/config/hardware_profile.h"

namespace zenflow::sim {

/// A slot of this kind has the bandwidth of `lanes` lanes of PCIe `generation`.
struct PcieSlot {
  std::int64_t generation = 0;
  std::int64_t lanes = 0;
};

struct CatalogueLink {
  std::string name;  ///< "nvlink3"
  GpuLinkProfile link;
  std::optional<std::int64_t> most_gpus;  ///< 2: a bridge; empty: any number
};

struct CatalogueGpu {
  std::string key;  ///< the file's stem, "a100_sxm_40g"
  GpuProfile gpu;   ///< count 1
  std::vector<std::string> also_known_as;
  std::optional<PcieSlot> pcie;
  std::vector<CatalogueLink> links;
  std::optional<std::string> default_link;
  std::vector<SourcedNumber> numbers;
};

/// Reads a catalogue file's document. Throws Error(kInput), located, as read_hardware_profile does.
[[nodiscard]] CatalogueGpu read_catalogue_gpu(const Node& root, const std::string& key);

/// The files in the `gpus` folders beside profiles. Files are read when they are asked for.
class GpuCatalogue {
 public:
  GpuCatalogue() = default;  ///< knows no GPU
  /// `profile_directories`: of equal keys the first folder's holds.
  explicit GpuCatalogue(std::vector<std::filesystem::path> profile_directories);

  /// Keys of all files, sorted.
  [[nodiscard]] std::vector<std::string> keys() const;
  /// The document of a key, a name or another name of a GPU, and its key. Throws Error(kInput) at
  /// `at` for an unknown one, with the nearest key and all of them.
  [[nodiscard]] std::pair<std::string, Node> load(const std::string& name, const Location& at,
                                                  const std::string& path) const;
  /// The key of the GPU with this name, as drivers or profiles write it; empty if it is not known.
  [[nodiscard]] std::optional<std::string> find(std::string_view name) const;
  /// Keeps the document of `name`, if it is known: a sweep asks for it at every point.
  void keep(const std::string& name);

 private:
  [[nodiscard]] std::optional<std::filesystem::path> file_of(std::string_view key) const;

  std::vector<std::filesystem::path> folders_;
  std::vector<std::pair<std::string, std::pair<std::string, Node>>> kept_;  ///< by name asked for
};

/// Takes out of a catalogue file's document what a profile's gpu block does not have.
void keep_profile_keys(Node& entry);

/// Puts the numbers of the catalogue entry that `gpu.base` names into the gpu block, where it does
/// not state its own. Throws Error(kInput), located, for an unknown entry.
void resolve_gpu_base(Node& profile, const GpuCatalogue& catalogue);

/// A complete profile of a known GPU that was written before profiles had `gpu.multiprocessors`
/// takes it, `lanes` and `clock` from the catalogue. Its `gemm_efficiency`, `gemm_half_size` and
/// `elementwise_efficiency` were fitted to whole training steps for an older law of GPU time, so
/// they give way to the catalogue's. So does `multi_gpu_gemm_share`. Returns what was done, for the
/// user; nothing if the GPU is not known, the profile states its multiprocessors, or its
/// gemm_efficiency was measured on the machine (by zenflow-calibrate, or with a source that begins
/// with "measured").
[[nodiscard]] std::vector<std::string> take_known_gpu(Node& profile, const GpuCatalogue& catalogue);

}  // namespace zenflow::sim
