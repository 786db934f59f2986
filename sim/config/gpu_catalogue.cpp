#include "sim/config/gpu_catalogue.h"

#include <algorithm>
#include <cctype>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/config/gpu_reader.h"
#include "sim/config/reader.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;

/// Keys of a catalogue file that a profile's gpu block does not have.
constexpr std::string_view kCatalogueKeys[] = {"also_known_as", "pcie", "gpu_links", "default_link",
                                               "host_link"};

/// "NVIDIA A100-SXM4-40GB" and "a100_sxm4_40gb" are one name: letters and digits count.
std::string comparable(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) text += static_cast<char>(std::tolower(byte));
  }
  constexpr std::string_view kVendor = "nvidia";
  return text.starts_with(kVendor) ? text.substr(kVendor.size()) : text;
}

std::vector<std::string> names_of(const Node& root) {
  std::vector<std::string> names;
  if (const Node* name = root.find("name")) names.push_back(name->scalar);
  if (const Node* others = root.find("also_known_as")) {
    for (const Node& other : others->items) names.push_back(other.scalar);
  }
  return names;
}

CatalogueLink read_link(const std::string& name, MapReader map, NumberReader& numbers) {
  CatalogueLink link{name, read_gpu_link(map, numbers), std::nullopt};
  if (map.node().find("most_gpus") != nullptr) link.most_gpus = numbers.count(map, "most_gpus");
  map.reject_unknown_keys();
  return link;
}

void read_default_link(MapReader& map, CatalogueGpu& gpu) {
  const auto value = map.optional("default_link");
  if (!value) return;
  std::vector<std::string> known = {"pcie"};
  for (const CatalogueLink& link : gpu.links) known.push_back(link.name);
  gpu.default_link = value->choice(known);
}

/// Entries of `from` that `into` does not have; maps such as `peak` are filled key by key, numbers
/// are not mixed.
void fill(Node& into, const Node& from) {
  for (const Node::Entry& entry : from.entries) {
    Node* own = into.find(entry.key);
    if (own == nullptr) {
      into.entries.push_back(entry);
    } else if (own->is_map() && entry.value.is_map() && entry.value.find("value") == nullptr) {
      fill(*own, entry.value);
    }
  }
}

void replace(Node& map, const Node& from, std::string_view key) {
  const Node* value = from.find(key);
  if (value == nullptr) return;
  erase_key(map, key);
  map.entries.push_back({std::string(key), value->at, *value});
}

/// Whether a number is of the machine itself, from a probe or a fit of zenflow-calibrate.
bool is_measured(const Node* number) {
  if (number == nullptr || !number->is_map()) return false;
  const Node* source = number->find("source");
  return number->find("relative_error") != nullptr ||
         (source != nullptr && (source->scalar.starts_with("measured") ||
                                source->scalar.find("zenflow-calibrate") != std::string::npos));
}

/// A number as it is written, `{value: 0.55, ...}`.
std::string written(const Node* number) {
  if (number == nullptr) return "";
  const Node* value = number->is_map() ? number->find("value") : number;
  return value == nullptr ? "" : value->scalar;
}

}  // namespace

CatalogueGpu read_catalogue_gpu(const Node& root, const std::string& key) {
  CatalogueGpu gpu;
  gpu.key = key;
  MapReader map(root, "");
  NumberReader numbers(gpu.numbers);
  read_gpu_numbers(map, numbers, gpu.gpu);
  for (const ValueReader& other : map.require("also_known_as").items()) {
    gpu.also_known_as.push_back(other.string());
  }
  if (auto slot = map.optional_map("pcie")) {
    gpu.pcie = PcieSlot{numbers.count(*slot, "generation"), numbers.count(*slot, "lanes")};
    slot->reject_unknown_keys();
  }
  if (auto links = map.optional_map("gpu_links")) {
    for (const std::string& name : links->keys()) {
      gpu.links.push_back(read_link(name, links->require_map(name), numbers));
    }
  }
  read_default_link(map, gpu);
  map.ignore("host_link");  // read where a node is put together
  map.reject_unknown_keys();
  return gpu;
}

GpuCatalogue::GpuCatalogue(std::vector<fs::path> profile_directories) {
  for (const fs::path& directory : profile_directories) {
    std::error_code missing;
    if (fs::is_directory(directory / "gpus", missing)) folders_.push_back(directory / "gpus");
  }
}

std::vector<std::string> GpuCatalogue::keys() const {
  std::vector<std::string> keys;
  for (const fs::path& folder : folders_) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().extension() == ".yaml") keys.push_back(entry.path().stem().string());
    }
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

std::optional<fs::path> GpuCatalogue::file_of(std::string_view key) const {
  if (key.empty() || key.find('/') != key.npos) return std::nullopt;
  for (const fs::path& folder : folders_) {
    fs::path file = folder / (std::string(key) + ".yaml");
    std::error_code missing;
    if (fs::exists(file, missing)) return file;
  }
  return std::nullopt;
}

std::pair<std::string, Node> GpuCatalogue::load(const std::string& name, const Location& at,
                                                const std::string& path) const {
  for (const auto& [asked, entry] : kept_) {
    if (asked == name) return entry;
  }
  const std::optional<std::string> key = find(name);
  if (!key) {
    const std::vector<std::string> known = keys();
    fail_at(at, path,
            fmt::format("no GPU named \"{}\" in the catalogue{}; {}", name, suggestion(name, known),
                        known.empty() ? "no catalogue (a folder gpus beside profiles) was found"
                                      : fmt::format("known: {}", fmt::join(known, ", "))));
  }
  return {*key, load_document(*file_of(*key))};
}

std::optional<std::string> GpuCatalogue::find(std::string_view name) const {
  if (file_of(name)) return std::string(name);
  const std::string wanted = comparable(name);
  if (wanted.empty()) return std::nullopt;
  for (const std::string& key : keys()) {
    if (comparable(key) == wanted) return key;
    // Parsing all files would take longer than a simulation: only one that has the name is parsed.
    const std::string text = read_text_file(*file_of(key));
    if (comparable(text).find(wanted) == std::string::npos) continue;
    const std::vector<std::string> names = names_of(parse_yaml(text, file_of(key)->string()));
    if (std::any_of(names.begin(), names.end(),
                    [&wanted](const std::string& one) { return comparable(one) == wanted; })) {
      return key;
    }
  }
  return std::nullopt;
}

void GpuCatalogue::keep(const std::string& name) {
  if (find(name)) kept_.emplace_back(name, load(name, {}, ""));
}

void keep_profile_keys(Node& entry) {
  for (const std::string_view key : kCatalogueKeys) erase_key(entry, key);
}

void resolve_gpu_base(Node& profile, const GpuCatalogue& catalogue) {
  Node* gpu = profile.is_map() ? profile.find("gpu") : nullptr;
  const Node* base = gpu != nullptr && gpu->is_map() ? gpu->find("base") : nullptr;
  if (base == nullptr) return;
  const ValueReader name(*base, "gpu.base");
  Node entry = catalogue.load(name.string(), base->at, "gpu.base").second;
  keep_profile_keys(entry);
  erase_key(*gpu, "base");
  fill(*gpu, entry);
}

std::vector<std::string> take_known_gpu(Node& profile, const GpuCatalogue& catalogue) {
  Node* gpu = profile.is_map() ? profile.find("gpu") : nullptr;
  if (gpu == nullptr || !gpu->is_map() || gpu->find("multiprocessors") != nullptr ||
      gpu->find("host_cores") != nullptr || is_measured(gpu->find("gemm_efficiency"))) {
    return {};
  }
  const Node* name = gpu->find("name");
  const std::optional<std::string> key =
      name != nullptr && name->is_scalar() ? catalogue.find(name->scalar) : std::nullopt;
  if (!key) return {};
  const Node entry = catalogue.load(*key, name->at, "gpu.name").second;
  std::vector<std::string> unused;
  for (const char* number : {"gemm_efficiency", "gemm_half_size", "elementwise_efficiency"}) {
    const std::string own = written(gpu->find(number));
    if (!own.empty()) unused.push_back(fmt::format("gpu.{} {}", number, own));
    erase_key(*gpu, number);
  }
  for (const char* number : {"gemm_efficiency", "multi_gpu_gemm_share", "elementwise_efficiency",
                             "multiprocessors", "lanes", "clock"}) {
    replace(*gpu, entry, number);
  }
  const Node* profile_name = profile.find("name");
  return {fmt::format(
      "profile {}: {} are not used, since they were fitted to an older law of GPU time; {} is {} "
      "in the catalogue, whose numbers ({} of peak for large GEMMs, {} of memory bandwidth, {} "
      "multiprocessors) are used instead. State gpu.multiprocessors to use your own",
      profile_name != nullptr ? profile_name->scalar : "without name", fmt::join(unused, ", "),
      name->scalar, *key, written(entry.find("gemm_efficiency")),
      written(entry.find("elementwise_efficiency")), written(entry.find("multiprocessors")))};
}

}  // namespace zenflow::sim
